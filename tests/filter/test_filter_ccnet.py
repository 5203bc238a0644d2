"""Perplexities of models that are written or trained here, against values worked out from their counts."""

import itertools
import math
import sys
from collections import Counter
from pathlib import Path

import pytest

import curate
from curate.errors import CurateError, InputError, RecipeError
from curate.filter.ccnet import CUTOFFS, CCNet, normalised

BY_HAND = r"""\data\
ngram 1=5
ngram 2=3

\1-grams:
-1.0	<unk>
-99	<s>	-0.5
-0.7	</s>
-0.5	the	-0.3
-0.8	lock	-0.2

\2-grams:
-0.2	<s> the
-0.4	the lock
-0.1	lock </s>

\end\
"""
PROSE = (
    "the lock keeper wrote the toll in a green book and the barge left before noon\n"
    "the keeper of the lock opened the gate at dawn and the barge went down to the sea\n"
    "a barge with grain came up the canal and the keeper asked for the toll\n"
) * 3


@pytest.fixture
def by_hand(tmp_path):
    path = tmp_path / "hand.arpa"
    path.write_text(BY_HAND)
    return str(path)


# -- values by hand: 10 ^ (-log10 p / (words + 1 a line)) ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "log_10", "length"),
    [
        ("the lock", -0.2 - 0.4 - 0.1, 3),
        ("lock", (-0.5 - 0.8) - 0.1, 2),  # <s> backs off
        ("the the", -0.2 + (-0.3 - 0.5) + (-0.3 - 0.7), 3),
        ("barge", (-0.5 - 1.0) - 0.7, 2),  # an unknown word
        ("the lock\nlock", -0.7 - 1.4, 5),
        ("the lock\n\nlock", -0.7 + (-0.5 - 0.7) - 1.4, 6),  # an empty line is a sentence, too
        ("  The LOCK ", -0.7, 3),
        ("thé lóck", -0.7, 3),
    ],
)
def test_perplexity_by_hand(apply, by_hand, text, log_10, length):
    (row,) = apply(CCNet(model=by_hand), text)
    assert row["perplexity"] == pytest.approx(10 ** (-log_10 / length), abs=0.0501)
    assert row["perplexity"] == round(row["perplexity"], 1)


def test_an_empty_text_has_no_perplexity_and_is_not_judged_by_it(apply, fired, by_hand):
    step = CCNet(model=by_hand, cutoffs=(3, 6), keep="head")
    (row,) = apply(step, "")
    assert (row["perplexity"], row["perplexity_bucket"], row["num_chars"]) == (0.0, "all", 0)
    assert fired(step, row) == ["block.min_chars"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("  Été 2024 ", "ete 0000"),
        ("“Olá” – disse…", '"ola" - disse...'),
        ("a—b，c。", "a - b,c."),
        ("one\ntwo\tthree", "onetwothree"),  # line ends and tabs are control characters
        ("٣ ５", "0 0"),
        ("\u00a0x\u0085", "x"),
        ("가", "\u1100\u1161"),  # decomposed, no accent
        ("", ""),
    ],
)
def test_normalised_text(text, wanted):
    assert normalised(text) == wanted


# -- buckets -----------------------------------------------------------------------------------------------------------


def test_cutoffs_as_published():
    assert len(CUTOFFS) == 48
    assert (CUTOFFS["en"], CUTOFFS["pt"]) == ((340, 520), (170, 270))
    assert (CUTOFFS["de"], CUTOFFS["zh"], CUTOFFS["be"]) == ((370, 590), (1460, 1950), (670, 910))
    assert all(0 < head < middle for head, middle in CUTOFFS.values())


@pytest.mark.parametrize(
    ("perplexity", "bucket", "by_head", "by_middle"),
    [
        (169.9, "head", [], []),
        (170.0, "middle", ["block.bucket"], []),
        (170.1, "middle", ["block.bucket"], []),
        (269.9, "middle", ["block.bucket"], []),
        (270.0, "tail", ["block.bucket"], ["block.bucket"]),
        (270.1, "tail", ["block.bucket"], ["block.bucket"]),
    ],
)
def test_both_sides_of_the_cutoffs(fired, perplexity, bucket, by_head, by_middle):
    row = {"perplexity": perplexity, "num_chars": 300, "language": "pt"}
    for keep, wanted in (("head", by_head), ("middle", by_middle), ("off", [])):
        step = CCNet(model="pt.arpa.bin", language="pt", keep=keep)
        assert step._bucket(perplexity) == bucket
        assert fired(step, row) == wanted
        assert fired(step, {**row, "language": "en"}) == []  # not its model's language


