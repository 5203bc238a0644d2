from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from token_folder import CONTEXT, EOS, TINY, VOCAB, documents, write_mixture, write_source

from curate.errors import InputError
from curate.tokens.order import Plan, num_windows
from curate.tokens.shard import TokenSource
from train.config import PRESETS, TrainError
from train.data import TrainingData, ValidationData, open_data

IGNORED = -100


def settings(**changes):
    return dataclasses.replace(PRESETS["demo-1m"], **(TINY | changes))


def one_source(tmp_path, ids, *, window, drawn, validation=(), vocab_size=VOCAB):
    """A source whose train split is `ids` and one EOS."""
    write_source(tmp_path / "tokens" / "web", [np.array(ids)], validation, vocab_size=vocab_size)
    available = num_windows(len(ids) + 1, window)
    write_mixture(tmp_path / "mixture.json", window, {"web": (available, drawn)})
    return tmp_path / "tokens", tmp_path / "mixture.json"


def test_a_batch_by_hand(tmp_path):
    # 17 tokens and EOS = 18: two windows of 8, the second with its last target at place 16.
    data = open_data(*one_source(tmp_path, range(10, 27), window=8, drawn=2), settings(context=4, batch_windows=2))
    inputs, targets = data.train.batch(0)
    rows = {tuple(row): tuple(target) for row, target in zip(inputs.tolist(), targets.tolist(), strict=True)}
    assert rows == {  # each window gives two sequences of four
        (10, 11, 12, 13): (11, 12, 13, 14),
        (14, 15, 16, 17): (15, 16, 17, 18),
        (18, 19, 20, 21): (19, 20, 21, 22),
        (22, 23, 24, 25): (23, 24, 25, 26),
    }
    assert (data.train.num_steps, data.train.batch_tokens) == (1, 16)


def test_slots_are_those_of_the_plan(make_folder):
    folder = make_folder(steps=9)
    data = open_data(folder.root / "tokens", folder.root / "mixture.json", settings())
    plan = Plan.load(folder.root / "mixture.json")
    assert data.train.slots(3) == [plan.slot(g) for g in range(12, 16)]
    inputs, targets = data.train.batch(3)
    for row, target, (source, window) in zip(inputs, targets, data.train.slots(3), strict=True):
        tokens = data.train.sources[source].tokens(window * CONTEXT, window * CONTEXT + CONTEXT + 1)
        assert row.tolist() == tokens[:-1].tolist()
        assert target.tolist() == tokens[1:].tolist()
    for step in (-1, 9):
        with pytest.raises(ValueError, match=r"\[0, 9\)"):
            data.train.slots(step)


def test_a_run_on_a_prefix_of_the_mixture_has_its_first_batches(make_folder):
    folder = make_folder(steps=9)  # of 4 windows of 8 tokens: 288
    paths = folder.root / "tokens", folder.root / "mixture.json"
    whole, prefix = open_data(*paths, settings()).train, open_data(*paths, settings(max_tokens=100)).train
    assert (whole.num_steps, prefix.num_steps) == (9, 3)  # 12 windows, 96 tokens
    assert [prefix.slots(step) for step in range(3)] == [whole.slots(step) for step in range(3)]
    with pytest.raises(ValueError, match=r"\[0, 3\)"):
        prefix.slots(3)
    assert open_data(*paths, settings(max_tokens=288)).train.num_steps == 9
    with pytest.raises(TrainError, match=r"max_tokens is 289, the mixture has 288 \(36 windows of 8\)"):
        open_data(*paths, settings(max_tokens=289))
    with pytest.raises(TrainError, match="3 windows of 8 tokens do not fill one batch of 4 windows"):
        open_data(*paths, settings(max_tokens=31))


def test_a_batch_does_not_depend_on_what_came_before_or_on_micro_batches(make_folder):
    # train-006: nothing of the data position depends on ranks or on how a batch is cut.
    folder = make_folder(steps=9)
    place = (folder.root / "tokens", folder.root / "mixture.json")
    in_order = [open_data(*place, settings(micro_batch=4)).train.batch(step) for step in range(9)]
    for step in (8, 2, 5):
        alone = open_data(*place, settings(micro_batch=1)).train.batch(step)
        assert all(np.array_equal(a, b) for a, b in zip(alone, in_order[step], strict=True))


