"""The tokenizer beside exported ids: the run's own files, and what transformers opens with the same ids."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from curate.errors import InputError
from curate.export.selection import AGAIN, Selection
from curate.tokens.tokenizer import load_tokenizer
from curate.tokens.transformers_files import TransformersError, write_transformers_tokenizer


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """What goes beside the ids.

    Attributes:
        contents: By name.
        refused: Why transformers cannot open the tokenizer with the same ids, or "".
    """

    contents: dict[str, bytes]
    refused: str


def tokenizer_files(selection: Selection) -> TokenizerFiles:
    """Return the files of a run's tokenizer and those of it for transformers.

    Raises:
        InputError: If it is absent, or not the one that made the ids.
    """
    run = selection.run
    folder = run.path / "tokenizer"
    tokens = selection.tokens(selection.streams[0], "train")
    settings = run.recipe.get("tokenizer") or {}
    eos = (run.manifest.get("tokenizer") or {}).get("eos")
    tokenizer = load_tokenizer(folder, eos=eos, bos=settings.get("bos", False))
    if (tokenizer.sha256, tokenizer.eos_id) != (tokens.tokenizer_sha256, tokens.eos_id):
        problem = f"is not the tokenizer of tokens/{selection.streams[0]}: its sha256 or its end mark is another."
        raise InputError(str(folder), problem, AGAIN)
    own = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    with tempfile.TemporaryDirectory() as scratch:
        try:
            names = write_transformers_tokenizer(tokenizer, Path(scratch))
        except TransformersError as error:
            return TokenizerFiles(own, error.reason)
        return TokenizerFiles(own | {name: (Path(scratch) / name).read_bytes() for name in names}, "")
