"""Bytes to str: byte order mark, UTF-8, declared labels, detection, in that order.

Labels mean what the WHATWG Encoding Standard says (section 4.2): latin-1 is windows-1252, gb2312 is gb18030. UTF-8
that decodes beats every label: text in another encoding that happens to be valid UTF-8 is rarer by far than a wrong
label. Detection is resiliparse's uchardet for the script (charset-normalizer where that sees UTF-8); between 8-bit
encodings of Latin letters the alphabets decide.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
# WHATWG labels whose Python codec of the same name would be wrong: the standard's encoding is a superset of it.
SUPERSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "big5": "big5hkscs",
}
# Labels of the standard that Python does not know by that name.
ALIASES = {
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "ms_kanji": "cp932",
    "x-gbk": "gb18030",
    "x-euc-jp": "euc_jp",
    "windows-949": "cp949",
    "windows-874": "cp874",
    "dos-874": "cp874",
    "x-x-big5": "big5hkscs",
    "x-mac-roman": "mac_roman",
    "macintosh": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic",
    "x-mac-ukrainian": "mac_cyrillic",
    "unicode-1-1-utf-8": "utf-8",
    "x-unicode20utf8": "utf-8",
    "visual": "iso8859-8",
    "logical": "iso8859-8",
    "iso-8859-8-i": "iso8859-8",
    "iso-8859-8-e": "iso8859-8",
}
MAX_DETECTION_BYTES = 256 << 10
WIDE_BYTES = 4096
COMMONEST = 0.1  # letters that speak for windows-1252 from the start: a lone misprint says nothing of the language
FEW_ERRORS = 0.02  # of the characters outside ASCII: a label is believed in spite of so many errors
ASCII = bytes(range(128))
C1 = range(0x80, 0xA0)  # letters and signs in Windows code pages, controls in ISO 8859
NOT_ASCII = re.compile("[^\x00-\x7f]+")
HIGH = re.compile(rb"[\x80-\xff]+")
ISO_2022_JP = re.compile(rb"\x1b\$[@B](?:[!-~]{2})+\x1b\(")  # into two bytes a character, and out of it
UTF8_SEQUENCE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}",
)
# Languages in Latin letters: their letters outside ASCII, and the codecs their pages come in, the commonest first.
ALPHABETS = {
    "Albanian": ("ëç", "cp1252"),
    "Danish, Norwegian": ("æøåéü", "cp1252"),
    "Dutch": ("ëéèïöüáóíê", "cp1252"),
    "Finnish, Swedish": ("äöåéü", "cp1252"),
    "French": ("éèêëàâçîïôùûüÿœæ", "cp1252 iso8859-15"),
    "German": ("äöüßé", "cp1252"),
    "Icelandic, Faroese": ("áðéíóúýþæöø", "cp1252"),
    "Irish": ("áéíóú", "cp1252"),
    "Italian, Catalan": ("àèéìíïòóùúüç·", "cp1252"),
    "Portuguese, Galician": ("áàâãéêíóôõúüçñ", "cp1252"),
    "Spanish, Basque": ("áéíóúüñç", "cp1252"),
    "Breton": ("êñùâôü", "cp1252"),
    "Croatian, Bosnian, Slovene": ("čćđšž", "cp1250 iso8859-2"),
    "Czech": ("áčďéěíňóřšťúůýž", "cp1250 iso8859-2"),
    "Hungarian": ("áéíóöőúüű", "cp1250 iso8859-2"),
    "Polish": ("ąćęłńóśźż", "cp1250 iso8859-2"),
    "Romanian": ("ăâîşţ", "cp1250 iso8859-2"),
    "Slovak": ("áäčďéíĺľňóôŕšťúýž", "cp1250 iso8859-2"),
    "Turkish": ("çğıöşüâîû", "cp1254"),
    "Azerbaijani, Kurdish": ("çğıöşüêîû", "cp1254"),
    "Lithuanian": ("ąčęėįšųūž", "cp1257 iso8859-13 iso8859-4"),
    "Latvian": ("āčēģīķļņšūž", "cp1257 iso8859-13 iso8859-4"),
    "Estonian": ("äöõüšž", "cp1257 iso8859-13 iso8859-15"),
    "Maltese": ("ċġħżàèìòù", "iso8859-3"),
    "Esperanto": ("ĉĝĥĵŝŭ", "iso8859-3"),
}
LATIN = ("cp1252", *dict.fromkeys(codec for _, codecs_ in ALPHABETS.values() for codec in codecs_.split()))
# Code pages with the same letters at the same places, and what only the other one has: quotes and dashes, a Greek
# capital alpha with tonos at the start of a word, Hebrew vowel points.
NEIGHBOURS = {
    "iso8859-7": ("cp1253", re.compile(rb"[\x80-\x9f]|(?<![\xb8-\xfe])\xa2[\xdc-\xfe]")),
    "cp1253": ("iso8859-7", re.compile(rb"^(?=[^\x80-\x9f]*(?<![\xb8-\xfe])\xb6[\xdc-\xfe])[^\x80-\x9f]*$")),
    "iso8859-8": ("cp1255", re.compile(rb"[\x80-\x9f\xc0-\xd3]")),
}
FRACTION = re.compile(rb"(?<![A-Za-z\x80-\xff])[\xbc-\xbe](?![A-Za-z\x80-\xff])")  # a letter stands with others
PUNCTUATION = "’‘“”„‚‹›«»–—…•·°§©®™€£\xa0\xad¡¿º"
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decoded text and how it came about.

    Attributes:
        text: The text, without a byte order mark.
        encoding: Python codec that gave it.
        num_replaced: U+FFFD put in for bytes that could not be decoded.
    """

    text: str
    encoding: str
    num_replaced: int = 0

    @property
    def exact(self) -> bool:
        """Whether the bytes were plain UTF-8."""
        return self.encoding == "utf-8" and not self.num_replaced

    @property
    def note(self) -> dict[str, Any]:
        """What the metadata says of a text that was not plain UTF-8."""
        return {"encoding": self.encoding} | ({"num_replaced": self.num_replaced} if self.num_replaced else {})


