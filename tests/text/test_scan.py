"""The scan against what it stands for: ftfy's own expression, Python's own normal form, and repair by ftfy alone."""

import itertools
import json
import random
import re
import unicodedata
from pathlib import Path

import ftfy
import numpy as np
import pytest
from ftfy.badness import BADNESS_RE, MOJIBAKE_CATEGORIES
from hypothesis import given, settings
from hypothesis import strategies as st

from curate.text import badness, scan
from curate.text.controls import CONTROL, SURROGATE, SURROGATE_PAIR, TERMINAL_CODE
from curate.text.scan import BAD, HAS_CONTROL, HAS_LINE, LONGEST_LINE, NOT_NFC, scan_texts, suspect_lines
from curate.text.unicode import ftfy_config, repair

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
# The characters that ftfy names, and some that it does not: letters, digits, space, marks, Han, Hangul, an emoji.
NAMED = "".join(re.findall("[" + "".join(MOJIBAKE_CATEGORIES.values()) + "]", EVERYTHING))
OTHERS = "aZ09 .,?!\t_\n\u2028\u3000\u0301\u0323\u093c\u0928क字가각\u1161\u11a8ﾟ😀\U0001d15e\x00\x1a\x7f\ufeff"
SINGLES = sorted({*NAMED, *OTHERS, *(sign for sign in BADNESS_RE.pattern if sign > "\x7f")} - {"\n"})

LINE_END = re.compile("\r\n?|\x0c")


def scanned(texts):
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in encoded])]).astype(np.int64)
    return scan_texts(np.frombuffer(b"".join(encoded), np.uint8), offsets)


def lines_of(text):
    """Suspect lines as (text, bits)."""
    data = text.encode()
    return [(data[start:end].decode(), bits) for start, end, bits in suspect_lines(np.frombuffer(data, np.uint8))[1]]


def split(text):
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def bits_of(texts):
    """BAD and NOT_NFC of texts of one line each, by one call."""
    data = "\n".join(texts).encode()
    _, lines = suspect_lines(np.frombuffer(data, np.uint8))
    ends = np.cumsum([len(text.encode()) + 1 for text in texts])
    found = np.zeros(len(texts), np.int64)
    found[np.searchsorted(ends, lines[:, 0], side="right")] = lines[:, 2]
    return found


def test_every_pair_of_characters_is_bad_where_ftfy_says_so():
    pairs = ["".join(pair) for pair in itertools.product(SINGLES, repeat=2)]
    assert len(pairs) > 200_000
    found = bits_of(pairs) & BAD != 0
    # The line feed belongs to the line, as in ftfy: `[Œœ][^A-Za-z]` may match it.
    expected = [BADNESS_RE.search(pair + "\n") is not None and not pair.isascii() for pair in pairs[:-1]]
    expected.append(BADNESS_RE.search(pairs[-1]) is not None)
    wrong = [pair for pair, one, other in zip(pairs, found, expected, strict=True) if one != other]
    assert wrong == []


def test_every_triple_of_kinds_of_characters_is_bad_where_ftfy_says_so():
    """One character of each kind that the expression tells apart, and any two on either side of it."""
    kinds = {}
    sets = [
        re.compile(part) for part in set(re.findall(r"\[[^\]]+\]", re.sub(r"\\N\{[^}]+\}", "", BADNESS_RE.pattern)))
    ]
    for character in SINGLES:
        kinds.setdefault(tuple(one.search(character) is not None for one in sets), character)
    assert 40 < len(kinds) < 150
    triples = ["".join(triple) for triple in itertools.product(kinds.values(), repeat=3)]
    found = bits_of(triples) & BAD != 0
    search = BADNESS_RE.search
    expected = np.array([search(triple + "\n") is not None and not triple.isascii() for triple in triples])
    expected[-1] = search(triples[-1]) is not None
    assert [triples[place] for place in np.flatnonzero(found != expected)] == []


@pytest.mark.parametrize(
    "text",
    [
        "ГўВЂВ™a",
        "×²",
        "à²²",
        "√±",
        "≈°",
        "‚Äì",
        "‚âà",
        "вЂ",
        "ØªØª",
        "Г°Г",
        "a Ã ",
        "Ã x",
        "a Â ",
        "β€™",
        "ā€",
        "Ã\xa0",
    ],
)
def test_sequences_of_the_expression(text):
    for before in ("", "x" * 5, "x" * 40 + " "):
        for after in ("", "y", " y" * 20):
            line = f"{before}{text}{after}"
            assert (lines_of(f"first é\n{line}\nlast é") != []) == bool(BADNESS_RE.search(line + "\n")), line
    assert any(BADNESS_RE.search(context + text + "a") for context in ("", "a "))


