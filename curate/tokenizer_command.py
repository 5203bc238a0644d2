"""`curate tokenizer train` and `export`: a tokenizer by itself, from a recipe's documents or from files; one for transformers."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from curate.cache import write_json
from curate.errors import CurateError, InputError, Problem, RecipeError, UsageError
from curate.inputs import is_remote, open_input
from curate.loading import load
from curate.runner import run
from curate.stage import canonical
from curate.tokens.settings import SentencePiece

_RECIPES = (".yaml", ".yml")
_COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".lz4")
_KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}  # others are whole texts
_OPTIONS = {  # keys of the recipe that the command writes, by the option that the user typed
    "tokenizer.train.vocab_size": "--vocab-size",
    "tokenizer.train.model": "--model",
    "tokenizer.train.sample_bytes": "--sample",
    "tokenizer.train.character_coverage": "--character-coverage",
    "tokenizer.eos": "--eos",
}
_HEAD_BYTES = 1 << 24  # of a file whose fields are named in a message
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
        UsageError: If the folder holds something, recipe and files are mixed, or a file is not there.
        InputError: If the files have no text.
    """
    from curate.tokens.sentencepiece_training import NoTextError
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
        try:
            wanted = _wanted(recipe, settings, eos, sets, bool(options.get("allow_code")))
            made = run(
                recipe,
                output=Path(scratch) / "run",
                sets=[*sets, f"tokenizer={json.dumps(wanted)}"],
                until="encode",
                train=False,
                **options,
            )
        except RecipeError as error:
            raise _in_words_of_the_command(error, inputs, bool(recipes)) from error
        except NoTextError as error:
            raise (error if recipes else _without_text(inputs, text)) from error
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


def _in_words_of_the_command(error: RecipeError, inputs: Sequence[str], has_recipe: bool) -> CurateError:
    """Return an error that names what the user typed in place of the keys that the command wrote."""
    problems = []
    for one in error.problems:
        written = one.file.startswith("--set tokenizer=") or not has_recipe
        key = "tokenizer.eos" if one.key == "tokenizer" and one.message.startswith("eos is") else one.key
        if written and key in _OPTIONS:
            problems.append(Problem("", one.message, None, _OPTIONS[key]))
        else:
            problems.append(one)
    if has_recipe:
        return RecipeError(tuple(problems))
    lines = []
    for one in problems:
        message = re.sub(r" Relative paths start at the recipe's folder \(.*\)\.$", "", one.message)
        for path in inputs:
            message = message.replace(str(Path(path).absolute()), path, 1) if message.startswith("/") else message
        lines.append(f"{one.file}: {message}" if not one.key and one.file.startswith("--") else message)
    return UsageError("\n  ".join(lines))


def _without_text(paths: Sequence[str], text: str) -> InputError:
    """Return the error for files that gave no document: the first of them, and what it has instead."""
    for path in paths:
        kind = _kind(path)
        if kind == "files" or is_remote(path) or not Path(path).is_file():
            continue
        unit = "column" if kind == "parquet" else "field"
        try:
            fields = _columns(Path(path)) if kind == "parquet" else _fields(Path(path))
        except (OSError, ValueError, CurateError) as error:
            detail = " ".join(str(error).split())
            return InputError(
                path, f"cannot be read ({detail}).", "Give a file that is whole, and of the kind its name says."
            )
        if not fields:
            return InputError(path, "holds no record.", "Give files with documents.")
        if text not in fields:
            named = ", ".join(f"'{field}'" for field in fields[:20]) + (" and more" if len(fields) > 20 else "")
            there = f"has no {unit} '{text}'; its {unit}s are {named}."
            return InputError(path, there, f"Name the {unit} of the text with --text.")
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return InputError(f"{paths[0]}{more}", "holds no text to train a tokenizer on.", "Give files with text in them.")


def _columns(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    return list(file.schema_arrow.names) if file.metadata.num_rows else []


def _fields(path: Path) -> list[str]:
    """Return the fields of the first record of a JSON Lines file, none if it has no record."""
    from curate.read.compression import read_chunks

    data = b""
    with open_input(path) as file:
        for chunk in read_chunks(file)[1]:
            if chunk.problem:
                raise ValueError(chunk.problem)
            data = (data + chunk.data).lstrip()
            if b"\n" in data or len(data) > _HEAD_BYTES:
                break
    if not data:
        return []
    record = json.loads(data.splitlines()[0])
    if not isinstance(record, dict):
        raise ValueError("its first line is no JSON object")
    return list(record)


def _kind(path: str) -> str:
    """Return the kind of reader for a file by its name."""
    bare = path.lower()
    for ending in _COMPRESSED:
        bare = bare.removesuffix(ending)
    return _KINDS.get(Path(bare).suffix, "files")


def _recipe_of(paths: Sequence[str], text: str, folder: Path) -> Path:
    """Write the recipe that reads the files as they are: a source for each kind."""
    kinds: dict[str, list[str]] = {}
    for path in paths:
        kinds.setdefault(_kind(path), []).append(
            path if is_remote(path) or "://" in path else str(Path(path).absolute())
        )
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

    A card of ours beside the file tells which marks its documents have, or the files of transformers.

    Raises:
        UsageError: If the folder holds something.
        InputError: If there is no tokenizer, or it does not tell its end mark.
        TransformersError: If no tokenizer.json can give the same ids.
    """
    from curate.tokenizer_inputs import told_mark
    from curate.tokens.tokenizer import load_tokenizer, tokenizer_file
    from curate.tokens.transformers_files import write_transformers_tokenizer

    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"--output {output}: is not a new or empty folder. Choose another one, or empty it.")
    place = source / "tokenizer" if (source / "tokenizer").is_dir() else source
    file = tokenizer_file(place)
    if file.is_file():
        eos = eos or told_mark("eos", file, str(file))
        bos = told_mark("bos", file, str(file))
    else:
        bos = None  # that it is not there is told where it is opened
    tokenizer = load_tokenizer(file, eos=eos, bos=bos or False)
    return write_transformers_tokenizer(tokenizer, output)
