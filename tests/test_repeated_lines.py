"""Runs that cut repeated lines: bounds by hand, a naive count beside ours, and what else looks at edits."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import unicodedata
from collections import defaultdict
from pathlib import Path
from typing import Any

import machine
import pyarrow.parquet as pq
import pytest
from machine import run, work

import curate
from curate.errors import RecipeError
from curate.phases.edits import cut_spans, disjoint
from curate.report.copies import edits as edits_of_report
from curate.report.run import RunFolder
from curate.report.trace import trace, trace_lines

DATA = Path(os.environ.get("CURATE_DATA", machine.ROOT.parent / "shared" / "data"))
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"real inputs are not at {DATA}: set CURATE_DATA")

MENU = "Home | News | Contact"


def write(folder: Path, pages: list[tuple[str | None, str]], dedup: str, more: str = "", source: str = "web") -> Path:
    """Write pages (address, text) of one source and a recipe; the ids of the input are p0, p1, ..."""
    rows = [
        {"id": f"p{number}", "text": text} | ({"url": url} if url else {}) for number, (url, text) in enumerate(pages)
    ]
    machine.write_jsonl(folder / "in" / f"{source}.jsonl", rows)
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        f'name: lines\nsources:\n  {source}:\n    read: {{kind: jsonl, paths: "in/{source}.jsonl"}}\ndedup: {dedup}\n{more}'
    )
    return recipe


def texts(folder: Path, source: str = "web") -> dict[str, str]:
    """Return what was kept, by the id of the input."""
    names = {
        row["id"]: row["source_id"]
        for row in pq.read_table(folder / "run" / "extracted" / source, columns=["id", "source_id"]).to_pylist()
    }
    kept = pq.read_table(folder / "run" / "documents" / source, columns=["id", "text"]).to_pylist()
    return {names[row["id"]]: row["text"] for row in kept}


def site(host: str, pages: int, holding: int, first: int, line: str = MENU) -> list[tuple[str | None, str]]:
    """Return pages of a host with texts of their own, of which some begin with the line."""
    return [
        (f"https://{host}/{number}", (f"{line}\n" if number < holding else "") + machine.prose(first + number, 6))
        for number in range(pages)
    ]


def holding(found: dict[str, str], first: int, pages: int, line: str = MENU) -> int:
    return sum(line in found[f"p{number}"].split("\n") for number in range(first, first + pages))


# ---- bounds


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run over sites that lie below, on and above the bounds."""
    folder = tmp_path_factory.mktemp("sites")
    pages = [
        *site("below.test", 5, 2, 100),  # p0: two of five are 40%, but fewer than three
        *site("enough.test", 5, 3, 200),  # p5
        *site("on.test", 10, 4, 300),  # p10: exactly 40%
        *site("under.test", 10, 3, 400),  # p20: 30%
        *site("all.test", 3, 3, 500),  # p30: on min_documents
        *((None, text) for _, text in site("none.test", 5, 5, 600)),  # p33
        *[(url, f"{text}\n{MENU}" if MENU in text else text) for url, text in site("twice.test", 5, 2, 700)],  # p38
        *((url.replace("copies.test/", f"{'www2.' * (n % 2)}copies.test/"), text)
          for n, (url, text) in enumerate(site("copies.test", 1, 1, 800) * 3 + site("copies.test", 3, 1, 810))),  # p43
        ("http://www.h.test/1", f"{MENU}\n{machine.prose(900, 6)}"),  # p49
        ("https://h.test:8080/2", f"{MENU.upper()}\n{machine.prose(901, 6)}"),
        ("https://H.test/3", f"{machine.prose(902, 6)}\r\n  Home |\u00a0News  | Contact\r\n"),
        *((f"https://{name}.i.test/", f"{MENU}\n{machine.prose(910 + n, 6)}") for n, name in enumerate("xyz")),  # p52
    ]  # fmt: skip
    run(write(folder, pages, "{lines: {}}"), folder)
    return folder


