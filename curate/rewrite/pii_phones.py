"""Telephone numbers, by the numbering plans of libphonenumber (the library `phonenumbers`).

Conservative on purpose, since most long numbers are no telephone numbers. In international form (`+55 11 91234-5678`) a number of
any country counts if it is valid there. In national form it counts if it is valid in one of the regions asked for, and either
is divided as that region divides its numbers or stands behind a word such as `Tel.` or `WhatsApp`, or in a list that such a word
begins. Without one, premium rates, which are no person's, and what stands behind `part`, `order no.` and the like are none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from curate.rewrite.pii_ids import WORD, Found

if TYPE_CHECKING:
    import phonenumbers

_INTERNATIONAL = re.compile(r"(?<![\w+])\+[1-9](?:[ \u00a0.()/-]{0,2}\d){6,14}(?!\w)")
_NATIONAL = re.compile(
    rf"(?<!{WORD})(?<![+.,/@$€£%-])(?<![\d:/]:)(?:\(\d{{1,5}}\)[ \u00a0]?|\d)(?:(?: ?[-/] ?|\) ?|[ \u00a0.(])?\d){{6,12}}"
    rf"(?!{WORD}|[%@]|[.,:/-]\d)"
)
_SHAPED = re.compile(r"0|.*[(-]")  # a trunk prefix, brackets or hyphens: blanks alone also divide thousands
_FEWEST_UNNAMED = 9  # digits: below lie pairs of years, and standards with their year
_NAMED = re.compile(
    r"(?:(?:\b|_)(?:tele?(?:phones?|fon\w*|foon|f[oô]nica?)?|tel[eéè]fonos?|telefones?|t[eé]l[eé]phones?|phones?|fax|mobil\w*|cell?"
    r"|celular(?:es)?|call|whats ?app|zap|hotline|handy|contacto?s?|m[oó]vil(?:es)?|telem[oó]ve(?:l|is)|ramal|sms)"
    r"(?:\s+(?:numbers?|n[uú]meros?|nummern?|nos?|nrs?|us|me|at|is|are|n[º°o])){0,2}"
    r"|(?:电话|電話|手机|手機|携帯|热线|传真)(?:号码|号|番号)?)[\s.:()*,;\"'/+：（–-]{0,4}\Z",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"\s{0,3}(?:[,;/|、，；]|and|or|e|ou|y|o|et|und|oder|和|或)\s{0,3}[+(]{0,2}", re.IGNORECASE
)  # between two of a list
_NO_PHONE = re.compile(
    r"(?:\b|_)(?:isbn|issn|doi|isrc|ean|upc|asin|pmid|arxiv|oclc|lccn|rfc|art(?:icle)?|id|n[o°º]?\.?)\W{0,3}\Z",
    re.IGNORECASE,
)
# As _NO_PHONE, but an area code in brackets says more than the word: `Order: (212) 736-5000`.
_CATALOGUED = re.compile(
    r"(?:\b|_)(?:parts?|items?|ref(?:[eé]r[eê]ncia|erence|erencia|[eé]rence)?|(?<!\bto )orders?|models?|modelo|mod[eè]le|modell|serial"
    r"|sku|invoice|fatura|factura|facture|rechnung|pedido|pe[cç]a|commande|artikel|artigo|batch|lot|lote|case|ticket|patent|catalog(?:ue)?)\.?"
    r"(?:\s+(?:numbers?|num\.?|nos?\.?|nr\.?|n[º°]|n[uú]mero|num[eé]ro|code|is))?\W{0,3}\Z",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"(?:1[5-9]|20)\d\d[ ./-](?:0?[1-9]|1[0-2])[ ./-](?:[0-2]?\d|3[01])\b"
    r"|(?:[0-2]?\d|3[01])[ ./-](?:[0-2]?\d|3[01])[ ./-](?:1[5-9]|20)\d\d\b"
    r"|(?:1[5-9]|20)\d\d\W{1,2}(?:1[5-9]|20)\d\d\b"
)
_REACH = 32  # characters before a number in which a word may name it


def find(
    text: str, start: int, end: int, regions: tuple[str, ...], taken: list[Found], named_until: int = -1
) -> tuple[list[Found], int]:
    """Return the telephone numbers in text[start:end], in order, and where the last of a list that a word began ends, or -1.

    Args:
        text: Also holds what stands around.
        start: Where the run of digits and separators begins; a `+` or bracket may stand before it.
        end: Where it ends.
        regions: ISO 3166-1 codes whose national form counts.
        taken: Numbers of other kinds, which are none.
        named_until: What was returned for what stands before, as a place in this text.
    """
    import phonenumbers
    from phonenumbers import NumberParseException

    def parse(number: str, region: str | None) -> phonenumbers.PhoneNumber | None:
        try:
            parsed = phonenumbers.parse(number, region)
        except NumberParseException:
            return None
        return parsed if phonenumbers.is_valid_number(parsed) else None

    def is_named(place: int, before: str) -> bool:
        last = max([named_until, *(one.end for one in found if one.end <= place and one.end in named_ends)])
        listed = 0 <= last <= place and _LISTED.fullmatch(text, last, place) is not None
        return listed or _NAMED.search(before) is not None

    found: list[Found] = []
    named_ends: set[int] = set()
    begin = max(0, start - 2)
    if "+" in text[begin:end]:
        found += [
            Found(match.start(), match.end(), "phone", match.group())
            for match in _INTERNATIONAL.finditer(text, begin, end)
            if _is_free(match, taken) and parse(match.group(), None) is not None
        ]
        named_ends |= {one.end for one in found if is_named(one.start, text[max(0, one.start - _REACH) : one.start])}
    for match in _NATIONAL.finditer(text, begin, end) if regions else ():
        number = match.group()
        if not _is_free(match, [*taken, *found]) or _DATE.match(number):
            continue
        before = text[max(0, match.start() - _REACH) : match.start()]
        named = is_named(match.start(), before)
        if not named and not _could_be_unnamed(number, before):
            continue
        for region in regions:
            parsed = parse(number, region)
            if parsed is not None and (named or (_is_divided_as(number, parsed) and not _is_premium(parsed))):
                found.append(Found(match.start(), match.end(), "phone", number))
                named_ends |= {match.end()} if named else set()
                break
    return sorted(found, key=lambda one: one.start), max(named_ends, default=-1)


def _could_be_unnamed(number: str, before: str) -> bool:
    if _SHAPED.match(number) is None or sum(map(str.isdigit, number)) < _FEWEST_UNNAMED or before.endswith(":"):
        return False
    return _NO_PHONE.search(before) is None and (number[0] == "(" or _CATALOGUED.search(before) is None)


def _is_premium(parsed: phonenumbers.PhoneNumber) -> bool:
    import phonenumbers

    return bool(phonenumbers.number_type(parsed) == phonenumbers.PhoneNumberType.PREMIUM_RATE)


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
