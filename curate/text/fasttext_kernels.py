"""Compiled kernels of fastText inference: what the library does for a line, for many spans of bytes.

The rows of a token's vectors are remembered while a call lasts: most tokens come again. The sum is taken over the same rows
in the same order, so that nothing depends on what was seen before.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled
from curate.text.fasttext_file import HIERARCHICAL_SOFTMAX, LABEL_PREFIX, SOFTMAX

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Uint32s = npt.NDArray[np.uint32]
Uint64s = npt.NDArray[np.uint64]
Float32s = npt.NDArray[np.float32]

NO_LABEL = -1  # of a text in which the model knows nothing

_HASH_START = np.uint32(2166136261)  # FNV-1a
_HASH_PRIME = np.uint32(16777619)
_SIGN = np.uint32(0xFFFFFF00)  # fastText hashes signed bytes
_WORD_NGRAM_PRIME = np.uint64(116049371)
_EPSILON = 1e-5  # fastText adds it before each logarithm
_NEVER = np.float32(-1e30)
_SPACE = 0x20
_LESS, _GREATER, _SMALL_S = np.uint8(0x3C), np.uint8(0x3E), np.uint8(0x73)
_END_HASH = np.uint32(0xD79C9359)  # of </s>
_PREFIX = np.frombuffer(LABEL_PREFIX.encode(), np.uint8)
_SIGMOID_STEPS, _SIGMOID_MOST = 512, 8  # fastText's table of the logistic function
_BLOCK = 64  # bytes: longer tokens are not remembered, and taken in blocks of so many
_MEMO_SLOTS = 1 << 14  # tokens remembered are at most half as many; a power of two
_MEMO_ROWS = 1 << 17
_WAITING = 1024  # rows that wait before they are added


class Weights(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """A model as the kernels read it.

    Attributes:
        inputs: Vectors of words, then of buckets, shape (rows, dim).
        outputs: Vectors of labels, or of inner nodes of the tree, shape (labels, dim).
        slot_hashes, slot_words: Open addressing: hash of a word, and its number or -1; both of a power of two's length.
            Labels stand behind the words: a token that is a label is no text.
        word_starts, word_bytes: Bytes of each word and label, one behind the other.
        live: One bit for each bucket that has a row, where the model is pruned; else empty.
        ranks: Buckets that have a row before each 64 of them, where the model is pruned: its rows stand in the buckets' order.
        left, right: Children of each node of the tree, -1 of a leaf, shape (2 * labels - 1,); else empty.
        end_word: Number of </s>, the end of a line, or -1.
        num_words, buckets, min_chars, max_chars, word_ngrams, loss: See `ModelFile`.
    """

    inputs: Float32s
    outputs: Float32s
    slot_hashes: Uint32s
    slot_words: Int32s
    word_starts: Int64s
    word_bytes: Bytes
    live: Uint64s
    ranks: Int32s
    left: Int32s
    right: Int32s
    end_word: int
    num_words: int
    buckets: int
    min_chars: int
    max_chars: int
    word_ngrams: int
    loss: int


class Room(NamedTuple):
    """What a call works with.

    Attributes:
        token: A token between < and >.
        memo: Open addressing, for each token remembered its first byte + 1 (0: free), its hash and its bytes times 2**32,
            and where its rows begin and end in `rows`, shape (_MEMO_SLOTS, 4).
        used: How many tokens are remembered, and how much of `rows` is in use, shape (2,).
        rows: Rows of tokens; behind _MEMO_ROWS those of one block.
        hashes: Hash of each token of a span, if the model has word n-grams.
        waiting: Rows to be added.
        hidden: Mean vector of a span, shape (dim,).
    """

    token: Bytes
    memo: Int64s
    used: Int64s
    rows: Int32s
    hashes: Int32s
    waiting: Int32s
    hidden: Float32s


@compiled
def _hashed(state: np.uint32, byte: np.uint8) -> np.uint32:
    value = np.uint32(byte)
    if byte >= 0x80:
        value |= _SIGN
    return np.uint32((state ^ value) * _HASH_PRIME)


@compiled
def fill_slots(word_bytes: Bytes, word_starts: Int64s, slot_hashes: Uint32s, slot_words: Int32s) -> None:
    """Fill the dictionary's table; see Weights."""
    mask = len(slot_words) - 1
    for word in range(len(word_starts) - 1):
        state = _HASH_START
        for place in range(word_starts[word], word_starts[word + 1]):
            state = _hashed(state, word_bytes[place])
        slot = np.int64(state) & mask
        while slot_words[slot] >= 0:
            slot = (slot + 1) & mask
        slot_hashes[slot] = state
        slot_words[slot] = word