def test_bounds_by_hand(sites: Path) -> None:
    found = texts(sites)
    assert len(found) == 55
    counts = {
        name: holding(found, first, pages)
        for name, first, pages in (
            ("below", 0, 5), ("enough", 5, 5), ("on", 10, 10), ("under", 20, 10), ("all", 30, 3), ("none", 33, 5),
            ("twice", 38, 5), ("copies", 43, 6), ("names", 52, 3),
        )
    }  # fmt: skip
    assert counts == {
        "below": 2,
        "enough": 0,
        "on": 0,
        "under": 3,
        "all": 0,
        "none": 5,  # without an address no site
        "twice": 2,
        "copies": 4,  # three copies of one page, and one other: two documents
        "names": 3,  # hosts below one name are sites of their own
    }
    # www., port, scheme and case make no site; case, kinds of space and CRLF make no line.
    assert found["p49"] == machine.prose(900, 6)
    assert found["p50"] == machine.prose(901, 6)
    assert found["p51"] == machine.prose(902, 6) + "\r\n"
    assert found["p5"] == machine.prose(200, 6)


def test_counts_are_recorded(sites: Path) -> None:
    extracted = {row["id"]: row for row in pq.read_table(sites / "run" / "extracted" / "web").to_pylist()}
    counts = defaultdict(set)
    for row in pq.read_table(sites / "run" / "repeated" / "web").to_pylist():
        page = extracted[row["id"]]
        line = page["text"].encode()[row["start"] : row["end"]].decode()
        assert " ".join(line.split()).lower() == MENU.lower()
        counts[re.sub(r"^https?://(www\.)?([^/:]*).*", r"\2", page["url"]).lower()].add((row["documents"], row["of"]))
    assert counts == {"enough.test": {(3, 5)}, "on.test": {(4, 10)}, "all.test": {(3, 3)}, "h.test": {(3, 3)}}
    manifest = json.loads((sites / "run" / "manifest.json").read_text())
    facts = manifest["repeated_lines"]
    assert {name: facts[name] for name in ("looked_at", "documents", "lines")} == {
        "looked_at": 50,  # with an address
        "documents": 3 + 4 + 3 + 3,
        "lines": 13,
    }
    assert facts["bytes"] == manifest["ledger"]["web"]["bytes"]["cut"]
    found = [(line["documents"], line["of"]) for line in facts["most"]]
    assert found[0] == (4, 10)
    assert sorted(found) == [(3, 3), (3, 3), (3, 5), (4, 10)]
    assert {line["text"] for line in facts["most"]} == {MENU}  # as it stands where it was met first


def test_edits_are_told_of(sites: Path) -> None:
    folder = RunFolder.open(sites / "run")
    size = len(MENU) + 1
    [row] = edits_of_report(folder)
    assert (row["phase"], row["rule"], row["spans"], row["documents"]) == ("cluster", "dedup.lines", 13, 13)
    life = trace(sites / "run", "p5")
    assert [dict(edit) for edit in life.edits] == [
        {"id": life.id, "start": 0, "end": size, "phase": "cluster", "rule": "dedup.lines"}
    ]
    assert f"bytes 0 to {size} by dedup.lines (cluster)" in "\n".join(trace_lines(life))
    text = pq.read_table(sites / "run" / "extracted" / "web", filters=[("source_id", "=", "p5")])["text"][0].as_py()
    assert cut_spans(text, life.edits) == texts(sites)["p5"]
    page = (sites / "run" / "report.html").read_text()
    assert "dedup.lines" in page
    assert "Repeated lines were looked for in 50 documents; 13 were cut out of 13 of them (" in page
    assert f"<bdi>{MENU}</bdi>" in page
    report = json.loads((sites / "run" / "report.json").read_text())
    assert report["repeated_lines"]["most"][0]["documents"] == 4


# ---- the other settings


def test_a_source_or_the_corpus_as_a_whole(tmp_path: Path) -> None:
    pages = [*site("a.test", 2, 2, 100), *((None, text) for _, text in site("b.test", 2, 1, 200))]
    recipe = write(tmp_path, pages, "{lines: {within: source, min_share: 0.75}}")
    machine.write_jsonl(
        tmp_path / "in" / "other.jsonl",
        [{"id": f"o{n}", "text": f"{MENU}\n{machine.prose(300 + n, 6)}"} for n in range(2)],
    )
    other = '  other:\n    read: {kind: jsonl, paths: "in/other.jsonl"}\n'
    recipe.write_text(recipe.read_text().replace("dedup:", f"{other}dedup:"))
    run(recipe, tmp_path)  # three of four in web, two of two in other
    assert holding(texts(tmp_path), 0, 4) == 0
    assert all(MENU in text for text in texts(tmp_path, "other").values())
    run(recipe, tmp_path, sets=["dedup.lines.within=corpus"])  # five of six
    assert holding(texts(tmp_path), 0, 4) == 0
    assert not any(MENU in text for text in texts(tmp_path, "other").values())
    run(recipe, tmp_path, sets=["dedup.lines.within=corpus", "dedup.lines.sources=[other]"])  # two of two
    assert holding(texts(tmp_path), 0, 4) == 3
    assert all(MENU in text for text in texts(tmp_path, "other").values())


