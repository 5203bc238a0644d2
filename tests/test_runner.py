"""The machine as a whole, over small real inputs: the same bytes whatever happens, no work twice, no document lost."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import machine
import pyarrow.parquet as pq
import pytest
from machine import run, with_step, work

import curate
from curate.errors import CurateError, FolderInUseError, LedgerError, RecipeError, StageError, UsageError
from curate.plan import PHASES
from curate.runner import locked


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a project and its finished run."""
    folder = tmp_path_factory.mktemp("finished")
    run(machine.project(folder, files=3, documents=16), folder)
    return folder


def copy(finished: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder, copy_function=shutil.copy2)
    return folder


def test_every_document_is_accounted_for(finished: Path) -> None:
    manifest = json.loads((finished / "run" / "manifest.json").read_text())
    assert set(manifest["ledger"]) == {"one", "two"}
    for source, ledger in manifest["ledger"].items():
        removed = sum(sum(rules.values()) for rules in ledger["removed"].values())
        assert ledger["read"] == ledger["kept"] + removed
        size = ledger["bytes"]
        assert size["read"] == size["kept"] + size["cut"] + sum(
            sum(rules.values()) for rules in size["removed"].values()
        )
        decisions = pq.read_table(finished / "run" / "decisions" / source)
        assert decisions.num_rows == ledger["read"] == len(set(decisions["id"].to_pylist()))
        documents = pq.read_table(finished / "run" / "documents" / source)
        assert documents.num_rows == ledger["kept"]
        assert set(documents["id"].to_pylist()) == {row["id"] for row in decisions.to_pylist() if row["kept"]}
    # By hand: 3 files of 16 documents and a broken line each; of each file one text is blank and one has two words.
    one = manifest["ledger"]["one"]
    assert one["read"] == 3 * 17
    assert one["removed"]["read"] == {"read.bad_record": 3}
    assert one["removed"]["extract"] == {"extract.empty": 3}
    assert one["removed"]["dedup"]["dedup.exact"] >= 3  # row 4 is row 5 in each file
    assert manifest["reproducible"] is True


def test_run_folder_is_complete(finished: Path) -> None:
    folder = finished / "run"
    for name in (
        "recipe.yaml", "manifest.json", "timings.json", "duplicates.parquet", "contamination.parquet", "quarantine.parquet",
        "mixture.json", "report.html", "report.json", "tokenizer/tokenizer.model", "tokens/one/manifest.json",
        "tokens/one/train-00000.bin", "tokens/one/train-00000.idx", "tokens/one/train-00000.docs.parquet",
        "extracted/one/00000.parquet", "decisions/one/00000.parquet", "edits/one/00000.parquet",
        "documents/one/00000.parquet", "measurements/one/gopher_quality/00000.parquet",
    ):  # fmt: skip
        assert (folder / name).is_file(), name
    text = (folder / "manifest.json").read_text()
    assert str(finished) not in text


def test_workers_and_memory_change_nothing(finished: Path, tmp_path: Path) -> None:
    expected = machine.contents(finished / "run")
    for workers, memory in ((1, 1 << 20), (3, 1 << 30)):
        folder = tmp_path / str(workers)
        folder.mkdir()
        run(finished / "recipe.yaml", folder, workers=workers, memory=memory)
        assert machine.contents(folder / "run") == expected


def test_a_rerun_does_nothing(finished: Path, tmp_path: Path) -> None:
    folder = copy(finished, tmp_path)
    run(folder / "recipe.yaml", folder)
    assert {phase for phase, (done, _) in work(folder).items() if done} == set()
    assert machine.contents(folder / "run") == machine.contents(finished / "run")