def test_each_epoch_covers_every_window(tmp_path):
    # train-002: 100 samples, batch 10, three epochs; any step can be asked for alone, so step 9 is where a run may stop.
    ids = [3 + n % 50 for n in range(100 * CONTEXT)]
    data = open_data(*one_source(tmp_path, ids, window=CONTEXT, drawn=300), settings(batch_windows=10))
    assert data.train.num_steps == 30
    orders = []
    for epoch in range(3):
        windows = [window for step in range(10 * epoch, 10 * epoch + 10) for _, window in data.train.slots(step)]
        assert sorted(windows) == list(range(100))
        orders.append(windows)
    assert orders[1] != orders[2]
    assert data.train.epochs({"web": 300}) == {"web": 3.0}
    assert data.train.epochs({"web": 90}) == {"web": 0.9}


def test_the_batch_is_the_nearest_whole_number_of_windows(make_folder):
    folder = make_folder(steps=9)
    place = (folder.root / "tokens", folder.root / "mixture.json")
    for tokens, windows in ((1, 1), (8, 1), (19, 2), (21, 3), (32, 4)):
        assert open_data(*place, settings(batch_windows=None, batch_tokens=tokens)).train.batch_windows == windows


def test_too_few_tokens_are_refused_with_the_numbers(tmp_path):
    # train-003: 50 tokens, context 128. 49 ids and their EOS are 50 tokens.
    place = one_source(tmp_path, [3 + n for n in range(49)], window=128, drawn=0, vocab_size=100)
    with pytest.raises(TrainError, match=r"'web' has 50 tokens; one window needs 128"):
        open_data(*place, settings(context=128))


@pytest.mark.parametrize(("tokens", "enough"), [(8, False), (9, True)])
def test_one_window_needs_its_last_target(tmp_path, tokens, enough):
    place = one_source(tmp_path, [5] * (tokens - 1), window=8, drawn=int(enough))
    if enough:
        assert open_data(*place, settings(batch_windows=1)).train.num_steps == 1
    else:
        with pytest.raises(TrainError, match="has 8 tokens; one window needs 8 and one more"):
            open_data(*place, settings(batch_windows=1))


def test_less_than_one_batch_is_refused(tmp_path):
    place = one_source(tmp_path, [5] * 40, window=8, drawn=3)
    with pytest.raises(TrainError, match="3 windows of 8 tokens do not fill one batch of 4 windows"):
        open_data(*place, settings())
    assert open_data(*place, settings(batch_windows=3)).train.num_steps == 1


def test_a_window_that_the_context_does_not_divide_is_refused(tmp_path):
    place = one_source(tmp_path, [5] * 40, window=12, drawn=3)
    with pytest.raises(TrainError, match="window of 12 tokens is not a multiple of the context 8"):
        open_data(*place, settings())


def test_a_mixture_made_for_other_shards_is_refused(tmp_path):
    place = one_source(tmp_path, [5] * 40, window=8, drawn=3)
    write_source(tmp_path / "tokens" / "web", [np.array([5] * 60)], [])
    with pytest.raises(TrainError, match=r"has 7 windows of 8 tokens, mixture\.json was made for 5"):
        open_data(*place, settings())


def test_sources_of_two_tokenizers_are_refused(make_folder):
    folder = make_folder(steps=9)
    write_source(folder.root / "tokens" / "web", documents(1, 40, 30), [], tokenizer="1" * 64)
    with pytest.raises(TrainError, match=r"web: tokenizer_sha256 is 1+, that of source 'books' is 0+"):
        open_data(folder.root / "tokens", folder.root / "mixture.json", settings())


def test_a_missing_source_is_named(make_folder):
    folder = make_folder(steps=9)
    (folder.root / "tokens" / "web" / "manifest.json").unlink()
    with pytest.raises(InputError, match="web"):
        open_data(folder.root / "tokens", folder.root / "mixture.json", settings())


