"""Runs that remove documents that say nearly the same: by embeddings in files and by a model, beside brute force in floats."""

from __future__ import annotations

import ctypes
import hashlib
import json
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pyarrow.parquet as pq
import pytest
from machine import run

from curate.errors import InputError, RecipeError

TURNS = {  # degrees in the plane, and the source: c is 6 degrees from b, which is 6 from a; d and e are far away
    "a": (0, "one"), "b": (6, "one"), "c": (12, "one"), "d": (50, "one"), "e": (-80, "one"),
    "f": (51, "two"), "g": (-86, "two"), "h": (160, "two"),
}  # fmt: skip
NEAR = float(np.cos(np.radians(7)))


def write(folder: Path, documents: dict[str, tuple[str, str]], dedup: str, more: str = "") -> Path:
    """Write documents (name: source, text), and a recipe."""
    for source in sorted({source for source, _ in documents.values()}):
        rows = [{"id": name, "text": text} for name, (of, text) in documents.items() if of == source]
        machine.write_jsonl(folder / "in" / f"{source}.jsonl", rows)
    sources = "".join(
        f'  {source}:\n    read: {{kind: jsonl, paths: "in/{source}.jsonl"}}\n'
        for source in sorted({source for source, _ in documents.values()})
    )
    recipe = folder / "recipe.yaml"
    recipe.write_text(f"name: semantic\nseed: 3\nsources:\n{sources}dedup: {dedup}\n{more}")
    return recipe


def names(folder: Path) -> dict[str, str]:
    """Return the input's id of each document of a run."""
    found: dict[str, str] = {}
    for path in sorted((folder / "run" / "extracted").rglob("*.parquet")):
        for row in pq.read_table(path, columns=["id", "source_id"]).to_pylist():
            found[row["id"]] = row["source_id"]
    return found


def removed(folder: Path) -> dict[str, tuple[str, str | None]]:
    """Return rule and what stands for it of each document that was removed, by the input's ids."""
    known = names(folder)
    rows = []
    for path in sorted((folder / "run" / "decisions").rglob("*.parquet")):
        rows += pq.read_table(path).to_pylist()
    return {known[row["id"]]: (row["rule"], known.get(row["kept_id"])) for row in rows if not row["kept"]}


def documents(turns: dict[str, tuple[float, str]]) -> dict[str, tuple[str, str]]:
    """Return documents without a word in common but a few, the same length within a source."""
    return {name: (source, machine.prose(ord(name), 4)) for name, (_, source) in turns.items()}


def embed(folder: Path, turns: dict[str, Any], name: str = "e.parquet", **more: Any) -> None:
    angles = np.radians([turn for turn, _ in turns.values()])
    columns = {"source_id": list(turns), "embedding": np.stack([np.cos(angles), np.sin(angles)], 1).tolist()}
    import pyarrow as pa

    pq.write_table(pa.table(columns | more), folder / name)


