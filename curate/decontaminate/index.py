"""The n-grams of benchmark items in one file, and which of them a document holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from curate.benchmarks.items import BenchmarkFiles, Item, read_benchmark
from curate.decontaminate.lookup import Lookup, places_in
from curate.decontaminate.ngrams import at_positions
from curate.decontaminate.normal import normal_spans
from curate.decontaminate.settings import Decontaminate
from curate.decontaminate.texts import Template, Text, drop_template, texts_of
from curate.document import ROWS_PER_GROUP

TEXTS = pa.schema(
    [
        pa.field("benchmark", pa.string(), nullable=False),
        pa.field("item", pa.large_string(), nullable=False),
        pa.field("field", pa.large_string(), nullable=False),  # dotted path; "a+b" for a question joined to an answer
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("words", pa.int32(), nullable=False),
        pa.field("question", pa.int32(), nullable=False),  # of the words, those of the question
        pa.field("needs", pa.int32(), nullable=False),  # of the words, how many a document must hold at least
        pa.field("n", pa.int32(), nullable=False),  # words of its n-grams; 0 if it is not looked for
        pa.field("status", pa.string(), nullable=False),  # tested, template, numbers, short, no_text
        pa.field("grams", pa.large_list(pa.uint64()), nullable=False),  # distinct, without template, in text order
        pa.field("starts", pa.large_list(pa.int32()), nullable=False),  # first word of each
        pa.field("hashes", pa.large_list(pa.uint64()), nullable=False),  # of all its words, if it is looked for
        pa.field("prefixes", pa.large_list(pa.uint64()), nullable=False),  # n < ngram: hash of each gram's first words
    ]
)
_SHOWN = 200  # characters of a text shown in a summary


def build_index(
    benchmarks: Sequence[tuple[str, BenchmarkFiles | str]], settings: Decontaminate, output: str
) -> dict[str, Any]:
    """Write the index of the benchmarks' n-grams; return its summary.

    Args:
        benchmarks: Name and files of each benchmark; names must differ.
        settings: `ngram`, `min_ngram`, `min_words`, `answers` and `max_items` are used.
        output: Path of the index (Parquet, schema TEXTS).

    Returns:
        JSON-able: `benchmarks`: name to the facts of `read_benchmark` with `items`, `items_tested`, `texts`, `ngrams`,
        `untested` (item, reason, text of each), `template_ngrams` (number ignored) and `template_phrases` (a sample).

    Raises:
        InputError: A benchmark that cannot be read in whole: file, line, remedy.
    """
    if len({name for name, _ in benchmarks}) < len(benchmarks):
        raise ValueError(f"benchmark names must differ: {', '.join(name for name, _ in benchmarks)}")
    summary: dict[str, Any] = {}
    meta = json.dumps({name: getattr(settings, name) for name in ("ngram", "shortest")})
    schema = TEXTS.with_metadata({"curate.decontaminate": meta})
    with pq.ParquetWriter(output, schema, compression="zstd") as writer:
        for name, files in benchmarks:
            read = read_benchmark(files)
            texts = texts_of(read.items, settings)
            template = drop_template(texts, len(read.items), settings)
            summary[name] = {**read.facts, **_summary(read.items, texts, template, settings)}
            table = _table(name, texts, settings).cast(schema)
            writer.write_table(table, row_group_size=ROWS_PER_GROUP)
    return {"benchmarks": summary}


def _summary(items: list[Item], texts: list[Text], template: Template, settings: Decontaminate) -> dict[str, Any]:
    tested = {text.item for text in texts if text.status == "tested"}
    reasons = {
        "short": "fewer than {needs} words" + (", also with an answer" if settings.answers == "together" else ""),
        "no_text": "no text but labels and answers",
        "numbers": "nothing but numbers or repeated words",
        "template": "nothing but the benchmark's template",
    }
    untested = {
        text.item: {
            "item": text.item,
            "reason": reasons[text.status].format(needs=text.needs),
            "text": text.text[:_SHOWN],
        }
        for text in texts
        if text.item not in tested
    }
    phrases: Counter[str] = Counter()
    for number, starts in template.starts.items():
        phrases.update(phrases_at(texts[number].text, starts, settings.shortest))
    return {
        "items": len(items),
        "items_tested": len(tested),
        "texts": sum(text.status == "tested" for text in texts),
        "ngrams": len(np.unique(np.concatenate([text.grams for text in texts]))),
        "untested": list(untested.values()),
        "template_ngrams": len(template.grams),
        "template_phrases": [
            {"text": phrase[:_SHOWN], "items": count}
            for phrase, count in sorted(phrases.items(), key=lambda pair: (-pair[1], pair[0]))[:10]
        ],
    }


def told_untested(about: Mapping[str, Any]) -> str:
    """Return how many of a benchmark's items nobody looks for, and why, of the summary that `build_index` made of it."""
    reasons = Counter(entry["reason"] for entry in about["untested"])
    number, items = len(about["untested"]), about["items"]
    told = "; ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
    return f"{number:,} of {items:,} items ({number / items:.1%}) cannot be looked for: {told}"


