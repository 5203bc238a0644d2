import gzip
import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from english_chunks import CORPORA, digests, distinct_chunks
from hypothesis import given
from hypothesis import strategies as st

from curate.text.english.rules import english_words, put_together, rules, split_chunk
from curate.text.english.splitting import english_tokens

ROOT = Path(__file__).resolve().parents[2]
REAL = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")


@cache
def answers() -> dict:
    """Return what spaCy answered to `record_english.py`."""
    return json.loads(gzip.decompress((ROOT / "tests" / "corpus" / "english_tokens.json.gz").read_bytes()))


def compiled(texts: list[str]) -> list[list[str]]:
    """Return the tokens that the kernel finds in each text."""
    encoded = [text.encode() for text in texts]
    sizes = np.array([len(text) for text in encoded], np.int64)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    tokens, offsets = english_tokens(np.frombuffer(b"".join(encoded) or b"\0", np.uint8), starts, ends)
    start, size = tokens.start.tolist(), tokens.size.tolist()
    return [
        [text[start[token] : start[token] + size[token]].decode() for token in range(offsets[row], offsets[row + 1])]
        for row, text in enumerate(encoded)
    ]


@pytest.fixture(scope="module", autouse=True)
def _compiled_before() -> None:  # hypothesis limits the time of each example
    compiled(["a"])


def test_every_exception_of_spacy_is_asked_about():
    chunks = {chunk for chunk, _ in answers()["chunks"]}
    assert rules().exceptions.keys() <= chunks
    assert len(chunks) > 10_000


@pytest.mark.parametrize("kind", ["chunks", "texts"])
@pytest.mark.parametrize("split", [lambda texts: list(map(english_words, texts)), compiled], ids=["plain", "compiled"])
def test_tokens_are_those_of_spacy(kind, split):
    asked = answers()[kind]
    found = split([text for text, _ in asked])
    wrong = [(text, ours, theirs) for (text, theirs), ours in zip(asked, found, strict=True) if ours != theirs]
    assert not wrong, f"{len(wrong)} of {len(asked)}: {wrong[:5]}"


SIGNS = "aB1.,:;!?()[]'\"’“-—…/@#$%&*+=<>_°CFéж中🙂²٣４ \n\t\u00a0\u0301"
STRINGS = (
    "  ",
    "..",
    "'s",
    "n't",
    "10km",
    ":)",
    "):",
    "a.m.",
    "http://",
    "www.",
    ".org",
    "8.8.8.8",
    "US$",
    "don't",
    "Mr.",
)
PIECES = st.sampled_from([*SIGNS, *STRINGS, "--", "(╯°□°）╯︵┻━┻"])


@given(st.lists(st.lists(PIECES, max_size=24).map("".join), max_size=4))
def test_the_kernel_does_what_the_rules_say(texts):
    assert compiled(texts) == list(map(english_words, texts))


@given(st.lists(st.text(max_size=40), max_size=4))
def test_the_kernel_does_what_the_rules_say_of_any_text(texts):
    assert compiled(texts) == list(map(english_words, texts))


@given(st.text(st.sampled_from("abz09.-_@:/中ÀéА٣"), max_size=30))
def test_the_kernel_knows_addresses(text):
    addresses = [
        text,
        f"{text}.org",
        f"http://{text}.org/x",
        f"joe@{text}.org",
        f"{text}1.2.3.4",
        f"1.2.3.{text}",
        f"a.bc:{text}",
    ]
    assert compiled(addresses) == list(map(english_words, addresses))


def test_octets():
    addresses = (
        [f"{n}.7.7.7" for n in range(300)] + [f"7.{n}.7.7" for n in range(300)] + [f"7.7.7.{n}" for n in range(300)]
    )
    addresses += [f"{start}.{n}.7.7" for start in (172, 192, 169, 10, 127) for n in (*range(300), "00", "016", "٣٣")]
    addresses += [f"{a}.{a}.{a}.{a}:{port}" for a in ("1", "01", "٣", "1٣", "1٣٣", "2٣٣") for port in ("1", "22", "٣٣")]
    assert compiled(addresses) == list(map(english_words, addresses))


def test_lengths_of_labels():
    hosts = [f"{'a' * n}.{'b' * m}" for n in (1, 2, 63, 64, 65) for m in (1, 2, 63, 64)]
    hosts += [f"x.{host}" for host in hosts] + [f"é{host}/" for host in hosts]
    assert compiled(hosts) == list(map(english_words, hosts))


@given(
    st.lists(
        st.sampled_from([b"\xe2", b"\x80", b"\xa6", b"\xf0", b"\xff", b".", b"a", b"'s", b" ", b"):", b"1"]),
        max_size=30,
    )
)
def test_bytes_that_are_no_text_stay_inside_the_row(pieces):
    data = np.frombuffer(b"".join(pieces) + b"....", np.uint8)
    end = len(data) - 4
    tokens, offsets = english_tokens(data, np.array([0]), np.array([end]))
    assert offsets.tolist() == [0, len(tokens.key)]
    ends = tokens.start + tokens.size
    assert (tokens.size > 0).all()
    assert (ends[:-1] <= tokens.start[1:]).all()
    assert not len(ends) or ends[-1] <= end


def joined(chunk: str) -> list[str]:
    tokens = split_chunk(chunk)
    return list(put_together(tokens, [*[False] * (len(tokens) - 1), True]))


@pytest.mark.slow
@pytest.mark.parametrize("corpus", CORPORA)
def test_tokens_of_real_chunks_are_those_of_spacy(corpus):
    if not (REAL / corpus).exists():
        pytest.skip("no real data at CURATE_DATA")
    chunks = distinct_chunks(REAL, corpus)
    found = dict(zip(chunks, compiled(chunks), strict=True))
    assert digests(chunks, found.__getitem__) == answers()["real"][corpus]
    for chunk in chunks[:: len(chunks) // 5000]:
        assert joined(chunk) == found[chunk]
