"""`curate tokenizer train` and `export`: a tokenizer by itself, from a recipe's documents or from files; one for transformers."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from curate.cache import write_json
from curate.errors import UsageError
from curate.inputs import is_remote
from curate.loading import load
from curate.runner import run
from curate.stage import canonical
from curate.tokens.settings import SentencePiece

_RECIPES = (".yaml", ".yml")
_COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".lz4")
_KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}  # others are whole texts
_COLUMNS = ("documents", "words", "tokens", "tokens/word", "bytes/token", "tokens/char", "byte tokens", "unknown")


def train_by_itself(
    inputs: Sequence[str],
    output: Path,
    *,
    settings: Mapping[str, Any],
    eos: str | None = None,
    text: str = "text",
    sets: Sequence[str] = (),
    **options: Any,
) -> dict[str, Any]:
    """Train a tokenizer and write its file, its card with the fertility of all documents, and the form that transformers opens.

    The documents go the way of any run up to encode, so that the sample is drawn by the recipe's mixture, results are
    cached, and what is counted is counted over every document.

    Args:
        inputs: One recipe, whose documents are curated first; or paths of JSON Lines, Parquet and text files, as they are.
        output: A new or empty folder: tokenizer.model, card.json, and hf/ with tokenizer.json and its settings.
        settings: Of `tokenizer.train`, over those of the recipe.
        eos: Name of the end mark.
        text: Field or column of the text in JSON Lines and Parquet.
        sets: Overrides of the recipe's keys.
        options: Of `curate.runner.run`: cache, workers, memory, quiet, allow_code.

    Returns:
        The card.

    Raises:
        UsageError: If the folder holds something, or recipe and files are mixed.
    """
    from curate.tokens.tokenizer import load_tokenizer
    from curate.tokens.transformers_files import write_transformers_tokenizer

    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"--output {output}: is not a new or empty folder. Choose another one, or empty it.")
    recipes = [path for path in inputs if path.lower().endswith(_RECIPES)]
    if recipes and len(inputs) > 1:
        raise UsageError("give one recipe, or files of documents, not both.")
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as scratch:
        recipe = Path(recipes[0]) if recipes else _recipe_of(inputs, text, Path(scratch))
        wanted = _wanted(recipe, settings, eos, sets, bool(options.get("allow_code")))
        made = run(
            recipe,
            output=Path(scratch) / "run",
            sets=[*sets, f"tokenizer={json.dumps(wanted)}"],
            until="encode",
            train=False,
            **options,
        )
        folder = Path(scratch) / "tokenizer"
        folder.mkdir()
        for name in ("tokenizer.model", "card.json"):
            shutil.copyfile(made.output / "tokenizer" / name, folder / name)
        card: dict[str, Any] = json.loads((folder / "card.json").read_bytes())
        card["fertility"] = dict(made.manifest["tokenizer"])["fertility"]
        write_json(folder / "card.json", card)
        tokenizer = load_tokenizer(folder / "tokenizer.model", eos=card["eos"], bos=card["bos"] or False)
        write_transformers_tokenizer(tokenizer, folder / "hf")
        if output.exists():
            output.rmdir()
        folder.rename(output)
    return card


def fertility_lines(fertility: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Iterator[str]:
    """Yield a table of what was counted, a line for each source and language."""
    from curate.report.fertility import ratios

    rows: list[tuple[str, ...]] = [("source", "language", *_COLUMNS)]
    for source, languages in fertility.items():
        for language, counts in languages.items():
            found = ratios(counts)
            ratio = [
                "-" if found[name] is None else f"{found[name]:.3f}"
                for name in ("tokens_per_word", "bytes_per_token", "tokens_per_character")
            ]
            share = ["-" if found[name] is None else f"{found[name]:.2%}" for name in ("byte_share", "unknown_share")]
            whole = [f"{counts[name]:,}" for name in ("documents", "words", "tokens")]
            rows.append((source, language, *whole, *ratio, *share))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        names = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        yield "  ".join([*names, *(cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True))])


def _recipe_of(paths: Sequence[str], text: str, folder: Path) -> Path:
    """Write the recipe that reads the files as they are: a source for each kind."""
    kinds: dict[str, list[str]] = {}
    for path in paths:
        bare = path.lower()
        for ending in _COMPRESSED:
            bare = bare.removesuffix(ending)
        kind = _KINDS.get(Path(bare).suffix, "files")
        kinds.setdefault(kind, []).append(path if is_remote(path) or "://" in path else str(Path(path).absolute()))
    sources = {}
    for kind, found in kinds.items():
        read: dict[str, Any] = {"kind": kind, "paths": found[0] if len(found) == 1 else found}
        if kind != "files":
            read["text"] = text
        sources[kind] = {"read": read}
    recipe = folder / "recipe.yaml"
    write_json(recipe, {"name": "tokenizer", "sources": sources})  # JSON is YAML, too
    return recipe


def _wanted(
    recipe: Path, settings: Mapping[str, Any], eos: str | None, sets: Sequence[str], allow_code: bool
) -> dict[str, Any]:
    """Return the recipe's `tokenizer`, training one, with what the command line says."""
    known = load(recipe, sets=sets, allow_code=allow_code).tokenizer
    training = canonical(known.training if known is not None else SentencePiece()) | dict(settings)
    wanted: dict[str, Any] = {"train": training}
    if name := eos or (known.eos if known is not None else None):
        wanted["eos"] = name
    if known is not None and known.bos and known.load is None:
        wanted["bos"] = known.bos
    return wanted


def export_tokenizer(source: Path, output: Path, eos: str | None) -> tuple[str, ...]:
    """Write what transformers opens, from a run folder or a tokenizer's file or folder; return the names of the files.

    A run's card tells which marks its documents have.

    Raises:
        UsageError: If the folder holds something.
        InputError: If there is no tokenizer, or it does not tell its end mark.
        TransformersError: If no tokenizer.json can give the same ids.
    """
    from curate.tokens.tokenizer import load_tokenizer
    from curate.tokens.transformers_files import write_transformers_tokenizer

    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"--output {output}: is not a new or empty folder. Choose another one, or empty it.")
    place = source / "tokenizer" if (source / "tokenizer").is_dir() else source
    card = place / "card.json"
    known = json.loads(card.read_bytes()) if card.is_file() else {}
    tokenizer = load_tokenizer(place, eos=eos or known.get("eos"), bos=known.get("bos") or False)
    return write_transformers_tokenizer(tokenizer, output)