def test_folders_of_a_host_with_many_sites(tmp_path: Path) -> None:
    pages: list[tuple[str | None, str]] = []
    for place, name in enumerate("abc"):
        for number in range(3):
            text = machine.prose(100 * place + number, 6)
            pages.append((f"https://host.test/{name}/sub/{number}", f"{MENU}\n{text}" if name == "a" else text))
    recipe = write(tmp_path, pages, "{lines: {}}")
    run(recipe, tmp_path)
    assert holding(texts(tmp_path), 0, 3) == 3  # three of nine
    run(recipe, tmp_path, sets=["dedup.lines.folders=1"])
    assert holding(texts(tmp_path), 0, 3) == 0  # three of three


def test_min_words(tmp_path: Path) -> None:
    recipe = write(tmp_path, site("a.test", 3, 3, 100), "{lines: {min_words: 6}}")
    run(recipe, tmp_path)
    assert holding(texts(tmp_path), 0, 3) == 3  # five words: home, a bar, news, a bar, contact
    run(recipe, tmp_path, sets=["dedup.lines.min_words=5"])
    assert holding(texts(tmp_path), 0, 3) == 0


def test_paragraphs_are_cut_whole(tmp_path: Path) -> None:
    notice = "All rights reserved.\nWrite to us."
    pages = [(f"https://a.test/{n}", f"{machine.prose(n, 6)}\n\n{notice}\n\n{machine.sentence(n)}") for n in range(3)]
    pages += [("https://a.test/9", f"{machine.prose(9, 6)}\nAll rights reserved.")]  # a line of it is no paragraph
    run(write(tmp_path, pages, "{lines: {unit: paragraph}}"), tmp_path)
    found = texts(tmp_path)
    assert found["p0"] == f"{machine.prose(0, 6)}\n\n{machine.sentence(0)}"
    assert found["p3"] == pages[3][1]


def test_the_first_document_keeps_its_lines(tmp_path: Path) -> None:
    pages = site("a.test", 4, 4, 100)
    pages.append((pages[0][0], pages[0][1]))  # p4, a copy of the first
    recipe = write(tmp_path, pages, "{lines: {keep_first: true}}")
    run(recipe, tmp_path)
    found = texts(tmp_path)
    assert [MENU in found[f"p{n}"] for n in range(5)] == [True, False, False, False, True]
    # Whichever of the copies is kept, the line is not lost.
    run(recipe, tmp_path, sets=["dedup.exact={}"])
    assert sum(MENU in text for text in texts(tmp_path).values()) == 1


def test_the_first_document_is_that_of_the_first_source(tmp_path: Path) -> None:
    recipe = write(
        tmp_path, site("a.test", 3, 3, 100), "{lines: {keep_first: true, within: corpus}, keep: {order: [other]}}"
    )
    machine.write_jsonl(tmp_path / "in" / "other.jsonl", [{"id": "o", "text": f"{MENU}\n{machine.prose(1, 6)}"}])
    other = '  other:\n    read: {kind: jsonl, paths: "in/other.jsonl"}\n'
    recipe.write_text(recipe.read_text().replace("dedup:", f"{other}dedup:"))
    run(recipe, tmp_path)
    assert MENU in texts(tmp_path, "other")["o"]
    assert holding(texts(tmp_path), 0, 3) == 0