PIECES = st.one_of(
    st.sampled_from(NAMED + OTHERS),
    st.sampled_from(["Ã©", "â€™", "Ð¿", "e\u0301", "\r\n", "\x1b[0m", "à la carte", "Ã la", "ÃƒÂ©", "\x92", "œ", "Ã "]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
    st.text(max_size=4),
)
TEXTS = st.lists(PIECES, max_size=30).map("".join)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_suspect_lines_are_those_of_ftfy_and_of_the_normal_form(text):
    found = dict(zip(split(text), bits_of_lines(text), strict=True))
    for line, bits in found.items():
        assert bool(bits & BAD) == (not line.isascii() and BADNESS_RE.search(line) is not None), line
        if not bits & NOT_NFC:
            assert unicodedata.is_normalized("NFC", line)


def bits_of_lines(text):
    data = text.encode("utf-8", "surrogatepass")
    _, lines = suspect_lines(np.frombuffer(data, np.uint8))
    starts = np.cumsum([0, *(len(line.encode("utf-8", "surrogatepass")) for line in split(text))])
    bits = dict(zip(lines[:, 0].tolist(), lines[:, 2].tolist(), strict=True))
    return [bits.get(start, 0) for start in starts[:-1].tolist()]


def by_ftfy_alone(text):
    """Repair as `curate.text.unicode.repair` does, each line through ftfy."""
    text = SURROGATE.sub("\ufffd", SURROGATE_PAIR.sub(lambda pair: joined(pair[0]), LINE_END.sub("\n", text)))
    text = TERMINAL_CODE.sub("", text)
    while True:
        before = text
        text = CONTROL.sub("", ftfy.fix_text(text, ftfy_config()))
        if text == before:
            return text


def joined(pair):
    return pair.encode("utf-16", "surrogatepass").decode("utf-16")


@settings(max_examples=400, deadline=None)
@given(st.one_of(TEXTS, st.text(st.characters(), max_size=60)))
def test_repair_is_what_ftfy_alone_gives(text):
    repaired, counts = repair(text)
    assert repaired == by_ftfy_alone(text)
    assert bool(counts) == (repaired != text)
    if not any("\ud800" <= character < "\ue000" for character in text):
        assert bool(scanned([text])[0]) or repaired == text  # what the scan passes over needs no repair


def test_repair_is_what_ftfy_alone_gives_on_mojibake_of_every_codec():
    rng = random.Random(7)
    texts = [
        json.loads(line)["input"]["text"]
        for line in (ROOT / "tests/corpus/repair.jsonl").read_text("ascii").splitlines()
    ]
    sentences = [
        "Être ou ne pas être, à l’été.",
        "Съешь же ещё этих булок",
        "“Zażółć” – gęślą jaźń",
        "いろは・にほへと",
        "Größe 5 €",
    ]
    codecs = ("latin-1", "sloppy-windows-1252", "sloppy-windows-1251", "macroman", "cp437", "sloppy-windows-1250")
    count = 0
    for sentence, codec in itertools.product(sentences, codecs):
        try:
            broken = sentence.encode().decode(codec)
        except UnicodeDecodeError:
            continue
        count += 1
        texts += [broken, f"{sentence}\n{broken}\n{sentence}", broken[: rng.randrange(len(broken))]]
    assert count > 20
    for text in texts:
        assert repair(text)[0] == by_ftfy_alone(text)


def test_controls_and_line_ends_are_seen_everywhere():
    characters = [character for character in EVERYTHING if not "\ud800" <= character < "\ue000"]
    seen = scanned(characters) & HAS_CONTROL != 0
    expected = [CONTROL.match(character) is not None or character in "\r\x0c" for character in characters]
    assert [ascii(c) for c, one, other in zip(characters, seen, expected, strict=True) if one != other] == []


@pytest.mark.parametrize("place", range(20))
def test_nothing_depends_on_where_a_text_lies(place):
    texts = ["x" * place, "y" * place + "Ã©" + "z" * 9, "plain", "a\x00", "é" * place + "\n" + "b" * place, ""]
    assert scanned(texts).tolist() == [0, HAS_LINE, 0, HAS_CONTROL, 0, 0]
    data = np.frombuffer(b"x" * place + b"abcdefgh\x7f\x00", np.uint8)
    for start in range(8):  # also where the buffer itself is not aligned
        part = data[start % (place + 1) :]
        assert scan_texts(part, np.array([0, len(part)])).tolist() == [HAS_CONTROL]


def test_text_that_is_no_utf8_is_suspect_and_does_no_harm():
    for data in (b"\xc3", b"\xe2\x80", b"\xf0\x9f\x98", b"\xff\xfe\xfd", b"a\x80\x80b\xf7\xbf\xbf\xbf"):
        suspect_lines(np.frombuffer(data, np.uint8))
        assert suspect_lines(np.frombuffer(b"\xc2\xa6" + data, np.uint8))[0] == HAS_LINE


def test_more_suspect_lines_than_there_was_room_for():
    assert lines_of("Ã©\n" * 500) == [("Ã©\n", BAD)] * 500


def test_a_line_that_ftfy_would_cut_is_left_to_it():
    line = "é" * (LONGEST_LINE // 2)
    assert lines_of(line) == []
    assert lines_of(f"{line}é") == [(f"{line}é", BAD)]
    assert lines_of(f"a\n{line} {'x' * 20}") == [(f"{line} {'x' * 20}", BAD)]


@pytest.mark.parametrize(
    "expression",
    ["é+", "é|[a-z]\\b", "(?i:é)", "[a-z][0-9]", "é(?=a)", "|é"],
)
def test_an_expression_of_another_kind_makes_every_letter_outside_ascii_suspect(expression, monkeypatch):
    made = badness.build(re.compile(expression), CONTROL)
    monkeypatch.setattr(badness, "tables", lambda: made)
    assert lines_of("plain\nñ\n") == [("ñ\n", BAD)]
    assert scan.scan_texts(np.frombuffer(b"a1 b2", np.uint8), np.array([0, 5])).tolist() == [0]


def test_short_repetitions_groups_and_complements_are_understood(monkeypatch):
    expression = re.compile(r"é(?:a|[^\w])\s{1,2}x|^(ñ)\S", re.VERBOSE)
    made = badness.build(expression, CONTROL)
    monkeypatch.setattr(badness, "tables", lambda: made)
    for line in ("éa x", "é. \tx", "é  x", "é   x", "éb x", "éa\u3000x", "éé.  x", "ñb", " ñb", "ñ ", "ññ"):
        assert bool(lines_of(line)) == bool(expression.search(line)), line
