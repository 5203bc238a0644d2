"""Take in token files: their documents in the form in which encode leaves those of texts, and a decision for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from curate.document import DECISION
from curate.errors import InputError
from curate.inputs import InputFile, fetch
from curate.phases.tokens import open_tokenizer
from curate.pipeline import ParquetFile
from curate.plan import TaskContext
from curate.read.token_files import TokenFiles, open_tokens
from curate.text.hashing import choice_hash, document_id
from curate.tokens.arrange import ENCODED
from curate.tokens.settings import TokenizerSettings
from curate.tokens.shard import dtype_for, stored_dtype
from curate.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from curate.read.token_files import Ids

_ROWS = 4096


@dataclass(frozen=True, slots=True)
class TokenInputs:
    """What one task takes in.

    Attributes:
        source: Name of the source.
        reader: How to read.
        files: Files, each with its index or None.
        limit: Documents to take at most, or None.
        sample: Share of the documents that is taken, drawn by (seed, id), or None.
        seed: Of the recipe.
    """

    source: str
    reader: TokenFiles
    files: tuple[tuple[InputFile, InputFile | None], ...]
    limit: int | None
    sample: float | None
    seed: int


@dataclass(frozen=True, slots=True)
class _Taken:
    path: str
    offset: int  # in tokens
    id: str
    run: Ids


def take_tokens(
    context: TaskContext, key: str, inputs: TokenInputs, tokenizer_key: str, settings: TokenizerSettings
) -> None:
    """Write tokens.bin and documents.parquet (ENCODED), and decisions.parquet (DECISION): every document is kept.

    The bytes of a document are those that its tokens stand for. All are for training: no validation is drawn.
    """
    tokenizer = open_tokenizer(context, tokenizer_key, settings)
    stored = stored_dtype(dtype_for(tokenizer.vocab_size))
    num_bytes = tokenizer.token_bytes()
    documents = tokens = size = 0
    with context.writing(key) as output, context.scratch() as folder, output.path("tokens.bin").open("wb") as target:
        with (
            ParquetFile(output.path("documents.parquet"), ENCODED) as encoded,
            ParquetFile(output.path("decisions.parquet"), DECISION) as decisions,
        ):
            for batch in _batches(_documents(inputs, tokenizer, folder)):
                for one in batch:
                    target.write(one.run.astype(stored).tobytes())
                lengths = [int(num_bytes[one.run].sum()) for one in batch]
                encoded.write_rows(
                    [
                        {"id": one.id, "split": "train", "bytes": length, "tokens": len(one.run)}
                        for one, length in zip(batch, lengths, strict=True)
                    ]
                )
                decisions.write_rows(
                    [
                        {"id": one.id, "kept": True, "also_fired": [], "path": one.path, "offset": one.offset}
                        for one in batch
                    ]
                )
                documents += len(batch)
                tokens += sum(len(one.run) for one in batch)
                size += sum(lengths)
        for file in (one for pair in inputs.files for one in pair if one is not None and one.remote is None):
            if context.cache.digest(Path(file.url)) != file.digest:
                raise InputError(file.url, "it changed while it was read.", "Let its writer finish, then run again.")
        output.counts |= {"documents": documents, "tokens": tokens, "bytes": size}


def _documents(inputs: TokenInputs, tokenizer: Tokenizer, folder: Path) -> Iterator[_Taken]:
    bound = None if inputs.sample is None else int(inputs.sample * 2**64)
    taken = 0
    for number, (file, index) in enumerate(inputs.files):
        parts = []
        for inside, one in (("tokens", file), ("index", index)):
            place = folder / f"{number}-{inside}"
            place.mkdir()
            parts.append(None if one is None else fetch(one, place))
        assert parts[0] is not None
        opened = open_tokens(parts[0], file.path, parts[1], inputs.reader, tokenizer.vocab_size)
        last, part = -1, 0
        for start, stop in opened.documents(tokenizer.eos_id):
            if taken == inputs.limit:
                return
            last, part = (
                start,
                part + 1 if start == last else 0,
            )  # a document without a token starts where the next does
            name = document_id(inputs.source, file.pattern, file.path, start, part)
            if bound is None or choice_hash(inputs.seed, name, "sample") < bound:
                taken += 1
                yield _Taken(file.path, start, name, opened.run(start, stop, tokenizer.vocab_size, tokenizer.eos_id))


def _batches(documents: Iterator[_Taken]) -> Iterator[Sequence[_Taken]]:
    batch: list[_Taken] = []
    for document in documents:
        batch.append(document)
        if len(batch) == _ROWS:
            yield batch
            batch = []
    if batch:
        yield batch