@compiled
def _word_number(
    data: Bytes, first: int, size: int, state: np.uint32, hashes: Uint32s, numbers: Int32s, starts: Int64s, pool: Bytes
) -> int:
    """Return the number of a token in the dictionary, or -1 if it is not there."""
    mask = len(numbers) - 1
    slot = np.int64(state) & mask
    while numbers[slot] >= 0:
        word = np.int64(numbers[slot])
        other = starts[word]
        if hashes[slot] == state and starts[word + 1] - other == size:
            index = 0
            while index < size and pool[other + index] == data[first + index]:
                index += 1
            if index == size:
                return int(word)
        slot = (slot + 1) & mask
    return -1


@compiled
def _ones(word: np.uint64) -> int:
    """Return how many bits are set, by sums of neighbours (Warren, Hacker's Delight, section 5-1)."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int(np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56)))


@compiled
def _bucket_row(bucket: np.uint64, live: Uint64s, ranks: Int32s) -> int:
    """Return the row, behind the words, of a bucket; -1 if it was pruned."""
    if not len(ranks):
        return int(np.int64(bucket))
    word = live[bucket >> np.uint64(6)]
    bit = np.uint64(1) << (bucket & np.uint64(63))
    if word & bit:
        return int(np.int64(ranks[bucket >> np.uint64(6)])) + _ones(word & (bit - np.uint64(1)))
    return -1


@compiled
def _character_rows(
    token: Bytes,
    size: int,
    begins: tuple[int, int],
    lengths: tuple[int, int],
    modulus: np.uint32,
    live: Uint64s,
    ranks: Int32s,
    num_words: int,
    out: Int32s,
    at: int,
) -> int:
    """Write the rows of a token's character n-grams to `out`, from `at` on; return the place behind the last.

    Args:
        token: The token between its marks < and >.
        size: Bytes with the marks.
        begins: Byte of the first n-gram, and where no more of them begin.
        lengths: Of the shortest and the longest n-gram, characters.
        modulus: Number of buckets.
        live: See Weights.
        ranks: See Weights.
        num_words: Row of the first bucket.
        out: Has room for as many rows a byte as the longest n-gram has characters.
        at: Where to write.
    """
    shortest, longest = lengths
    for start in range(begins[0], begins[1]):
        if token[start] & 0xC0 == 0x80:
            continue
        state = _HASH_START
        place, length = start, 1
        while place < size and length <= longest:
            state = _hashed(state, token[place])
            place += 1
            while place < size and token[place] & 0xC0 == 0x80:
                state = _hashed(state, token[place])
                place += 1
            # the marks < and > alone are no n-grams
            if length >= shortest and not (length == 1 and (start == 0 or place == size)):
                row = _bucket_row(np.uint64(state % modulus), live, ranks)
                if row >= 0:
                    out[at] = num_words + row
                    at += 1
            length += 1
    return at


@compiled
def _put(rows: Int32s, begin: int, after: int, waiting: Int32s, count: int) -> int:
    """Append rows[begin:after] to the rows that wait to be added; return how many wait."""
    for index in range(begin, after):
        waiting[count] = rows[index]
        count += 1
    return count


@compiled
def _add_rows(inputs: Float32s, rows: Int32s, count: int, hidden: Float32s) -> None:
    """Add vectors in their order, four in a pass over the columns: the sum's place in memory is read and written less."""
    index = 0
    while index + 4 <= count:
        first, second = np.int64(rows[index]), np.int64(rows[index + 1])
        third, fourth = np.int64(rows[index + 2]), np.int64(rows[index + 3])
        for column in range(len(hidden)):
            total = (hidden[column] + inputs[first, column]) + inputs[second, column]
            hidden[column] = (total + inputs[third, column]) + inputs[fourth, column]
        index += 4
    while index < count:
        first = np.int64(rows[index])
        for column in range(len(hidden)):
            hidden[column] += inputs[first, column]
        index += 1