def test_a_changed_bound_decides_anew_and_measures_nothing(finished: Path, tmp_path: Path) -> None:
    folder, scratch = copy(finished, tmp_path), tmp_path / "scratch"
    scratch.mkdir()
    before = json.loads((folder / "run" / "manifest.json").read_text())["stages"]
    override = ["sources.one.steps.gopher_quality.min_words=100"]
    again = run(folder / "recipe.yaml", folder, sets=override)
    done = work(folder)
    assert done["extract"] == (0, 2)
    assert done["measure"][0] == 0
    assert done["decide"] == (1, 1)  # the other source's decisions stand
    assert again.manifest["stages"]["measure"]["key"] == before["measure"]["key"]
    assert again.manifest["stages"]["decide"]["key"] != before["decide"]["key"]
    assert again.manifest["ledger"]["one"]["kept"] < 30
    run(folder / "recipe.yaml", scratch, sets=override)
    assert machine.contents(folder / "run") == machine.contents(scratch / "run")


def test_a_changed_step_redoes_what_depends_on_it(finished: Path, tmp_path: Path) -> None:
    folder = copy(finished, tmp_path)
    run(folder / "recipe.yaml", folder, sets=["sources.two.repair={kind: ftfy}"])
    done = work(folder)
    assert done["extract"] == (1, 1)
    assert done["measure"] == (1, 2)  # source one, and the benchmarks, stand


