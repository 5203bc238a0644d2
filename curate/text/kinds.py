"""What is known of a token of the token stream (`curate.words`): its kind, and the base of its key."""

from __future__ import annotations

PRIME = 0x9E3779B97F4A7C15  # base of the keys: h = (h * PRIME + byte + 1) mod 2**64 over the UTF-8 bytes, from 0

KIND_LETTER = 1  # a character is a letter (str.isalpha)
KIND_SYMBOLS = 2  # every character is in datatrove's PUNCTUATION_SET
KIND_SENTENCE_END = 4  # the token is one of the signs at which spaCy's sentencizer ends a sentence
KIND_PUNCTUATION = 8  # every character is of a category P: spaCy's is_punct
KIND_WORD = 16  # a character is a letter or a number (categories L and N)