def test_what_would_be_empty_is_removed(tmp_path: Path) -> None:
    lines = [f"{machine.sentence(n)}" for n in range(4)]
    pages = [(f"https://a.test/{n}", "\n".join([*lines, machine.prose(50 + n, 6)])) for n in range(4)]
    pages.append(("https://a.test/all", "\n\n".join(reversed(lines))))  # p4
    half = "\n".join(lines)
    own = "x" * len(half.encode())
    pages.append(("https://a.test/half", f"{half}\n{own}"))  # p5: of its bytes in lines, without line feeds
    recipe = write(tmp_path, pages, "{lines: {}}")
    result = run(recipe, tmp_path)
    assert result.manifest["ledger"]["web"]["removed"] == {"dedup": {"dedup.lines_empty": 1}}
    [row] = [row for row in pq.read_table(tmp_path / "run" / "decisions" / "web").to_pylist() if not row["kept"]]
    assert (row["stage"], row["rule"], row["value"], row["threshold"]) == ("dedup", "dedup.lines_empty", 1.0, "< 1")
    assert texts(tmp_path)["p5"] == own
    repeated = sum(len(line) for line in lines)
    share = repeated / (repeated + len(own))
    result = run(recipe, tmp_path, sets=["dedup.lines.max_share=0.49"])
    rows = {
        row["url"]: row for row in pq.read_table(tmp_path / "run" / "decisions" / "web").to_pylist() if not row["kept"]
    }
    assert rows["https://a.test/half"]["rule"] == "dedup.lines_share"
    assert rows["https://a.test/half"]["value"] == share
    assert rows["https://a.test/half"]["threshold"] == "<= 0.49"
    assert rows["https://a.test/all"]["rule"] == "dedup.lines_empty"
    assert rows["https://a.test/all"]["also_fired"] == ["dedup.lines_share"]
    run(recipe, tmp_path, sets=[f"dedup.lines.max_share={share!r}"])  # on the bound: stays, cut
    assert texts(tmp_path)["p5"] == own


def test_removed_documents_do_not_count(tmp_path: Path) -> None:
    pages = site("a.test", 3, 3, 100)
    pages[0] = (pages[0][0], MENU)  # too short for the filter
    recipe = write(tmp_path, pages, "{lines: {min_share: 0}}")
    text = recipe.read_text()
    recipe.write_text(text.replace('web.jsonl"}', 'web.jsonl"}\n    steps: [{gopher_quality: {min_words: 20}}]'))
    run(recipe, tmp_path)
    found = texts(tmp_path)
    assert sorted(found) == ["p1", "p2"]
    assert all(MENU in text for text in found.values())


def test_sources_are_checked(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="names 'wev', which is no source of texts; did you mean 'web'"):
        curate.load(write(tmp_path, site("a.test", 1, 1, 1), "{lines: {sources: [wev]}}"))


# ---- edits of several phases


def test_spans_of_two_phases_are_made_disjoint() -> None:
    first = [{"id": "d", "start": a, "end": b, "rule": "one"} for a, b in ((5, 10), (20, 30))]
    second = [{"id": "d", "start": a, "end": b, "rule": "two"} for a, b in ((0, 3), (8, 22), (24, 26), (29, 40))]
    found = [(edit["start"], edit["end"], edit["rule"]) for edit in disjoint([*first, *second])]
    assert found == [(0, 3, "two"), (5, 10, "one"), (10, 20, "two"), (20, 30, "one"), (30, 40, "two")]
    text = "".join(chr(65 + number) for number in range(50))
    assert cut_spans(text, disjoint([*first, *second])) == cut_spans(text, [*first, *second])


