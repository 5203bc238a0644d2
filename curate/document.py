"""The Arrow schemas of what flows through the pipeline: each column, its type, its meaning.

RAW is what a reader gives, EXTRACTED is text revision 0 on disk, REMOVED is one removal (or would-be removal),
DECISION is what the user reads about each document, CURATED is the corpus that comes out.
"""

from __future__ import annotations

import pyarrow as pa

# What a reader yields. One row is one record met, in file order. A row with `rule` set is no document: a bad record
# ("read.bad_record", "read.truncated", ...: counted as read and removed) or something that never is a document
# ("skipped.request", "skipped.warcinfo", ...: counted as skipped only).
RAW = pa.schema(
    [
        pa.field(
            "offset", pa.int64(), nullable=False
        ),  # where the record starts: bytes (compressed member for WARC), row for Parquet
        pa.field("part", pa.int32(), nullable=False),  # sub-index inside the record (chapter); 0 otherwise
        pa.field("source_id", pa.large_string()),  # the input's own id
        pa.field("url", pa.large_string()),
        pa.field("content", pa.large_binary()),  # undecoded payload (HTML); null if `text` is given
        pa.field("text", pa.large_string()),  # decoded text; null if `content` is given
        pa.field("media_type", pa.large_string()),  # lower case, no parameters
        pa.field("charset", pa.large_string()),  # as declared by the transport, not by the page
        pa.field("status", pa.int32()),  # HTTP status
        pa.field("language", pa.large_string()),  # as declared by the input
        pa.field("metadata", pa.large_string()),  # JSON object: schemas of inputs drift, one string column does not
        pa.field("rule", pa.large_string()),  # why this row is no document, or null
        pa.field("detail", pa.large_string()),  # what was found there, for a person
    ]
)

# Text revision 0: extracted/<source>/*.parquet
EXTRACTED = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),  # 32 hex digits
        pa.field("source", pa.string(), nullable=False),
        pa.field("source_id", pa.large_string()),
        pa.field("url", pa.large_string()),
        pa.field("path", pa.string(), nullable=False),  # of the input file, relative to the fixed prefix of its pattern
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("language", pa.string()),  # declared
        pa.field("metadata", pa.large_string()),  # JSON object
        pa.field("payload", pa.string()),  # xxh3_128 of RAW.content, 32 hex digits; null if the input gives text
    ]
)

# One removal, written by the phase that decided it.
REMOVED = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field(
            "stage", pa.string(), nullable=False
        ),  # read, gate, extract, filter, decontaminate, dedup, validation, quarantine
        pa.field("rule", pa.string(), nullable=False),  # <recipe block>.<rule>
        pa.field("value", pa.float64()),  # what was measured, if a number
        pa.field("value_label", pa.large_string()),  # what was measured, if a label
        pa.field("threshold", pa.large_string()),  # the bound, as text: ">= 50", "in en, pt"
        pa.field("also_fired", pa.list_(pa.string()), nullable=False),  # further rules that would have removed it
        pa.field("kept_id", pa.string()),  # duplicates: the copy that stays
        pa.field("similarity", pa.float64()),  # duplicates: exact Jaccard, or 1
    ]
)

# Where a record stands in the input: what a removal before extraction keeps of it, and what every decision shows.
_PLACE = (
    pa.field("url", pa.large_string()),
    pa.field("path", pa.string(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
)

# Removals of the extract phase: the record has no row in EXTRACTED.
REMOVED_EARLY = pa.schema([*REMOVED, *_PLACE])

# decisions/<source>/*.parquet: one row for each document read.
DECISION = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("kept", pa.bool_(), nullable=False),
        *(field.with_nullable(True) for field in REMOVED if field.name != "id"),
        *_PLACE,
    ]
)

# documents/<source>/*.parquet: the curated corpus.
CURATED = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("url", pa.large_string()),
        pa.field("path", pa.string(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("language", pa.string()),  # measured, else declared
        pa.field("metadata", pa.large_string()),  # JSON object
        pa.field("split", pa.string(), nullable=False),  # train or validation
        pa.field("cluster_size", pa.int32(), nullable=False),  # documents in its duplicate cluster; 1 if alone
    ]
)

