"""Paths to files: literal names win, links do not loop, downloads are whole."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from curate.cache import Cache
from curate.errors import InputError
from curate.inputs import expand_variables, fetch, fixed_shards, list_inputs
from curate.remote import _remote


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    store = Cache(tmp_path / "cache")
    store.prepare()
    return store


def names(paths: list[str], base: Path, cache: Cache | None = None) -> list[str]:
    return [file.path for file in list_inputs(paths, base, cache)]


def make(folder: Path, *files: str) -> None:
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


@pytest.mark.parametrize("odd", ["my [data] v1", "a b", "é-ü", "-dash", "star*name", "q?name"])  # pipe-006
def test_odd_names_are_literal(tmp_path: Path, odd: str) -> None:
    make(tmp_path, f"{odd}/one.jsonl", "qxname/other.jsonl", "starXname/other.jsonl", "my d v1/other.jsonl")
    assert names([odd], tmp_path) == ["one.jsonl"]
    assert names([f"{odd}/one.jsonl"], tmp_path) == ["one.jsonl"]


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems hold no such name")
def test_a_name_that_is_no_utf_8_is_refused(tmp_path: Path, cache: Cache) -> None:
    make(tmp_path, "d/good.txt")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/d/caf\xe9\xff.txt")).write_text("x")
    for store in (None, cache):
        with pytest.raises(InputError, match=r"the file name 'caf\\xe9\\xff\.txt' is not UTF-8\. Rename it") as error:
            list_inputs(["d"], tmp_path, store)
        assert error.value.file == f"{tmp_path}/d"
        str(error.value).encode("utf-8")  # it can be printed
    assert names(["d/g*"], tmp_path) == ["good.txt"]
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/e/\xff"))
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("x")
    with pytest.raises(InputError, match=r"/e/\\xff: this folder's name is not UTF-8"):
        list_inputs(["e/**"], tmp_path, None)


def test_patterns(tmp_path: Path) -> None:
    make(tmp_path, "d/a.jsonl", "d/b.txt", "d/e/c.jsonl", "d/e/f/g.jsonl")
    assert names(["d/*.jsonl"], tmp_path) == ["a.jsonl"]
    assert names(["d/**/*.jsonl"], tmp_path) == ["a.jsonl", "e/c.jsonl", "e/f/g.jsonl"]
    assert names(["d/?.[jt]*"], tmp_path) == ["a.jsonl", "b.txt"]
    assert names(["d"], tmp_path) == ["a.jsonl", "b.txt", "e/c.jsonl", "e/f/g.jsonl"]


def test_two_patterns_are_told_apart(tmp_path: Path) -> None:
    make(tmp_path, "x/a.jsonl", "y/a.jsonl")
    files = list_inputs(["x/*", "y/*"], tmp_path, None)
    assert [(file.pattern, file.path) for file in files] == [(0, "a.jsonl"), (1, "a.jsonl")]
    assert list_inputs(["x/*"], tmp_path, None)[0].pattern is None


def test_links_do_not_loop_and_files_are_read_once(tmp_path: Path, cache: Cache) -> None:  # pipe-007
    make(tmp_path, "in/a.jsonl")
    (tmp_path / "in" / "sub").mkdir()
    (tmp_path / "in" / "sub" / "loop").symlink_to("..")
    (tmp_path / "in" / "sub" / "again.jsonl").symlink_to("../a.jsonl")
    assert names(["in/**/*.jsonl"], tmp_path, cache) == ["a.jsonl"]
    assert names(["in"], tmp_path, cache) == ["a.jsonl"]


def test_nothing_matches(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file matches"):
        list_inputs(["*.jsonl"], tmp_path, None)


ODD = "my récipes [v1]"


@pytest.mark.parametrize("folder", [ODD, "what? [!a]*", "**"])
def test_the_recipes_folder_is_no_pattern(tmp_path: Path, folder: str) -> None:
    make(tmp_path, f"{folder}/in/a.jsonl", f"{folder}/in/b.txt", "in/c.jsonl", "my récipes v/in/d.jsonl")
    base = tmp_path / folder
    assert names(["in/*.jsonl"], base) == ["a.jsonl"]
    assert names(["**/*.jsonl"], base) == ["in/a.jsonl"]
    assert names(["../in/*.jsonl"], base) == ["c.jsonl"]
    assert names(["../in/c.jsonl"], base) == ["c.jsonl"]
    assert names([f"{base}/in/*"], tmp_path) == ["a.jsonl", "b.txt"]  # absolute, named by the user
    assert names([f"file://{base}/in/*.txt"], tmp_path) == ["b.txt"]


def test_dots_in_a_pattern(tmp_path: Path) -> None:
    make(tmp_path, "r/x1/a.jsonl", "in/b.jsonl", "in/sub/c.jsonl")
    assert names(["x*/../x1/*"], tmp_path / "r") == ["x1/a.jsonl"]
    assert names(["./../in/**/*.jsonl"], tmp_path / "r") == ["b.jsonl", "sub/c.jsonl"]


def test_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "home/in/a.jsonl", "r/~/b.jsonl")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert names(["~/in/*.jsonl"], tmp_path) == ["a.jsonl"]
    assert names(["~/b.jsonl"], tmp_path / "r") == ["b.jsonl"]  # what exists is literal


def refusal(path: str, base: Path) -> str:
    with pytest.raises(InputError) as caught:
        list_inputs([path], base, None)
    assert ".." not in str(caught.value).removeprefix(path)
    return str(caught.value)


def test_what_is_no_input_is_told(tmp_path: Path) -> None:
    make(tmp_path, "full/a.txt", "full/sub/b.txt")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone").symlink_to("nowhere")
    assert refusal("pipe", tmp_path).startswith("pipe: this is a named pipe, not a file. ")
    assert "only a named pipe" in refusal("p*", tmp_path)
    assert refusal("/dev/null", tmp_path).startswith("/dev/null: this is a device, not a file. ")
    assert refusal("gone", tmp_path).startswith("gone: this is a link to something that is not there, not a file. ")
    assert refusal("empty", tmp_path).startswith("empty: this folder holds no file. ")
    assert "only folders, such as" in refusal("full/s*", tmp_path)
    assert refusal("full/*.md", tmp_path) == (
        f"full/*.md: no file matches. Relative paths start at the recipe's folder ({tmp_path})."
    )
    assert f"there is nothing of this name in {tmp_path / 'full'}." in refusal("full/c.txt", tmp_path)
    assert f"there is no folder {tmp_path / 'none'}." in refusal("none/*.txt", tmp_path)


@contextlib.contextmanager
def unreadable(folder: Path) -> Iterator[None]:
    """Make a folder unreadable for this process, which may be root's, for whom no folder is."""
    mode = folder.stat().st_mode
    folder.chmod(0)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(65534)
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(mode)