def test_an_id_outside_of_the_vocabulary_is_refused_before_training(tmp_path):
    # train-007: ids 3, 511, 512, 7 under a vocabulary of 512. The writer refuses them too, so the file is changed.
    place = one_source(tmp_path, [3, 511, 511, 7], window=2, drawn=2, vocab_size=512)
    shard = tmp_path / "tokens" / "web" / "train-00000.bin"
    shard.write_bytes(np.array([3, 511, 512, 7, EOS], dtype="<u2").tobytes())
    data = open_data(*place, settings(context=2, batch_windows=1))
    with pytest.raises(InputError, match=r"train-00000\.bin.*512"):
        data.verify()


def validation(tmp_path, parts, context):
    write_source(tmp_path / "web", [np.array([5])], parts)
    return ValidationData(TokenSource.open(tmp_path / "web", "validation"), context)


def test_validation_windows_by_hand(tmp_path):
    data = validation(tmp_path, [np.array([10, 11, 12]), np.array([], dtype=int), np.array([13, 14, 15, 16, 17])], 4)
    found = [(document, before.tolist(), tokens.tolist()) for document, before, tokens in data.windows()]
    assert found == [(0, [], [10, 11, 12, EOS]), (1, [], [EOS]), (2, [], [13, 14, 15, 16]), (2, [16], [17, EOS])]


@pytest.mark.parametrize("length", [0, 3, 4, 6, 7, 8, 9, 40])
def test_validation_covers_each_token_once(tmp_path, length):
    data = validation(tmp_path, [np.arange(3, 3 + length), np.arange(3, 8)], 4)
    stream = [EOS, *range(3, 3 + length), EOS, *range(3, 8), EOS]
    seen, owners = [], []
    for document, before, tokens in data.windows():
        assert 1 <= tokens.size <= 4
        if before.size:
            assert before.tolist() == [stream[len(seen)]]
        else:
            assert stream[len(seen)] == EOS
        seen += tokens.tolist()
        owners += [document] * tokens.size
    assert seen == stream[1:]
    assert owners == [0] * (length + 1) + [1] * 6


@pytest.mark.parametrize(("length", "kept"), [(62, False), (63, True)])
def test_a_short_validation_split_is_skipped_and_said(tmp_path, length, kept):
    # train-008: below, and exactly at, one context of 64 (with the EOS).
    place = one_source(
        tmp_path, [5] * 999, window=64, drawn=10, validation=[np.array([6] * length)]
    )  # 1000 training tokens
    data = open_data(*place, settings(context=64))
    assert ("web" in data.validation) is kept
    if not kept:
        assert data.skipped["web"] == ("the validation split has 63 tokens, less than one window of 64: not evaluated")


def test_ten_validation_tokens_under_a_context_of_64(tmp_path):
    place = one_source(tmp_path, [5] * 999, window=64, drawn=10, validation=[np.array([6] * 9)])
    data = open_data(*place, settings(context=64))
    assert "10 tokens" in data.skipped["web"]
    assert "64" in data.skipped["web"]


def test_digests_name_every_shard_and_the_mixture(make_folder):
    folder = make_folder(steps=9)
    data = open_data(folder.root / "tokens", folder.root / "mixture.json", settings())
    assert set(data.digests) == {
        *(f"tokens/{s}/{split}-00000.bin" for s in ("books", "web") for split in ("train", "validation")),
        "mixture.json",
    }
    manifest = json.loads((folder.root / "tokens/web/manifest.json").read_text())
    assert data.digests["tokens/web/train-00000.bin"] == manifest["shards"][0]["sha256"]


def test_a_source_that_is_never_drawn_is_still_evaluated(make_folder):
    folder = make_folder(steps=9)
    content = json.loads((folder.root / "mixture.json").read_text())
    content["num_slots"] -= content["sources"]["web"]["windows_drawn"]
    content["sources"]["web"]["windows_drawn"] = 0
    (folder.root / "mixture.json").write_text(json.dumps(content))
    data = open_data(folder.root / "tokens", folder.root / "mixture.json", settings())
    assert isinstance(data.train, TrainingData)
    assert set(data.validation) == {"books", "web"}
    assert data.train.epochs({"books": 1, "web": 0})["web"] == 0.0