# edits/<source>/*.parquet: spans that later phases cut out of kept documents; offsets in UTF-8 bytes of the last revision.
EDITS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("phase", pa.string(), nullable=False),
        pa.field("rule", pa.string(), nullable=False),
    ]
)

# repeated/<source>/*.parquet: the lines of the documents looked at that are repeated, those of removed documents, too.
REPEATED = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),  # of the line, UTF-8 bytes of the last revision
        pa.field("end", pa.int64(), nullable=False),
        pa.field("documents", pa.int64(), nullable=False),  # that hold the line; copies of one text count once
        pa.field("of", pa.int64(), nullable=False),  # documents of the site, the source or the corpus, counted so
    ]
)

# repeated_spans/<source>/*.parquet: what documents share word for word, of the documents looked at; spans may overlap.
REPEATED_SPANS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),  # UTF-8 bytes of the last revision
        pa.field("end", pa.int64(), nullable=False),
        pa.field(
            "documents", pa.int64(), nullable=False
        ),  # that share each part of it as long as `min_tokens`; copies count once
        pa.field(
            "first_id", pa.string(), nullable=False
        ),  # the document in which it stands first: by `keep_first` it stays there
        pa.field("first", pa.bool_(), nullable=False),  # this document is that one, or a copy of it
    ]
)

DUPLICATES = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("cluster", pa.string(), nullable=False),  # id of the cluster's first document by (path, offset)
        pa.field("cluster_size", pa.int32(), nullable=False),
        pa.field(
            "kept_id", pa.string()
        ),  # the kept copy, null if the document itself stays or the cluster has no kept member
        pa.field("similarity", pa.float64()),  # to kept_id
        pa.field("verified", pa.bool_(), nullable=False),  # exact Jaccard was computed; false: estimated from bands
    ]
)

# semantic.parquet: the documents that go because another one says nearly the same (`dedup.semantic`).
SEMANTIC = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("kept_id", pa.string(), nullable=False),  # of those of higher priority that stay the most similar one
        pa.field("similarity", pa.float64(), nullable=False),  # cosine of the angle between both vectors, as int8
        pa.field("cluster", pa.int64(), nullable=False),  # number of the group in which they were compared
    ]
)

# earlier.parquet: the documents that an earlier corpus holds (`dedup.against`), those of them that filters remove, too.
EARLIER = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("run", pa.string(), nullable=False),  # the earlier corpus, as the recipe names it
        pa.field("earlier_id", pa.string(), nullable=False),  # the document there
        pa.field("earlier_source", pa.string(), nullable=False),
        pa.field("earlier_url", pa.large_string()),
        pa.field("similarity", pa.float64(), nullable=False),  # estimated from signatures; 1 if the texts are equal
        pa.field("exact", pa.bool_(), nullable=False),  # the normalised texts are equal: no estimate
    ]
)

SPAN = pa.struct([pa.field("start", pa.int64(), nullable=False), pa.field("end", pa.int64(), nullable=False)])

CONTAMINATION = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("benchmark", pa.string(), nullable=False),
        pa.field("item", pa.string(), nullable=False),
        # The score: of the words of `item_text`, the share that the document holds. The item's best text.
        pa.field("overlap", pa.float64(), nullable=False),
        # One stretch, for reading: the longest of `spans`, the first of equally long ones; UTF-8 bytes of the document's
        # text before decontamination cuts any.
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("span", pa.large_string(), nullable=False),  # what stands from `start` to `end`
        # Of `item_text`: "a+b" for fields joined, as a question and its choices.
        pa.field("field", pa.large_string(), nullable=False),
        # Of `item_text`: how many stand in the document near one another.
        pa.field("words", pa.int32(), nullable=False),
        # All stretches of the document, in order, that hold any text of the item: what `action: cut` cuts, but for the margin.
        pa.field("spans", pa.large_list(SPAN), nullable=False),
        # The text of the item that was found: of those with the highest score the one that covers most of the document.
        pa.field("item_text", pa.large_string(), nullable=False),
        # What of `item_text` stands in the document; UTF-8 bytes of `item_text`.
        pa.field("item_spans", pa.large_list(SPAN), nullable=False),
    ]
)

QUARANTINE = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("cause", pa.large_string(), nullable=False),
    ]
)

ROWS_PER_GROUP = 1000  # Parquet row groups have a fixed row count, so that batch sizes never show in the bytes
