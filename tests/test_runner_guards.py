"""What a run must not touch, must not believe, and must say: the user's files, changing inputs, mistakes in one's own steps."""

from __future__ import annotations

import json
from pathlib import Path

import machine
import pyarrow.parquet as pq
import pytest
from machine import run, with_step

import curate
from curate.errors import RecipeError, StageError, UsageError


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    recipe = machine.project(tmp_path, files=1, documents=12)
    own = tmp_path / "own"
    (own / "documents").mkdir(parents=True)
    (own / "documents" / "x.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds something else than a run \(documents\)"):
        run(recipe, tmp_path, output=own)
    with pytest.raises(UsageError, match=r"recipe\.yaml"):
        run(recipe, tmp_path, output=tmp_path)  # the user's own recipe.yaml is no run
    with pytest.raises(UsageError, match="is empty"):
        run(recipe, tmp_path, output="")
    with pytest.raises(UsageError, match="is the cache folder"):
        run(recipe, tmp_path, output=tmp_path / "cache")
    assert (own / "documents" / "x.txt").read_text() == "mine"


def test_files_of_the_user_stay(tmp_path: Path) -> None:
    """In a run folder too, only files with a run's own names are removed, and links are not followed."""
    recipe = machine.project(tmp_path, files=1, documents=12)
    run(recipe, tmp_path, until="collect")
    folder = tmp_path / "run"
    (folder / "documents" / "notes.txt").write_text("mine")
    (folder / "documents" / "one" / "copy.parquet").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "00000.parquet").write_text("mine")
    (folder / "documents" / "link").symlink_to(tmp_path / "elsewhere")
    (folder / "sub").mkdir()
    (folder / "sub" / ".x.12345678.tmp").write_text("mine")
    run(recipe, tmp_path, until="extract")
    assert not (folder / "documents" / "one" / "00000.parquet").exists()
    for path in (
        "documents/notes.txt",
        "documents/one/copy.parquet",
        "sub/.x.12345678.tmp",
        "documents/link/00000.parquet",
    ):
        assert (folder / path).read_text() == "mine"


def test_inputs_in_the_run_folder_are_refused(tmp_path: Path) -> None:
    machine.write_jsonl(tmp_path / "in" / "a.jsonl", [{"text": machine.prose(1)}])
    recipe = tmp_path / "r.yaml"
    recipe.write_text("name: r\nsources:\n  own:\n    read: {kind: jsonl, paths: in}\n")
    with pytest.raises(RecipeError, match="which runs write"):
        run(recipe, tmp_path, output=tmp_path / "in" / "run")


def test_an_input_that_changes_while_it_is_read(tmp_path: Path) -> None:
    """The result would be filed under the digest of other bytes."""
    recipe = machine.project(tmp_path, files=1, documents=12)
    from curate.cache import Cache
    from curate.errors import InputError
    from curate.inputs import InputFile
    from curate.phases.extract import _unchanged
    from curate.plan import TaskContext

    cache = Cache(tmp_path / "cache")
    cache.prepare()
    path = tmp_path / "in" / "one" / "part-00.jsonl"
    file = InputFile(str(path), None, path.name, path.stat().st_size, cache.digest(path))
    context = TaskContext(cache, 1 << 20, frozenset())
    _unchanged(context, file)
    with path.open("a") as appended:
        appended.write("{}\n")
    with pytest.raises(InputError, match="changed while it was read"):
        _unchanged(context, file)
    del recipe


def test_nothing_readable_is_said_loudly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine.write_jsonl(tmp_path / "a.jsonl", [{"content": machine.prose(number)} for number in range(3)])
    recipe = tmp_path / "r.yaml"
    recipe.write_text("name: r\nsources:\n  own:\n    read: {kind: jsonl, paths: a.jsonl}\n")
    result = run(recipe, tmp_path)
    assert result.manifest["warnings"][0].startswith("own: NOT ONE of 3 records could be read (read.no_text 3)")
    assert "NOT ONE" in capsys.readouterr().err


# -- where --


