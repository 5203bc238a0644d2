"""Rows of JSON Lines to examples: token ids, with the response marked.

Supervised: `{"prompt": ..., "response": ...}` or `{"messages": [{"role": "user", "content": ...}, ...]}`; preference:
`{"prompt": ..., "chosen": ..., "rejected": ...}`. Other keys are passed over. The template `chat` is plain text:

    <end>User: What is 2 + 2?\\n\\nAssistant: It is 4.<end>User: And 3 + 3?\\n\\nAssistant: It is 6.<end>
                                             ^^^^^^^^^^^^^^^                                  ^^^^^^^^^^^^^^^ targets

A system message comes first and reads `System: ...\\n\\n`. A response has a space before it and the end mark behind it; both
are learned. The template `none` has prompt and response as they stand. Each stretch of text is encoded by itself, so that
a prompt has the ids that it will have when the model is asked. Whatever a text says, it never becomes a mark.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from curate.errors import InputError
from curate.tokens.tokenizer import Tokenizer
from train.config import TrainError

Ids = npt.NDArray[np.int32]  # half of what batches take: all examples lie in memory
Segment = tuple[str, bool]  # text, and whether it is a response

_TURNS = {"system": "System: {}\n\n", "user": "User: {}\n\n"}
_ANSWERS = "Assistant:"
# The template `chat` in the language of transformers' tokenizers; what `begin` writes stands before a document in training.
CHAT_TEMPLATE = """\
{{ begin }}{% for message in messages %}\
{% if message['role'] == 'assistant' %}{{ 'Assistant: ' + message['content'] + eos_token }}\
{% elif message['role'] == 'user' %}{{ 'User: ' + message['content'] + '\\n\\n' }}\
{% elif message['role'] == 'system' and loop.first %}{{ 'System: ' + message['content'] + '\\n\\n' }}\
{% else %}{{ raise_exception('There are user, assistant, and system as the first.') }}{% endif %}\
{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"""


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence of an example.

    Attributes:
        tokens: Shape (N + 1,): all but the last are inputs, all but the first are what comes next.
        is_target: Whether what comes next belongs to a response, shape (N,).
        num_bytes: UTF-8 bytes of the targets.
    """

    tokens: Ids
    is_target: npt.NDArray[np.bool_]
    num_bytes: int

    @property
    def num_inputs(self) -> int:
        """Return N."""
        return self.is_target.size

    @property
    def num_targets(self) -> int:
        """Return the number of targets."""
        return int(self.is_target.sum())


@dataclass(frozen=True, slots=True)
class Example:
    """What is learned from at once.

    Attributes:
        place: File as the config names it, and row from 1.
        rows: One for supervised tuning; for preferences the chosen and the rejected one, with the same prompt.
        draw: In [0, 1), from seed and prompt: examples with one prompt are set aside together.
    """

    place: tuple[str, int]
    rows: tuple[Row, ...]
    draw: float

    @property
    def num_inputs(self) -> int:
        """Return the tokens of its longest row."""
        return max(row.num_inputs for row in self.rows)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that cannot be trained on, and why."""

    file: str
    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class Examples:
    """What some files hold.

    Attributes:
        examples: In the order of the files.
        skipped: The other rows.
        prompts_cut: Examples whose prompt lost its beginning, for want of room.
    """

    examples: Sequence[Example]
    skipped: Sequence[Skipped]
    prompts_cut: int


def read_examples(
    files: Mapping[str, Path],
    tokenizer: Tokenizer,
    *,
    pairs: bool,
    template: str,
    context: int,
    seed: int,
    max_skipped: float,
) -> Examples:
    """Read and encode all rows.

    Args:
        files: By the name that the config has for it; JSON Lines, plain or .gz.
        tokenizer: The one that the model was trained with.
        pairs: Whether rows are preferences.
        template: `chat` or `none`.
        context: Most inputs of a sequence. What is too long loses the beginning of its prompt.
        seed: Of `Example.draw`.
        max_skipped: Largest share of rows that may be skipped: those without a response, with one that is longer than the
            context, or with two equal ones.

    Raises:
        InputError: Names file and row that cannot be read.
        TrainError: If too much is skipped.
    """
    encoder = _Encoder(tokenizer, context)
    examples: list[Example] = []
    skipped: list[Skipped] = []
    prompts_cut = 0
    for name, path in files.items():
        number = 0
        for number, line in _lines(path):
            try:
                head, responses = _parse(line, pairs=pairs, template=template)
                reason = _unfit(head, responses)
                rows, is_cut = ((), False) if reason else encoder.rows(head, responses)
            except ValueError as error:  # UnicodeEncodeError is one: half a surrogate pair has no UTF-8
                raise InputError(str(path), f"row {number}: {error}.", "Correct the row, or take it out.") from error
            if not rows:
                reason = reason or f"the response does not fit the context of {context}"
                skipped.append(Skipped(name, number, reason))
                continue
            examples.append(Example((name, number), rows, _draw(seed, head)))
            prompts_cut += is_cut
        if not number:
            raise InputError(str(path), "is empty.", "Give a file with one JSON object in each line.")
    if len(skipped) > max_skipped * (len(skipped) + len(examples)) or not examples:
        _refuse(skipped, len(skipped) + len(examples), max_skipped)
    return Examples(examples, skipped, prompts_cut)


class _Encoder:
    def __init__(self, tokenizer: Tokenizer, context: int) -> None:
        self._tokenizer = tokenizer
        self._context = context
        self._end = np.array([tokenizer.eos_id], np.int32)
        # A document in training follows the end of another.
        begin = [tokenizer.eos_id] if tokenizer.bos_id is None else [tokenizer.eos_id, tokenizer.bos_id]
        self._begin = np.array(begin, np.int32)
        self._token_bytes = tokenizer.token_bytes()

    def rows(self, head: Sequence[Segment], responses: Sequence[str]) -> tuple[tuple[Row, ...], bool]:
        """Return a row for each response, none if one is too long, and whether the head was cut."""
        texts = [text for text, _ in head]
        encoded = [ids.astype(np.int32) for ids in self._tokenizer.encode_batch([*texts, *responses])]
        ends = [np.concatenate([ids, self._end]) for ids in encoded[len(head) :]]
        room = self._context + 1 - max(ids.size for ids in ends)
        if room < 1:
            return (), False
        before, targets = [self._begin], [np.zeros(self._begin.size, np.bool_)]
        for ids, (_, is_response) in zip(encoded, head, strict=False):  # the responses come behind
            before.append(np.concatenate([ids, self._end]) if is_response else ids)
            targets.append(np.full(before[-1].size, is_response))
        prompt, is_target = np.concatenate(before), np.concatenate(targets)
        rows = []
        for ids in ends:
            tokens = np.concatenate([prompt[-room:], ids])
            marked = np.concatenate([is_target[-room:], np.ones(ids.size, np.bool_)])[1:]
            rows.append(Row(tokens, marked, int(self._token_bytes[tokens[1:][marked]].sum())))
        return tuple(rows), prompt.size > room


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number of each line, from 1, and the line; blank ones are passed over."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        yield number, line.decode()
                    except UnicodeDecodeError as error:
                        raise InputError(str(path), f"row {number} is not UTF-8.", "Write the file anew.") from error
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(str(path), f"cannot be read ({reason}).", "Check `data` and `validation`.") from error


def _parse(line: str, *, pairs: bool, template: str) -> tuple[list[Segment], tuple[str, ...]]:
    """Return what comes before the last response, and the response, or the chosen and the rejected one."""
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError(f"must be a JSON object, is a {type(row).__name__}")
    if pairs:
        prompt, *responses = _texts(row, ("prompt", "chosen", "rejected"))
    elif "messages" in row:
        if template == "none":
            raise ValueError("has messages, which the template 'none' cannot write; set template to 'chat'")
        return _conversation(row["messages"])
    else:
        prompt, *responses = _texts(row, ("prompt", "response"), instead="messages")
    if template == "none":
        return ([(prompt, False)] if prompt else []), tuple(responses)
    return [(_TURNS["user"].format(prompt) + _ANSWERS, False)], tuple(
        " " + text if text.strip() else "" for text in responses
    )


def _texts(row: Mapping[str, Any], keys: Sequence[str], *, instead: str | None = None) -> list[str]:
    missing = [key for key in keys if key not in row]
    if missing:
        other = f" (or {instead})" if instead else ""
        raise ValueError(f"has no {' and no '.join(missing)}{other}; its keys are {', '.join(row) or 'none'}")
    for key in keys:
        if not isinstance(row[key], str):
            raise ValueError(f"{key} must be a string, is {json.dumps(row[key])[:80]}")
    return [row[key] for key in keys]


def _conversation(messages: object) -> tuple[list[Segment], tuple[str, ...]]:
    if not isinstance(messages, list) or not messages:
        raise ValueError("messages must be a list of messages")
    segments: list[Segment] = []
    asked = ""
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict):
            raise ValueError(f"message {number} must be an object with role and content")
        role, content = _texts(message, ("role", "content"))
        if role == "assistant":
            segments += [(asked + _ANSWERS, False), (" " + content if content.strip() else "", True)]
            asked = ""
        elif role == "user" or (role == "system" and number == 1):
            asked += _TURNS[role].format(content)
        else:
            raise ValueError(
                f"message {number} has the role {role!r}; there are user, assistant, and system as the first"
            )
    if asked or not segments:
        raise ValueError("the last message must be the assistant's")
    *head, (response, _) = segments
    return head, (response,)


def _unfit(head: Sequence[Segment], responses: Sequence[str]) -> str:
    """Return why nothing can be learned from these responses, or nothing."""
    if not all(text.strip() for text, is_response in (*head, *((text, True) for text in responses)) if is_response):
        return "a response is empty"
    if len(responses) == 2 and responses[0] == responses[1]:
        return "chosen and rejected are equal"
    return ""


def _draw(seed: int, head: Sequence[Segment]) -> float:
    data = json.dumps([seed, *(text for text, _ in head)]).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, person=b"train.examples").digest(), "little") / 2**64


def _refuse(skipped: Sequence[Skipped], total: int, max_skipped: float) -> None:
    counts = Counter(one.reason for one in skipped)
    first = {one.reason: one for one in reversed(skipped)}
    told = "; ".join(f"{n} because {why} (first: {first[why].file}, row {first[why].row})" for why, n in counts.items())
    raise TrainError(
        f"{len(skipped)} of {total} rows cannot be trained on: {told}. max_skipped allows {max_skipped:.0%}. Correct the rows, or "
        "raise max_skipped."
    )