def test_lines_and_benchmark_items_are_both_cut(tmp_path: Path) -> None:
    leak = machine.prose(11, 3)
    words = leak.split()
    pages = [
        (f"https://a.test/{n}", f"{MENU}\n{machine.prose(n, 12)}" + (f"\n{leak}\nThe end of it." if n == 0 else ""))
        for n in range(20, 23)
    ]
    pages = [(url, text + f"\n{leak}\n{MENU}\n" if n == 0 else text) for n, (url, text) in enumerate(pages)]
    # Nothing but the menu and the leak: what lines leave of it, decontamination must not leave empty.
    pages.append(("https://a.test/only", f"{MENU}\n{leak}\n"))
    machine.write_jsonl(tmp_path / "benchmark.jsonl", [{"question": " ".join(words), "answer": "the miller"}])
    more = "decontaminate: {benchmarks: [benchmark.jsonl], action: cut, margin: 6}\n"
    result = run(write(tmp_path, pages, "{lines: {}}", more), tmp_path)
    found = texts(tmp_path)
    assert result.manifest["ledger"]["web"]["removed"] == {"decontaminate": {"decontaminate.ngram": 1}}
    assert sorted(found) == ["p0", "p1", "p2"]
    assert found["p1"] == machine.prose(21, 12)
    assert MENU not in found["p0"]
    assert words[20] not in found["p0"].split("\n")[-1]
    rows = pq.read_table(tmp_path / "run" / "edits" / "web").to_pylist()
    mine = [row for row in rows if row["id"] == trace(tmp_path / "run", "p0").id]
    assert {row["rule"] for row in mine} == {"dedup.lines", "decontaminate.ngram"}
    assert all(one["end"] <= other["start"] for one, other in itertools.pairwise(mine))
    # Each byte that is cut is cut once: the edits' bytes are those of the ledger.
    assert sum(row["end"] - row["start"] for row in rows) == result.manifest["ledger"]["web"]["bytes"]["cut"]


# ---- the same bytes


def project(folder: Path) -> Path:
    """Write the small project of `machine`, with addresses, menus and several files; return its recipe."""
    for name, source in (("one", 0), ("two", 500)):
        for number in range(4):
            rows: list[dict[str, Any]] = []
            for n in range(12):
                seed = source + 12 * number + n
                text = f"{MENU}\n{machine.prose(seed, 8)}\n{machine.sentence(9000 + n % 3)}\nMore of {n % 5}\n"
                rows.append({"id": f"{name}{seed}", "url": f"https://s{seed % 5}.test/{seed}", "text": text})
            rows[4]["text"] = rows[5]["text"]
            machine.write_jsonl(folder / "in" / name / f"part-{number}.jsonl", rows)
    machine.write_jsonl(folder / "in" / "benchmark.jsonl", [{"question": machine.prose(11, 3).replace("\n", " ")}])
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        machine.RECIPE.split("tokenizer:")[0].replace("dedup:\n", "dedup:\n  lines: {max_share: 0.9}\n")
        + "validation: {tokens: 500, min_documents: 3}\n"
    )
    return recipe


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    run(project(folder), folder)
    return folder


@pytest.mark.slow
def test_workers_and_memory_change_nothing(finished: Path, tmp_path: Path) -> None:
    manifest = json.loads((finished / "run" / "manifest.json").read_text())
    assert manifest["repeated_lines"]["documents"] > 50
    expected = machine.contents(finished / "run")
    for workers, memory in ((1, 1 << 16), (3, 1 << 30)):
        folder = tmp_path / str(workers)
        folder.mkdir()
        run(finished / "recipe.yaml", folder, workers=workers, memory=memory)
        assert machine.contents(folder / "run") == expected