def test_a_folder_that_cannot_be_read_is_named() -> None:
    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        make(base, "in/a.jsonl", "in/open/b.jsonl", "in/shut/c.jsonl")
        for folder in (base, base / "in", base / "in" / "open"):
            folder.chmod(0o755)
        with unreadable(base / "in" / "shut"):
            for path in ("in", "in/**/*.jsonl", "**", "in/*/*.jsonl", "in/[rs]*/c.jsonl", "in/s*/c.jsonl"):
                with pytest.raises(InputError) as caught:
                    list_inputs([path], base, None)
                assert caught.value.file == str(base / "in" / "shut")
                assert str(caught.value).endswith(
                    "this folder cannot be read: Permission denied. Give the right to read it, or name narrower paths."
                )
            # Where the pattern leads elsewhere, it is not looked into.
            assert names(["in/*.jsonl"], base) == ["a.jsonl"]
            assert names(["in/o*/*"], base) == ["open/b.jsonl"]
            assert names(["in/o*/**"], base) == ["open/b.jsonl"]
        assert names(["in"], base) == ["a.jsonl", "open/b.jsonl", "shut/c.jsonl"]


def test_patterns_of_any_depth_look_into_the_right_folders(tmp_path: Path) -> None:
    make(tmp_path, "in/a/x/1.txt", "in/a/y/x/2.txt", "in/b/x/3.txt", "in/a.d/4.txt", "in/a/x/y/5.txt")
    assert names(["in/a/**/x/*.txt"], tmp_path) == ["x/1.txt", "y/x/2.txt"]
    assert names(["in/?/x/*"], tmp_path) == ["a/x/1.txt", "b/x/3.txt"]
    assert names(["in/*/x/**"], tmp_path) == ["a/x/1.txt", "a/x/y/5.txt", "b/x/3.txt"]
    assert names(["in/[!b]*/**/*.txt"], tmp_path) == ["a.d/4.txt", "a/x/1.txt", "a/x/y/5.txt", "a/y/x/2.txt"]


