"""The card says what the run's files say, shows hostile words without acting on them, and names what is missing."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from exported import HOSTILE

from curate.errors import UsageError
from curate.export.facts import Facts
from curate.export.gaps import gaps
from curate.export.markdown import code, fenced, table, text
from curate.export.selection import Selection
from curate.export.survey import survey
from curate.export.treatment import benchmarks
from curate.export.write import export


@pytest.fixture(scope="module")
def card(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("card") / "x"
    return export(run_folder, "nanotron", output=folder, quiet=True).card.read_text("utf-8")


def section(card: str, heading: str) -> str:
    return card.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.replace("\\|", "\0").strip("|").split("|")]


def test_counts_are_those_of_the_files(card: str, run_folder: Path) -> None:
    rows = [cells(line) for line in section(card, "Counts").splitlines() if line.startswith("| `")]
    found = {(row[0].strip("`"), row[1]): (row[2], row[4]) for row in rows}
    for source in ("web", "books", "more"):
        manifest = json.loads((run_folder / f"tokens/{source}/manifest.json").read_text())
        for split in ("train", "validation"):
            some = [one for one in manifest["shards"] if one["split"] == split]
            counts = (sum(one["documents"] for one in some), sum(one["tokens"] for one in some))
            assert found[source, split] == tuple(f"{count:,}" for count in counts)
    assert "without files: `more` (validation)" in section(card, "Counts")
    assert "109 documents" in card.split("## What")[0]


def test_dates_of_every_form(run_folder: Path, card: str) -> None:
    """Of 90 documents number 2 went, a copy of number 1, and number 3; dates by number modulo 5."""
    found = survey(Selection.of(run_folder, ("web",), None), "web")["dates"]
    assert {label: counts[0] for label, counts in found.items()} == {
        "2019-05": 18, "2015": 18, "2020": 17, "not stated": 17, "another form": 18,
    }  # fmt: skip
    dates = section(card, "Dates")
    assert "| 2020 | 17 | 15.6% | ███████████████████████ |" in dates
    assert "Of 109 documents 56 (51.4%) have no known date, 18 of them one in a form that was not read." in dates


def test_licences_stated_measured_and_missing(run_folder: Path, card: str) -> None:
    """Without a licence of its own a document of `web` has that of its source."""
    metadata = [
        json.loads(value)
        for path in sorted((run_folder / "documents/web").glob("*.parquet"))
        for value in pq.read_table(path)["metadata"].to_pylist()
    ]
    expected = Counter(one["license"] for one in metadata)
    found = survey(Selection.of(run_folder, ("web",), None), "web")["licences"]
    assert {label: counts[0] for label, counts in found.items()} == {label.strip(): n for label, n in expected.items()}
    assert expected["CC-BY-4.0"] == 23  # numbers 1, 5, ..., 89
    licences = section(card, "Licences")
    assert f"| CC-BY-4.0 | {expected['CC-BY-4.0']} |" in licences
    assert "| not stated | 20 | 100.0% |" in licences
    assert "CC-BY-4.0" in section(card, "Sources")


def test_funnel_duplicates_and_personal_data(card: str) -> None:
    removed = section(card, "What was removed, and why")
    assert "90 documents were read, 2 (2.2%) removed, 88 kept" in removed
    assert "| filter | `gopher_quality.num_words` | 8 to 100000 | 1 | 1.1% | 10 B |" in removed
    assert "| dedup | `dedup.exact` | not equal | 1 | 1.1% |" in removed
    assert "the recipe has no step for this source" in removed
    assert "| `dedup.exact` | `web` | `web` | 1 |" in section(card, "Duplicates")
    assert "`web`: emails, IP addresses (public) were looked for and replaced.\n  Found: emails 1." in card
    assert "Not looked for in `books`, `more`." in section(card, "Personal information")


def test_gaps_are_said(card: str) -> None:
    gaps = section(card, "Known gaps")
    assert "- 20 documents of `books` (100.0%) have no stated licence." in gaps
    assert "- 1 document of `more` (100.0%) has no stated licence." in gaps
    assert "- No filter looked at `books`, `more`: the documents are as they were read." in gaps
    assert "- Not checked in `web`, `books`, `more`: the language of a document." in gaps
    assert "- No benchmark was looked for" in gaps
    assert "- The validation set of `more` is short of 300 tokens, 2 documents." in gaps
    assert "copies of documents were not looked for" not in gaps.lower()


def test_hostile_words_do_not_act(card: str) -> None:
    line = next(line for line in section(card, "Licences").splitlines() if "alert" in line)
    assert len(cells(line)) == 4  # its bar stays in its cell
    assert line == f"| {text(HOSTILE)} | {cells(line)[1]} | {cells(line)[2]} | {cells(line)[3]} |"
    assert "<script" not in card
    assert "\\[a\\](javascript:b) \\*b\\* \\# c" in line


def test_of_a_part_of_a_run(run_folder: Path, tmp_path: Path) -> None:
    made = export(run_folder, "hf", output=tmp_path / "x", sources=["books"], split="train", quiet=True)
    card = made.card.read_text("utf-8")
    assert "leaves out: `web`, `more`." in section(card, "Known gaps")
    assert "curate export runs/exported --format hf --split train --source books" in card
    assert "`web`" not in section(card, "Counts")
    assert "| `books` | validation |" not in card


def test_canaries_are_no_part_of_a_corpus(run_copy: Path, tmp_path: Path) -> None:
    """A stream beside the sources, as `decontaminate.canaries` plants it: only who names it has it, and the card warns."""
    shutil.copytree(run_copy / "tokens/more", run_copy / "tokens/canaries")
    manifest = json.loads((run_copy / "manifest.json").read_text())
    (run_copy / "manifest.json").write_text(json.dumps(manifest | {"canaries": {"documents": 1}}))
    report = json.loads((run_copy / "report.json").read_text())
    drawn = {"web": (3000, 0.75), "books": (1000, 0.25), "canaries": (1000, 0.2)}  # of 4,000 tokens asked, 1,000 on top
    report["mixture"]["sources"] = {
        name: {"weight_normalised": share, "tokens_drawn": tokens, "weight_realised": share}
        for name, (tokens, share) in drawn.items()
    }
    report["warnings"] = ["LEAKED ON PURPOSE: 1 benchmark items stand in the training data."]
    (run_copy / "report.json").write_text(json.dumps(report))
    export(run_copy, "npy", output=tmp_path / "a", quiet=True)
    assert not (tmp_path / "a/train/canaries").exists()
    card = (tmp_path / "a/CARD.md").read_text()
    others = export(run_copy, "hf", output=tmp_path / "d", quiet=True).card.read_text()
    for one in (card, others):
        assert (
            "- The training data of the run holds benchmark items that were leaked on purpose (canaries). The files"
            in one
        )
        assert "ids hold benchmark items" not in one
        assert "LEAKED" not in one
    with pytest.raises(UsageError, match=r"--source canaries: has ids, no texts. Use --format megatron, npy, nanotron"):
        export(run_copy, "hf", output=tmp_path / "e", sources=["web", "canaries"], quiet=True)
    assert "leaves out" not in card
    assert "--format npy\n" in card
    export(run_copy, "npy", output=tmp_path / "b", sources=["web", "canaries"], quiet=True)
    assert (tmp_path / "b/train/canaries/00000.npy").is_file()
    for name, options in (("b", {}), ("c", {"order": "mixture"})):
        if options:
            export(run_copy, "npy", output=tmp_path / name, quiet=True, **options)
        card = (tmp_path / name / "CARD.md").read_text()
        assert "These ids hold benchmark items that were leaked on purpose" in card
        assert "LEAKED ON PURPOSE" in card
        assert "The files of this folder do not" not in card
        rows = [cells(line) for line in section(card, "Mixture").splitlines() if line.startswith("| `")]
        assert {row[0]: row[2] for row in rows} == {"`web`": "60.0%", "`books`": "20.0%", "`canaries`": "20.0%"}


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ("ngram: 13, min_ngram: 5, min_words: 8", "(n-grams of 5 to 13 words, by the length of the item)"),
        ("ngram: 4, min_ngram: 5, min_words: 8", "(n-grams of 4 words)"),
        ("ngram: 8, min_ngram: 6, min_words: 3", "(n-grams of 3 to 8 words, by the length of the item)"),
    ],
)
def test_what_was_looked_for_of_benchmarks(run_copy: Path, lengths: str, expected: str) -> None:
    """Why items were not looked for is the manifest's to say; the lengths of n-grams are those in use."""
    with (run_copy / "recipe.yaml").open("a") as recipe:
        recipe.write(f"decontaminate: {{{lengths}, threshold: 0.35, action: drop}}\n")
    reasons = ["no text but labels and answers"] * 3 + ["fewer than 8 words, also with an answer"]
    manifest = json.loads((run_copy / "manifest.json").read_text())
    manifest["decontamination"] = {
        "benchmarks": {"quiz": {"untested": [{"item": "1", "reason": one} for one in reasons]}}
    }
    (run_copy / "manifest.json").write_text(json.dumps(manifest))
    report = {"contamination": {"benchmarks": {"quiz": {"items": 10, "found": 2, "documents": 5}, "other": {}}}}
    facts = Facts(Selection.of(run_copy, (), None), "hf", "arranged", report, {}, {}, "")
    told = "\n".join(gaps(facts))
    assert (
        "- 4 items of the benchmark quiz could not be looked for: no text but labels and answers (3), fewer than 8 words, "
        "also with an answer (1)." in told
    )
    assert "benchmark other" not in told
    told = "\n".join(benchmarks(facts))
    assert expected in told
    assert "of them not looked for" in told
    assert "| quiz | 10 | 4 | 2 | 20.0% | 5 |" in told


