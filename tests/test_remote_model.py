"""A language model by its address: fetched once into the cache, its digest checked or recorded."""

import ctypes
import hashlib
import http.server
import random
import threading
from pathlib import Path

import machine
import pyarrow.parquet as pq
import pytest

from curate.errors import InputError

WORDS = {
    "eng_Latn": "the barge left town before noon with coal for mill",
    "por_Latn": "o barco saiu da cidade antes do almoço com carvão para fábrica",
}
RECIPE = """\
name: labelled
sources:
  web:
    read: {{kind: jsonl, paths: "in/*.jsonl"}}
    steps: [{{language: {{model: "{url}", {settings}}}}}]
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> bytes:
    import fasttext

    ctypes.CDLL(None).mallopt(-6, 255)  # fastText 0.9.3 trains on memory that it never set; this makes it zeros
    folder, chance = tmp_path_factory.mktemp("model"), random.Random(0)
    lines = [f"__label__{label} {' '.join(chance.choices(WORDS[label].split(), k=6))}\n" for label in [*WORDS] * 200]
    (folder / "train.txt").write_text("".join(lines), encoding="utf-8")
    trained = fasttext.train_supervised(str(folder / "train.txt"), dim=8, epoch=3, lr=0.3, thread=1, verbose=0)
    trained.save_model(str(folder / "model.bin"))
    return (folder / "model.bin").read_bytes()


@pytest.fixture
def served(model):
    """Return the address of the model, and the requests that came."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, *, body: bool) -> None:
            asked.append(self.command)
            self.send_response(200)
            self.send_header("Content-Length", str(len(model)))
            self.send_header("ETag", '"one"')
            self.end_headers()
            if body:
                self.wfile.write(model)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/lid/model.bin", asked
        running.shutdown()
        thread.join()


def recipe(folder: Path, url: str, settings: str) -> Path:
    rows = [{"text": "the barge left the town before noon"}, {"text": "o barco saiu da cidade antes do almoço"}]
    machine.write_jsonl(folder / "in" / "a.jsonl", rows)
    path = folder / "recipe.yaml"
    path.write_text(RECIPE.format(url=url, settings=settings), encoding="utf-8")
    return path


def test_a_model_is_fetched_once_and_its_digest_recorded(served, model, tmp_path):
    url, asked = served
    path = recipe(tmp_path, url, "keep: [pt], min_score: 0.5")
    result = machine.run(path, tmp_path)
    digest = hashlib.sha256(model).hexdigest()
    assert asked.count("GET") == 1
    stated = [{"source": "web", "block": "language", "url": url, "sha256": digest}]
    assert result.manifest["models"] == stated
    assert result.manifest["ledger"]["web"]["removed"] == {"filter": {"language.keep": 1}}
    [document] = pq.read_table(tmp_path / "run" / "documents" / "web").to_pylist()
    assert document["language"] == "pt"
    assert url in (tmp_path / "run" / "recipe.yaml").read_text(encoding="utf-8")
    machine.run(path, tmp_path)
    assert asked.count("GET") == 1
    assert machine.work(tmp_path)["measure"] == (0, 1)


def test_a_stated_digest_is_checked_and_spares_the_network(served, model, tmp_path):
    url, asked = served
    digest = hashlib.sha256(model).hexdigest()
    path = recipe(tmp_path, url, f"sha256: '{digest}', min_score: off")
    machine.run(path, tmp_path)
    asked.clear()
    machine.run(path, tmp_path)
    assert asked == []
    wrong = recipe(tmp_path, url, f"sha256: '{'0' * 64}'")
    with pytest.raises(InputError, match=rf"model\.bin: sha256 is {digest}, not 0000.*as the recipe states"):
        machine.run(wrong, tmp_path)
    assert [file.name for file in (tmp_path / "cache" / "models").iterdir()] == [digest]


def test_a_language_that_the_model_lacks_fails_before_any_work(served, tmp_path):
    url, _ = served
    with pytest.raises(InputError, match=r"'fr' is no label of the model \(en, pt, \.\.\.\)"):
        machine.run(recipe(tmp_path, url, "keep: [fr]"), tmp_path)


def test_no_file_at_the_address(tmp_path):
    with pytest.raises(InputError, match="cannot be listed"):
        machine.run(recipe(tmp_path, "http://127.0.0.1:9/none.bin", "min_score: off"), tmp_path)


def test_labels_of_a_local_model_are_read_when_the_recipe_is(model, tmp_path):
    import curate
    from curate.errors import RecipeError

    path = recipe(tmp_path, "local.bin", "keep: [fr, pt]")
    (tmp_path / "local.bin").write_bytes(model)
    with pytest.raises(RecipeError, match=r"steps\.0\.language: 'fr' is no label of the model \(en, pt, \.\.\.\)"):
        curate.load(path)
