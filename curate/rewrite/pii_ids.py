"""Numbers that states, banks and card networks give to people, and the check digits that tell them from other numbers.

Each entry of `IDS` says how a number is written and whether its digits can be right. Check digits alone are weak (one in ten
numbers passes Luhn's), so a kind whose form says little is believed only near a word that names it: `context`.

Sources: CPF and CNPJ, Receita Federal (the CNPJ with letters: Nota técnica Cocad 49/2024, in use from July 2026); SSN, Social
Security Administration (20 CFR 422.103, areas after the randomisation of 2011); DNI and NIE, Ministerio del Interior (RD
1553/2005); NIR, INSEE (decree 82-103); NIF and NIPC, Decreto-Lei 14/2013 (mod 11); NINO, HMRC NIM39110 (prefixes; no check
digit); codice fiscale, DM 23 December 1976; Steuer-ID, section 139b AO and ISO 7064 MOD 11,10; BSN, Logisch Ontwerp BSN (eleven
test); PESEL, Ministry of Digital Affairs; Aadhaar, UIDAI (Verhoeff 1969); resident identity number, GB 11643-1999 (ISO 7064 MOD
11-2); IBAN, ISO 13616 (ISO 7064 MOD 97-10) with the lengths of the SWIFT registry; cards, ISO/IEC 7812 (Luhn).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

NATIONAL = (
    *("cpf", "cnpj", "ssn", "dni", "nie", "nir", "nif", "nino", "codice_fiscale", "steuer_id", "bsn", "pesel"),
    *("aadhaar", "resident_identity"),
)


@dataclass(frozen=True, slots=True)
class Form:
    """One way in which a kind of number is written.

    Attributes:
        kind: One of NATIONAL, "iban", "payment_card".
        pattern: Matches the number alone; what may stand around it is for `find` to say.
        is_valid: Takes the letters and digits, separators left out.
        context: If given, one of these words has to stand before the number, in the same text and near.
    """

    kind: str
    pattern: re.Pattern[str]
    is_valid: Callable[[str], bool]
    context: re.Pattern[str] | None = None


# ---- check digits


def luhn(digits: str) -> bool:
    """Whether the last digit is Luhn's check digit of the others (ISO/IEC 7812-1, annex B)."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


# Row k is the permutation applied k times.
_VERHOEFF_PERMUTED = (
    *("0123456789", "1576283094", "5803796142", "8916043527"),
    *("9453126870", "4286573901", "2793806415", "7046913258"),
)


def _dihedral(left: int, right: int) -> int:
    """Return the product in the dihedral group of order ten: 0 to 4 are turns, 5 to 9 reflections."""
    if left < 5:
        return (left + right) % 5 if right < 5 else 5 + (left + right) % 5
    return 5 + (left - right) % 5 if right < 5 else (left - right) % 5


def verhoeff(digits: str) -> bool:
    """Whether the last digit is Verhoeff's check digit of the others."""
    check = 0
    for place, digit in enumerate(reversed(digits)):
        check = _dihedral(check, int(_VERHOEFF_PERMUTED[place % 8][int(digit)]))
    return check == 0


def _mod_11_10(digits: str) -> bool:  # ISO 7064 MOD 11,10
    product = 10
    for digit in digits[:-1]:
        product = (int(digit) + product) % 10 or 10
        product = product * 2 % 11
    return (11 - product) % 10 == int(digits[-1])


def _weighted(signs: str, weights: tuple[int, ...]) -> int:
    """Return the weighted sum; the value of a sign is its ASCII code less 48, as the CNPJ with letters counts."""
    return sum((ord(sign) - 48) * weight for sign, weight in zip(signs, weights, strict=False))


def _mod_11_digit(total: int) -> int:
    rest = total % 11
    return 0 if rest < 2 else 11 - rest