@compiled
def _add_word_ngrams(
    hashes: Int32s,
    count: int,
    longest: int,
    modulus: np.uint64,
    live: Uint64s,
    rows: Int32s,
    vectors: Float32s,
    hidden: Float32s,
) -> int:
    """Add the vectors of the n-grams of two and more words; return how many there were."""
    found = 0
    for first in range(count):
        state = np.uint64(np.int64(hashes[first]))
        for place in range(first + 1, min(count, first + longest)):
            state = state * _WORD_NGRAM_PRIME + np.uint64(np.int64(hashes[place]))
            row = _bucket_row(state % modulus, live, rows)
            if row >= 0:
                found += 1
                for column in range(len(hidden)):
                    hidden[column] += vectors[row, column]
    return found


@compiled
def _is_label(data: Bytes, first: int, size: int) -> bool:
    """Whether a token that is not in the dictionary is a label by its name."""
    index = 0
    while index < len(_PREFIX) and index < size and data[first + index] == _PREFIX[index]:
        index += 1
    return index == len(_PREFIX)


@compiled
def _is_white(byte: np.uint8) -> bool:
    return bool(byte <= _SPACE and (byte == _SPACE or 9 <= byte <= 13 or byte == 0))


@compiled
def _find(data: Bytes, first: int, size: int, mark: int, memo: Int64s) -> int:
    """Return the slot of a token that is remembered, or the complement of the free one where it would be."""
    mask = len(memo) - 1
    slot = mark & mask
    while memo[slot, 0]:
        if memo[slot, 1] == mark:
            other = memo[slot, 0] - 1
            index = 0
            while index < size and data[other + index] == data[first + index]:
                index += 1
            if index == size:
                return int(slot)
        slot = (slot + 1) & mask
    return ~int(slot)


