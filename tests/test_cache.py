"""Results by key: whole or not at all, checked on reuse."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from curate.cache import Cache, key_of, link, stage_key, write_json
from curate.errors import CurateError
from curate.filter.gopher.quality import GopherQuality


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    store = Cache(tmp_path / "cache")
    store.prepare()
    return store


def store(cache: Cache, key: str = "ab" * 16, text: str = "content") -> Path:
    with cache.writing(key) as output:
        output.path("a.txt").write_text(text)
        output.counts["rows"] = 3
    entry = cache.entry(key, recheck=True)
    assert entry is not None
    return entry.path("a.txt")


def test_a_result_is_found_again(cache: Cache) -> None:
    path = store(cache)
    entry = Cache(cache.root).entry("ab" * 16)
    assert entry is not None
    assert (path.read_text(), entry.counts["rows"]) == ("content", 3)
    assert not os.access(path, os.W_OK) or os.geteuid() == 0
    assert path.stat().st_mode & 0o222 == 0
    with pytest.raises(KeyError, match="no file 'b'"):
        entry.path("b")


def test_a_failed_result_leaves_nothing(cache: Cache) -> None:
    def half() -> None:
        with cache.writing("ab" * 16) as output:
            output.path("a.txt").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert cache.entry("ab" * 16) is None
    assert list(cache.temporary.iterdir()) == []


def test_a_folder_without_an_entry_never_happened(cache: Cache) -> None:
    store(cache)
    (cache.root / "entries" / "ab" / ("ab" * 16) / "entry.json").unlink()
    assert Cache(cache.root).entry("ab" * 16) is None
    assert store(cache, text="again").read_text() == "again"


@pytest.mark.parametrize("harm", ["delete", "shorten", "change"])
def test_damage_is_noticed(cache: Cache, harm: str) -> None:
    path = store(cache)
    path.chmod(0o644)
    if harm == "delete":
        path.unlink()
    else:
        path.write_text("conten" if harm == "shorten" else "CONTENT")
    assert Cache(cache.root).entry("ab" * 16) is None
    assert not path.exists()  # forgotten: the task runs again


def test_a_touched_file_is_compared_by_content(cache: Cache) -> None:
    os.utime(store(cache), ns=(1, 1))
    assert Cache(cache.root).entry("ab" * 16) is not None


def test_two_runs_that_finish_the_same_work(cache: Cache) -> None:
    other = Cache(cache.root)
    with cache.writing("ab" * 16) as one:
        one.path("a.txt").write_text("content")
        with other.writing("ab" * 16) as two:
            two.path("a.txt").write_text("content")
    assert Cache(cache.root).entry("ab" * 16) is not None


def test_many_runs_at_once_over_one_store(tmp_path: Path) -> None:
    """Processes that write the same results at the same time: each ends well, and the results are whole."""
    import subprocess
    import sys

    script = """
import sys
from pathlib import Path
from curate.cache import Cache
cache = Cache(Path(sys.argv[1]))
cache.prepare()
for number in range(60):
    key = f"{number:032x}"
    if cache.entry(key) is None:
        with cache.writing(key) as output:
            output.path("a.txt").write_text(str(number))
    assert cache.entry(key).path("a.txt").read_text() == str(number)
"""
    arguments = [sys.executable, "-c", script, str(tmp_path / "cache")]
    processes = [subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate(timeout=120)[1] for process in processes] == [""] * 4


def test_digest_is_not_fooled_by_a_restored_time(cache: Cache, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    first, status = cache.digest(path), path.stat()
    path.write_text("two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cache.digest(path) != first


def test_keys_hold_what_shapes_the_result() -> None:
    assert key_of(a=1, b=[1, 2]) == key_of(b=[1, 2], a=1) != key_of(a=1, b=[2, 1])
    assert stage_key(GopherQuality(stop_words={"en": ("the",)})) != stage_key(GopherQuality())
    # A bound is no part of what is measured.
    assert stage_key(GopherQuality(min_words=7)) == stage_key(GopherQuality())  # type: ignore[arg-type]


def test_temporary_folders_of_dead_runs_are_swept(cache: Cache) -> None:
    import platform

    dead = cache.root / "tmp" / f"{platform.node()}-999999999-abcdef01"
    alive = cache.root / "tmp" / f"{platform.node()}-{os.getpid()}-abcdef02"
    elsewhere = cache.root / "tmp" / "another.host-999999999-abcdef03"
    for folder in (dead, alive, elsewhere):
        folder.mkdir()
    Cache(cache.root).prepare()
    assert [folder.exists() for folder in (dead, alive, elsewhere)] == [False, True, True]


def test_quarantine_is_remembered(cache: Cache) -> None:
    cache.quarantine("stage", "doc2", "dies")
    cache.quarantine("stage", "doc1", "dies too")
    assert Cache(cache.root).quarantined("stage") == {"doc1": "dies too", "doc2": "dies"}
    assert cache.quarantined("other") == {}


def test_link_replaces_and_falls_back_to_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "a", tmp_path / "sub" / "b"
    source.write_text("1")
    link(source, target)
    assert target.samefile(source)

    def refuse(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    other = tmp_path / "c"
    other.write_text("2")
    link(other, target)
    assert target.read_text() == "2"
    assert not target.samefile(other)


def test_json_is_whole_and_refuses_nan(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"ü": [1, None]})
    assert json.loads((tmp_path / "a.json").read_text()) == {"ü": [1, None]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", float("nan"))
    assert json.loads((tmp_path / "a.json").read_text()) == {"ü": [1, None]}


def test_unwritable_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CurateError, match="--cache"):
        Cache(tmp_path / "file" / "cache").prepare()