def phrases_at(text: str, starts: NDArray[np.int64], n: int) -> list[str]:
    """Return the stretches of `text` that the n-grams starting at these words (sorted) cover."""
    if not len(starts):
        return []
    spans = normal_spans(text)
    data = text.encode()
    return [data[spans[first, 0] : spans[end - 1, 1]].decode() for first, end in merged(starts, starts + n).tolist()]


def merged(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Merge overlapping or touching intervals, sorted by start; shape (runs, 2)."""
    if not len(starts):
        return np.zeros((0, 2), np.int64)
    reach = np.maximum.accumulate(ends)
    heads = np.concatenate([[True], starts[1:] > reach[:-1]])
    tails = np.concatenate([heads[1:], [True]])
    return np.stack([starts[heads], reach[tails]], axis=1)


def _table(benchmark: str, texts: list[Text], settings: Decontaminate) -> pa.Table:
    short = [text for text in texts if text.status == "tested" and text.n < settings.ngram]
    first = np.cumsum([0, *(len(text.words) for text in short)])
    places = np.concatenate(
        [np.zeros(0, np.int64), *(at + text.starts for at, text in zip(first, short, strict=False))]
    )
    words = np.concatenate([np.zeros(0, np.uint64), *(text.words for text in short)])
    hashed = iter(np.split(at_positions(words, places, settings.shortest), np.cumsum([len(t.starts) for t in short])))
    prefixes = [
        next(hashed) if text.status == "tested" and text.n < settings.ngram else np.zeros(0, np.uint64)
        for text in texts
    ]
    columns = [
        pa.array([benchmark] * len(texts), pa.string()),
        pa.array([text.item for text in texts], pa.large_string()),
        pa.array([text.field for text in texts], pa.large_string()),
        pa.array([text.text for text in texts], pa.large_string()),
        pa.array([len(text.words) for text in texts], pa.int32()),
        pa.array([text.question for text in texts], pa.int32()),
        pa.array([text.needs for text in texts], pa.int32()),
        pa.array([text.n for text in texts], pa.int32()),
        pa.array([text.status for text in texts], pa.string()),
        lists([text.grams for text in texts], pa.uint64()),
        lists([text.starts for text in texts], pa.int32()),
        lists([text.words if text.status == "tested" else text.words[:0] for text in texts], pa.uint64()),
        lists(prefixes, pa.uint64()),
    ]
    return pa.Table.from_arrays(columns, schema=TEXTS)


def lists(rows: Sequence[NDArray[Any]], kind: pa.DataType) -> pa.LargeListArray:
    """Return one large_list row for each array."""
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=ends[1:])
    values = np.concatenate(rows) if rows else np.zeros(0, np.int64)
    return pa.LargeListArray.from_arrays(pa.array(ends), pa.array(values).cast(kind))


def list_column(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the values and the row offsets (rows + 1) of a large_list column; null rows are empty, slices allowed."""
    if column.null_count:
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    else:
        offsets = column.offsets.to_numpy()
        offsets = offsets - offsets[0]
    return column.flatten().to_numpy(zero_copy_only=False), offsets


class Index:
    """An index in memory: sorted n-gram hashes, and which texts hold them.

    Attributes:
        ngram, shortest: What it was built with.
        texts: Rows of TEXTS.
        hashes: Distinct hashes of all texts, sorted, shape (H,).
        lengths: Words of each n-gram, shape (H,).
        owners: Text numbers, grouped by hash; those of hash h are `owners[bounds[h] : bounds[h + 1]]`.
        starts: For each owner the word of its text at which the n-gram starts.
        words: Word hashes of all texts; those of text t are `words[words_at[t] : words_at[t + 1]]`.
        question: Words of each text that are its question, the first ones, shape (T,).
        needs: Words of each text that a document must hold at least, shape (T,).
        marks: What words count for while no n-gram is known to be common.
        lookup: Finds its n-grams.
    """

    def __init__(self, texts: pa.Table) -> None:
        meta: dict[str, int] = json.loads(texts.schema.metadata[b"curate.decontaminate"])
        self.ngram, self.shortest = meta["ngram"], meta["shortest"]
        self.texts = texts
        grams, offsets = list_column(texts["grams"].combine_chunks())
        starts, _ = list_column(texts["starts"].combine_chunks())
        owners = np.repeat(np.arange(texts.num_rows), np.diff(offsets))
        order = np.argsort(grams, kind="stable")
        self.hashes, first = np.unique(grams[order], return_index=True)
        self.bounds = np.append(first, len(grams))
        self.owners, self.starts = owners[order], starts[order].astype(np.int64)
        self.words, self.words_at = list_column(texts["hashes"].combine_chunks())
        self.question = texts["question"].to_numpy().astype(np.int64)
        self.needs = texts["needs"].to_numpy().astype(np.int64)
        self._grams, self._grams_at = np.searchsorted(self.hashes, grams), offsets
        self.lengths = texts["n"].to_numpy()[self.owners[first]].astype(np.int64)
        prefixes, counts = list_column(texts["prefixes"].combine_chunks())
        short = np.repeat(texts["n"].to_numpy().astype(np.int64), np.diff(counts))
        is_long = self.lengths == self.ngram
        self.lookup = Lookup(self.hashes, is_long, self.ngram, self.shortest, prefixes, short)
        self.marks = marks_of(self, np.zeros(len(self.hashes), np.bool_))

    @classmethod
    def load(cls, path: str) -> Index:
        """Read an index that `build_index` wrote."""
        return cls(pq.read_table(path))

    def find(
        self, words: NDArray[np.uint64], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the index's n-grams in documents.

        Args:
            words: Word hashes of all documents, one after another.
            offsets: Where each document's words start, and the end of the last; shape (documents + 1,).

        Returns:
            Word position and number of the n-gram in `hashes` of each hit, sorted by both.
        """
        return self.lookup.find(words, offsets)

    def grams_of(self, text: int) -> NDArray[np.int64]:
        """Return the places in `hashes` of a text's n-grams, in text order."""
        return self._grams[self._grams_at[text] : self._grams_at[text + 1]]

    def numbers(self, matches: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the place in `hashes` of each hash.

        Raises:
            ValueError: A hash that the index does not hold: the column was measured with another index.
        """
        number = places_in(self.lookup.table, matches)
        if (number < 0).any():
            raise ValueError("column 'matches' holds n-grams that the benchmark index does not: measure again.")
        return number


class Marks(NamedTuple):
    """What each word of all texts counts for, as running sums from 0, shape (words of the index + 1,).

    Attributes:
        evidence: Words that are not common, or that an n-gram which is not common covers, too.
        content: Words that an n-gram which is neither template nor common covers.
    """

    evidence: NDArray[np.int64]
    content: NDArray[np.int64]

    def content_of(self, index: Index) -> NDArray[np.int64]:
        """Return the content words of each text, shape (T,)."""
        return self.content[index.words_at[1:]] - self.content[index.words_at[:-1]]


def marks_of(index: Index, is_common: NDArray[np.bool_]) -> Marks:
    """Return what the words count for if these n-grams (shape (H,)) are common."""
    common = np.repeat(is_common, np.diff(index.bounds))  # of each owner
    first = index.words_at[index.owners] + index.starts
    end = first + np.repeat(index.lengths, np.diff(index.bounds))

    def covered(which: NDArray[np.bool_]) -> NDArray[np.bool_]:
        change = np.zeros(len(index.words) + 1, np.int64)
        np.add.at(change, first[which], 1)
        np.add.at(change, end[which], -1)
        result: NDArray[np.bool_] = np.cumsum(change)[:-1] > 0
        return result

    content = covered(~common)
    return Marks(_running(content | ~covered(common)), _running(content))


def _running(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(flags, dtype=np.int64)])
