"""Runs against earlier corpora: what goes by brute force, corpora that grow, folders that are refused, kill and resume.

The texts are passages of the Python reference (`pydoc_data.topics`); copies with k words replaced, at least five words
apart, share N - 5k of their N + 5k shingles.
"""

from __future__ import annotations

import functools
import http.server
import itertools
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import machine
import pyarrow.parquet as pq
import pytest

import curate
from curate.cache import Cache
from curate.dedup.exact import normal_form
from curate.errors import InputError, RecipeError
from curate.phases.earlier import index
from curate.plan import TaskContext
from curate.report.inspect import inspect, inspect_lines
from curate.report.trace import trace, trace_lines
from curate.what_if import what_if, what_if_lines
from curate.words import folded_words

WORDS = 204  # of a passage: 200 shingles of 5 words
SIMILARITY = 0.8  # the default
GOPHER_OFF = (
    "min_stop_words: off, mean_word_length: off, max_hash_ratio: off, max_ellipsis_ratio: off, "
    "max_bullet_line_fraction: off, max_ellipsis_line_fraction: off, min_alpha_word_fraction: off"
)


@functools.cache
def passages() -> list[str]:
    words = [word for name in sorted(topics) for word in topics[name].split() if len(folded_words(word)) == 1]
    found: list[str] = []
    for start in range(0, len(words) - WORDS, WORDS):
        text = " ".join(words[start : start + WORDS])
        if len(found) < 100 and all(jaccard(text, other) < 0.3 for other in found):  # some topics repeat others
            found.append(text)
    assert len(found) == 100
    return found