def test_by_embeddings_of_the_input(tmp_path: Path) -> None:
    texts = documents(TURNS) | {"x": ("one", machine.prose(ord("b"), 4)), "t": ("three", machine.prose(1, 4))}
    semantic = f"{{embeddings: e.parquet, similarity: {NEAR:.6f}, sources: [one, two]}}"
    recipe = write(tmp_path, texts, f"{{exact: {{}}, semantic: {semantic}, keep: {{order: [two, one], then: first}}}}")
    embed(tmp_path, {name: turn for name, turn in (TURNS | {"t": (0, "three")}).items() if name != "h"})
    run(recipe, tmp_path)
    # `two` is kept first: d goes for f, e for g. a stays, so b goes; c is near b alone, which is gone. x is a copy of b's
    # text: what stands for it is what stands for b. `three` is not looked at.
    assert removed(tmp_path) == {
        "b": ("dedup.semantic", "a"),
        "d": ("dedup.semantic", "f"),
        "e": ("dedup.semantic", "g"),
        "x": ("dedup.exact", "a"),
    }
    known = names(tmp_path)
    table = {known[row["id"]]: row for row in pq.read_table(tmp_path / "run" / "semantic.parquet").to_pylist()}
    assert {name: known[row["kept_id"]] for name, row in table.items()} == {"b": "a", "d": "f", "e": "g"}
    for name, turn in (("b", 6), ("d", 1), ("e", 6)):
        similarity = np.cos(np.radians(turn))
        assert table[name]["similarity"] == pytest.approx(
            similarity, abs=1.3e-3
        )  # int8 turns it by 0.3 degrees at most
    decided = pq.read_table(tmp_path / "run" / "decisions" / "one").to_pylist()
    bounds = {known[row["id"]]: (row["threshold"], row["similarity"]) for row in decided if not row["kept"]}
    assert bounds["b"] == (f"< {NEAR:g}", table["b"]["similarity"])
    facts = json.loads((tmp_path / "run" / "manifest.json").read_text())["semantic"]
    assert (facts["looked_at"], facts["without"], facts["removed"], facts["stand_for"]) == (8, 1, 3, 3)
    # duplicates.parquet is about copies of texts: b and x, for which a stands that is no copy of theirs
    copies = {known[row["id"]]: row for row in pq.read_table(tmp_path / "run" / "duplicates.parquet").to_pylist()}
    assert {name: known[row["kept_id"]] for name, row in copies.items()} == {"b": "a", "x": "a"}
    assert {(row["similarity"], row["verified"]) for row in copies.values()} == {(None, False)}


