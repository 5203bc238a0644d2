"""A trained model, as sampling and export read it: weights of the shape that was written down, and the tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from curate.errors import InputError
from curate.tokens.tokenizer import Tokenizer, load_tokenizer, read_card, tokenizer_file
from train import checkpoint
from train.config import Settings, TrainError, settings_of
from train.model import Decoder


@dataclass(frozen=True, slots=True)
class Trained:
    """A checkpoint with what is needed to use it.

    Attributes:
        path: The checkpoint's folder.
        step: Updates done.
        settings: Of its run; those that change no result are the defaults.
        identity: Those and the rest that the run wrote down: preset, seed, steps, vocab_size, eos_id and others.
        state: All that the checkpoint says.
        weights: By the names of `Decoder`, of its shapes; float32, on the CPU.
        tokenizer: The one that the shards were encoded with.
        tokenizer_path: Its file or folder.
    """

    path: Path
    step: int
    settings: Settings
    identity: Mapping[str, Any]
    state: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    tokenizer: Tokenizer
    tokenizer_path: Path

    @property
    def vocab_size(self) -> int:
        """Return how many ids there are; rows of embedding and head behind them are padding."""
        return int(self.identity["vocab_size"])

    @property
    def start_ids(self) -> list[int]:
        """Return what stands before the text of a document in training: the EOS of another, then the begin mark if any."""
        bos = self.tokenizer.bos_id
        return [self.tokenizer.eos_id] if bos is None else [self.tokenizer.eos_id, bos]

    def decoder(self) -> Decoder:
        """Return the model, on the CPU."""
        decoder = Decoder(self.settings, self.identity["padded_vocab_size"], num_ids=self.vocab_size)
        decoder.load_state_dict(dict(self.weights))
        return decoder.eval()


def open_trained(folder: Path, tokenizer: Path | None, *, warn: Callable[[str], None]) -> Trained:
    """Read a checkpoint, verify it and find its tokenizer; changes nothing.

    Args:
        folder: Of a checkpoint, or of a run: its newest undamaged one is taken, the others are named through `warn`.
        tokenizer: File or folder of the tokenizer; None: that of the run's resolved.json, or the folder `tokenizer`
            beside `train` in the run's folder.
        warn: Takes a line for the reader.

    Raises:
        TrainError: If there is no such checkpoint, it is damaged or of another shape, or its tokenizer is not found.
    """
    try:
        saved = checkpoint.find(folder, warn=warn)
    except checkpoint.DamagedError as error:
        raise TrainError(f"{error} Take another checkpoint of this run, or copy this one again.") from error
    try:
        identity = saved.state["identity"]
        settings = settings_of(identity)
        padded, wanted = identity["padded_vocab_size"], (identity["tokenizer_sha256"], identity["eos_id"])
        weights = saved.tensors["model"]
    except (KeyError, TypeError, ValueError) as error:
        raise TrainError(
            f"{saved.path / checkpoint.STATE}: does not say what model this is ({error!r}). It was written by another version "
            "of the trainer; train anew, or read it with that version."
        ) from error
    _check_shapes(saved.path, settings, padded, weights)
    found, place = _find_tokenizer(saved.path, wanted, tokenizer)
    return Trained(
        path=saved.path,
        step=saved.step,
        settings=settings,
        identity=identity,
        state=saved.state,
        weights=weights,
        tokenizer=found,
        tokenizer_path=place,
    )


def _check_shapes(path: Path, settings: Settings, padded_vocab_size: int, weights: Mapping[str, Tensor]) -> None:
    with torch.device("meta"):
        wanted = {name: tuple(one.shape) for name, one in Decoder(settings, padded_vocab_size).state_dict().items()}
    found = {name: tuple(one.shape) for name, one in weights.items()}
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            here, there = (f"of shape {one[name]}" if name in one else "absent" for one in (found, wanted))
            raise TrainError(
                f"{path / 'model.safetensors'}: {name} is {here}, by the settings in {checkpoint.STATE} it is {there}. "
                "Weights and settings are of two models; take another checkpoint."
            )


def _find_tokenizer(path: Path, wanted: tuple[str, int], given: Path | None) -> tuple[Tokenizer, Path]:
    """Return the tokenizer with this sha256 and end mark, and its place.

    It is the given one, or the one that the run wrote down, or the nearest in a folder above the checkpoint.
    """
    if given is not None:
        tokenizer = _open_tokenizer(given)
        if (tokenizer.sha256, tokenizer.eos_id) != wanted:
            raise TrainError(
                f"{given}: is not the tokenizer of {path}: its sha256 is {tokenizer.sha256} and its end mark has the id "
                f"{tokenizer.eos_id}; the model was trained with {wanted[0]} and {wanted[1]}."
            )
        return tokenizer, given
    places = [parent / "tokenizer" for parent in path.resolve().parents if (parent / "tokenizer").is_dir()]
    places = _written_down(path) + places
    for place in places:
        tokenizer = _open_tokenizer(place)
        if (tokenizer.sha256, tokenizer.eos_id) == wanted:
            return tokenizer, place
    seen = f"Not it: {', '.join(map(str, places))}" if places else "There is none"
    raise TrainError(
        f"{path}: its tokenizer (sha256 {wanted[0]}) is in no folder `tokenizer` above it. {seen}. Name the file or its folder "
        "with --tokenizer."
    )


def _written_down(path: Path) -> list[Path]:
    """Return where the run of a checkpoint found its tokenizer, if it says so (tuning does) and that is still there."""
    output = path.resolve().parent.parent
    try:
        named = json.loads((output / "resolved.json").read_bytes())["tokenizer"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [output / named] if isinstance(named, str) and (output / named).exists() else []


def _open_tokenizer(place: Path) -> Tokenizer:
    try:
        file = tokenizer_file(place)
        card = read_card(file)  # which of its marks count
        return load_tokenizer(file, eos=card.get("eos"), bos=card.get("bos") or False)
    except InputError as error:
        raise TrainError(  # the error's own remedy speaks of a recipe
            f"{error.file}: {error.problem} Give --tokenizer the run's folder `tokenizer`, whose card.json tells the marks, or "
            "the tokenizer's file."
        ) from error