@compiled
def _hide(data: Bytes, start: int, end: int, weights: Weights, room: Room) -> int:
    """Set `room.hidden` to the mean vector of a span; return the number of vectors in it.

    Args:
        data: UTF-8.
        start: The span's first byte.
        end: The one behind its last.
        weights: The model.
        room: To work in.
    """
    # taken apart once a span: handing the tuples on for each token would cost more than the token
    inputs, num_words, longest = weights.inputs, weights.num_words, weights.max_chars
    live, ranks, modulus = weights.live, weights.ranks, np.uint32(weights.buckets)
    lengths, ngrams = (weights.min_chars, longest), weights.word_ngrams
    token, memo, used, rows, hidden = room.token, room.memo, room.used, room.rows, room.hidden
    waiting, num_waiting = room.waiting, 0
    hidden[:] = np.float32(0)
    token[0] = _LESS
    found, count, place = 0, 0, int(start)
    while True:
        while place < end and _is_white(data[place]):
            place += 1
        first = place
        state = _HASH_START
        while place < end and not _is_white(data[place]):
            state = _hashed(state, data[place])
            place += 1
        size = place - first
        # </s> ends the line for fastText also where it is written out
        if size == 0 or (size == 4 and state == _END_HASH and data[first] == _LESS and data[first + 2] == _SMALL_S):
            break
        mark = int(np.int64(state)) | int(size) << 32
        slot = _find(data, first, size, mark, memo) if size <= _BLOCK else -1
        if slot >= 0:
            begin, after = int(memo[slot, 2]), int(memo[slot, 3])
        else:
            word = _word_number(
                data,
                first,
                size,
                state,
                weights.slot_hashes,
                weights.slot_words,
                weights.word_starts,
                weights.word_bytes,
            )
            if word >= num_words or (word < 0 and data[first] == _PREFIX[0] and _is_label(data, first, size)):
                continue
            for index in range(size if longest > 0 else 0):
                token[index + 1] = data[first + index]
            token[size + 1] = _GREATER
            total = size + 2 if longest > 0 else 0  # bytes in which n-grams begin
            begin = int(used[1]) if size <= _BLOCK else _MEMO_ROWS
            after = begin
            if word >= 0:
                rows[after] = word
                after += 1
            for block in range(0, total, _BLOCK):
                if block and size > _BLOCK:
                    num_waiting = _put(rows, begin, after, waiting, num_waiting)
                    found += after - begin
                    after = begin
                    if num_waiting >= _WAITING:
                        _add_rows(inputs, waiting, num_waiting, hidden)
                        num_waiting = 0
                begins = (block, min(total, block + _BLOCK))
                after = _character_rows(token, total, begins, lengths, modulus, live, ranks, num_words, rows, after)
            if size <= _BLOCK:
                _remember(first, mark, ~slot, begin, after, memo, used, len(rows) - _MEMO_ROWS)
        num_waiting = _put(rows, begin, after, waiting, num_waiting)
        found += after - begin
        if num_waiting >= _WAITING:
            _add_rows(inputs, waiting, num_waiting, hidden)
            num_waiting = 0
        if ngrams > 1:
            room.hashes[count] = np.int32(state)
            count += 1
    if weights.end_word >= 0:
        waiting[num_waiting] = weights.end_word
        num_waiting += 1
        found += 1
    _add_rows(inputs, waiting, num_waiting, hidden)
    if ngrams > 1:
        room.hashes[count] = np.int32(_END_HASH)
        vectors = inputs[num_words:]
        found += _add_word_ngrams(
            room.hashes, count + 1, ngrams, np.uint64(weights.buckets), live, ranks, vectors, hidden
        )
    if found:
        scale = np.float32(1.0 / found)
        for column in range(len(hidden)):
            hidden[column] *= scale
    return found


@compiled
def _remember(first: int, mark: int, slot: int, begin: int, after: int, memo: Int64s, used: Int64s, most: int) -> None:
    """Note where the rows of a token are; with too many tokens, or no room for `most` more rows, forget all."""
    memo[slot, 0], memo[slot, 1], memo[slot, 2], memo[slot, 3] = first + 1, mark, begin, after
    used[0] += 1
    used[1] = after
    if used[0] > len(memo) // 2 or used[1] > _MEMO_ROWS - most:
        used[:] = 0
        memo[:, 0] = 0


@compiled
def _dot(outputs: Float32s, row: int, hidden: Float32s) -> np.float32:
    total = np.float32(0)
    for column in range(len(hidden)):
        total += outputs[row, column] * hidden[column]
    return total


@compiled
def _log(value: np.float32) -> np.float32:
    return np.float32(math.log(np.float64(value) + _EPSILON))


@compiled
def _walk_tree(weights: Weights, hidden: Float32s, nodes: Int64s, sums: Float32s, scores: Float32s, every: bool) -> int:
    """Return the label of the greatest probability; set scores[0] to its logarithm, or with `every` the scores of all.

    Depth first, left before right; a branch that cannot win is left out unless all are wanted.
    """
    best, label = _NEVER, NO_LABEL
    outputs, left, right = weights.outputs, weights.left, weights.right
    leaves = len(outputs)
    depth = 1
    nodes[0], sums[0] = 2 * leaves - 2, np.float32(0)
    while depth:
        depth -= 1
        node, total = nodes[depth], sums[depth]
        if not every and total < best:
            continue
        if left[node] < 0:
            if every:
                scores[node] = total
            if total >= best:
                best, label = total, node
            continue
        share = np.float32(1.0 / np.float64(np.float32(1) + math.exp(-_dot(outputs, node - leaves, hidden))))
        nodes[depth], sums[depth] = right[node], total + _log(share)
        nodes[depth + 1] = left[node]
        sums[depth + 1] = total + _log(np.float32(1.0 - np.float64(share)))
        depth += 2
    if not every:
        scores[0] = best
    return label