def test_one_embedding_of_two_documents_is_refused(tmp_path: Path) -> None:
    both = documents(TURNS)
    recipe = write(tmp_path, both, "{semantic: {embeddings: e.parquet, similarity: 0.9}}")
    machine.write_jsonl(tmp_path / "in" / "two.jsonl", [{"id": "a", "text": machine.prose(900)}])
    embed(tmp_path, TURNS)
    with pytest.raises(
        InputError, match=r"e\.parquet: a row's source_id is that of several documents.*Name documents by `id`"
    ):
        run(recipe, tmp_path)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a skip-gram model of the sentences that `machine` makes."""
    import fasttext

    ctypes.CDLL(None).mallopt(-6, 255)  # fastText 0.9.3 trains on memory that it never set; this makes it zeros
    folder = tmp_path_factory.mktemp("model")
    text = folder / "text.txt"
    text.write_text("\n".join(machine.sentence(number) for number in range(3000)))
    path = str(folder / "vectors.bin")
    fasttext.train_unsupervised(
        str(text), model="skipgram", dim=16, epoch=3, minCount=2, bucket=2000, thread=1, verbose=0
    ).save_model(path)
    return path


def test_by_a_model_beside_brute_force_in_floats(tmp_path: Path, model: str) -> None:
    """The library embeds, numpy compares in float64; the bound lies in a gap between pairs, wider than any rounding."""
    import fasttext

    texts = {f"p{number:03d}": machine.prose(number // 2, 3 + number % 2) for number in range(120)}
    library = fasttext.load_model(model)
    vectors = np.array([library.get_sentence_vector(text.replace("\n", " ")) for text in texts.values()], np.float64)
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    vectors -= vectors.mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    alike = vectors @ vectors.T
    pairs = np.sort(alike[np.triu_indices(120, 1)])
    pairs = pairs[(pairs > 0.8) & (pairs < 0.99)]
    widest = int(np.diff(pairs).argmax())
    assert pairs[widest + 1] - pairs[widest] > 0.002
    bound = round(float(pairs[widest] + pairs[widest + 1]) / 2, 5)
    stay: list[int] = []
    expected = {}
    order = sorted(range(120), key=lambda number: (-len(list(texts.values())[number].encode()), number))
    for number in order:
        best = max(stay, key=lambda other: alike[number, other], default=None)
        if best is not None and alike[number, best] >= bound:
            expected[f"p{number:03d}"] = ("dedup.semantic", f"p{best:03d}")
        else:
            stay.append(number)
    assert 5 < len(expected) < 115
    all_texts = {name: ("one", text) for name, text in texts.items()}
    recipe = write(tmp_path, all_texts, f"{{semantic: {{model: {model}, similarity: {bound}, clusters: 1}}}}")
    run(recipe, tmp_path)
    facts = json.loads((tmp_path / "run" / "manifest.json").read_text())["semantic"]
    assert facts["model_sha256"] == hashlib.sha256(Path(model).read_bytes()).hexdigest()
    found = removed(tmp_path)
    assert found.keys() == expected.keys()
    assert sum(found[name] != expected[name] for name in found) <= 1  # of two as alike, rounding may prefer the other


def test_groups_are_the_same_for_any_workers_and_memory(tmp_path: Path, model: str) -> None:
    texts = {f"p{number:03d}": ("one" if number % 3 else "two", machine.prose(number, 2)) for number in range(60)}
    results = []
    for number, options in enumerate(({"workers": 1}, {"workers": 2, "memory": "64KiB"})):
        folder = tmp_path / str(number)
        folder.mkdir()
        dedup = f"{{exact: {{}}, semantic: {{model: {model}, similarity: 0.8, clusters: 5}}}}"
        recipe = write(folder, texts, dedup, "validation: {tokens: 50, min_documents: 2}\n")
        run(recipe, folder, **options)
        files = sorted((folder / "run" / "decisions").rglob("*.parquet"))
        results.append([path.read_bytes() for path in (folder / "run" / "semantic.parquet", *files)])
        facts = json.loads((folder / "run" / "manifest.json").read_text())["semantic"]
        assert 0 < facts["removed"] < 60
        assert facts["clusters"] == 5
        warnings = json.loads((folder / "run" / "manifest.json").read_text())["warnings"]
        too_many = 2 * facts["removed"] > facts["looked_at"]
        assert any("similarity is too low" in text for text in warnings) == too_many
        # validation is drawn from what is left, and what stands for a document stays
        written = [
            row for path in (folder / "run" / "documents").rglob("*.parquet") for row in pq.read_table(path).to_pylist()
        ]
        assert sum(row["split"] == "validation" for row in written) >= 2
        kept = {row["id"] for row in written}
        pairs = pq.read_table(folder / "run" / "semantic.parquet").to_pylist()
        assert all(row["id"] not in kept and row["kept_id"] in kept for row in pairs)
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("semantic", "message"),
    [
        ("{model: absent.bin, similarity: 0.9}", r"dedup\.semantic\.model.*absent\.bin"),
        ("{model: recipe.yaml, similarity: 0.9}", r"recipe\.yaml: this is no fastText model that can be used"),
        ("{model: '${NO_SUCH_VARIABLE}/m.bin', similarity: 0.9}", "NO_SUCH_VARIABLE is not set"),
        ("{embeddings: none/*.parquet, similarity: 0.9}", r"dedup\.semantic\.embeddings.*none"),
        ("{embeddings: in/one.jsonl, similarity: 0.9}", r"one\.jsonl: this is no Parquet file"),
        ("{embeddings: e.parquet, similarity: 0.9, sources: [tree]}", "names 'tree', which is no source of texts"),
        ("{embeddings: e.parquet}", "similarity"),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(tmp_path: Path, semantic: str, message: str) -> None:
    recipe = write(tmp_path, documents(TURNS), f"{{semantic: {semantic}}}")
    embed(tmp_path, TURNS)
    with pytest.raises((InputError, RecipeError), match=message):
        run(recipe, tmp_path)
    assert not (tmp_path / "run" / "extracted").exists()


def test_another_model_than_stated_is_refused(tmp_path: Path, model: str) -> None:
    recipe = write(tmp_path, documents(TURNS), f"{{semantic: {{model: {model}, similarity: 0.9, sha256: {'a' * 64}}}}}")
    with pytest.raises(InputError, match=r"sha256 is [0-9a-f]{64}, not a{64}, as the recipe states"):
        run(recipe, tmp_path)
