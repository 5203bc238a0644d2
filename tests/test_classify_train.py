"""From files to a model: what is trained on and held out, the card, refusals, scores; real books against real raw web."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import machine
import pyarrow.parquet as pq
import pytest
import xxhash

from curate.classify.examples import Corpus, choose
from curate.classify.score import score_files
from curate.classify.train import train_classifier, write_recipe
from curate.errors import CurateError, InputError, RecipeError, UsageError
from curate.text.oneline import folded_line, one_line, words_of

DATA = Path(os.environ.get("CURATE_DATA", machine.ROOT.parent / "shared" / "data"))
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"real inputs are not at {DATA}: set CURATE_DATA")

SHOP = "buy cheap offer price shipping free click cart now best deal today only order".split()
LEVELS = ("zero ", "one ", "two ", "three ", "four ", "five ")
SETTINGS = "fasttext: {dim: 8, bucket: 200, lr: 0.5}"


def shop(seed: int) -> str:
    """Return a text of its own that no lock keeper wrote."""
    digest = hashlib.sha256(str(seed).encode()).digest()  # no digits: the folded form makes them all one
    return " ".join(SHOP[byte % len(SHOP)] for byte in digest[:20])


def two_classes(folder: Path, *, good: int = 200, bad: int = 300) -> None:
    machine.write_jsonl(folder / "good.jsonl", [{"id": f"g{n}", "text": machine.prose(n)} for n in range(good)])
    machine.write_jsonl(folder / "bad.jsonl", [{"id": f"b{n}", "text": shop(n)} for n in range(bad)])


def recipe(folder: Path, classifier: str, sources: str = "") -> Path:
    path = folder / "classifier.yaml"
    path.write_text(
        f"""name: small