def test_a_run_that_ended_early(run_copy: Path, tmp_path: Path) -> None:
    """What `--until collect` leaves: no tokens, no mixture, no report."""
    for name in ("tokens", "tokenizer"):
        shutil.rmtree(run_copy / name)
    for name in ("mixture.json", "report.json", "report.html"):
        (run_copy / name).unlink()
    card = export(run_copy, "parquet", output=tmp_path / "x", quiet=True).card.read_text("utf-8")
    assert "## Tokenizer" not in card
    assert "90 documents were read, 2 (2.2%) removed, 88 kept" in card


def test_markdown() -> None:
    assert text("a_b _c_ `d` <i> & *e* [f](g) | ~h~ $x$ @y") == (
        r"a_b \_c\_ \`d\` &lt;i&gt; &amp; \*e\* \[f\](g) \| \~h\~ \$x\$ \@y"
    )
    assert text("- no list") == r"\- no list"
    assert text("1. no list") == r"1\. no list"
    assert text("http://x.example www.x.example") == r"http\://x.example www\.x.example"
    assert text("two\nlines\u202e") == "two lines&lt;U+202E&gt;"
    assert code("a`b") == "``a`b``"
    assert code("`") == "`` ` ``"
    assert code("a|b") == "`a\\|b`"
    assert code("") == "` `"
    assert table(["a", "b:"], [["1", "2"]]) == ["| a | b |", "| --- | ---: |", "| 1 | 2 |", ""]
    assert fenced("```\nx")[0] == "````"