def test_a_path_whose_files_are_all_read_already(tmp_path: Path) -> None:
    make(tmp_path, "a.txt")
    with pytest.raises(InputError, match="matched by a path before this one"):
        list_inputs(["*.txt", "a.txt"], tmp_path, None)


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "x")
    monkeypatch.delenv("GONE", raising=False)
    assert expand_variables("${HERE}/${GONE:-y}/${GONE:-}") == "x/y/"
    with pytest.raises(ValueError, match="GONE is not set"):
        expand_variables("${GONE}")


def test_digest_follows_the_content(tmp_path: Path, cache: Cache) -> None:
    make(tmp_path, "a")
    first = list_inputs(["a"], tmp_path, cache)[0].digest
    assert list_inputs(["a"], tmp_path, cache)[0].digest == first
    (tmp_path / "a").write_text("b")
    os.utime(tmp_path / "a", ns=(1, 1))
    assert list_inputs(["a"], tmp_path, cache)[0].digest != first


def test_shards_depend_on_sizes_alone() -> None:
    assert fixed_shards((3, 3, 3, 20, 1, 1), 8, 10) == ((0, 1), (2,), (3,), (4, 5))
    assert fixed_shards((1, 1, 1, 1, 1), 100, 2) == ((0, 1), (2, 3), (4,))
    assert fixed_shards((), 8, 10) == ()


class _Handler(http.server.SimpleHTTPRequestHandler):
    cut = 0  # bytes that the next answers keep back

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if not self.path.endswith("cut.bin"):
            super().do_GET()
            return
        data = b"x" * 1000
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(data[: 1000 - type(self).cut])
        self.close_connection = True

    def do_HEAD(self) -> None:
        if self.path.endswith("cut.bin"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
        else:
            super().do_HEAD()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "a.txt").write_bytes(b"hello")
    handler = functools.partial(_Handler, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_remote_file(tmp_path: Path, server: str) -> None:
    (file,) = list_inputs([f"{server}/a.txt"], tmp_path, None)
    assert (file.path, file.bytes) == ("a.txt", 5)
    assert fetch(file, tmp_path).read_bytes() == b"hello"


def test_an_interrupted_download_is_never_a_short_file(tmp_path: Path, server: str) -> None:
    (file,) = list_inputs([f"{server}/cut.bin"], tmp_path, None)
    _Handler.cut = 300
    with pytest.raises(InputError, match="cannot be downloaded"):
        fetch(file, tmp_path, waits=(0.0, 0.0))
    _Handler.cut = 0
    assert fetch(file, tmp_path).stat().st_size == 1000


def test_missing_remote_file(tmp_path: Path, server: str) -> None:
    with pytest.raises(InputError, match="cannot be listed"):
        list_inputs([f"{server}/nowhere.txt"], tmp_path, None)


def test_a_remote_file_that_changed_in_place_is_another(tmp_path: Path, server: str) -> None:
    served = tmp_path / "served" / "a.txt"  # this server sends no ETag
    os.utime(served, (1_700_000_000, 1_700_000_000))
    first = list_inputs([f"{server}/a.txt"], tmp_path, None)[0].digest
    assert list_inputs([f"{server}/a.txt"], tmp_path, None)[0].digest == first
    served.write_bytes(b"HELLO")
    os.utime(served, (1_700_000_060, 1_700_000_060))
    assert list_inputs([f"{server}/a.txt"], tmp_path, None)[0].digest != first


def test_headers_are_asked_for_where_the_file_system_keeps_none(tmp_path: Path, server: str) -> None:
    served = tmp_path / "served" / "a.txt"
    digests = []
    for changed in (1_700_000_000, 1_700_000_000, 1_700_000_060):
        os.utime(served, (changed, changed))
        digests.append(_remote(f"{server}/a.txt", 5, {"size": 5}).digest)
    assert digests[0] == digests[1] != digests[2]
    assert _remote(f"{server}/none", 5, {}) == _remote(f"{server}/none", 5, {})  # says 404: told by size


def test_a_checksum_is_believed_before_a_time() -> None:
    url = "s3://bucket/a"
    assert _remote(url, 1, {"ETag": "x", "LastModified": "1"}).digest == _remote(url, 1, {"ETag": "x"}).digest
    assert _remote(url, 1, {"LastModified": "1"}).digest != _remote(url, 1, {"LastModified": "2"}).digest