def test_where_judges_the_text_at_its_place(tmp_path: Path) -> None:
    """Numbers measured before a rewrite are measured again behind it."""
    long_lines = [machine.sentence(number) for number in range(12)]
    mixed = "\n".join(long_lines[:2] + ["a line without its end and with so many words that it would count"] * 12)
    machine.write_jsonl(
        tmp_path / "a.jsonl", [{"id": "long", "text": "\n".join(long_lines)}, {"id": "cut", "text": mixed}]
    )
    recipe = tmp_path / "r.yaml"
    steps = "[gopher_quality: {min_words: 5}, c4_lines: {min_sentences: off}, where: 'num_words >= 100']"
    recipe.write_text(f"name: r\nsources:\n  own:\n    read: {{kind: jsonl, paths: a.jsonl}}\n    steps: {steps}\n")
    result = run(recipe, tmp_path)
    assert result.manifest["ledger"]["own"]["removed"] == {"filter": {"where.expression": 1}}
    (row,) = [row for row in pq.read_table(tmp_path / "run" / "decisions").to_pylist() if not row["kept"]]
    assert 20 < row["value"] < 60  # two sentences of about 20 words; 200 words before the cut
    assert (tmp_path / "run" / "measurements" / "own" / "where.gopher_quality" / "00000.parquet").exists()


def test_the_same_step_twice_measures_once(tmp_path: Path) -> None:
    machine.write_jsonl(
        tmp_path / "a.jsonl", [{"id": str(number), "text": machine.prose(number)} for number in range(20)]
    )
    recipe = tmp_path / "r.yaml"
    steps = "[gopher_quality: {min_words: 5}, gopher_quality: {min_words: 150}]"
    recipe.write_text(f"name: r\nsources:\n  own:\n    read: {{kind: jsonl, paths: a.jsonl}}\n    steps: {steps}\n")
    result = run(recipe, tmp_path)
    rules = result.manifest["ledger"]["own"]["removed"]["filter"]
    assert set(rules) == {"gopher_quality-2.num_words"}


def test_limit_and_sample_are_recorded(tmp_path: Path) -> None:
    recipe = machine.project(tmp_path, files=1, documents=12)
    result = run(recipe, tmp_path, limit=5, until="extract")
    assert (result.manifest["limit"], result.manifest["sample"]) == (5, None)
    timings = json.loads((tmp_path / "run" / "timings.json").read_text())
    assert timings["command"][:3] == ["curate", "run", str(recipe)]
    assert "--limit" in timings["command"]


def test_python_arguments_are_checked(tmp_path: Path) -> None:
    recipe = machine.project(tmp_path, files=1, documents=12)
    loaded = curate.load(recipe)
    with pytest.raises(UsageError, match="takes none"):
        run(loaded, tmp_path, sets=["seed=3"])
    with pytest.raises(UsageError, match="--memory 1K"):
        run(recipe, tmp_path, memory="1K")
    assert run(recipe, tmp_path, sets="seed=3", memory="64MiB", until="extract").manifest["seed"] == 3


MISTAKES = """
from curate.stage import Step

class Nothing(Step):
    adds = {"n": "int64"}
    def apply(self, batch):
        return None

class Leaves(Step):
    adds = {"n": "int64"}
    def apply(self, batch):
        raise SystemExit(3)
"""


def test_mistakes_in_ones_own_steps(tmp_path: Path) -> None:
    recipe = with_step(tmp_path, "Nothing")
    (tmp_path / "mine.py").write_text(MISTAKES)
    with pytest.raises(StageError, match="stage 'Nothing': returned NoneType") as failure:
        run(recipe, tmp_path, allow_code=True)
    assert "fault of the program" not in str(failure.value)
    recipe.write_text(recipe.read_text().replace("mine:Nothing", "mine:Leaves"))
    with pytest.raises(StageError, match="SystemExit: 3"):
        run(recipe, tmp_path, allow_code=True, sets=["max_errors=3"])


# -- copies that only the final text shows --


