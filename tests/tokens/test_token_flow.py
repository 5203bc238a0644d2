"""Real books and code from text to the batches of training, and back."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from curate.mix.plan import plan_mixture
from curate.mix.settings import Mixture
from curate.tokens.arrange import EncodedShard, arrange, encode_documents
from curate.tokens.order import Plan
from curate.tokens.sentencepiece_training import train_tokenizer
from curate.tokens.settings import SentencePiece, TokenizerSettings
from curate.tokens.shard import TokenSource, write_manifest
from curate.tokens.tokenizer import load_tokenizer

DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")
FILES = {"books": DATA / "04_books" / "books.jsonl.gz", "code": DATA / "05_code" / "code.jsonl.gz"}
LARGEST = 20_000  # characters of each document: enough of each kind, and quick

pytestmark = pytest.mark.skipif(
    not all(path.is_file() for path in FILES.values()),
    reason=f"real inputs are absent: no {' or '.join(map(str, FILES.values()))}; set CURATE_DATA",
)


def read(name):
    with gzip.open(FILES[name], "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for number, line in enumerate(file) if name == "books" or number % 12 == 0]
    return {f"{name}-{row['id']}": row["text"][:LARGEST] for row in rows}


@pytest.fixture(scope="module")
def corpus():
    return {name: read(name) for name in FILES}


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request, corpus):
    texts = [text for documents in corpus.values() for text in documents.values()]
    training = SentencePiece(vocab_size=2000, model=request.param, sample_bytes="400k")
    return load_tokenizer(train_tokenizer(texts[::5], TokenizerSettings(train=training)).model)


def test_from_text_to_slots_and_back(tmp_path, corpus, tokenizer):
    sources = {}
    for name, documents in corpus.items():
        shard = EncodedShard(tmp_path / f"{name}.bin", tmp_path / f"{name}.parquet")
        table = pa.table({"id": list(documents), "split": ["train"] * len(documents), "text": list(documents.values())})
        encode_documents(table.to_batches(max_chunksize=50), tokenizer, shard)
        options = {"vocab_size": tokenizer.vocab_size, "eos_id": tokenizer.eos_id}
        shards = arrange(
            [shard],
            tmp_path / name,
            "train",
            order_seed=17,
            memory_bytes=1 << 20,
            scratch=tmp_path,
            shard_tokens=100_000,
            **options,
        )
        write_manifest(tmp_path / name, dtype="uint16", tokenizer_sha256=tokenizer.sha256, shards=shards, **options)
        sources[name] = TokenSource.open(tmp_path / name, "train")
        sources[name].verify()
        assert 1.5 < sources[name].bytes_per_token < 6
        # Every text comes back, exactly.
        assert {key: tokenizer.decode(ids) for key, ids in sources[name].documents()} == documents

    available = {name: source.num_tokens for name, source in sources.items()}
    mixture = Mixture(weights={"books": 0.25, "code": 0.75}, tokens="600k", max_epochs=3)
    plan = Plan.load(plan_mixture(mixture, available, window=256, seed=17))
    name, source = "code", sources["code"]
    document = source.num_documents // 2
    start = int(source.document_ends[document - 1])
    stop = int(source.document_ends[document])
    # Where training shows this document, the windows put together hold its text.
    windows = plan.windows_of_tokens(name, start, stop)
    shown = []
    for window in windows:
        slot = plan.slots_of_window(name, window)[0]
        assert plan.slot(slot) == (name, window)
        first, last = plan.token_span(window)
        shown.append(source.tokens(first, last - 1))
    text = tokenizer.decode(np.concatenate(shown))
    assert corpus[name][source.document_ids[document]] in text