@pytest.mark.parametrize(("chars", "goes"), [(299, True), (300, False), (301, False)])
def test_at_least_300_characters(apply, fired, by_hand, chars, goes):
    step = CCNet(model=by_hand)
    (row,) = apply(step, "x" * chars)
    assert fired(step, row) == (["block.min_chars"] if goes else [])
    assert fired(CCNet(model=by_hand, min_chars="off"), row) == []


def test_cutoffs_of_ones_own(apply, fired, by_hand):
    step = CCNet(model=by_hand, cutoffs=(2, 5.5), keep="middle", min_chars="off")
    rows = apply(step, "the lock", "lock", "barge")  # 1.7, 5.0, 12.6
    assert [row["perplexity_bucket"] for row in rows] == ["head", "middle", "tail"]
    assert [fired(step, row) for row in rows] == [[], [], ["block.bucket"]]
    bounded = CCNet(model=by_hand, max_perplexity=5, min_chars="off")
    assert [fired(bounded, row) for row in rows] == [[], [], ["block.perplexity"]]
    assert [row["perplexity_bucket"] for row in apply(bounded, "lock")] == ["all"]


# -- trained models ----------------------------------------------------------------------------------------------------


class Bigrams:
    """A model with absolute discounting (0.5) over words with add-one smoothing."""

    def __init__(self, lines):
        self.pairs, self.first, self.words = Counter(), Counter(), Counter()
        for line in lines:
            tokens = ["<s>", *line.split(), "</s>"]
            self.pairs.update(itertools.pairwise(tokens))
            self.first.update(tokens[:-1])
            self.words.update(tokens[1:])
        self.total = self.words.total() + len(self.words) + 1

    def unigram(self, word):
        return (self.words[word] + 1) / self.total

    def backoff(self, first):
        seen = [second for one, second in self.pairs if one == first]
        return 0.5 * len(seen) / self.first[first] / (1 - sum(map(self.unigram, seen))) if seen else 1.0

    def probability(self, first, second):
        if (first, second) in self.pairs:
            return (self.pairs[first, second] - 0.5) / self.first[first]
        return self.backoff(first) * self.unigram(second)

    def perplexity(self, lines):
        log_10, length = 0.0, 0
        for line in lines:
            tokens = ["<s>", *(word if word in self.words else "<unk>" for word in line.split()), "</s>"]
            log_10 += sum(math.log10(self.probability(*pair)) for pair in itertools.pairwise(tokens))
            length += len(tokens) - 1
        return 10 ** (-log_10 / length)

    def write(self, path):
        words = ["<unk>", "<s>", *self.words]
        lines = ["\\data\\", f"ngram 1={len(words)}", f"ngram 2={len(self.pairs)}", "", "\\1-grams:"]
        for word in words:
            log_10 = -99 if word == "<s>" else math.log10(self.unigram(word))
            lines.append(
                f"{log_10:.9f}\t{word}" + (f"\t{math.log10(self.backoff(word)):.9f}" if word != "</s>" else "")
            )
        lines += ["", "\\2-grams:"]
        lines += [f"{math.log10(self.probability(*pair)):.9f}\t{' '.join(pair)}" for pair in self.pairs]
        Path(path).write_text("\n".join([*lines, "", "\\end\\", ""]), encoding="utf-8")
        return str(path)