def test_shards_and_batches_change_nothing(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import curate.curation
    import curate.pipeline

    monkeypatch.setattr(curate.pipeline, "BATCH_ROWS", 5)
    monkeypatch.setattr(curate.curation, "SHARD_FILES", 1)
    run(finished / "recipe.yaml", tmp_path, workers=1)
    for kind in ("documents", "edits", "repeated"):
        rows = [pq.read_table(folder / "run" / kind).to_pylist() for folder in (finished, tmp_path)]
        assert len(rows[0]) > 30
        assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("point", "back", "workers"),
    [
        pytest.param("before_write", 25, 1, marks=pytest.mark.slow),
        ("after_fsync", 15, 2),
        pytest.param("after_rename", 7, 1, marks=pytest.mark.slow),
    ],
)
def test_killed_and_resumed(finished: Path, tmp_path: Path, point: str, back: int, workers: int) -> None:
    """Killed while lines are sorted, counted and cut: behind that come seven results, in front of it 2 + 16 + 2."""
    number = len(list((finished / "cache" / "entries").glob("??/*/entry.json"))) - back
    where = ("--output", tmp_path / "run", "--cache", tmp_path / "cache", "--workers", workers)
    environment = {
        "PYTHONPATH": os.pathsep.join((str(machine.ROOT / "tests" / "crash"), str(machine.ROOT))),
        "CURATE_TEST_KILL": f"{point}:{number}:{tmp_path / 'count'}",
    }
    killed = machine.command("run", finished / "recipe.yaml", *where, environment=environment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert "decide" in killed.stderr
    assert "decontaminate" not in killed.stderr
    again = machine.command("run", finished / "recipe.yaml", *where)
    assert again.returncode == 0, again.stderr
    assert machine.contents(tmp_path / "run") == machine.contents(finished / "run")


def test_a_bound_reads_no_text_again(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path, copy_function=shutil.copy2, dirs_exist_ok=True)
    before = json.loads((tmp_path / "run" / "manifest.json").read_text())["repeated_lines"]
    run(finished / "recipe.yaml", tmp_path, sets=["dedup.lines.min_share=0.1", "dedup.lines.min_words=4"])
    done = work(tmp_path)
    assert (done["extract"][0], done["measure"][0], done["decide"][0]) == (0, 0, 0)
    shards = len(list((tmp_path / "run" / "extracted").rglob("*.parquet")))
    assert done["cluster"][0] == shards  # the cuts alone: lines are neither hashed, sorted nor counted again
    after = json.loads((tmp_path / "run" / "manifest.json").read_text())["repeated_lines"]
    assert after["lines"] != before["lines"]
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    run(finished / "recipe.yaml", fresh, sets=["dedup.lines.min_share=0.1", "dedup.lines.min_words=4"])
    assert machine.contents(fresh / "run") == machine.contents(tmp_path / "run")
    run(finished / "recipe.yaml", tmp_path, sets=["dedup.lines="])
    assert not (tmp_path / "run" / "repeated").exists()  # of the run before


# ---- real pages


def naive(pages: list[dict[str, Any]], clusters: dict[str, str], folders: int) -> dict[str, list[str]]:
    """Return the lines that stay of each page, counted with sets: no hashes, no files."""

    def name(url: str) -> str:
        parts = re.sub(r"^[a-z]+://(www\d*\.)?", "", url).split("/")
        return "/".join([parts[0].lower(), *parts[1:-1][:folders]])

    def same(line: str) -> str:
        return " ".join(unicodedata.normalize("NFC", line).casefold().split())

    holders: dict[tuple[str, str], set[str]] = defaultdict(set)
    members: dict[str, set[str]] = defaultdict(set)
    for page in pages:
        cluster = clusters.get(page["id"], page["id"])
        members[name(page["url"])].add(cluster)
        for line in page["text"].split("\n"):
            holders[name(page["url"]), same(line)].add(cluster)
    stays = {}
    for page in pages:
        here = name(page["url"])
        lines = [line for line in page["text"].split("\n") if line.strip()]
        stays[page["id"]] = [
            line for line in lines if (count := len(holders[here, same(line)])) < 3 or count / len(members[here]) < 0.4
        ]
    return stays


@needs_data
def test_real_pages_lose_what_a_naive_count_says(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(
        f'name: real\nsources:\n  web:\n    read: {{kind: warc, paths: "{DATA}/03_raw_html/raw.warc.gz"}}\n'
        "    extract: {kind: resiliparse}\ndedup: {lines: {folders: 1}}\n"
    )
    run(tmp_path / "recipe.yaml", tmp_path, limit=900)
    pages = pq.read_table(tmp_path / "run" / "extracted" / "web").to_pylist()
    clusters = {row["id"]: row["cluster"] for row in pq.read_table(tmp_path / "run" / "duplicates.parquet").to_pylist()}
    expected = naive(pages, clusters, 1)
    kept = {row["id"]: row["text"] for row in pq.read_table(tmp_path / "run" / "documents" / "web").to_pylist()}
    assert kept.keys() == {name for name, lines in expected.items() if lines}
    cut = 0
    for page in pages:
        if page["id"] in kept:
            lines = [line for line in kept[page["id"]].split("\n") if line.strip()]
            assert [line.rstrip() for line in lines] == [line.rstrip() for line in expected[page["id"]]]
            cut += len(page["text"]) - len(kept[page["id"]])
    assert cut > 10_000
    mail = [page for page in pages if "dailymail.co.uk" in page["url"]]
    notice = "The comments below have not been moderated."
    assert sum(notice in page["text"] for page in mail) >= 3
    assert not any(notice in kept[page["id"]] for page in mail)
