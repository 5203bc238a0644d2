"""What does not come back from a tokenizer, in words: found by trying, whatever the format of the file."""

from __future__ import annotations

from collections.abc import Sequence

from curate.tokens.tokenizer import Tokenizer

_MOST_NAMED = 12  # bytes
# A text, what it comes back as if something is lost, and what that is.
_PROBES: Sequence[tuple[str, tuple[str, ...], str]] = (
    ("aBc", ("abc",), "upper case becomes lower case"),
    ("\ufb01", ("fi",), "compatibility characters are folded (\ufb01 becomes fi)"),
    ("\u00e9", ("e",), "accents are dropped"),
    ("\u00e9", ("e\u0301",), "composed characters are taken apart (NFD)"),
    ("e\u0301", ("\u00e9",), "accents are composed with their letters (NFC)"),
    ("a", (" a",), "a space is put before each text"),
    (" a", ("a",), "a space at the beginning of a text is lost"),
    ("a  b", ("a b",), "runs of spaces become one"),
    ("a\nb", ("a b", "ab"), "line ends become spaces or are lost"),
    ("a , b", ("a, b",), "spaces before punctuation are lost"),
    ("a\u2581b", ("a b",), "U+2581 becomes a space"),
)


def losses(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return what texts lose, one phrase each; none if every text comes back exactly."""
    if tokenizer.lossless:
        return ()
    found = []
    if missing := tokenizer.missing_bytes:
        named = ", ".join(_shown(byte) for byte in missing[:_MOST_NAMED])
        more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        found.append(f"the byte symbols of {named}{more} are missing, and what needs them is lost")
    elif tokenizer.unknown_id is not None and tokenizer.unknown_id in tokenizer.encode("\ue000"):
        found.append("characters without a piece become the unknown token")
    for text, returned, words in _PROBES:
        if (back := tokenizer.decode(tokenizer.encode(text))) in returned or (
            back.strip() in returned and back.strip() != text.strip()
        ):
            found.append(words)
    return tuple(found) or ("some texts do not come back exactly",)


def _shown(byte: int) -> str:
    return f"'{chr(byte)}'" if 0x20 < byte < 0x7F else f"0x{byte:02X}"