seed: 11
sources:
  good:
    read: {{kind: jsonl, paths: good.jsonl}}
  bad:
    read: {{kind: jsonl, paths: bad.jsonl}}
{sources}
classifier: {{{classifier}}}
"""
    )
    return path


def train(path: Path, output: Path, **more: Any) -> dict[str, Any]:
    cache = path.parent / "cache"
    return dict(train_classifier(path, output=output, cache=cache, workers=1, quiet=True, **more).card)


PAIR = f"positive: good, negative: bad, {SETTINGS}"


# -- forms -------------------------------------------------------------------------------------------------------------


def test_one_line_is_what_dclm_feeds_fasttext():
    # dclm fasttext_filter: " ".join(page.strip().splitlines())
    assert one_line("  A line,\r\nanother\u2028and a third\n") == "A line, another and a third"


def test_folded_line_by_hand():
    assert folded_line("Don't pay $1,299.90\n\nin 2019!") == "don ' t pay $ 0 , 000 . 00 in 0000 !"
    assert folded_line("e\u0301 \u092e\u0947\u0902 Ação") == "é \u092e\u0947\u0902 ação"  # vowel signs stay
    assert folded_line("__label__x </s>") == "_ _ label _ _ x < / s >"  # no text can pass for a label or an end
    assert folded_line(" \n\t\u00a0 ") == ""


def test_words_are_fasttexts():
    assert words_of("a\u00a0b c\x0bd\0e\u2003f") == ["a\u00a0b", "c", "d", "e\u2003f"]


# -- which examples ----------------------------------------------------------------------------------------------------


def test_two_classes_are_told_apart(tmp_path):
    two_classes(tmp_path)
    card = train(recipe(tmp_path, PAIR), tmp_path / "model")
    assert card["held_out"]["auc"] == 1.0
    assert card["held_out"]["accuracy"] == 1.0
    assert card["reading"] == {"text": "folded", "score": {"positive": 1.0}}
    classes = card["data"]["classes"]
    assert [classes[label]["documents"] for label in ("positive", "negative")] == [200, 300]
    assert classes["positive"]["trained"] == classes["negative"]["trained"]  # balance
    assert classes["positive"]["trained"] + classes["positive"]["held_out"] == 200
    assert 8 <= classes["positive"]["held_out"] <= 40  # a tenth, by hash
    written = pq.read_table(tmp_path / "model" / "held_out.parquet").to_pylist()
    assert len(written) == classes["positive"]["held_out"] + classes["negative"]["held_out"]
    keep = next(row for row in card["held_out"]["keep_rates"] if row["keep"] == 0.1)
    pool = sorted(row["score"] for row in written if row["label"] == "negative")
    assert keep["threshold"] == pool[-max(1, -(-len(pool) // 10))]
    summary = (tmp_path / "model" / "card.md").read_text()
    assert "| 0.1 (asked) |" in summary
    assert card["model"]["sha256"] in summary


def test_the_same_bytes_whatever_the_workers_the_order_and_the_folder(tmp_path):
    two_classes(tmp_path)
    path = recipe(tmp_path, PAIR)
    train(path, tmp_path / "one")
    rows = (tmp_path / "good.jsonl").read_text().splitlines(keepends=True)
    for number in (1, 2):
        (tmp_path / "good.jsonl").write_text("".join(reversed(rows)) if number == 2 else "".join(rows))
        done = machine.command(
            *("classifier", "train", path, "--output", tmp_path / f"again-{number}"),
            *("--cache", tmp_path / f"cache-{number}", "--workers", number, "--quiet"),
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == (tmp_path / "one" / "card.md").read_text()
    for name in ("model.bin", "held_out.parquet", "card.md"):
        files = [(tmp_path / folder / name).read_bytes() for folder in ("one", "again-1", "again-2")]
        assert files[0] == files[1] == files[2], name
    assert (tmp_path / "one" / "card.json").read_bytes() == (tmp_path / "again-1" / "card.json").read_bytes()


def test_no_text_is_on_both_sides_however_it_is_written(tmp_path):
    two_classes(tmp_path)
    rows = [{"text": machine.prose(number).upper() + " \n"} for number in range(200)]
    rows += [{"text": machine.prose(number)} for number in range(200)]
    machine.write_jsonl(tmp_path / "good.jsonl", rows)
    path = recipe(tmp_path, PAIR + ", text: line")
    card = train(path, tmp_path / "model")
    assert card["data"]["classes"]["positive"]["repeated"] == 0  # as lines they differ
    corpus = _corpus(tmp_path, path)
    sides: dict[str, set[bool]] = {}
    for one in corpus.passages():
        sides.setdefault(folded_line(one.line), set()).add(one.held_out)
    assert all(len(side) == 1 for side in sides.values())
    assert {True, False} <= {next(iter(side)) for side in sides.values()}


def _corpus(folder: Path, path: Path) -> Corpus:
    from curate.loading import load

    loaded = load(path)
    assert loaded.classifier is not None
    return Corpus(folder / "model" / "corpus", loaded.classifier, [one.name for one in loaded.sources], loaded.seed)


def test_copies_count_once_and_a_text_of_both_classes_is_of_neither(tmp_path):
    two_classes(tmp_path, good=100, bad=100)
    with (tmp_path / "good.jsonl").open("a") as file:
        file.writelines(json.dumps({"text": machine.prose(number)}) + "\n" for number in (1, 2, 2))
        file.writelines(json.dumps({"text": shop(number)}) + "\n" for number in (5, 6))
        file.write(json.dumps({"text": "  "}) + "\n" + json.dumps({"text": "\u200b"}) + "\n")
    path = recipe(tmp_path, PAIR + ", balance: false")
    classes = train(path, tmp_path / "model")["data"]["classes"]
    assert classes["positive"]["repeated"] == 3
    assert classes["positive"]["ambiguous"] == classes["negative"]["ambiguous"] == 2
    assert classes["positive"]["trained"] + classes["positive"]["held_out"] == 100
    assert classes["negative"]["trained"] + classes["negative"]["held_out"] == 98


def test_long_documents_become_passages_of_one_side(tmp_path):
    two_classes(tmp_path, good=60)
    path = recipe(tmp_path, PAIR + ", passage_words: 40")
    card = train(path, tmp_path / "model")
    counts = card["data"]["classes"]["positive"]
    assert counts["examples"] > 3 * 60
    corpus = _corpus(tmp_path, path)
    assert max(len(one.line.split()) for one in corpus.passages()) <= 40
    chosen = choose(corpus)
    assert not set(chosen.trained["positive"]) & set(chosen.held_out["positive"])


def test_max_per_class_takes_the_lowest_hashes(tmp_path):
    two_classes(tmp_path)
    path = recipe(tmp_path, PAIR + ", max_per_class: 50")
    card = train(path, tmp_path / "model")
    assert [one["trained"] for one in card["data"]["classes"].values()] == [50, 50]
    corpus = _corpus(tmp_path, path)
    seed = xxhash.xxh3_64_intdigest(b"11 2")
    hashes = sorted(
        xxhash.xxh3_64_intdigest(one.line.encode(), seed)
        for one in corpus.passages()
        if one.label == "positive" and not one.held_out
    )
    assert choose(corpus).trained["positive"].tolist() == hashes[:50]


# -- scores and labels -------------------------------------------------------------------------------------------------


def test_scores_become_classes_and_the_score_is_their_expectation(tmp_path):
    """FineWeb-Edu's form: 0 to 5 in a field, kept from 3 on; here the words say the number."""
    rows = [
        {
            "text": f"{machine.prose(number, 2)} " + LEVELS[number % 6] * 12,
            "edu": [number % 6, float(number % 6), str(number % 6)][number % 3],
        }
        for number in range(600)
    ]
    rows += [
        {"text": machine.prose(7000), "edu": 9},
        {"text": machine.prose(7001)},
        {"text": machine.prose(7002), "edu": "high"},
    ]
    machine.write_jsonl(tmp_path / "good.jsonl", rows)
    machine.write_jsonl(tmp_path / "bad.jsonl", [{"text": "nothing"}])
    card = train(recipe(tmp_path, f"score: {{field: edu}}, {SETTINGS}"), tmp_path / "model")
    assert card["labels"] == ["0", "1", "2", "3", "4", "5"]
    assert card["data"]["unlabelled"] == 3
    assert card["held_out"]["accuracy"] > 0.95
    assert card["held_out"]["auc"] > 0.99
    assert card["held_out"]["pool"] == card["held_out"]["good"] + card["held_out"]["others"]
    machine.write_jsonl(tmp_path / "new.jsonl", [{"text": level * 12} for level in LEVELS])
    score_files(str(tmp_path / "model"), [str(tmp_path / "new.jsonl")], tmp_path / "scores.parquet")
    found = pq.read_table(tmp_path / "scores.parquet")["score"].to_pylist()
    assert found == sorted(found)
    assert found[0] < 0.7
    assert found[5] > 4.3