def decode_plain(data: bytes) -> Decoded | None:
    """Return the text of bytes that are UTF-8 whatever their labels say, or None where `decode` must look closer."""
    if data[:1] in b"\xef\xfe\xff" or b"\x1b" in data or b"\0" in data[:WIDE_BYTES]:
        return None  # a byte order mark; ISO-2022-JP; two bytes a character
    try:
        return Decoded(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        return None


def decode(data: bytes, labels: tuple[str, ...] = ()) -> Decoded:
    """Return the text of `data`.

    Args:
        data: Bytes in an unknown encoding.
        labels: Declared encodings, the most trusted first; unknown ones are ignored.
    """
    for bom, encoding in BOMS:
        if data.startswith(bom):
            return _replaced(data[len(bom) :], encoding)
    names = tuple(name for label in labels if (name := codec_of(label)))
    if b"\x1b" in data and ("iso2022_jp" in names or (data.isascii() and ISO_2022_JP.search(data))):
        return _replaced(data, "iso2022_jp")
    if b"\0" in data[:WIDE_BYTES] and (wide := _wide(data[:WIDE_BYTES])):
        return _replaced(data, wide)  # before UTF-8: ASCII letters with zeros between them are UTF-8 too
    try:
        return Decoded(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        pass
    # More than two thirds of what is not ASCII is good UTF-8: GBK or Latin-1 would give a fifth at most.
    as_utf8 = _replaced(data, "utf-8")
    num_sequences = len(data.translate(None, ASCII)) // 2  # at most; counted only where so many would be enough
    if num_sequences > 2 * as_utf8.num_replaced:
        num_sequences = sum(1 for _ in UTF8_SEQUENCE.finditer(data))
    if num_sequences > 2 * as_utf8.num_replaced:
        return as_utf8
    for name in names:
        if name == "utf-8" or name.startswith("utf-16"):
            continue  # known to be wrong; and a label that can be read as ASCII is no UTF-16
        if name == "cp1252" and not _looks_latin(data):
            continue  # servers put the Latin-1 label on everything
        decoded = _replaced(data, name)
        if not decoded.num_replaced or decoded.num_replaced <= FEW_ERRORS * sum(
            map(len, NOT_ASCII.findall(decoded.text))
        ):
            return decoded
    return _replaced(data, detect(data))


def codec_of(label: str) -> str | None:
    """Return the Python codec that the WHATWG Encoding Standard means by `label`, or None."""
    label = label.strip().strip("\"'").lower()
    if label in ALIASES:
        return ALIASES[label]
    try:
        name = codecs.lookup(label).name
        "".encode(name)  # refuses codecs that are no text encodings, such as base64
    except (LookupError, ValueError, TypeError, UnicodeError):
        return None
    return SUPERSETS.get(name, name)


def detect(data: bytes) -> str:
    """Return the most likely codec of bytes that are not UTF-8."""
    from resiliparse.parse.encoding import detect_encoding

    sample = data[:MAX_DETECTION_BYTES]
    found = codec_of(detect_encoding(sample, max_len=len(sample), from_html_meta=False) or "") or "cp1252"
    if found.startswith("utf"):  # it has been tried
        found = "cp1252" if _looks_latin(sample) else _second_opinion(sample)
    if found in NEIGHBOURS and NEIGHBOURS[found][1].search(sample):
        return NEIGHBOURS[found][0]
    return _latin(sample, found) if found in LATIN or (found.startswith("iso8859") and _looks_latin(sample)) else found


def _second_opinion(data: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(data).best()
    found = codec_of(best.encoding) if best is not None else None
    return found if found is not None and not found.startswith("utf") else "cp1252"


def _latin(data: bytes, found: str) -> str:
    """Return the codec under which the high bytes are most nearly the letters of one language.

    Args:
        data: Bytes in an 8-bit encoding of Latin letters.
        found: The detector's answer, which wins between equals; then windows-1252 does.
    """
    numbers = Counter(data.translate(None, ASCII))
    if any(numbers[byte] for byte in b"\xbc\xbd\xbe"):
        numbers = Counter(FRACTION.sub(b"", data).translate(None, ASCII))
    num_controls = sum(numbers[byte] for byte in C1)
    best, best_score = "cp1252", 0.0
    for codec in dict.fromkeys(("cp1252", found, *LATIN)):
        if codec.startswith("iso") and num_controls > FEW_ERRORS * numbers.total():
            continue  # what would be controls are quotes and dashes of a Windows code page
        letters: Counter[str] = Counter()
        for byte, number in numbers.items():
            letters.update(dict.fromkeys(_letters(codec)[byte - 128], number))
        total = letters.total()
        fits = [
            sum(number for letter, number in letters.items() if letter in alphabet) / total - 0.002 * len(alphabet)
            for alphabet, codecs_ in ALPHABETS.values()
            if total and codec in codecs_.split()
        ]
        score = max(fits, default=0.0) + (COMMONEST / total if total and codec == "cp1252" else 0.0)
        if score > best_score + 1e-9:
            best, best_score = codec, score
    return best


@cache
def _letters(codec: str) -> tuple[str, ...]:
    """Return what each byte from 128 on stands for, lower case, without ASCII and punctuation."""
    characters = (_decode_8bit(bytes([byte]), codec).lower() for byte in range(128, 256))
    return tuple("".join(one for one in text if one > "\x7f" and one not in PUNCTUATION) for text in characters)


def _decode_8bit(data: bytes, codec: str) -> str:
    return _decode_cp1252(data) if codec == "cp1252" else data.decode(codec, "replace")


def _replaced(data: bytes, encoding: str) -> Decoded:
    if encoding == "cp1252":
        return Decoded(_decode_cp1252(data), encoding)
    text = data.decode(encoding, "replace")
    try:
        given = text.count("�") - (data.count(b"\xef\xbf\xbd") if encoding == "utf-8" else 0)
    except ValueError:
        given = 0
    return Decoded(text, encoding, max(given, 0))


def _decode_cp1252(data: bytes) -> str:
    """Decode windows-1252 as browsers do: its five free bytes are C1 controls, so nothing fails."""
    return data.decode("cp1252", "c1_controls")


def _c1_controls(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(map(chr, error.object[error.start : error.end])), error.end


codecs.register_error("c1_controls", _c1_controls)


def _wide(data: bytes) -> str | None:
    """Return utf-16-le or utf-16-be if the zero bytes of Latin text stand on one side only."""
    even, odd = data[0::2].count(0), data[1::2].count(0)
    if max(even, odd) < len(data) / 8 or min(even, odd) * 8 > max(even, odd):
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _looks_latin(data: bytes) -> bool:
    """Whether high bytes stand alone or in twos, between ASCII letters: elsewhere whole words are made of them."""
    runs = [len(run) for run in HIGH.findall(data[:MAX_DETECTION_BYTES])]
    return 2 * sum(run for run in runs if run >= 3) <= sum(runs)


def without_surrogates(value: Any) -> Any:
    """Return a JSON value with every lone surrogate, which UTF-8 cannot hold, replaced by U+FFFD."""
    if isinstance(value, str):
        return SURROGATE.sub("�", value)
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    return value
