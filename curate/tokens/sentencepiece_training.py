"""Training of a sentencepiece model that loses no character.

sentencepiece's defaults fold white space, apply NFKC, put a space before every text and skip long lines. A corpus of code
survives none of that, so a tokenizer trained here has identity normalisation, byte fallback, no dummy prefix and pieces
for runs of white space: decode(encode(text)) == text for every text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from curate.errors import StageError
from curate.stage import canonical
from curate.tokens.sentencepiece_model import SentencePieceTokenizer
from curate.tokens.sentencepiece_scores import with_grid_scores
from curate.tokens.settings import TokenizerSettings

# White space that code is made of, besides spaces: always one piece each. Runs of spaces are learned.
_WHITE_SPACE = ("\n", "\n\n", "\n\n\n", "\n\n\n\n", "\t", "\t\t", "\t\t\t", "\t\t\t\t")
# What the trainer cannot see: pieces of their own (above), its own marks for space and unknown, and NUL.
_UNSEEN = re.compile("[\n\r\t\0\u2581\u2585]+")
_SPACE_MARK = "\u2581"
_MARK_CHARACTERS = "<0x123456789ABCDEF>/unks"  # of byte pieces, <unk>, <s> and </s>
_LONGEST_LINE = 4096  # characters; the byte-pair trainer counts positions within a line in 16 bits


@dataclass(frozen=True, slots=True)
class TrainedTokenizer:
    """A new model and what is known of it.

    Attributes:
        model: Content of `tokenizer.model`.
        card: JSON values: real and asked vocabulary size, sha256, end mark, settings, and what it was trained on.
    """

    model: bytes
    card: dict[str, Any]


class NoTextError(StageError):
    """No text is left to train a tokenizer on."""

    def __init__(
        self,
        source: str = "all",
        stage: str = "tokenizer",
        place: str = "",
        problem: str = "there is no text to train a tokenizer on: no document for training was kept.",
        remedy: str = "Add documents, loosen the filters, or load a tokenizer.",
    ) -> None:
        super().__init__(source, stage, place, problem, remedy)


class _Sample:
    """The lines that the trainer sees, and the count of what it does not."""

    def __init__(self, texts: Iterable[str], limit: int) -> None:
        self._texts = texts
        self._limit = limit
        self.num_documents = self.num_bytes = self.num_lines = self.num_lines_cut = 0
        self.skipped_documents = self.skipped_bytes = 0

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            data = text.encode()
            kept = data[: self._limit - self.num_bytes].decode(errors="ignore")  # no half character at the end
            num_kept = len(data) if len(kept) == len(text) else len(kept.encode())
            self.num_bytes += num_kept
            self.skipped_bytes += len(data) - num_kept
            lines = [line for line in _UNSEEN.split(kept) if line]
            if lines:
                self.num_documents += 1
            else:
                self.skipped_documents += 1
            for line in lines:
                yield from self._cut(line)
            if num_kept < len(data) or self.num_bytes == self._limit:
                break

    def _cut(self, line: str) -> Iterator[str]:
        """Yield a long line in parts, between words where there are any."""
        start = 0
        while len(line) - start > _LONGEST_LINE:
            end = line.rfind(" ", start + 1, start + _LONGEST_LINE)
            end = end if end > start else start + _LONGEST_LINE
            self.num_lines += 1
            self.num_lines_cut += 1
            yield line[start:end]
            start = end
        self.num_lines += 1
        yield line[start:]


def _required(model: str, eos: str) -> str:
    """Return the characters that are pieces whatever the sample holds."""
    required = {
        _SPACE_MARK
    }  # a sample of Chinese may have none, and a space would come back as sentencepiece's sign for it
    if (
        model == "unigram"
    ):  # transformers finds a mark in a text unless its characters are pieces (see transformers_files)
        required |= {*_MARK_CHARACTERS, *eos}
    return "".join(sorted(required))


def train_tokenizer(texts: Iterable[str], settings: TokenizerSettings) -> TrainedTokenizer:
    """Train a tokenizer: the same texts in the same order give the same bytes.

    Long lines are cut rather than skipped, so every document of the sample takes part.

    Args:
        texts: The sample, in an order that the caller keeps the same; read until `sample_bytes` are full.
        settings: The recipe's `tokenizer`.

    Raises:
        NoTextError: If there is no text to learn from.
        StageError: If the vocabulary cannot hold the sample's characters.
    """
    import sentencepiece

    training = settings.training
    sample = _Sample(texts, training.sample_bytes)
    lines = list(sample)
    if not lines:
        raise NoTextError
    required = _required(training.model, settings.trained_eos)
    # The trainer heeds what is required only of characters that it has met.
    if lacking := [char for char in required if not any(char in line for line in lines)]:
        lines.append("".join(lacking))
    model = io.BytesIO()
    unigram = training.model == "unigram"
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=training.model,
            vocab_size=training.vocab_size,
            character_coverage=training.character_coverage,
            hard_vocab_limit=False,
            byte_fallback=True,
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True,
            user_defined_symbols=list(_WHITE_SPACE),
            split_digits=True,
            max_sentence_length=4 * _LONGEST_LINE,  # in bytes: no line is skipped
            input_sentence_size=0,
            shuffle_input_sentence=False,
            num_threads=1,  # more threads sum floats in another order
            eos_piece=settings.trained_eos,
            required_chars=required.replace(" ", _SPACE_MARK),
            minloglevel=2,  # errors; below, it tells of every merge
        )
    except RuntimeError as error:
        # "... Vocabulary size is smaller than required_chars. 300 vs 2811. ..."
        needed = re.search(r"required_chars\.?\s*\d+ vs (\d+)", str(error))
        problem = f"sentencepiece cannot train a vocabulary of {training.vocab_size:,}: {str(error).strip()}"
        size = f"at least {needed[1]}" if needed else "another size"
        remedy = f"Set tokenizer.train.vocab_size to {size}, or lower tokenizer.train.character_coverage."
        raise StageError("all", "tokenizer", "", problem, remedy) from error
    data = with_grid_scores(model.getvalue(), _WHITE_SPACE) if unigram else model.getvalue()
    tokenizer = SentencePieceTokenizer(data, eos=settings.trained_eos, bos=settings.bos)
    card = {
        "kind": training.kind,
        "vocab_size": tokenizer.vocab_size,
        "vocab_size_asked": training.vocab_size,
        "eos": settings.trained_eos,
        "eos_id": tokenizer.eos_id,
        "bos": tokenizer.bos,
        "sha256": tokenizer.sha256,
        "training_documents": sample.num_documents,
        "training_bytes": sample.num_bytes,
        "training_lines": sample.num_lines,
        "lines_cut": sample.num_lines_cut,
        "skipped_documents": sample.skipped_documents,
        "skipped_bytes": sample.skipped_bytes,
        "settings": canonical(training),
    }
    return TrainedTokenizer(data, card)