@compiled
def _logistic(value: np.float32) -> np.float32:
    """The logistic function as fastText has it, from a table of steps."""
    if value < -_SIGMOID_MOST:
        return np.float32(0)
    if value > _SIGMOID_MOST:
        return np.float32(1)
    step = np.int64(
        (value + np.float32(_SIGMOID_MOST)) * np.float32(_SIGMOID_STEPS) / np.float32(_SIGMOID_MOST) / np.float32(2)
    )
    at = np.float32(step * 2 * _SIGMOID_MOST) / np.float32(_SIGMOID_STEPS) - np.float32(_SIGMOID_MOST)
    return np.float32(1.0 / (1.0 + np.float64(np.float32(math.exp(-at)))))


@compiled
def _score_flat(weights: Weights, hidden: Float32s, scores: Float32s) -> int:
    """Set `scores` to the logarithm of each label's probability; return the label of the greatest."""
    outputs = weights.outputs
    labels = len(outputs)
    most = _NEVER
    for label in range(labels):
        scores[label] = _dot(outputs, label, hidden)
        most = max(most, scores[label])
    if weights.loss == SOFTMAX:
        total = np.float32(0)
        for label in range(labels):
            scores[label] = np.float32(math.exp(scores[label] - most))
            total += scores[label]
        for label in range(labels):
            scores[label] /= total
    else:
        for label in range(labels):
            scores[label] = _logistic(scores[label])
    best = 0
    for label in range(labels):
        scores[label] = _log(scores[label])
        if scores[label] >= scores[best]:  # of equals the last, as of fastText's heap
            best = label
    return best