def test_another_recipe_in_the_folder_replaces_it(  # pipe-004; other workers: test_workers_and_memory_change_nothing
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy(finished, tmp_path)
    text = (folder / "recipe.yaml").read_text().replace("  two:\n", "  three:\n").replace("[two, one]", "[three, one]")
    (folder / "recipe.yaml").write_text(text.replace("{one: 2, two: 1}", "{one: 2, three: 1}"))
    run(folder / "recipe.yaml", folder)
    assert "three" in capsys.readouterr().err  # the difference is named
    assert sorted(path.name for path in (folder / "run" / "documents").iterdir()) == ["one", "three"]


@pytest.mark.parametrize("until", ["extract", "decide", "collect", "mix"])
def test_until_is_inclusive(finished: Path, tmp_path: Path, until: str) -> None:
    folder = copy(finished, tmp_path)
    result = run(folder / "recipe.yaml", folder, until=until)
    ran = PHASES[: PHASES.index(until) + 1]
    assert list(result.manifest["stages"]) == list(ran)
    there = {path.name for path in (folder / "run").iterdir()}
    made_by = {"extracted": "extract", "measurements": "measure", "duplicates.parquet": "cluster", "documents": "collect",
               "contamination.parquet": "decontaminate", "tokens": "arrange", "mixture.json": "mix", "report.html": "report"}  # fmt: skip
    for name, phase in made_by.items():
        assert (name in there) == (phase in ran), name
    for ledger in result.manifest["ledger"].values():
        assert ledger["read"] == ledger["kept"] + sum(sum(rules.values()) for rules in ledger["removed"].values())


def test_limit_counts_documents_of_each_source(finished: Path, tmp_path: Path) -> None:
    result = run(finished / "recipe.yaml", tmp_path, limit=7, until="decide")
    assert [ledger["read"] for ledger in result.manifest["ledger"].values()] == [7, 7]


def test_sample_is_a_subset_that_grows(finished: Path, tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    for folder, share in ((small, 0.3), (large, 0.7)):
        folder.mkdir()
        run(finished / "recipe.yaml", folder, sample=share, until="extract")
    few, many = set(machine.ids(small / "run", "extracted")), set(machine.ids(large / "run", "extracted"))
    assert 0 < len(few) < len(many) < len(machine.ids(finished / "run", "extracted"))
    assert few < many


def test_a_stage_that_loses_a_row_fails_the_run(tmp_path: Path) -> None:
    with pytest.raises(LedgerError) as failure:
        run(with_step(tmp_path, "Loses"), tmp_path, allow_code=True)
    assert "source 'one'" in str(failure.value)
    assert "stage 'Loses'" in str(failure.value)
    assert "1 rows lost" in str(failure.value)
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_a_stage_that_loses_a_row_at_collect_fails_the_run(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="source 'one', stage 'Loses'"):
        run(with_step(tmp_path, "Loses", "at: collect"), tmp_path, allow_code=True)


def test_code_needs_leave(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="--allow-code"):
        run(with_step(tmp_path, "Raises"), tmp_path)


def test_a_row_that_raises_is_removed_alone(tmp_path: Path) -> None:
    result = run(with_step(tmp_path, "Raises"), tmp_path, allow_code=True)
    assert result.manifest["ledger"]["one"]["removed"]["filter"]["Raises.error"] == 1
    assert result.manifest["reproducible"] is True
    row = next(
        row
        for row in pq.read_table(tmp_path / "run" / "decisions" / "one").to_pylist()
        if row["rule"] == "Raises.error"
    )
    assert row["value_label"] == "ValueError: cannot measure this one"


def test_too_many_errors_fail_the_run(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"more than max_errors \(0\)"):
        run(with_step(tmp_path, "Raises"), tmp_path, allow_code=True, sets=["max_errors=0"])


def test_a_document_that_kills_its_worker_is_quarantined(tmp_path: Path) -> None:
    recipe = with_step(tmp_path, "Dies")
    result = run(recipe, tmp_path, allow_code=True)
    assert result.manifest["ledger"]["one"]["removed"]["quarantine"] == {"quarantine.Dies": 1}
    assert result.manifest["quarantined"] == 1
    assert result.manifest["reproducible"] is False
    rows = pq.read_table(tmp_path / "run" / "quarantine.parquet").to_pylist()
    assert [row["stage"] for row in rows] == ["Dies"]
    assert "killed its worker" in rows[0]["cause"]
    # Every later run honours it, and --strict makes a failure of it.
    before = machine.contents(tmp_path / "run")
    with pytest.raises(CurateError, match="1 documents were quarantined"):
        run(recipe, tmp_path, allow_code=True, strict=True)
    assert machine.contents(tmp_path / "run") == before


def test_two_runs_in_one_folder(tmp_path: Path) -> None:  # pipe-005
    recipe = machine.project(tmp_path, files=2, documents=12)
    arguments = ("run", recipe, "--output", tmp_path / "run", "--cache", tmp_path / "cache")
    processes = [machine.start(*arguments, stderr=subprocess.PIPE) for _ in range(2)]
    ends = [(process.communicate(timeout=120)[1], process.returncode) for process in processes]
    assert sorted(code for _, code in ends) == [0, 1]
    loser = next(message for message, code in ends if code == 1)
    assert "in use" in loser


def test_a_folder_that_another_run_begins_is_in_use(tmp_path: Path) -> None:
    """What the other one has written before its recipe.yaml is in place is no reason to call the folder the user's."""
    recipe = machine.project(tmp_path, files=1, documents=12)
    folder = tmp_path / "run"
    with locked(folder):
        (folder / ".recipe.yaml.0123abcd.tmp").write_text("begun")
        (folder / "extracted").mkdir()
        with pytest.raises(FolderInUseError, match="in use"):
            run(recipe, tmp_path)
    # Killed there, it has left no more than its first temporary file.
    (folder / "extracted").rmdir()
    run(recipe, tmp_path, until="extract")
    assert not list(folder.glob(".recipe*"))


def test_the_lock_of_a_dead_run_is_free(tmp_path: Path) -> None:
    recipe = machine.project(tmp_path, files=1, documents=12)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").write_text("process 999999")
    run(recipe, tmp_path, until="extract")
    assert not (tmp_path / "run" / ".lock").exists()


def test_lost_and_damaged_outputs_are_made_again(finished: Path, tmp_path: Path) -> None:  # pipe-002
    folder = copy(finished, tmp_path)
    run(folder / "recipe.yaml", folder)  # links the folder to this cache
    (folder / "run" / "documents" / "one" / "00000.parquet").unlink()
    run(folder / "recipe.yaml", folder)
    assert machine.contents(folder / "run") == machine.contents(finished / "run")
    victim = folder / "run" / "documents" / "one" / "00000.parquet"
    data = victim.read_bytes()
    victim.chmod(0o644)
    with victim.open("r+b") as file:  # the same file as in the cache
        file.truncate(len(data) // 2)
    run(folder / "recipe.yaml", folder)
    assert machine.contents(folder / "run") == machine.contents(finished / "run")


def test_killed_worker_costs_a_retry(tmp_path: Path) -> None:  # pipe-001
    """Kill -9 of a worker from outside, while it works: the run ends well, nothing is quarantined."""
    recipe = machine.project(tmp_path, files=8, documents=40)
    where = ("--output", tmp_path / "run", "--cache", tmp_path / "cache", "--workers", 2, "--until", "collect")
    process = machine.start("run", recipe, *where)
    import psutil

    killed = 0
    deadline = time.monotonic() + 240
    while process.poll() is None and time.monotonic() < deadline and killed < 2:
        with contextlib.suppress(psutil.NoSuchProcess):  # ended since it was listed
            for child in psutil.Process(process.pid).children():
                if child.cpu_times().user > 0.5:
                    child.kill()
                    killed += 1
        time.sleep(0.1)
    assert process.wait(timeout=240) == 0
    assert killed
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["quarantined"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": "nowhere"}, "no such phase"),
        ({"limit": 0}, "at least 1"),
        ({"sample": 1.5}, "at most 1"),
        ({"workers": 0}, "at least 1"),
    ],
)
def test_wrong_options_are_refused(finished: Path, tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(finished / "recipe.yaml", tmp_path, **options)


def test_missing_input_is_refused_before_work(tmp_path: Path) -> None:
    recipe = machine.project(tmp_path, files=1, documents=12)
    shutil.rmtree(tmp_path / "in" / "two")
    with pytest.raises(RecipeError, match=r"sources\.two\.read\.paths.*no file matches"):
        run(recipe, tmp_path)
    with pytest.raises(RecipeError, match="no file matches"):
        curate.check(recipe)


def test_five_lines_deduplicate_ones_own_jsonl(tmp_path: Path) -> None:
    """Every section is optional."""
    machine.write_jsonl(
        tmp_path / "a.jsonl",
        [{"id": name, "text": "The gate is shut tonight."} for name in "abc"] + [{"id": "d", "text": "Open."}],
    )
    recipe = tmp_path / "dedup.yaml"
    recipe.write_text("name: dedup\nsources:\n  own:\n    read: {kind: jsonl, paths: a.jsonl}\ndedup: {exact: {}}\n")
    result = run(recipe, tmp_path)
    assert result.manifest["ledger"]["own"]["removed"] == {"dedup": {"dedup.exact": 2}}
    extracted = {
        row["id"]: row["source_id"] for row in pq.read_table(tmp_path / "run" / "extracted" / "own").to_pylist()
    }
    assert [extracted[name] for name in machine.ids(tmp_path / "run", "documents")] == ["a", "d"]


def test_read_only_output(tmp_path: Path) -> None:
    recipe = machine.project(tmp_path, files=1, documents=12)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CurateError, match="cannot be written"):
        run(recipe, tmp_path, output=tmp_path / "file" / "run")
    with pytest.raises(CurateError, match="cache cannot be written"):
        run(recipe, tmp_path, cache=tmp_path / "file" / "cache")


def test_full_disk(tmp_path: Path) -> None:  # pipe-008
    """A file size limit stands for a full disk: the run fails, nothing half is taken for whole, and it goes on afterwards."""
    recipe = machine.project(tmp_path, files=4, documents=40)
    where = ("--output", tmp_path / "run", "--cache", tmp_path / "cache", "--until", "collect")
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000)); sys.argv[0] = 'curate'; "
        "from curate.cli import main; main()"
    )
    failed = subprocess.run(
        [sys.executable, "-c", limited, "run", str(recipe), *map(str, where)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode == 1
    assert "large" in failed.stderr  # "File too large"
    assert "Traceback" not in failed.stderr
    assert not (tmp_path / "run" / "manifest.json").exists()
    assert machine.command("run", recipe, *where).returncode == 0
    clean = tmp_path / "clean"
    clean.mkdir()
    run(recipe, clean, until="collect")
    assert machine.contents(tmp_path / "run") == machine.contents(clean / "run")


def test_names_from_the_input_are_data(tmp_path: Path) -> None:  # pipe-009
    documents = [
        {"id": "../../escape", "text": machine.prose(1), "source": "/abs/path"},
        {"id": "a/b", "text": machine.prose(2), "source": "..\\win"},
        {"id": "nul\u0000byte", "text": machine.prose(3), "source": "con"},
    ]
    inner = tmp_path / "inner"
    machine.write_jsonl(inner / "a.jsonl", documents)
    recipe = inner / "r.yaml"
    recipe.write_text("name: r\nsources:\n  own:\n    read: {kind: jsonl, paths: a.jsonl}\n")
    before = {path for path in tmp_path.rglob("*") if inner not in path.parents}
    result = run(recipe, inner)
    assert result.manifest["ledger"]["own"]["kept"] == 3
    assert {path for path in tmp_path.rglob("*") if inner not in path.parents} == before
    extracted = pq.read_table(inner / "run" / "extracted" / "own").to_pylist()
    assert [row["source_id"] for row in extracted] == [document["id"] for document in documents]


def test_empty_texts_are_no_duplicates(tmp_path: Path) -> None:  # exact-001, filter-001
    texts = ["Gate shut.", "", " ", "\n", "\u200b\u00a0", "Weir open."]
    machine.write_jsonl(tmp_path / "a.jsonl", [{"id": str(number), "text": text} for number, text in enumerate(texts)])
    recipe = tmp_path / "r.yaml"
    recipe.write_text("name: r\nsources:\n  own:\n    read: {kind: jsonl, paths: a.jsonl}\ndedup: {}\n")
    result = run(recipe, tmp_path)
    assert result.manifest["ledger"]["own"]["removed"] == {"extract": {"extract.empty": 4}}
    assert pq.read_table(tmp_path / "run" / "duplicates.parquet").num_rows == 0


def test_prose_rules_on_nothing_but_signs(tmp_path: Path) -> None:  # filter-001
    texts = ["", "   ", "\n\n\n", "!!! ... ---", "\u200b", "12345 67890"]
    machine.write_jsonl(
        tmp_path / "a.jsonl", [{"id": f"e{number}", "text": text} for number, text in enumerate(texts, 1)]
    )
    recipe = tmp_path / "r.yaml"
    steps = "[language, gopher_quality, gopher_repetition, c4_lines, fineweb, code]"
    recipe.write_text(f"name: r\nsources:\n  own:\n    read: {{kind: jsonl, paths: a.jsonl}}\n    steps: {steps}\n")
    result = run(recipe, tmp_path)
    removed = result.manifest["ledger"]["own"]["removed"]
    assert removed["extract"] == {"extract.empty": 4}
    assert not any(rule.endswith(".error") for rules in removed.values() for rule in rules)
    assert all(row["value"] == row["value"] for row in pq.read_table(tmp_path / "run" / "decisions").to_pylist())


def test_exact_copies_by_one_rule(tmp_path: Path) -> None:  # exact-003
    """The first in path order stays, in any order of the list of files, with any number of workers."""
    machine.write_jsonl(
        tmp_path / "p.jsonl", [{"id": "a1", "text": "Same text here."}, {"id": "a2", "text": "Other text."}]
    )
    machine.write_jsonl(
        tmp_path / "q.jsonl", [{"id": "b1", "text": "Same text here."}, {"id": "b2", "text": "Third text."}]
    )
    kept = []
    for number, (paths, workers) in enumerate(
        (("[p.jsonl, q.jsonl]", 1), ("[p.jsonl, q.jsonl]", 4), ("[q.jsonl, p.jsonl]", 4))
    ):
        recipe = tmp_path / f"r{number}.yaml"
        recipe.write_text(
            f"name: r\nsources:\n  own:\n    read: {{kind: jsonl, paths: {paths}}}\ndedup: {{exact: {{}}}}\n"
        )
        folder = tmp_path / str(number)
        run(recipe, folder, workers=workers)
        names = {row["id"]: row["source_id"] for row in pq.read_table(folder / "run" / "extracted").to_pylist()}
        kept.append([names[name] for name in machine.ids(folder / "run", "documents")])
    assert kept == [["a1", "a2", "b2"], ["a1", "a2", "b2"], ["b1", "b2", "a2"]]
    one, four = (machine.contents(tmp_path / name / "run") for name in "01")
    assert one == four


@pytest.mark.parametrize(
    "where", ["tokenizer: {load: state.pkl}", "tokenizer: {load: state.model}", "language"]
)  # config-006
def test_a_pickle_is_never_loaded(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("state.pkl", "state.model"):
        (tmp_path / name).write_bytes(b"cos\nmkdir\n(S'curate_pickle_ran'\ntR.")
    machine.write_jsonl(tmp_path / "a.jsonl", [{"id": "a", "text": machine.prose(1)}])
    steps = "[{language: {model: state.pkl}}]" if where == "language" else "[]"
    recipe = tmp_path / "r.yaml"
    section = "" if where == "language" else where + "\n"
    recipe.write_text(
        f"name: r\nsources:\n  own:\n    read: {{kind: jsonl, paths: a.jsonl}}\n    steps: {steps}\n{section}"
    )
    with pytest.raises(CurateError, match="state"):
        run(recipe, tmp_path)
    assert not (tmp_path / "curate_pickle_ran").exists()


SECTIONS = ("dedup", "decontaminate", "tokenizer", "validation", "mixture")


@pytest.mark.parametrize(
    "present",
    [
        (),
        ("validation",),
        ("decontaminate",),
        ("dedup",),
        ("tokenizer",),
        ("tokenizer", "mixture"),
        ("dedup", "validation"),
    ],
    ids="+".join,
)
def test_every_section_is_optional(tmp_path: Path, present: tuple[str, ...]) -> None:
    recipe = machine.project(tmp_path, files=2, documents=14)
    absent = [f"{section}: ~" for section in SECTIONS if section not in present]
    (tmp_path / "variant.yaml").write_text("extends: recipe.yaml\n" + "\n".join(absent) + "\n")
    result = run(tmp_path / "variant.yaml", tmp_path)
    del recipe
    folder = tmp_path / "run"
    removed = {stage for ledger in result.manifest["ledger"].values() for stage in ledger["removed"]}
    assert ("dedup" in removed) == ("dedup" in present)
    assert ("decontaminate" in removed) == ("decontaminate" in present)
    splits = set(pq.read_table(folder / "documents", columns=["split"])["split"].to_pylist())
    assert ("validation" in splits) == ("validation" in present)
    assert (folder / "tokens").exists() == ("tokenizer" in present)
    assert (folder / "mixture.json").exists() == ("mixture" in present)
    assert (folder / "duplicates.parquet").exists()
    assert (folder / "contamination.parquet").exists()
    assert (folder / "report.html").exists()


def test_a_changed_contamination_bound_finds_nothing_anew(finished: Path, tmp_path: Path) -> None:
    folder = copy(finished, tmp_path)
    run(folder / "recipe.yaml", folder, sets=["decontaminate.threshold=0.9", "decontaminate.action=flag"])
    assert work(folder)["measure"][0] == 0
