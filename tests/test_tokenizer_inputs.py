"""Which file a recipe's `tokenizer: {load: ...}` means, and which marks the files beside it tell."""

import json
from pathlib import Path
from typing import Any

import fsspec
import pytest
from tokenizers import Tokenizer, models

from curate.cache import Cache
from curate.errors import InputError, RecipeError
from curate.loading import load
from curate.tokenizer_inputs import LoadedTokenizer, find_tokenizer


def tokenizer_json() -> bytes:
    made = Tokenizer(models.WordLevel({"[UNK]": 0, "<s>": 1, "</s>": 2, "<pad>": 3, "a": 4}, unk_token="[UNK]"))
    made.add_special_tokens(["<s>", "</s>", "<pad>"])
    return made.to_str().encode()


def found(folder: Path, tokenizer: dict[str, Any]) -> LoadedTokenizer:
    (folder / "in.jsonl").write_text('{"text": "a"}\n')
    recipe = {"name": "r", "sources": {"s": {"read": {"kind": "jsonl", "paths": "in.jsonl"}}}, "tokenizer": tokenizer}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    cache = Cache(folder / "cache")
    cache.prepare()
    try:
        return find_tokenizer(load(folder / "recipe.yaml"), cache)
    finally:
        cache.close()


def put(folder: Path, **files: Any) -> None:
    (folder / "hf").mkdir(exist_ok=True)
    (folder / "hf" / "tokenizer.json").write_bytes(tokenizer_json())
    for name, content in files.items():
        (folder / "hf" / f"{name}.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("files", "eos", "bos"),
    [
        ({"tokenizer_config": {"eos_token": "</s>", "bos_token": None}}, "</s>", True),
        ({"tokenizer_config": {"eos_token": {"content": "</s>"}, "bos_token": {"content": "<s>"}}}, "</s>", "<s>"),
        ({"tokenizer_config": {}, "special_tokens_map": {"eos_token": "<pad>"}}, "<pad>", True),
        ({"generation_config": {"eos_token_id": 2, "bos_token_id": 1}}, "</s>", "<s>"),
        ({"generation_config": {"eos_token_id": [2, 3]}, "config": {"eos_token_id": 3}}, "<pad>", True),
        ({"config": {"eos_token_id": 99}}, None, True),
        ({"tokenizer_config": {"eos_token": "</s>"}, "generation_config": {"eos_token_id": 3}}, "</s>", True),
        ({}, None, True),
    ],
)
def test_the_files_beside_it_tell_the_marks(tmp_path: Path, files: dict[str, Any], eos: str | None, bos: Any) -> None:
    put(tmp_path, **files)
    for path in ("hf", "hf/tokenizer.json"):
        loaded = found(tmp_path, {"load": path, "bos": True})
        assert loaded.path == (tmp_path / "hf" / "tokenizer.json").resolve()
        assert (loaded.settings.eos, loaded.settings.bos) == (eos, bos)
    said = found(tmp_path, {"load": "hf", "eos": "<s>", "bos": "<pad>"}).settings  # the recipe's own word counts first
    assert (said.eos, said.bos) == ("<s>", "<pad>")


def test_a_broken_file_beside_it_is_named(tmp_path: Path) -> None:
    put(tmp_path)
    (tmp_path / "hf" / "tokenizer_config.json").write_text("{")
    with pytest.raises(InputError, match=r"tokenizer_config\.json: is no JSON .* set tokenizer\.eos"):
        found(tmp_path, {"load": "hf"})
    assert found(tmp_path, {"load": "hf", "eos": "</s>"}).settings.eos == "</s>"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"tokenizer\.load: .*no such file"):
        found(tmp_path, {"load": "none.model"})


def test_an_address_is_fetched_once_with_what_stands_beside_it(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/hub/owner/name/tokenizer.json", tokenizer_json())
    memory.pipe("/hub/owner/name/tokenizer_config.json", b'{"eos_token": "</s>"}')
    for path in ("memory://hub/owner/name/tokenizer.json", "memory://hub/owner/name", "memory://hub/owner/name/"):
        loaded = found(tmp_path, {"load": path})
        assert loaded.path.read_bytes() == tokenizer_json()
        assert loaded.settings.eos == "</s>"
    with pytest.raises(InputError, match=r"no file|neither"):
        found(tmp_path, {"load": "memory://hub/owner"})
