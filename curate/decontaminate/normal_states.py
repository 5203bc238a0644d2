"""What a sign can be to the words of the normal form, and what it does to a word in the making: a table of transitions."""

from __future__ import annotations

import numpy as np

from curate.text.characters import Bytes

# What a sign is. GONE: nothing is left of it. SOFT: soft hyphen. SEVERAL: it becomes more than one sign. ALONE: left to the plain function.
GONE, PART, SPACE, NEWLINE, RETURN, LETTER, NUMBER, DIGIT, MARK, UNSPACED = range(10)
APOSTROPHE, HYPHEN, GROUP, SOFT, SEVERAL, ALONE = range(10, 16)

# What is known of the word in the making: its last sign, or what stands behind it and may yet be a joint.
EMPTY, IN_LETTERS, IN_NUMBER, ONE_DIGIT, TWO_DIGITS, THREE_DIGITS, MORE_DIGITS, IN_UNSPACED = range(8)
BEHIND_APOSTROPHE, BEHIND_HYPHEN, BEHIND_RETURN, BEHIND_WRAP = range(8, 12)
BEHIND_GROUP, GROUP_OF_ONE, GROUP_OF_TWO, GROUP_OF_THREE = range(12, 16)

# What a sign does, in this order, above the four bits of the state that follows: a separator was none, so that the word up to
# it ends; the word ends; the sign is added to the word, or begins one; it is a separator of groups, unless shown otherwise.
SPLITS, ENDS, ADDS, SEPARATES = (1 << bit for bit in range(4, 8))

_DIGITS = (EMPTY, ONE_DIGIT, TWO_DIGITS, THREE_DIGITS)  # by their number
_NEXT_DIGIT = {
    IN_LETTERS: ONE_DIGIT,
    IN_NUMBER: ONE_DIGIT,
    ONE_DIGIT: TWO_DIGITS,
    TWO_DIGITS: THREE_DIGITS,
    THREE_DIGITS: MORE_DIGITS,
    MORE_DIGITS: MORE_DIGITS,
    BEHIND_APOSTROPHE: ONE_DIGIT,
    BEHIND_GROUP: GROUP_OF_ONE,
    GROUP_OF_ONE: GROUP_OF_TWO,
    GROUP_OF_TWO: GROUP_OF_THREE,
}
_IN_WORD = (IN_LETTERS, IN_NUMBER, ONE_DIGIT, TWO_DIGITS, THREE_DIGITS, MORE_DIGITS)


def transitions() -> Bytes:
    """Return what each sign does in each state, at state * 16 + sign, shape (256,)."""
    table = np.zeros(256, np.uint8)
    for state in range(16):
        for sign in range(GROUP + 1):
            table[state << 4 | sign] = _next(state, sign)
    return table


def _next(state: int, sign: int) -> int:
    """Return the action and the state that follows."""
    if state in (BEHIND_GROUP, GROUP_OF_ONE, GROUP_OF_TWO) and sign != DIGIT:
        return SPLITS | _next(_DIGITS[state - BEHIND_GROUP], sign)
    if state == GROUP_OF_THREE:
        return SPLITS | ADDS | MORE_DIGITS if sign == DIGIT else _next(THREE_DIGITS, sign)
    if sign == DIGIT and state in _NEXT_DIGIT:
        return ADDS | _NEXT_DIGIT[state]
    if sign == MARK and state != EMPTY and state < BEHIND_APOSTROPHE:
        return ADDS | (IN_UNSPACED if state == IN_UNSPACED else IN_LETTERS)
    if sign == LETTER and state in (*_IN_WORD, BEHIND_APOSTROPHE, BEHIND_RETURN, BEHIND_WRAP):
        return ADDS | IN_LETTERS
    if sign == NUMBER and state in (*_IN_WORD, BEHIND_APOSTROPHE):
        return ADDS | IN_NUMBER
    if sign == APOSTROPHE and state in _IN_WORD:
        return BEHIND_APOSTROPHE
    if sign == HYPHEN and state == IN_LETTERS:
        return BEHIND_HYPHEN
    if sign == GROUP and state in (ONE_DIGIT, TWO_DIGITS, THREE_DIGITS):
        return SEPARATES | BEHIND_GROUP
    if state == BEHIND_HYPHEN and sign in (SPACE, NEWLINE, RETURN):
        return {SPACE: BEHIND_HYPHEN, NEWLINE: BEHIND_WRAP, RETURN: BEHIND_RETURN}[sign]
    if (state, sign) in ((BEHIND_RETURN, NEWLINE), (BEHIND_RETURN, SPACE), (BEHIND_WRAP, SPACE)):
        return BEHIND_WRAP
    begun = {LETTER: IN_LETTERS, NUMBER: IN_NUMBER, DIGIT: ONE_DIGIT, UNSPACED: IN_UNSPACED}.get(sign, EMPTY)
    return (ENDS if state != EMPTY else 0) | (ADDS if begun != EMPTY else 0) | begun