def test_documents_equal_once_masked(tmp_path: Path) -> None:
    """Short pages that differ in one e-mail address are equal in the corpus: one stays, and none is in both splits."""
    rows = [
        {
            "id": f"{number}{side}",
            "text": f"{machine.sentence(number)} Write to {side}{number}@mail.example.org for the rest of it.",
        }
        for number in range(60)
        for side in "ab"
    ]
    machine.write_jsonl(tmp_path / "a.jsonl", rows)
    recipe = tmp_path / "r.yaml"
    text = "name: r\nsources:\n  own:\n    read: {kind: jsonl, paths: a.jsonl}\n    steps: [pii: {at: collect}]\n"
    recipe.write_text(text + "dedup: {}\nvalidation: {tokens: 100, min_documents: 3}\n")
    result = run(recipe, tmp_path)
    documents = pq.read_table(tmp_path / "run" / "documents" / "own").to_pylist()
    assert len({row["text"] for row in documents}) == len(documents) == 60
    assert result.manifest["ledger"]["own"]["removed"]["dedup"] == {"dedup.exact": 60}
    recipe.write_text(text + "validation: {tokens: 100, min_documents: 3}\n")
    run(recipe, tmp_path)
    documents = pq.read_table(tmp_path / "run" / "documents" / "own").to_pylist()
    held_out = {row["text"] for row in documents if row["split"] == "validation"}
    assert held_out
    assert held_out.isdisjoint(row["text"] for row in documents if row["split"] == "train")


def test_validation_is_a_tenth_of_what_cuts_leave(tmp_path: Path) -> None:
    leak = machine.prose(11, 12).replace("\n", " ")
    rows = [{"id": f"l{number}", "text": f"{machine.prose(100 + number, 14)}\n{leak}"} for number in range(30)]
    rows += [{"id": f"c{number}", "text": machine.prose(300 + number, 4)} for number in range(30)]
    machine.write_jsonl(tmp_path / "a.jsonl", rows)
    machine.write_jsonl(tmp_path / "benchmark.jsonl", [{"question": leak, "answer": "the miller"}])
    recipe = tmp_path / "r.yaml"
    text = "name: r\nsources:\n  own:\n    read: {kind: jsonl, paths: a.jsonl}\n"
    recipe.write_text(
        text
        + "decontaminate: {benchmarks: [benchmark.jsonl], action: cut, max_clusters: 100}\nvalidation: {tokens: 1M}\n"
    )
    result = run(recipe, tmp_path)
    assert result.manifest["ledger"]["own"]["bytes"]["cut"] > 10_000
    documents = pq.read_table(tmp_path / "run" / "documents" / "own").to_pylist()
    sizes = {
        split: sum(len(row["text"].encode()) for row in documents if row["split"] == split)
        for split in ("train", "validation")
    }
    assert 0 < sizes["validation"] <= sum(sizes.values()) / 10
    assert any("validation: own gives" in warning for warning in result.manifest["warnings"])


def test_any_number_of_bad_rows_is_recorded(tmp_path: Path) -> None:
    """Far more than the manifest names, spread over many batches: each is in the ledger with its place."""
    lines = [json.dumps({"text": machine.prose(number, 2)}) for number in range(3000)]
    lines[::60] = ["{broken"] * 50
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "r.yaml").write_text("name: bad\nsources:\n  own: {read: {kind: jsonl, paths: in.jsonl}}\n")
    result = curate.run(
        tmp_path / "r.yaml", output=tmp_path / "run", cache=tmp_path / "cache", workers=1, until="collect", quiet=True
    )
    ledger = result.manifest["ledger"]["own"]
    assert (ledger["read"], ledger["kept"], ledger["removed"]) == (3000, 2950, {"read": {"read.bad_record": 50}})
    rows = pq.read_table(tmp_path / "run" / "decisions" / "own").to_pylist()
    places = [row["offset"] for row in rows if not row["kept"]]
    assert len(set(places)) == 50
    named = [warning for warning in result.manifest["warnings"] if "bad_record" in warning]
    assert 0 < len(named) <= 21
