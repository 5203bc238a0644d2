"""Telephone numbers, by the numbering plans of libphonenumber (the library `phonenumbers`).

Conservative on purpose, since most long numbers are no telephone numbers. In international form (`+55 11 91234-5678`) a number of
any country counts if it is valid there. In national form it counts if it is valid in one of the regions asked for, and either
is divided as that region divides its numbers or stands behind a word such as `Tel.` or `WhatsApp`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from curate.rewrite.pii_ids import Found

if TYPE_CHECKING:
    import phonenumbers

_INTERNATIONAL = re.compile(r"(?<![\w+])\+[1-9](?:[ \u00a0.()/-]{0,2}\d){6,14}(?!\w)")
_NATIONAL = re.compile(
    r"(?<![\w+.,/:@$€£%-])(?:\(\d{1,5}\)[ \u00a0]?|\d)(?:(?: ?[-/] ?|\) ?|[ \u00a0.(])?\d){6,12}(?![\w%@]|[.,:/-]\d)"
)
_SHAPED = re.compile(r"0|.*[(-]")  # a trunk prefix, brackets or hyphens: blanks alone also divide thousands
_FEWEST_UNNAMED = 9  # digits: below lie pairs of years, and standards with their year
_NAMED = re.compile(
    r"(?:\b|_)(?:tele?(?:phone|fon\w*|foon|f[oô]nica?)?|tel[eéè]fono?|telefone|t[eé]l[eé]phone|phones?|fax|mobile|mobil\w*|cell?|celular"
    r"|call|whats ?app|zap|hotline|handy|contacto?|m[oó]vil|ramal|sms)(?:\s+(?:number|no|nr|us|me|at|n[º°o]))?[\s.:()*,;\"'/+]{0,4}\Z",
    re.IGNORECASE,
)
_NO_PHONE = re.compile(
    r"(?:\b|_)(?:isbn|issn|doi|isrc|ean|upc|asin|pmid|arxiv|oclc|lccn|rfc|art(?:icle)?|id|n[o°º]?\.?)\W{0,3}\Z",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"(?:1[5-9]|20)\d\d[ ./-](?:0?[1-9]|1[0-2])[ ./-](?:[0-2]?\d|3[01])\b"
    r"|(?:[0-2]?\d|3[01])[ ./-](?:[0-2]?\d|3[01])[ ./-](?:1[5-9]|20)\d\d\b"
    r"|(?:1[5-9]|20)\d\d\W{1,2}(?:1[5-9]|20)\d\d\b"
)
_REACH = 32  # characters before a number in which a word may name it


def find(text: str, start: int, end: int, regions: tuple[str, ...], taken: list[Found]) -> list[Found]:
    """Return the telephone numbers in text[start:end], in order.

    Args:
        text: Also holds what stands around.
        start: Where the run of digits and separators begins; a `+` or bracket may stand before it.
        end: Where it ends.
        regions: ISO 3166-1 codes whose national form counts.
        taken: Numbers of other kinds, which are none.
    """
    import phonenumbers
    from phonenumbers import NumberParseException

    def parse(number: str, region: str | None) -> phonenumbers.PhoneNumber | None:
        try:
            parsed = phonenumbers.parse(number, region)
        except NumberParseException:
            return None
        return parsed if phonenumbers.is_valid_number(parsed) else None

    found: list[Found] = []
    begin = max(0, start - 2)
    if "+" in text[begin:end]:
        found += [
            Found(match.start(), match.end(), "phone", match.group())
            for match in _INTERNATIONAL.finditer(text, begin, end)
            if _is_free(match, taken) and parse(match.group(), None) is not None
        ]
    for match in _NATIONAL.finditer(text, begin, end) if regions else ():
        number = match.group()
        if not _is_free(match, [*taken, *found]) or _DATE.match(number):
            continue
        before = text[max(0, match.start() - _REACH) : match.start()]
        named = _NAMED.search(before) is not None
        if not named and (not _could_be_unnamed(number) or _NO_PHONE.search(before)):
            continue
        for region in regions:
            parsed = parse(number, region)
            if parsed is not None and (named or _is_divided_as(number, parsed)):
                found.append(Found(match.start(), match.end(), "phone", number))
                break
    return sorted(found, key=lambda one: one.start)


def _could_be_unnamed(number: str) -> bool:
    return _SHAPED.match(number) is not None and sum(map(str.isdigit, number)) >= _FEWEST_UNNAMED


def _is_free(match: re.Match[str], taken: list[Found]) -> bool:
    return all(match.end() <= one.start or one.end <= match.start() for one in taken)


def _is_divided_as(number: str, parsed: phonenumbers.PhoneNumber) -> bool:
    """Whether the groups of a number are those in which its region writes it; an area code in brackets may be apart."""
    import phonenumbers

    groups = re.findall(r"\d+", number)
    if len(groups) < 2:
        return False
    for form in (phonenumbers.PhoneNumberFormat.NATIONAL, phonenumbers.PhoneNumberFormat.INTERNATIONAL):
        usual = re.findall(r"\d+", phonenumbers.format_number(parsed, form).partition(" ext")[0])
        if groups in (usual, usual[1:]) or groups[1:] == usual:
            return True
    return False