def _is_day(year: int, month: int, day: int) -> bool:
    if not 1 <= month <= 12:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= day <= (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


# ---- the numbers


def cpf(digits: str) -> bool:
    """Whether eleven digits are a CPF; eleven equal ones are none."""
    if len(set(digits)) == 1:
        return False
    first = _mod_11_digit(_weighted(digits[:9], (10, 9, 8, 7, 6, 5, 4, 3, 2)))
    second = _mod_11_digit(_weighted(digits[:10], (11, 10, 9, 8, 7, 6, 5, 4, 3, 2)))
    return digits[9:] == f"{first}{second}"


def cnpj(signs: str) -> bool:
    """Whether twelve digits or capital letters and two digits are a CNPJ; fourteen equal ones are none."""
    if len(set(signs)) == 1:
        return False
    first = _mod_11_digit(_weighted(signs[:12], (5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)))
    second = _mod_11_digit(_weighted(signs[:13], (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)))
    return signs[12:] == f"{first}{second}"


_PUBLIC_SSN = frozenset({"078051120", "219099999"})  # printed in advertisements, and void since


def ssn(digits: str) -> bool:
    """Whether nine digits can be a Social Security number, which has no check digit."""
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    return (
        area not in ("000", "666") and area < "900" and group != "00" and serial != "0000" and digits not in _PUBLIC_SSN
    )


_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"


def dni(signs: str) -> bool:
    """Whether eight digits and a letter are a DNI."""
    return _DNI_LETTERS[int(signs[:8]) % 23] == signs[8] and len(set(signs[:8])) > 1


def nie(signs: str) -> bool:
    """Whether X, Y or Z, seven digits and a letter are a NIE."""
    return _DNI_LETTERS[int(f"{'XYZ'.index(signs[0])}{signs[1:8]}") % 23] == signs[8] and len(set(signs[1:8])) > 1


def nir(signs: str) -> bool:
    """Whether thirteen signs and a key of two digits are a French NIR; 2A and 2B are the departments of Corsica."""
    month = int(signs[3:5])
    if not (1 <= month <= 12 or 20 <= month <= 42 or 50 <= month <= 99):  # above 12: of a month that is not known
        return False
    number = int(signs[:13].replace("2A", "19").replace("2B", "18"))
    return 97 - number % 97 == int(signs[13:])


def nif(signs: str) -> bool:
    """Whether nine digits, PT before them or not, are a Portuguese NIF or NIPC: kinds of taxpayer, and a check digit."""
    digits = signs.removeprefix("PT")
    if digits[0] in "04" and digits[:2] != "45":
        return False
    return digits[8] == str(_mod_11_digit(_weighted(digits[:8], (9, 8, 7, 6, 5, 4, 3, 2))))


_NO_NINO = frozenset({"BG", "GB", "KN", "NK", "NT", "TN", "ZZ"})


def nino(signs: str) -> bool:
    """Whether two letters, six digits and a letter can be a British National Insurance number, which has no check digit."""
    return signs[:2] not in _NO_NINO and len(set(signs[2:8])) > 1


_FISCAL_ODD = dict(
    zip(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        # The ten digits, then the letters A to J, count alike.
        (
            *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 1, 0, 5, 7, 9, 13, 15, 17, 19, 21),
            *(2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        ),
        strict=True,
    )
)
_FISCAL_DIGITS = str.maketrans(
    "LMNPQRSTUV", "0123456789"
)  # letters that stand for digits where two people have one code


def codice_fiscale(signs: str) -> bool:
    """Whether sixteen signs are the codice fiscale of a person."""
    day = int(signs[9:11].translate(_FISCAL_DIGITS))
    if not (1 <= day <= 31 or 41 <= day <= 71):
        return False
    odd = sum(_FISCAL_ODD[sign] for sign in signs[0:15:2])
    even = sum(int(sign) if sign.isdigit() else ord(sign) - 65 for sign in signs[1:15:2])
    return chr(65 + (odd + even) % 26) == signs[15]


def steuer_id(digits: str) -> bool:
    """Whether eleven digits are a German identification number: of the first ten, one digit stands two or three times."""
    if digits[0] == "0":
        return False
    counts = sorted((digits[:10].count(digit) for digit in set(digits[:10])), reverse=True)
    return counts[0] in (2, 3) and counts[1] == 1 and _mod_11_10(digits)


def bsn(digits: str) -> bool:
    """Whether nine digits pass the eleven test of the Dutch BSN."""
    return len(set(digits)) > 1 and _weighted(digits, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def pesel(digits: str) -> bool:
    """Whether eleven digits are a PESEL: a date whose month tells the century, and a check digit."""
    century, month = divmod(int(digits[2:4]), 20)
    year = (1900, 2000, 2100, 2200, 1800)[century] + int(digits[:2])
    return _is_day(year, month, int(digits[4:6])) and _weighted(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0


def aadhaar(digits: str) -> bool:
    """Whether twelve digits can be an Aadhaar number; none begins with 0 or 1."""
    return digits[0] not in "01" and verhoeff(digits)


_REGIONS = frozenset(map(str, (*range(11, 16), *range(21, 24), *range(31, 38), *range(41, 47), *range(50, 55))))
_REGIONS |= frozenset(map(str, (*range(61, 66), 71, 81, 82, 83)))


def resident_identity(signs: str) -> bool:
    """Whether eighteen signs are a Chinese resident identity number: region, date of birth, check sign."""
    year, month, day = int(signs[6:10]), int(signs[10:12]), int(signs[12:14])
    if signs[:2] not in _REGIONS or not 1800 <= year <= 2099 or not _is_day(year, month, day):
        return False
    total = _weighted(signs[:17], (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2))
    return "10X98765432"[total % 11] == signs[17]


_IBAN_LENGTHS = {
    country: int(length)
    for country, length in re.findall(
        r"([A-Z]{2})(\d\d)",
        "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28EE20EG29ES24FI18FK18FO18FR27GB22"
        "GE22GI23GL18GR27GT28HN28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22MK19MN20"
        "MR27MT31MU30NI28NL18NO15OM23PK24PL28PS29PT25QA29RO24RS22RU33SA24SC31SD18SE24SI19SK24SM27SO23ST25SV28TL23TN24TR26"
        "UA29VA22VG24XK20YE30",
    )
}


def iban(signs: str) -> bool:
    """Whether signs are an IBAN: of its country's length, and one modulo 97 with the first four signs behind the others."""
    if _IBAN_LENGTHS.get(signs[:2]) != len(signs):
        return False
    return int("".join(str(int(sign, 36)) for sign in signs[4:] + signs[:4])) % 97 == 1


def payment_card(digits: str) -> bool:
    """Whether digits are a card number of a network's range and length, with Luhn's check digit."""
    two, three, four, length = int(digits[:2]), int(digits[:3]), int(digits[:4]), len(digits)
    ranged = (
        (digits[0] == "4" and length in (13, 16, 19))  # Visa
        or (length == 16 and (51 <= two <= 55 or 2221 <= four <= 2720))  # Mastercard
        or (length == 15 and two in (34, 37))  # American Express
        or (length == 16 and (four == 6011 or two == 65 or 644 <= three <= 649))  # Discover
        or (length == 14 and (two in (36, 38, 39) or 300 <= three <= 305))  # Diners Club
        or (length == 16 and 3528 <= four <= 3589)  # JCB
        or (16 <= length <= 19 and two == 62)  # UnionPay
    )
    return ranged and len(set(digits[:-1])) > 1 and luhn(digits)


# ---- how they are written


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:\b|_)(?:{pattern})(?:\b|_)", re.IGNORECASE)


_S = "[ \u00a0]"
_CARD = _words(
    r"credit|debit|cards?|visa|master ?card|amex|american express|cart[aã]o|cr[eé]dito|d[eé]bito|tarjeta|carte|carta"
    r"|kredit\w*|karten?\w*|pan"
)
_SPANISH = _words(r"d\.?n\.?i\.?|n\.?i\.?f\.?|n\.?i\.?e\.?|documento|identidad|extranjer[oa]s?")

_PORTUGUESE = r"n\.?i\.?f\.?|n\.?i\.?p\.?c\.?|contribuintes?|n[uú]mero (?:de identifica[cç][aã]o )?fiscal"
_NINO = "[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]"

# Each country's IBANs have one length: what follows may look like more of it.
_IBAN = "|".join(
    rf"(?:{'|'.join(country for country, own in _IBAN_LENGTHS.items() if own == length)})\d\d(?:{_S}?[A-Z\d]){{{length - 4}}}"
    for length in sorted(set(_IBAN_LENGTHS.values()))
)

# The written form that says most comes first: what one form has taken, no other looks at.
FORMS: tuple[Form, ...] = (
    Form("iban", re.compile(_IBAN), iban),
    Form("cnpj", re.compile(r"[A-Z\d]{2}\.[A-Z\d]{3}\.[A-Z\d]{3}/[A-Z\d]{4}-\d\d"), cnpj),
    Form("cnpj", re.compile(r"[A-Z\d]{12}\d\d"), cnpj, _words("cnpj")),
    Form("cpf", re.compile(r"\d{3}\.\d{3}\.\d{3}-\d\d"), cpf),
    Form("cpf", re.compile(r"\d{9}-?\d\d"), cpf, _words("cpf")),
    Form(
        "codice_fiscale",
        re.compile(
            rf"[A-Z]{{3}}{_S}?[A-Z]{{3}}{_S}?[\dLMNP-V]{{2}}[ABCDEHLMPRST][\dLMNP-V]{{2}}{_S}?[A-Z][\dLMNP-V]{{3}}[A-Z]"
        ),
        codice_fiscale,
    ),
    Form("resident_identity", re.compile(r"[1-8]\d{16}[\dX]"), resident_identity),
    Form(
        "nir", re.compile(rf"[12]{_S}\d\d{_S}\d\d{_S}(?:\d\d|2[AB]){_S}\d{{3}}{_S}\d{{3}}{_S}(?:\|{_S})?\d\d"), nir
    ),
    Form(
        "nir",
        re.compile(r"[12]\d{4}(?:\d\d|2[AB])\d{6} ?\d\d"),
        nir,
        _words(r"s[eé]curit[eé] sociale|s[eé]cu|n\.?i\.?r\.?|insee|ssn"),
    ),
    Form("payment_card", re.compile(rf"\d{{4}}({_S}|-)\d{{4}}\1\d{{4}}\1\d{{4}}(?:\1\d{{3}})?"), payment_card),
    Form("payment_card", re.compile(rf"3\d{{3}}({_S}|-)\d{{6}}\1\d{{4,5}}"), payment_card),
    Form("payment_card", re.compile(r"\d{13,19}"), payment_card, _CARD),
    Form(
        "ssn",
        re.compile(r"\d{3}([ -])\d\d\1\d{4}|\d{9}"),
        ssn,
        _words(r"ssn|ss#|social security(?: number| no\.?)?"),
    ),
    Form(
        "nif",
        re.compile(rf"PT[ -]?(?:\d{{9}}|\d{{3}}({_S})\d{{3}}\1\d{{3}})"),
        nif,
        _words(rf"{_PORTUGUESE}|vat|iva|tax id"),
    ),
    Form(
        "nif",
        re.compile(rf"\d{{9}}|\d{{3}}({_S}|\.)\d{{3}}\1\d{{3}}"),
        nif,
        _words(rf"{_PORTUGUESE}|(?:vat|iva)(?: id| no\.?| number)?\W{{0,3}}pt"),
    ),
    Form("nino", re.compile(rf"{_NINO}({_S})\d\d\1\d\d\1\d\d\1[A-D]"), nino),
    Form("nino", re.compile(rf"{_NINO}[ -]?\d{{6}}[ -]?[A-D]"), nino, _words(r"national insurance|ninos?|n\.?i\.? (?:no\.?|num(?:ber)?)")),
    Form("dni", re.compile(r"\d{8}[ -]?[A-HJ-NP-TV-Z]"), dni, _SPANISH),
    Form("dni", re.compile(r"\d\d\.\d{3}\.\d{3}-?[A-HJ-NP-TV-Z]"), dni),
    Form("nie", re.compile(r"[XYZ][ -]?\d{7}[ -]?[A-HJ-NP-TV-Z]"), nie, _SPANISH),
    Form(
        "steuer_id",
        re.compile(rf"\d\d{_S}\d{{3}}{_S}\d{{3}}{_S}\d{{3}}|\d{{11}}"),
        steuer_id,
        _words(r"steuer-?id(?:ent\w*)?(?:nummer|-nr\.?)?|steuerliche\w* identifikationsnummer|identifikationsnummer|idnr\.?|tin"),
    ),
    Form("bsn", re.compile(r"\d{9}|\d{4}[. ]\d\d[. ]\d{3}"), bsn, _words("bsn|burgerservicenummer|sofi-?nummer")),
    Form("pesel", re.compile(r"\d{11}"), pesel, _words("pesel")),
    Form("aadhaar", re.compile(rf"\d{{4}}({_S}|-)\d{{4}}\1\d{{4}}|\d{{12}}"), aadhaar, _words("aadha+r|uidai|uid") ),
)  # fmt: skip

# A letter or digit that a number right beside it would be part of: Chinese and Japanese are written without blanks.
WORD = r"[^\W\u3005-\u3007\u3040-\u30ff\u3400-\u9fff]"

# No part of a longer number, word, decimal, path or address. A blank and more digits go on a number that is written in groups.
_BEFORE = re.compile(rf"(?:{WORD}|[@$€£%]|\d[.,:/-]|[./\\-]|\d[ \u00a0])\Z")
_BEHIND = re.compile(rf"{WORD}|[@%]|[.,:/-]\d|[-/\\][A-Za-z]|[ \u00a0]\d")
_REACH = 48  # characters before a number in which its word may stand
_IN_GROUPS = re.compile(r"[ \u00a0]\d")


@dataclass(frozen=True, slots=True)
class Found:
    """A number in a text: its place, kind, and what stands there."""

    start: int
    end: int
    kind: str
    text: str


def find(text: str, start: int, end: int, kinds: frozenset[str]) -> list[Found]:
    """Return the numbers of these kinds in text[start:end], in order; none overlaps another.

    Args:
        text: Also holds what stands around, at least `_REACH` characters before `start` if there are as many.
        start: Where the run of digits and capitals begins.
        end: Where it ends.
        kinds: Of NATIONAL, "iban" and "payment_card".
    """
    found: list[Found] = []
    for form in FORMS:
        if form.kind not in kinds:
            continue
        position = start
        while (match := form.pattern.search(text, position, end)) is not None:
            position = match.start() + 1
            if any(match.start() < other.end and other.start < match.end() for other in found):
                continue
            signs = re.sub(r"[^A-Z\d]", "", match.group())
            if not _stands_alone(text, match, form.kind) or not form.is_valid(signs):
                continue
            if form.context is None or form.context.search(text, max(0, match.start() - _REACH), match.start()):
                found.append(Found(match.start(), match.end(), form.kind, match.group()))
                position = match.end()
    return sorted(found, key=lambda one: one.start)


def _stands_alone(text: str, match: re.Match[str], kind: str) -> bool:
    before = _BEFORE.search(text, max(0, match.start() - 2), match.start())
    behind = _BEHIND.match(text, match.end())
    grouped = _IN_GROUPS.search(match.group()) is not None or match.group().isdigit()
    # Letters, such as a country's, go on no group of digits; and an IBAN ends where its country says.
    if before is not None and before.group()[-1] in " \u00a0" and (not grouped or match.group()[0].isalpha()):
        before = None
    if before is not None and before.group()[-1] in ",:" and match.group()[0].isalpha():
        before = None
    if behind is not None and behind.group()[0] in " \u00a0" and (not grouped or kind == "iban"):
        behind = None
    if behind is not None and behind.group()[0] == "," and kind == "iban":
        behind = None
    return before is None and behind is None


def masked(number: str) -> str:
    """Return the text of the same shape that stands for a number: no valid one of any kind, so that masking ends there."""
    return re.sub(r"[A-Z]", "X", re.sub(r"\d", "0", number))