@compiled
def _room(starts: Int64s, ends: Int64s, weights: Weights) -> Room:
    longest = 0
    for span in range(len(starts)):
        longest = max(longest, ends[span] - starts[span])
    return Room(
        np.empty(longest + 8, np.uint8),
        np.zeros((_MEMO_SLOTS, 4), np.int64),
        np.zeros(2, np.int64),
        np.empty(_MEMO_ROWS + (_BLOCK + 2) * max(1, weights.max_chars) + 1, np.int32),
        np.empty(longest // 2 + 2 if weights.word_ngrams > 1 else 0, np.int32),
        np.empty(_WAITING + (_BLOCK + 2) * max(1, weights.max_chars) + 1, np.int32),
        np.zeros(weights.inputs.shape[1], np.float32),
    )


@compiled
def predict_best(
    data: Bytes, starts: Int64s, ends: Int64s, weights: Weights, labels: Int32s, probabilities: Float32s
) -> None:
    """Set label and probability of each span."""
    room = _room(starts, ends, weights)
    scores = np.empty(len(weights.outputs), np.float32)
    nodes, sums = np.empty(len(weights.left) + 2, np.int64), np.empty(len(weights.left) + 2, np.float32)
    for span in range(len(starts)):
        labels[span], probabilities[span] = NO_LABEL, np.float32(0)
        if not _hide(data, starts[span], ends[span], weights, room):
            continue
        if weights.loss == HIERARCHICAL_SOFTMAX:
            labels[span] = _walk_tree(weights, room.hidden, nodes, sums, scores, False)
            probabilities[span] = math.exp(scores[0])
        else:
            labels[span] = _score_flat(weights, room.hidden, scores)
            probabilities[span] = math.exp(scores[labels[span]])


@compiled
def score_all(data: Bytes, starts: Int64s, ends: Int64s, weights: Weights, scores: Float32s) -> None:
    """Set the probability of each label of each span."""
    room = _room(starts, ends, weights)
    nodes, sums = np.empty(len(weights.left) + 2, np.int64), np.empty(len(weights.left) + 2, np.float32)
    for span in range(len(starts)):
        if not _hide(data, starts[span], ends[span], weights, room):
            continue
        if weights.loss == HIERARCHICAL_SOFTMAX:
            _walk_tree(weights, room.hidden, nodes, sums, scores[span], True)
        else:
            _score_flat(weights, room.hidden, scores[span])
        for label in range(scores.shape[1]):
            scores[span, label] = math.exp(scores[span, label])


@compiled
def hide_all(data: Bytes, starts: Int64s, ends: Int64s, weights: Weights, vectors: Float32s) -> None:
    """Set the mean vector of each span, as a classifier takes it: words, n-grams of characters and words, the line's end."""
    room = _room(starts, ends, weights)
    for span in range(len(starts)):
        if _hide(data, starts[span], ends[span], weights, room):
            vectors[span] = room.hidden


@compiled
def _word_vector(data: Bytes, first: int, size: int, state: np.uint32, weights: Weights, room: Room) -> bool:
    """Set `room.hidden` to a word's vector at length 1; return whether the model knows anything of the word."""
    hidden, token, rows, longest = room.hidden, room.token, room.rows, weights.max_chars
    hidden[:] = np.float32(0)
    word = _word_number(
        data, first, size, state, weights.slot_hashes, weights.slot_words, weights.word_starts, weights.word_bytes
    )
    found, count = 0, 0
    if 0 <= word < weights.num_words:
        rows[0] = word
        count = 1
    is_end = word == weights.end_word if word >= 0 else size == 4 and state == _END_HASH and data[first] == _LESS
    total = size + 2 if longest > 0 and not is_end else 0  # the mark of a line's end has no n-grams
    for index in range(size if total else 0):
        token[index + 1] = data[first + index]
    token[0], token[size + 1] = _LESS, _GREATER
    for block in range(0, total, _BLOCK):
        count = _character_rows(
            token,
            total,
            (block, min(total, block + _BLOCK)),
            (weights.min_chars, longest),
            np.uint32(weights.buckets),
            weights.live,
            weights.ranks,
            weights.num_words,
            rows,
            count,
        )
        _add_rows(weights.inputs, rows, count, hidden)
        found += count
        count = 0
    _add_rows(weights.inputs, rows, count, hidden)
    found += count
    if not found:
        return False
    scale = np.float32(1.0 / found)
    squares = np.float32(0)
    for column in range(len(hidden)):
        hidden[column] *= scale
        squares += hidden[column] * hidden[column]
    if squares <= 0:
        return False
    scale = np.float32(1.0 / np.float64(np.float32(math.sqrt(squares))))
    for column in range(len(hidden)):
        hidden[column] *= scale
    return True


@compiled
def mean_of_words(data: Bytes, starts: Int64s, ends: Int64s, weights: Weights, vectors: Float32s) -> None:
    """Set the mean of the vectors at length 1 of each span's words, as a model of word vectors gives it.

    The vectors of words are remembered while the call lasts: most come again.
    """
    room = _room(starts, ends, weights)
    memo, used = room.memo, 0
    known = np.empty((_MEMO_SLOTS // 2, vectors.shape[1]), np.float32)
    for span in range(len(starts)):
        place, end, count = starts[span], ends[span], 0
        while True:
            while place < end and _is_white(data[place]):
                place += 1
            first, state = place, _HASH_START
            while place < end and not _is_white(data[place]):
                state = _hashed(state, data[place])
                place += 1
            size = place - first
            if size == 0:
                break
            mark = int(np.int64(state)) | int(size) << 32
            slot = _find(data, first, size, mark, memo) if size <= _BLOCK else -1
            if slot >= 0:
                if memo[slot, 2] < 0:
                    continue
                vector = known[memo[slot, 2]]
            else:
                is_known = _word_vector(data, first, size, state, weights, room)
                if size <= _BLOCK:
                    if used == len(known):
                        used = 0
                        memo[:, 0] = 0
                        slot = _find(data, first, size, mark, memo)
                    memo[~slot, 0], memo[~slot, 1], memo[~slot, 2] = first + 1, mark, used if is_known else -1
                    known[used] = room.hidden
                    used += 1
                if not is_known:
                    continue
                vector = room.hidden
            for column in range(vectors.shape[1]):
                vectors[span, column] += vector[column]
            count += 1
        if count:
            scale = np.float32(1.0 / count)
            for column in range(vectors.shape[1]):
                vectors[span, column] *= scale
