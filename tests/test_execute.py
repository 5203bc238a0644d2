"""Worker processes: deaths, endless loops, errors."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from curate.cache import Cache
from curate.errors import InputError, StageError
from curate.execute import local
from curate.execute.local import LocalExecutor
from curate.plan import Task, TaskContext

KEYS = [f"{number:032x}" for number in range(20)]


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    store = Cache(tmp_path / "cache")
    store.prepare()
    return store


@pytest.fixture
def executor(cache: Cache) -> Iterator[LocalExecutor]:
    with LocalExecutor(cache, workers=2, memory=1 << 20, seconds_per_row=1.0) as pool:
        yield pool


def square(context: TaskContext, key: str, number: int) -> None:
    with context.writing(key) as output:
        output.path("n.json").write_text(json.dumps(number**2))


def whoami(context: TaskContext, key: str) -> None:
    with context.writing(key) as output:
        output.path("pid.json").write_text(json.dumps(os.getpid()))


def work_on_rows(context: TaskContext, key: str, flaw: str) -> None:
    """Go over rows as the pipeline does: all at once, or row by row in careful mode; row `b` has the flaw."""
    known = context.cache.quarantined("stage")
    rows = [row for row in "abc" if row not in known]
    for group in [[row] for row in rows] if context.guard.careful else [rows]:
        with context.guard.watch("step", "stage", group):
            if "b" in group and flaw == "loop":
                while True:
                    pass
            if "b" in group and flaw == "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
    with context.writing(key) as output:
        output.path("rows.json").write_text(json.dumps(rows))


def die_always(context: TaskContext, key: str) -> None:
    os._exit(3)


def fail(context: TaskContext, key: str) -> None:
    raise InputError("file.gz", "is not what it says.", "Fetch it again.")


def surprise(context: TaskContext, key: str) -> None:
    raise ZeroDivisionError("by nought")


def forget(context: TaskContext, key: str) -> None:
    """Write nothing."""


def task(function: object, *arguments: object, key: str = KEYS[0]) -> Task:
    return Task("measure", "web", "00000", (key,), function, (key, *arguments))  # type: ignore[arg-type]


def test_all_tasks_are_done(cache: Cache, executor: LocalExecutor) -> None:
    seen: list[str] = []
    tasks = [
        Task("measure", "web", str(number), (KEYS[number],), square, (KEYS[number], number)) for number in range(20)
    ]
    executor.run(tasks, lambda done: seen.append(done.task.shard))
    assert sorted(seen, key=int) == [str(number) for number in range(20)]
    for number in range(20):
        entry = cache.entry(KEYS[number])
        assert entry is not None
        assert json.loads(entry.path("n.json").read_text()) == number**2


@pytest.mark.parametrize(
    ("flaw", "cause"), [("loop", "used too much CPU time"), ("segfault", "killed its worker (exit -11)")]
)
def test_the_culprit_is_found(cache: Cache, executor: LocalExecutor, flaw: str, cause: str) -> None:
    started = time.monotonic()
    executor.run([task(work_on_rows, flaw)], lambda done: None)
    assert time.monotonic() - started < 120
    assert cache.quarantined("stage") == {"b": f"step: {cause}"}
    entry = cache.entry(KEYS[0])
    assert entry is not None
    assert json.loads(entry.path("rows.json").read_text()) == ["a", "c"]


def test_deaths_without_a_culprit_fail_the_run(executor: LocalExecutor) -> None:
    with pytest.raises(StageError, match=r"source 'web', stage 'measure': the worker died 3 times"):
        executor.run([task(die_always)], lambda done: None)


def test_errors_come_back_as_they_are(executor: LocalExecutor) -> None:
    with pytest.raises(InputError, match=r"file\.gz: is not what it says\. Fetch it again\."):
        executor.run([task(fail)], lambda done: None)


def test_a_fault_of_ours_is_called_so(executor: LocalExecutor) -> None:
    with pytest.raises(StageError, match="ZeroDivisionError: by nought") as failure:
        executor.run([task(surprise)], lambda done: None)
    assert "fault of the program" in str(failure.value)
    assert "surprise" in str(failure.value)  # the traceback


def test_a_task_that_writes_nothing_is_no_success(executor: LocalExecutor) -> None:
    with pytest.raises(StageError, match="were not written"):
        executor.run([task(forget)], lambda done: None)


def test_workers_end_with_the_executor(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    monkeypatch.setattr(local, "spare_seconds", 0.0)
    others = set(psutil.Process().children())  # an earlier test may have started Python's own helpers, which stay
    pool = LocalExecutor(cache, workers=2, memory=1 << 20)
    pool.run([task(square, 3)], lambda done: None)
    assert len(set(psutil.Process().children()) - others) == 1
    pool.close()
    assert set(psutil.Process().children()) <= others


def test_a_worker_waits_for_the_next_run_of_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And serves it from that run's cache; another environment, or code of the user's, gets a process of its own."""
    monkeypatch.setattr(local, "spare_seconds", 60.0)
    monkeypatch.setattr(local, "_spare", [])

    def process_of(name: str, **keywords: Any) -> int:
        store = Cache(tmp_path / name)
        store.prepare()
        with LocalExecutor(store, workers=1, memory=1 << 20, **keywords) as pool:
            pool.run([task(whoami)], lambda done: None)
        return int(json.loads(store.entry(KEYS[0]).path("pid.json").read_text()))

    first = process_of("one")
    assert process_of("two") == first
    monkeypatch.setenv("SOME_VARIABLE", "1")
    second = process_of("three")
    assert second != first
    (tmp_path / "mine.py").write_text("")
    assert process_of("four", modules={"mine": str(tmp_path / "mine.py")}) not in (first, second)
    monkeypatch.setattr(local, "spare_seconds", 0.05)
    third = process_of("five")
    time.sleep(1.0)  # it has waited long enough
    assert process_of("six") != third
    local._end_spare()