def edited(text: str, k: int, mark: str) -> str:
    """Return the text with k words replaced, far from each other and from the ends."""
    words = text.split()
    for number in range(k):
        words[7 + number * ((WORDS - 14) // k)] = f"zq{mark}{number}"
    return " ".join(words)


def beginning(text: str) -> str:
    """Return the first 60 words."""
    return " ".join(text.split()[:60])


@functools.cache
def shingles(text: str) -> frozenset[tuple[str, ...]]:
    words = folded_words(text)
    return (
        frozenset(tuple(words[start : start + 5]) for start in range(max(1, len(words) - 4))) if words else frozenset()
    )


def jaccard(one: str, other: str) -> float:
    first, second = shingles(one), shingles(other)
    return len(first & second) / len(first | second) if first and second else 0.0


def held(text: str, earlier: dict[str, str]) -> bool:
    """Return whether one of the earlier texts is equal, or has the similarity; by exact sets, not by estimates."""
    form = normal_form(text)
    return any(form == normal_form(other) or jaccard(text, other) >= SIMILARITY for other in earlier.values())


def corpora() -> dict[str, dict[str, str]]:
    """Return the texts of three corpora by the ids of the input."""
    real = passages()
    a = {f"a{n}": real[n] for n in range(40)} | {"a-": "-- --"} | {f"s{n}": beginning(real[n]) for n in (90, 91)}
    x = edited(real[20], 2, "x")
    b = (
        {f"exact{n}": real[n] for n in range(5)}
        | {f"spaced{n}": real[n].replace(" ", "\n ", 9) for n in range(5, 7)}
        | {f"near{n}": edited(real[n], 1, "b") for n in range(10, 15)}  # 195 / 205 = .951
        | {f"less{n}": edited(real[n], 10, "b") for n in range(15, 20)}  # 150 / 250 = .6
        | {"x": x, "y": edited(x, 6, "y")}  # of a20: .905 and .667; of one another .739: a cluster
        | {"wordless": "--  --", "one": "Short.", "blank": "..."}
        | {f"b{n}": real[n] for n in range(40, 60)}
        | {f"copy{n}": real[n] for n in range(3)}  # exact copies of exact copies: the cluster goes wholly
    )
    c = (
        {f"of_a{n}": edited(real[n], 1, "c") for n in range(25, 28)}
        | {f"of_b{n}": edited(real[n], 1, "c") for n in range(45, 48)}
        | {"same_a": real[3], "same_b": real[50], "one": "Short."}
        | {f"c{n}": real[n] for n in range(60, 75)}
    )
    return {"a": a, "b": b, "c": c}


def write(folder: Path, name: str, dedup: str, *, steps: str = "", texts: dict[str, str] | None = None) -> Path:
    """Write the recipe of a corpus, its texts in two sources; return the recipe's path."""
    texts = corpora()[name[0]] if texts is None else texts
    rows = [{"id": key, "text": text, "url": f"https://{name}.test/{key}"} for key, text in texts.items()]
    machine.write_jsonl(folder / "in" / name / "web.jsonl", rows[::2])
    machine.write_jsonl(folder / "in" / name / "books.jsonl", rows[1::2])
    recipe = folder / f"{name}.yaml"
    sources = "".join(
        f'  {source}:\n    read: {{kind: jsonl, paths: "in/{name}/{source}.jsonl"}}\n{steps}'
        for source in ("web", "books")
    )
    recipe.write_text(f"name: {name}\nsources:\n{sources}dedup: {dedup}\n")
    return recipe


def run(folder: Path, recipe: Path, output: Path | None = None, **options: Any) -> Path:
    output = output or folder / recipe.stem
    arguments: dict[str, Any] = {"cache": folder / "cache", "workers": 1, "quiet": True, "until": "collect"}
    curate.run(recipe, output=output, **(arguments | options))
    return output


def kept(output: Path) -> dict[str, str]:
    """Return the texts of a run's corpus by the ids of the input."""
    names = own_ids(output)
    rows = pq.read_table(output / "documents", columns=["id", "text"]).to_pylist()
    return {names[row["id"]]: row["text"] for row in rows}


def own_ids(output: Path) -> dict[str, str]:
    rows = pq.read_table(output / "extracted", columns=["id", "source_id"]).to_pylist()
    return {row["id"]: row["source_id"] for row in rows}


def table(output: Path) -> dict[str, dict[str, Any]]:
    names = own_ids(output)
    return {names[row["id"]]: row for row in pq.read_table(output / "earlier.parquet").to_pylist()}


def manifest(output: Path) -> dict[str, Any]:
    return dict(json.loads((output / "manifest.json").read_text()))


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder over HTTP; yield its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of three runs: a; b against a; c against a, which lies behind HTTP, and b."""
    folder = tmp_path_factory.mktemp("grown")
    run(folder, write(folder, "a", "{signatures: true}"))
    run(folder, write(folder, "b", '{signatures: true, against: {runs: ["a"]}}'), until="report")
    with served(folder) as address:
        recipe = write(folder, "c", f'{{against: {{runs: ["{address}/a/", "b/signatures"]}}}}')
        run(folder, recipe, workers=2)
    return folder


# ---- what goes


def test_what_goes_is_what_brute_force_finds(grown: Path) -> None:
    texts = corpora()
    union = dict(kept(grown / "a"))
    assert union.keys() == texts["a"].keys()
    for name in "bc":
        found = kept(grown / name)
        matched = {key for key, text in texts[name].items() if held(text, union)}
        assert table(grown / name).keys() == matched
        assert texts[name].keys() - found.keys() == matched  # no cluster loses another document
        union |= {f"{name}/{key}": text for key, text in found.items()}
    assert len(union) == 43 + 28 + 15  # of b: less15 to 19, y, one, blank, b40 to b59; of c: c60 to c74
    alike = {pair: jaccard(union[pair[0]], union[pair[1]]) for pair in itertools.combinations(union, 2)}
    assert max(alike.values()) < SIMILARITY
    forms = [normal_form(text) for text in union.values()]
    assert len(forms) == len(set(forms))


def test_a_cluster_with_one_match_keeps_another(grown: Path) -> None:
    texts, found = corpora(), kept(grown / "b")
    assert jaccard(texts["b"]["x"], texts["b"]["y"]) > 0.7  # one would go as a copy of the other
    assert jaccard(texts["a"]["a20"], texts["b"]["y"]) < 0.75 < jaccard(texts["a"]["a20"], texts["b"]["x"])
    assert "x" not in found
    assert "y" in found
    assert {"exact0", "copy0", "exact1", "copy1"}.isdisjoint(found)  # a cluster that matches as a whole goes as a whole


def test_removals_name_the_earlier_document(grown: Path) -> None:
    names, of_a = own_ids(grown / "b"), own_ids(grown / "a")
    decisions = {
        names[row["id"]]: row for row in pq.read_table(grown / "b" / "decisions").to_pylist() if row["id"] in names
    }
    rows = table(grown / "b")
    for key, row in rows.items():
        decided = decisions[key]
        exact = key.startswith(("exact", "spaced", "copy", "wordless"))
        assert row["exact"] == exact
        rule, bound = ("dedup.earlier_exact", "not equal") if exact else ("dedup.earlier", "< 0.8, estimated")
        assert (decided["stage"], decided["rule"], decided["threshold"]) == ("dedup", rule, bound)
        assert decided["value"] == decided["similarity"] == row["similarity"]
        assert decided["kept_id"] == row["earlier_id"]
        number = {"x": "20", "wordless": "-"}.get(key) or key.lstrip("abcdefghijklmnopqrstuvwxyz")
        assert of_a[row["earlier_id"]] == f"a{number}"
        assert row["earlier_url"] == f"https://a.test/a{number}"
        assert row["earlier_source"] == ("web" if number == "-" or int(number) % 2 == 0 else "books")
        if not exact:  # within four standard errors of .951 and .905: .0206 and .0279
            truth = jaccard(corpora()["b"][key], corpora()["a"][f"a{number}"])
            assert row["similarity"] == pytest.approx(truth, abs=4 * 0.028)
    assert {row["run"] for row in rows.values()} == {"a"}
    ledger = manifest(grown / "b")["ledger"]
    removed = [ledger[source]["removed"]["dedup"] for source in ("web", "books")]
    assert sum(one.get("dedup.earlier_exact", 0) for one in removed) == 5 + 2 + 3 + 1
    assert sum(one.get("dedup.earlier", 0) for one in removed) == 5 + 1


def test_facts(grown: Path) -> None:
    facts = manifest(grown / "b")["earlier"]
    assert facts["runs"] == [
        {"run": "a", "documents": 43, "exact": 11, "near": 6, "sha256": facts["runs"][0]["sha256"]}
    ]
    assert (facts["similarity"], facts["permutations"]) == (0.8, 112)
    assert facts["standard_error"] == pytest.approx(0.0379, abs=1e-4)
    assert facts["pairs"] >= 17
    address, b = manifest(grown / "c")["earlier"]["runs"]
    assert address["run"].startswith("http://127.0.0.1")
    assert (address["documents"], address["exact"], address["near"]) == (43, 1, 3)
    assert (b["run"], b["documents"], b["exact"], b["near"]) == ("b/signatures", 28, 2, 3)
    assert [row["run"] for key, row in table(grown / "c").items() if key == "same_a"] == [address["run"]]


def test_stored_signatures_are_those_of_the_corpus(grown: Path) -> None:
    stated = json.loads((grown / "b" / "signatures" / "manifest.json").read_text())
    assert [file["path"] for file in stated["files"]] == ["web/00000.parquet", "books/00000.parquet"]
    for file in stated["files"]:
        rows = pq.read_table(grown / "b" / "signatures" / file["path"]).to_pylist()
        documents = pq.read_table(grown / "b" / "documents" / file["path"]).to_pylist()
        assert [(row["id"], row["source"], row["url"]) for row in rows] == [
            (row["id"], row["source"], row["url"]) for row in documents
        ]
        assert file["documents"] == len(rows)
        for row, document in zip(rows, documents, strict=True):
            words = folded_words(document["text"])
            assert [len(row["bands"]), len(row["signature"] or b"")] == ([14, 112] if words else [0, 0])


def test_trace_and_inspect_show_it(grown: Path) -> None:
    names = {own: key for key, own in own_ids(grown / "b").items()}
    row = table(grown / "b")["near10"]
    told = "\n".join(trace_lines(trace(grown / "b", names["near10"])))
    assert f"Earlier corpora: a holds it as {row['earlier_id']}, similarity {row['similarity']:.3g}" in told
    assert "(estimated)" in told
    assert "https://a.test/a10" in told
    assert "the texts are equal" in "\n".join(trace_lines(trace(grown / "b", names["exact0"])))
    assert "Earlier" not in "\n".join(trace_lines(trace(grown / "b", names["b40"])))
    shown = "\n".join(inspect_lines(inspect(grown / "b", rule="dedup.earlier", sample=1)))
    assert "an earlier corpus holds" in shown
    assert "estimated from signatures" in shown


# ---- the same again


def test_same_bytes_again_and_after_kills(grown: Path, tmp_path: Path) -> None:
    """Another cache, one worker, little memory, killed while an earlier corpus is indexed and while it is joined."""
    shutil.copytree(grown / "a" / "signatures", tmp_path / "a" / "signatures")
    recipe = write(tmp_path, "b", '{signatures: true, against: {runs: ["a"]}}')
    where = ("--output", tmp_path / "b", "--cache", tmp_path / "cache", "--workers", 1, "--memory", "64KiB")
    tasks = {name: done for name, (done, _) in phases(grown / "b").items()}
    behind = 16 + 16 + 1 + 2 + 1  # index, join, compare, remove, tabulate
    before = sum(tasks[name] for name in ("extract", "measure", "decide", "cluster")) - behind
    for number, (indexed, joined) in ((before + 8, (8, 0)), (16, (16, 8))):
        environment = {
            "PYTHONPATH": os.pathsep.join((str(machine.ROOT / "tests" / "crash"), str(machine.ROOT))),
            "CURATE_TEST_KILL": f"after_entry:{number}:{tmp_path / f'count-{number}'}",
        }
        killed = machine.command("run", recipe, *where, environment=environment)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        results = [path.name for path in (tmp_path / "cache" / "entries").rglob("*.u64")]
        assert (results.count("keys.u64"), results.count("pairs.u64")) == (indexed, joined)
    again = machine.command("run", recipe, *where)
    assert again.returncode == 0, again.stderr
    assert machine.contents(tmp_path / "b") == machine.contents(grown / "b")


def phases(output: Path) -> dict[str, tuple[int, int]]:
    timings = json.loads((output / "timings.json").read_text())
    return {name: (phase["tasks_run"], phase["tasks_reused"]) for name, phase in timings["phases"].items()}


@pytest.fixture(scope="module")
def again(grown: Path) -> Path:
    """Return the run of b once more, against a and b."""
    runs = '["a", "b"]'
    recipe = write(grown, "b-again", f"{{signatures: true, against: {{runs: {runs}, similarity: 0.75}}}}")
    return run(grown, recipe)


def test_nothing_is_taken_twice(again: Path) -> None:
    """Against itself and what it was compared with a corpus goes wholly; an earlier corpus is indexed once."""
    assert kept(again) == {}
    assert phases(again)["cluster"][1] >= 16  # the index of a
    assert json.loads((again / "signatures" / "manifest.json").read_text())["documents"] == 0


def test_what_if_takes_over_what_earlier_corpora_hold(grown: Path, again: Path) -> None:
    """A bound that lets documents through again frees none that an earlier corpus holds; one of the two is empty."""
    real = passages()
    steps = f"    steps: [{{gopher_quality: {{min_words: 100, max_words: off, {GOPHER_OFF}}}}}]\n"
    texts = {"a0": real[0], "copy": real[0], "a1": edited(real[1], 1, "w"), "n": real[83]}
    texts |= {f"s{n}": beginning(real[n]) for n in range(90, 94)}  # a holds s90 and s91
    runs = f'["{again.name}", "a"]'
    output = run(grown, write(grown, "new", f"{{minhash: {{}}, against: {{runs: {runs}}}}}", texts=texts, steps=steps))
    assert kept(output).keys() == {"n"}
    assert manifest(output)["warnings"] == ["dedup.against.runs: b-again holds no documents, so none is found there."]
    assert manifest(output)["earlier"]["runs"][1]["exact"] == 2  # s90 and s91 fall to the filter
    assert {"s90", "s91"} <= table(output).keys()
    sets = [f"sources.{source}.steps.gopher_quality.min_words=50" for source in ("web", "books")]
    answer = what_if(output, sets=sets)
    names = ("gained", "earlier", "copies", "copies_kept_instead", "kept_before", "kept_after")
    assert [answer["total"][name]["documents"] for name in names] == [4, 2, 0, 0, 1, 3]
    assert any("in earlier corpora and go" in line for line in what_if_lines(answer))


# ---- what is refused


def refused(recipe: Path, **options: Any) -> str:
    with pytest.raises(RecipeError) as caught:
        curate.check(recipe, **options)
    [problem] = caught.value.problems
    line = next(n for n, text in enumerate(recipe.read_text().splitlines(), 1) if "against" in text)
    assert str(problem).startswith(f"{recipe}:{line}: dedup.against.runs: ")
    return problem.message


def test_folders_that_hold_nothing_to_compare_with_are_refused(grown: Path, tmp_path: Path) -> None:
    recipe = write(tmp_path, "c", '{against: {runs: ["earlier"]}}')
    assert "does not exist" in refused(recipe)
    (tmp_path / "earlier").mkdir()
    assert "holds no signatures. Run its recipe again with --set dedup.signatures=true" in refused(recipe)
    shutil.copy(grown / "a" / "manifest.json", tmp_path / "earlier")
    shutil.copy(grown / "a" / "recipe.yaml", tmp_path / "earlier")
    assert "holds no signatures" in refused(recipe)  # a run's own manifest is none of signatures
    (tmp_path / "earlier" / "recipe.yaml").unlink()
    assert "manifest.json: is not of stored signatures" in refused(recipe)
    (tmp_path / "earlier" / "signatures").mkdir()
    assert "has no manifest.json" in refused(recipe)
    with served(tmp_path) as address:
        recipe = write(tmp_path, "c2", f'{{against: {{runs: ["{address}/nothing"]}}}}')
        curate.check(recipe)  # it does not look at what is remote
        with pytest.raises(RecipeError, match="no signatures were found: cannot be listed"):
            run(tmp_path, recipe)
    assert not (tmp_path / "c2" / "recipe.yaml").exists()  # refused before any work


@pytest.mark.parametrize(
    ("minhash", "problem", "remedy"),
    [
        ("ngram: 4", "ngram is 5 there and 4 here", "{ngram: 5}"),
        ("bands: 7, rows: 16", "bands is 14 there and 7 here, rows is 8 there and 16 here", "{bands: 14, rows: 8}"),
        ("seed: 2", "seed is 1 there and 2 here", "{seed: 1}"),
        ("permutations: 128", "permutations is 112 there and 128 here", "{permutations: 112}"),
        ("variant: datasketch", "variant is curate there and datasketch here", "{variant: curate}"),
    ],
)
def test_other_settings_are_refused(grown: Path, tmp_path: Path, minhash: str, problem: str, remedy: str) -> None:
    recipe = write(tmp_path, "c", f'{{minhash: {{{minhash}}}, against: {{runs: ["{grown / "a"}"]}}}}')
    message = refused(recipe)
    assert problem in message
    assert f"Set dedup.minhash: {remedy}" in message


def test_damage_is_refused(grown: Path, tmp_path: Path) -> None:
    folder = tmp_path / "earlier"
    shutil.copytree(grown / "a" / "signatures", folder)
    file = folder / "web" / "00000.parquet"
    file.chmod(0o644)
    good = file.read_bytes()
    recipe = write(tmp_path, "c", '{against: {runs: ["earlier"]}}')
    plan = curate.check(recipe)
    assert plan.recipe.dedup is not None
    data = bytearray(good)
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(
        RecipeError, match=rf"{file}: it is damaged, or was changed: its sha256 is \w+, and manifest.json"
    ):
        run(tmp_path, recipe)
    assert not (tmp_path / "c" / "extracted").exists()
    file.write_bytes(good[:-5])
    assert f"{file}: it is damaged: it has {len(good) - 5:,} bytes" in refused(recipe)
    file.unlink()
    assert f"{file}: this file is not there" in refused(recipe)
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").chmod(0o644)
    (folder / "manifest.json").write_text(text.replace('"version": ', '"version": 9'))
    assert "of this code, which now makes version" in refused(recipe)


def test_a_file_that_changes_later_is_refused(grown: Path, tmp_path: Path) -> None:
    """The run has begun, and the file is another when it is read."""
    from curate.loading import load
    from curate.tasks.earlier import read_corpora

    shutil.copytree(grown / "a" / "signatures", tmp_path / "earlier")
    cache = Cache(tmp_path / "cache")
    cache.prepare()
    [corpus] = read_corpora(load(write(tmp_path, "c", '{against: {runs: ["earlier"]}}')), cache)
    file = tmp_path / "earlier" / "books" / "00000.parquet"
    file.chmod(0o644)
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(InputError, match=f"{file}: it is damaged, or was changed"):
        index(TaskContext(cache, 1 << 20, frozenset()), "key", corpus, 0)


def test_a_run_does_not_read_what_it_writes(grown: Path) -> None:
    recipe = write(grown, "a-again", '{against: {runs: ["a"]}}')
    before = machine.contents(grown / "a")
    with pytest.raises(RecipeError, match="which this run writes"):
        run(grown, recipe, grown / "a")
    assert machine.contents(grown / "a") == before
