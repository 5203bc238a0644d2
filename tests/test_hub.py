"""`hf://` addresses, read by the real client (huggingface_hub) from a local server that answers as the hub does.

The hub itself is never asked: its answers are written down here from its API's documentation and the client's code.
"""

import hashlib
import http.server
import json
import threading

import machine
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("huggingface_hub", reason="HUB NOT TESTED: pip install 'curate[huggingface]'")

REVISION = "0123456789abcdef0123456789abcdef01234567"
ADDRESS = "hf://datasets/someone/letters"


def parquet(texts):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [f"row-{text}" for text in texts], "text": texts}), sink)
    return sink.getvalue().to_pybytes()


FILES = {
    "README.md": b"---\nlicense: mit\n---\n",
    "letters.py": b"raise SystemExit('a dataset script was run')\n",
    "en/train-00000-of-00002.parquet": parquet(["One.", "Two."]),
    "en/train-00001-of-00002.parquet": parquet(["Three."]),
    "en/test-00000-of-00001.parquet": parquet(["Held out."]),
    "pt/train-00000-of-00001.parquet": parquet(["Um."]),
}


def blob_id(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # as git names a file's content


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers for the repository `someone/letters` and for no other."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.partition("?")[0]
        api = "/api/datasets/someone/letters"
        if path in (api, f"{api}/revision/main"):
            return self.answer(json.dumps({"id": "someone/letters", "sha": REVISION, "siblings": []}).encode())
        if path.startswith(f"{api}/tree/main"):
            return self.answer(json.dumps(self.tree(path.removeprefix(f"{api}/tree/main").strip("/"))).encode())
        name = path.removeprefix("/datasets/someone/letters/resolve/main/")
        if name in FILES:
            self.server.fetched.append(name)
            return self.answer(FILES[name], name)
        return self.answer(b'{"error": "Repository not found"}', status=404)

    do_HEAD = do_GET  # noqa: N815

    def tree(self, folder):
        inside = {name.removeprefix(folder).strip("/"): name for name in FILES if name.startswith(folder)}
        if "recursive=true" in self.path.lower():
            shown = {name.partition("/")[0] for name in inside if "/" in name}, inside
        else:
            shown = (
                {name.partition("/")[0] for name in inside if "/" in name},
                {name: full for name, full in inside.items() if "/" not in name},
            )
        below = f"{folder}/" if folder else ""
        folders = [{"type": "directory", "oid": "f" * 40, "size": 0, "path": below + name} for name in sorted(shown[0])]
        return folders + [
            {"type": "file", "oid": blob_id(FILES[name]), "size": len(FILES[name]), "path": name}
            for name in sorted(shown[1].values())
        ]

    def answer(self, body, name="", status=200):
        wanted = self.headers.get("Range")
        start, stop = 0, len(body)
        if name and wanted and wanted.startswith("bytes="):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, stop, status = int(first), min(int(last or len(body) - 1) + 1, len(body)), 206
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if name else "application/json")
        self.send_header("Content-Length", str(stop - start))
        if name:
            self.send_header("ETag", f'"{blob_id(body)}"')
            self.send_header("X-Repo-Commit", REVISION)
            self.send_header("Accept-Ranges", "bytes")
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(body)}")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[start:stop])

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.fetched = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def read(hub, folder, paths, **settings):
    """Run a recipe over `paths` in a process of its own, as the client reads its settings once; return manifest and texts."""
    read = {"kind": "huggingface", "paths": paths, **settings}
    (folder / "recipe.yaml").write_text(json.dumps({"sources": {"hub": {"read": read}}}))
    environment = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(folder / "home")}
    environment |= {"HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}
    options = ("--output", folder / "run", "--cache", folder / "cache", "--quiet")
    done = machine.command("run", folder / "recipe.yaml", *options, environment=environment)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    documents = pq.read_table(folder / "run" / "documents" / "hub").to_pylist()
    return manifest, [row["text"] for row in documents]


def test_a_repository_by_its_name(hub, tmp_path):
    manifest, texts = read(hub, tmp_path, ADDRESS, config="en")
    assert texts == ["One.", "Two.", "Three."]
    assert manifest["inputs"]["hub"]["passed_over"] == {
        "neither Parquet, Arrow nor JSON Lines": 2,
        "of another config": 1,
        "of split test": 1,
    }
    assert set(hub.fetched) == {"en/train-00000-of-00002.parquet", "en/train-00001-of-00002.parquet"}


def test_files_by_a_pattern(hub, tmp_path):
    manifest, texts = read(hub, tmp_path, f"{ADDRESS}/*/*.parquet", split="all")
    assert sorted(texts) == ["Held out.", "One.", "Three.", "Two.", "Um."]
    assert manifest["inputs"]["hub"]["files"][0]["path"] == "en/test-00000-of-00001.parquet"


def test_a_repository_that_is_not_there(hub, tmp_path):
    with pytest.raises(AssertionError, match="cannot be listed"):
        read(hub, tmp_path, "hf://datasets/someone/else")


def test_benchmarks_of_the_hub(hub, tmp_path):
    (tmp_path / "a.txt").write_text("Held out, and nothing else.")
    benchmarks = [{"path": ADDRESS, "config": "en"}, {"path": ADDRESS, "split": "train", "name": "trained on"}]
    recipe = {
        "sources": {"a": {"read": {"kind": "files", "paths": "a.txt"}}},
        "decontaminate": {"benchmarks": benchmarks, "min_words": 1, "action": "flag"},
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    environment = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(tmp_path / "home")}
    environment |= {"HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}
    options = ("--output", tmp_path / "run", "--cache", tmp_path / "cache", "--quiet", "--until", "decontaminate")
    done = machine.command("run", tmp_path / "recipe.yaml", *options, environment=environment)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    found = manifest["decontamination"]["benchmarks"]
    assert {name: one["files"] for name, one in found.items()} == {
        "letters": {"en/test-00000-of-00001.parquet": 1},  # what models are tested on, unless the recipe says otherwise
        "trained on": {
            "en/train-00000-of-00002.parquet": 2,
            "en/train-00001-of-00002.parquet": 1,
            "pt/train-00000-of-00001.parquet": 1,
        },
    }
    assert found["letters"]["passed_over"] == {
        "neither Parquet, Arrow nor JSON Lines": 2,
        "of another config": 1,
        "of split train": 2,
    }