def test_a_model_trained_on_words(apply, tmp_path):
    model = Bigrams(PROSE.splitlines())
    step = CCNet(model=model.write(tmp_path / "words.arpa"), cutoffs=(8, 30))
    texts = (
        "the barge left the lock at dawn",
        "the keeper wrote the toll in a green book\nand the barge went down to the sea",
        "sea gate grain noon green asked dawn with",
        "unknown words only here",
    )
    rows = apply(step, *texts)
    for text, row in zip(texts, rows, strict=True):
        assert row["perplexity"] == pytest.approx(model.perplexity(text.split("\n")), rel=1e-4, abs=0.0501)
    prose, _, salad, _ = (row["perplexity"] for row in rows)
    assert prose < salad / 3
    assert [row["perplexity_bucket"] for row in rows][:3] == ["middle", "head", "tail"]


def test_a_model_of_pieces_reads_the_text_as_one_sentence(apply, tmp_path):
    import sentencepiece

    (tmp_path / "prose.txt").write_text(PROSE)
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "prose.txt"),
        model_prefix=str(tmp_path / "pieces"),
        vocab_size=40,
        num_threads=1,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "pieces.model"))
    model = Bigrams(" ".join(pieces.encode(line, out_type=str)) for line in PROSE.splitlines())
    step = CCNet(model=model.write(tmp_path / "pieces.arpa"), tokenizer=str(tmp_path / "pieces.model"))
    row, blank = apply(step, "The lock keeper\nwrote 3 tolls", "\n")
    assert (blank["perplexity"], blank["perplexity_bucket"]) == (0.0, "all")  # no piece is left
    sentence = " ".join(pieces.encode("the lock keeperwrote 0 tolls", out_type=str))  # the line end goes
    assert row["perplexity"] == pytest.approx(model.perplexity([sentence]), rel=1e-4, abs=0.0501)


# -- files and recipes -------------------------------------------------------------------------------------------------


def test_files_are_told_by_their_digest_and_errors_name_them(apply, by_hand, tmp_path):
    step = CCNet(model=by_hand)
    before = step.model_digest()
    Path(by_hand).write_text(BY_HAND.replace("-0.1\tlock", "-0.9\tlock"))
    assert step.model_digest() != before
    assert apply(step, "the lock")[0]["perplexity"] == 3.2  # 10 ^ (1.5 / 3)
    (tmp_path / "no.arpa").write_text("this is no model")
    with pytest.raises(InputError, match=r"no\.arpa.*no KenLM model.*Name an ARPA file"):
        CCNet(model=str(tmp_path / "no.arpa")).prepare()
    with pytest.raises(InputError, match=r"absent.*cannot be read"):
        CCNet(model=str(tmp_path / "absent")).model_digest()


def test_without_kenlm_the_remedy_is_named(by_hand, monkeypatch):
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(CurateError, match=r"pip install 'curate\[kenlm\]'"):
        CCNet(model=by_hand).model_digest()


def test_a_recipe_with_a_model_a_language(tmp_path, by_hand):
    text = (
        "name: r\nsources:\n  web:\n    read: {kind: jsonl, paths: a.jsonl}\n    steps:\n      - language: {}\n"
        "      - ccnet: {model: hand.arpa, language: pt, keep: middle}\n"
        "      - ccnet: {model: hand.arpa, language: en, keep: head}\n"
    )
    (tmp_path / "r.yaml").write_text(text)
    steps = curate.load(tmp_path / "r.yaml").source("web").steps
    assert [block.name for block in steps] == ["language", "ccnet", "ccnet-2"]
    assert steps[1].step.model == by_hand
    bounds = [rule.at_most for block in steps[1:] for rule in block.rules() if rule.name.endswith(".bucket")]
    assert bounds == [{"pt": math.nextafter(270, 0)}, {"en": math.nextafter(340, 0)}]
    (tmp_path / "r.yaml").write_text(text.replace("      - language: {}\n", ""))
    with pytest.raises(RecipeError, match="needs the column 'language'"):
        curate.load(tmp_path / "r.yaml")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": "middle"}, "keep needs cutoffs"),
        ({"keep": "head", "language": "xx"}, "keep needs cutoffs"),
        ({"keep": "tail", "language": "en"}, "'head' or 'middle'"),
        ({"cutoffs": (5, 3)}, "cutoffs are 5 and 3; they must rise from above 0"),
        ({}, "Field required"),
    ],
)
def test_what_cannot_work_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        CCNet(**({"model": "x.arpa"} if settings else {}), **settings)