def test_labels_from_a_field(tmp_path):
    topics = {
        "mathematics": "theorem proof integral lemma",
        "cooking": "oven butter flour simmer",
        "law": "court clause judge appeal",
    }
    rows = [
        {
            "text": " ".join(words.split()[(number + place) % 4] for place in range(9)) + " " + shop(number),
            "meta": {"topic": topic},
        }
        for number in range(150)
        for topic, words in topics.items()
    ]
    machine.write_jsonl(tmp_path / "good.jsonl", rows)
    machine.write_jsonl(tmp_path / "bad.jsonl", [{"text": "no topic"}])
    card = train(recipe(tmp_path, f"label: meta.topic, {SETTINGS}"), tmp_path / "model")
    assert card["labels"] == ["cooking", "law", "mathematics"] or set(card["labels"]) == set(topics)
    assert card["reading"]["score"] == {}
    assert card["held_out"]["accuracy"] > 0.95
    assert "auc" not in card["held_out"]
    path = tmp_path / "run.yaml"
    path.write_text(
        """name: topics
sources:
  web:
    read: {kind: jsonl, paths: new.jsonl}
    steps: [{topic: {model: model, keep: [law, cooking], min_score: {law: 0.5}}}]
"""
    )
    texts = [
        "the judge of the court heard the appeal",
        "butter the oven and simmer flour",
        "a lemma and its proof",
        " ! ",
    ]
    machine.write_jsonl(tmp_path / "new.jsonl", [{"id": text, "text": text} for text in texts])
    machine.run(path, tmp_path, until="collect")
    rows = pq.read_table(tmp_path / "run" / "measurements" / "web" / "topic").to_pylist()
    assert [row["topic"] for row in rows[:3]] == ["law", "cooking", "mathematics"]
    decided = pq.read_table(tmp_path / "run" / "decisions" / "web").to_pylist()
    assert [row["kept"] for row in decided[:3]] == [True, True, False]
    assert decided[2]["rule"] == "topic.keep"
    assert decided[2]["value_label"] == "mathematics"
    quality = path.with_name("quality.yaml")
    quality.write_text(
        path.read_text().replace(
            "topic: {model: model, keep: [law, cooking], min_score: {law: 0.5}}", "quality: {model: model}"
        )
    )
    with pytest.raises(RecipeError, match="none of them is a number"):
        machine.run(quality, tmp_path, output=tmp_path / "other", until="collect")


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        ("positive: good", "negative is missing"),
        ("negative: bad", "positive is missing"),
        ("fasttext: {dim: 8}", "say what is learned by one of"),
        ("positive: good, negative: bad, label: topic", "say what is learned by one of"),
        ("positive: good, negative: good", "good is named as positive and as negative"),
        ("positive: goood, negative: bad", "names 'goood', which is no source of texts"),
        ("score: {field: edu, positive_from: 9}", "must lie above the lowest"),
        ("label: topic, held_out: 0", "held_out"),
        ("label: topic, fasttext: {dim: 0}", "dim"),
        ("label: topic, passages: 3", "passages"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_any_work(tmp_path, classifier, message):
    two_classes(tmp_path, good=3, bad=3)
    with pytest.raises(RecipeError, match=message):
        train(recipe(tmp_path, classifier), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_inputs_that_teach_nothing_are_refused(tmp_path):
    two_classes(tmp_path)
    machine.write_jsonl(tmp_path / "good.jsonl", [])
    with pytest.raises(InputError, match="class 'positive' has no example to train on: 0 documents"):
        train(recipe(tmp_path, PAIR), tmp_path / "empty")
    machine.write_jsonl(tmp_path / "good.jsonl", [{"text": "all the same"}] * 50)
    with pytest.raises(InputError, match=r"no example to (train on|hold out): 50 documents, .* 49 repeated"):
        train(recipe(tmp_path, PAIR), tmp_path / "same")
    machine.write_jsonl(tmp_path / "good.jsonl", [{"text": shop(number)} for number in range(300)])
    (tmp_path / "bad.jsonl").write_text((tmp_path / "good.jsonl").read_text() + "\n")
    with pytest.raises(InputError, match="300 in another class too"):
        train(recipe(tmp_path, PAIR), tmp_path / "both")
    machine.write_jsonl(tmp_path / "good.jsonl", [{"text": machine.prose(1), "topic": "one"}] * 3)
    with pytest.raises(InputError, match=r"only the class 'one' \(301 documents lack the field\)|only the class 'one'"):
        train(recipe(tmp_path, f"label: topic, {SETTINGS}"), tmp_path / "one-label")
    plain = tmp_path / "plain.yaml"
    plain.write_text("name: x\nsources: {good: {read: {kind: jsonl, paths: good.jsonl}}}\n")
    with pytest.raises(UsageError, match="has no section `classifier`"):
        train(plain, tmp_path / "plain")


def test_a_file_twice_is_refused(tmp_path):
    two_classes(tmp_path)
    (tmp_path / "copy.jsonl").write_bytes((tmp_path / "good.jsonl").read_bytes())
    more = "  more:\n    read: {kind: jsonl, paths: copy.jsonl}"
    with pytest.raises(InputError, match=r"copy.jsonl.*the same bytes as good.jsonl in source 'good'"):
        train(recipe(tmp_path, f"positive: [good, more], negative: bad, {SETTINGS}", more), tmp_path / "model")
    with pytest.raises(InputError, match="which is of the other kind"):
        train(recipe(tmp_path, f"positive: good, negative: [bad, more], {SETTINGS}", more), tmp_path / "model")


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    two_classes(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match=r"holds thesis.tex"):
        train(recipe(tmp_path, PAIR), tmp_path / "model")


# -- the command line --------------------------------------------------------------------------------------------------


def test_paths_on_the_command_line(tmp_path):
    two_classes(tmp_path)
    pages = tmp_path / "pages"
    pages.mkdir()
    for number in range(40):
        (pages / f"{number}.txt").write_text(machine.prose(500 + number))
    done = machine.command(
        *("classifier", "train", "--positive", "good.jsonl", "--positive", "pages", "--negative", "bad.jsonl"),
        *("--set", "classifier.fasttext.dim=8", "--set", "classifier.fasttext.bucket=200", "--set", "seed=3"),
        *("--set", "classifier.fasttext.lr=0.5"),
        *("--output", "out/model", "--cache", "cache", "--workers", 1, "--quiet"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    card = json.loads((tmp_path / "out" / "model" / "card.json").read_text())
    assert card["data"]["classes"]["positive"]["documents"] == 240
    assert card["seed"] == 3
    done = machine.command(
        *("classifier", "score", "out/model", "bad.jsonl", "pages", "--output", "scores.jsonl"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "340 documents scored in scores.jsonl.\n"
    rows = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows[:3]] == ["b0", "b1", "b2"]
    assert all(row["score"] < 0.5 for row in rows[:300])
    assert all(row["score"] > 0.5 for row in rows[300:])
    assert all(row["label"] == ("negative" if number < 300 else "positive") for number, row in enumerate(rows))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "--output", "x"), "name a recipe"),
        (("train", "--output", "x", "--positive", "good.jsonl"), "both --positive and --negative"),
        (("train", "--output", "x", "r.yaml", "--positive", "good.jsonl"), "name a recipe"),
        (("score", "nothing", "good.jsonl", "--output", "s.jsonl"), "cannot be read"),
        (("score", "good.jsonl", "good.jsonl", "--output", "s.jsonl"), "good.jsonl"),
        (("score", "nothing", "good.jsonl", "--output", "s.csv"), "must end in .parquet or .jsonl"),
        (("score", "nothing", "good.jsonl", "--output", "s.jsonl", "--form", "x"), "must be line or folded"),
    ],
)
def test_command_lines_that_cannot_work(tmp_path, arguments, message):
    two_classes(tmp_path, good=3, bad=3)
    done = machine.command("classifier", *arguments, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_line_is_named_in_the_scores(tmp_path):
    two_classes(tmp_path)
    train(recipe(tmp_path, PAIR), tmp_path / "model")
    (tmp_path / "new.jsonl").write_text('{"text": "the lock keeper"}\nbroken\n{"text": ""}\n{"text": "buy"}\n')
    counts = score_files(str(tmp_path / "model"), [str(tmp_path / "new.jsonl")], tmp_path / "s.parquet")
    rows = pq.read_table(tmp_path / "s.parquet").to_pylist()
    assert counts[0] + counts[1] == len(rows) == 4
    assert rows[1]["problem"].startswith("read.bad_record")
    assert rows[1]["score"] is None
    assert rows[3]["label"] == "negative"
    assert write_recipe(tmp_path / "elsewhere", ["a.parquet"], ["b.warc.gz"], "text").is_file()


# -- real inputs -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_data
def test_books_and_verified_pages_against_raw_web(tmp_path):
    """The recipe that ships, on fewer passages; judged on works and pages of another collection."""
    path = machine.ROOT / "recipes" / "classifiers" / "books_against_web.yaml"
    sets = [
        "classifier.max_per_class=1500",
        "sources.web.read.paths=${CURATE_DATA:-" + str(DATA) + "}/10_small_corpus/web.warc.gz",
    ]
    sets += ["classifier.fasttext.dim=16", "classifier.fasttext.bucket=50000"]
    environment = os.environ.get("CURATE_DATA")
    os.environ["CURATE_DATA"] = str(DATA)
    try:
        card = train_classifier(
            path, output=tmp_path / "model", cache=tmp_path / "cache", sets=sets, workers=1, quiet=True
        ).card
    finally:
        if environment is None:
            del os.environ["CURATE_DATA"]
        else:
            os.environ["CURATE_DATA"] = environment
    assert card["held_out"]["auc"] > 0.97
    score_files(str(tmp_path / "model"), [str(DATA / "10_small_corpus" / "books.jsonl.gz")], tmp_path / "s.parquet")
    found = pq.read_table(tmp_path / "s.parquet")["score"].to_pylist()
    assert len(found) == 9
    assert min(found) > 0.5  # Austen and Shakespeare are in no training set


def test_errors_of_the_card(tmp_path):
    two_classes(tmp_path)
    train(recipe(tmp_path, PAIR), tmp_path / "model")
    card = tmp_path / "model" / "card.json"
    card.write_text("{}")
    with pytest.raises(CurateError, match="is no card of a classifier"):
        score_files(str(tmp_path / "model"), [str(tmp_path / "good.jsonl")], tmp_path / "s.parquet")
    card.unlink()
    counts = score_files(
        str(tmp_path / "model"), [str(tmp_path / "good.jsonl")], tmp_path / "s.parquet", label="positive", form="folded"
    )
    assert counts == (200, 0)
    with pytest.raises(UsageError, match="--label hq: the model has"):
        score_files(str(tmp_path / "model"), [str(tmp_path / "good.jsonl")], tmp_path / "s.parquet", label="hq")


def test_the_published_recipes_say_what_the_papers_say(monkeypatch):
    from curate.loading import load

    folder = machine.ROOT / "recipes" / "classifiers"
    for name in ("POSITIVE", "ELI5", "POOL", "SCORED"):
        monkeypatch.setenv(name, f"{name.lower()}/*.jsonl")
    dclm = load(folder / "dclm.yaml").classifier
    assert dclm is not None
    fitted = dclm.fasttext
    # train_fasttext_classifier.py: lr 0.1, dim 100, epoch 5; the published model: bigrams, 200k a side; minCount and bucket: fastText's
    assert (fitted.lr, fitted.dim, fitted.epochs, fitted.word_ngrams) == (0.1, 100, 5, 2)
    assert (fitted.min_count, fitted.bucket, dclm.max_per_class, dclm.keep) == (1, 2_000_000, 200_000, 0.1)
    assert (dclm.text, dclm.passage_words) == ("line", None)
    edu = load(folder / "educational.yaml").classifier
    assert edu is not None
    assert edu.score is not None
    assert (edu.score.low, edu.score.high, edu.score.positive_from) == (0, 5, 3.0)  # FineWeb-Edu keeps 3 and more
    assert load(folder / "books_against_web.yaml").classifier is not None
