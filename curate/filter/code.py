"""Rules for source code, in the variants of those who published theirs; no prose rule (terminal marks, stop words) is in here.

- `curate`: bigcode's numbers for lines and signs, and ours for generated and minified files.
- `the_stack`: all filters of bigcode's preprocessing with their defaults (Kocetkov et al. 2022, arXiv:2211.15533;
  bigcode-dataset, `preprocessing/filtering.py` and `arguments.py`). Comments are asked for where comments are known
  (`code_comments`), sizes of JSON and YAML only, stars only of files whose input states them. The filter on characters a token is
  left out: it needs a tokenizer.
- `starcoder`: what was decided for each file extension (Li et al. 2023, arXiv:2305.06161, section 3; `code_extensions.txt`),
  XML headers, the visible text of HTML and the size of JSON and YAML. Files of other extensions go.
- `opencoder`: OpenCoder's general set, and its set for Python without the rule that draws lots (`code_opencoder`).

A file's path is the one that its metadata state, else that of the input; its language the one that they state, else that of
its extension.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, field_validator, model_validator

from curate.filter import code_comments, code_opencoder
from curate.filter.bounds import AtLeastNumber, AtLeastShare, AtMostNumber, AtMostShare, Filter, Switch, is_off
from curate.stage import Rule

if TYPE_CHECKING:
    import pyarrow as pa

# Generators sign in a comment near the top, often below a licence text of some thirty lines.
_HEAD_LINES = 50
_COMMENT = re.compile(r"\s*(?:#|//|/\*|\*|--|<!--|;|%|\"\"\"|'''|\(\*|\.\.)")
_GENERATED = re.compile(
    r"""(?ix)
    @generated\b
    | \b code \s generated \s .* do \s not \s edit                                     # Go's convention
    | ^ [^\w]* (?: (?:this|the) \s )? (?: file|code|module|table|header|source )? \s* generated \s (?: by|from|with|using|on ) \b
    | \b (?: file|code|module|table|header ) \s (?: is|was|has \s been ) \s (?: \w+ \s )? (?: auto-? )? generated \b
    | \b auto (?: matically )? [-\s]? generated \s* (?: by|from|with|using|file|code|do \s not|[.,;!:)\-*/]|$ )
    | \b generated \s automatically \b
    | \b do \s not \s (?: edit|modify ) \b (?! \s this \s line )
    """
)

_MINIFIED_NAME = re.compile(r"[.\-_]min\.(?:js|mjs|cjs|css)$", re.IGNORECASE)
_PACKED_LINE = 200  # characters: nobody writes most of a file in longer lines with hardly a space between the signs
_CODE_SIGNS = re.compile(r"[(){};,=]")

_PATH_KEYS = ("path", "file_path", "max_stars_repo_path", "filename", "file_name")
_LICENSE_KEYS = ("license", "licence", "licenses", "max_stars_repo_licenses", "detected_licenses", "spdx_id")


def _names(value: Any) -> Any:
    if is_off(value):
        return None
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


_LANGUAGE_KEYS = ("programming_language", "language", "lang")
_STAR_KEYS = ("max_stars_count", "stars", "star_events_count", "stargazers_count")
_TABLE = Path(__file__).with_name("code_extensions.txt")
_DATA_LANGUAGES = frozenset({"json", "yaml"})
_MEAN_LINE = 100.0  # characters: where the table bounds the longest line, the script bounds the mean line


class Extension(NamedTuple):
    """What the makers of StarCoder decided for files of a language and extension; None for no bound."""

    language: str
    include: bool
    max_line_length: float | None
    min_alphanumeric_fraction: float | None
    min_alphabetic_fraction: float | None
    xml_header: bool


@functools.cache
def extensions() -> Mapping[tuple[str, str], Extension]:
    """Return the table of `code_extensions.txt` by language and extension, in its order."""
    found = {}
    for line in _TABLE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            language, extension, include, *bounds, xml = line.split()
            numbers = [None if bound == "-" else float(bound) for bound in bounds]
            key = language, "" if extension == "-" else extension
            found[key] = Extension(language, include == "1", numbers[0], numbers[1], numbers[2], xml == "1")
    return found


@functools.cache
def _languages_by_extension() -> Mapping[str, str]:
    """Return the language of each extension: of several, the first that is included."""
    found: dict[str, str] = {}
    for included in (True, False):
        for (language, extension), entry in extensions().items():
            if entry.include is included and extension:
                found.setdefault(extension, language)
    return found


_ABOVE_ONE_PERCENT = math.nextafter(0.01, 1.0)  # bigcode keeps what lies between its bounds; ours are kept themselves
_BELOW_EIGHTY_PERCENT = math.nextafter(0.8, 0.0)
_ABOVE_A_FIFTH = math.nextafter(0.2, 1.0)
_LINES = {"max_line_length": 1000.0, "max_mean_line_length": 100.0, "min_alphanumeric_fraction": 0.25}
_COMMENTS = {"min_comment_fraction": _ABOVE_ONE_PERCENT, "max_comment_fraction": _BELOW_EIGHTY_PERCENT}
_HTML = {"min_visible_fraction": _ABOVE_A_FIFTH, "min_visible_chars": 101.0}
_DATA = {"min_data_chars": 100.0, "max_data_chars": 5000.0}
_OFF = dict.fromkeys((*_LINES, *_COMMENTS, "min_stars", *_HTML, *_DATA)) | dict.fromkeys(
    ("generated", "minified", "xml_header"), False
)
# Each variant says all of them, so that what one leaves off is written down as off in the resolved recipe.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "curate": _OFF | _LINES | {"generated": True, "minified": True},
    "the_stack": _OFF | _LINES | _COMMENTS | {"min_stars": 6.0, "xml_header": True} | _HTML | _DATA,
    "starcoder": _OFF | _HTML | _DATA,
    "opencoder": _OFF | {"xml_header": True},
}

# OpenCoder: column, least, most. A value at a bound stays.
OPENCODER: tuple[tuple[str, float | None, float | None], ...] = (
    ("code_replacement_char_fraction", None, 0.01),
    ("num_code_words", 30.0, None),
    ("num_code_chars", 50.0, None),
    ("code_mean_word_length", 2.0, 10.0),
    ("code_top_2gram_fraction", None, 0.20),
    ("code_top_3gram_fraction", None, 0.18),
    ("code_top_4gram_fraction", None, 0.16),
    ("code_repeated_5gram_fraction", None, 0.80),
    *((f"code_repeated_{n}gram_fraction", None, 0.70) for n in range(6, 10)),
    ("code_repeated_10gram_fraction", None, 0.60),
    ("code_repeated_line_fraction", None, 0.7),
    ("num_code_bytes", None, 3e6),
    ("num_code_lines", 10.0, 100_000.0),
    ("max_line_length", None, 1000.0),
    ("mean_line_length", 5.0, 100.0),
    ("code_letter_fraction", 0.5, None),
    ("code_digit_fraction", None, 0.2),
    ("code_white_space_fraction", None, 0.5),
    ("code_comment_fraction", None, 0.8),
    ("code_is_generated", None, 0.0),
    ("code_long_string_line_fraction", None, 0.2),
    ("code_string_char_fraction", None, 0.6),
    ("code_long_word_char_fraction", None, 0.4),
    ("code_is_encoded_data", None, 0.0),
    ("code_hex_word_char_fraction", None, 0.4),
    ("code_prompt_comment_fraction", None, 0.01),
    ("code_assert_line_fraction", None, 0.4),
    ("python_parses", 1.0, None),
    ("python_function_fraction", None, 0.2),
    ("python_has_variables", 1.0, None),
    ("python_pass_fraction", None, 0.05),
    ("python_import_fraction", None, 0.3),
    ("python_simple_function_fraction", None, 0.1),
    ("python_print_fraction", None, 0.4),
)


class Code(Filter):
    """Rules on a file of source code. What a variant does not ask for is off, and null in the measurements where it costs time.

    Attributes:
        variant: Whose rules, see above: it sets the defaults of all that follows.
        max_line_length: Longest line, characters; in `opencoder` with its line feed.
        max_mean_line_length: Mean length of the lines, blank ones included, characters.
        min_alphanumeric_fraction: Letters and digits among all characters; in `curate` letters with their marks.
        generated: Remove files that say in a comment near their top that they are generated.
        minified: Remove files named `.min.js` and the like, and packed ones: most characters in lines over 200, with
            hardly any white space and many brackets and semicolons.
        licenses: Licences that stay, as in the input's field `license`, compared without case; a file under several
            (`MIT OR Apache-2.0`, or a list) stays if one is named. off: all.
        min_comment_fraction, max_comment_fraction: Characters in comments, and docstrings in Python. bigcode's bounds are those
            that are nearest to 0.01 and 0.8 from inside.
        min_stars: Stars of the repository, where the input states them. bigcode keeps files with more than 5.
        xml_header: Remove files with `<?xml version=` in the first 100 characters.
        min_visible_fraction, min_visible_chars: HTML alone: text that is shown, among all characters and in characters.
        min_data_chars, max_data_chars: JSON and YAML alone: characters.
    """

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("regex",)
    reads: ClassVar[tuple[str, ...]] = ("path", "metadata")
    adds: ClassVar[Mapping[str, str]] = {
        "max_line_length": "int64",
        "mean_line_length": "float64",
        "alphanumeric_fraction": "float64",
        "num_generated_signs": "int64",
        "num_minified_signs": "int64",
        "license_allowed": "int64",
        "code_extension": "string",
        "extension_included": "int64",
        "alphabetic_fraction": "float64",
        "comment_fraction": "float64",
        "has_xml_header": "int64",
        "num_stars": "int64",
        "visible_fraction": "float64",
        "num_visible_chars": "int64",
        "num_data_chars": "int64",
        **code_opencoder.COLUMNS,
    }
    ranges: ClassVar[Mapping[str, tuple[str, str]]] = {
        "comment_fraction": ("min_comment_fraction", "max_comment_fraction"),
        "num_data_chars": ("min_data_chars", "max_data_chars"),
    }
    # The others also tell what is worth measuring.
    decides: ClassVar[tuple[str, ...]] = (
        *("max_line_length", "max_mean_line_length", "min_alphanumeric_fraction"),
        *("generated", "minified", "min_stars", "xml_header", "by"),
    )

    variant: Literal["curate", "the_stack", "starcoder", "opencoder"] = "curate"
    licenses: Annotated[tuple[str, ...] | None, BeforeValidator(_names)] = None
    # What stands here is what bigcode's script has; `_of_variant` gives every variant its own.
    max_line_length: AtMostNumber = _LINES["max_line_length"]
    max_mean_line_length: AtMostNumber = _LINES["max_mean_line_length"]
    min_alphanumeric_fraction: AtLeastShare = _LINES["min_alphanumeric_fraction"]
    generated: Switch = True
    minified: Switch = True
    min_comment_fraction: AtLeastShare = _COMMENTS["min_comment_fraction"]
    max_comment_fraction: AtMostShare = _COMMENTS["max_comment_fraction"]
    min_stars: AtLeastNumber = 6.0
    xml_header: Switch = True
    min_visible_fraction: AtLeastShare = _HTML["min_visible_fraction"]
    min_visible_chars: AtLeastNumber = _HTML["min_visible_chars"]
    min_data_chars: AtLeastNumber = _DATA["min_data_chars"]
    max_data_chars: AtMostNumber = _DATA["max_data_chars"]

    @model_validator(mode="before")
    @classmethod
    def _of_variant(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        off = {end for name, ends in cls.ranges.items() if name in values for end in ends}
        defaults = _DEFAULTS.get(values.get("variant", "curate"), {})
        return {name: value for name, value in defaults.items() if name not in off} | dict(values)

    @field_validator("licenses")
    @classmethod
    def _some_licenses(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is not None and not names:
            raise ValueError("licenses names none, so nothing could stay; name licences, or write off for all")
        return names

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`; null where a measure says nothing of a file, or the variant does not need it."""
        import pyarrow as pa

        paths = batch["path"].to_pylist()
        metadata = batch["metadata"].to_pylist()
        rows = [
            self._row(text or "", path or "", _fields(fields))
            for text, path, fields in zip(batch["text"].to_pylist(), paths, metadata, strict=True)
        ]
        return pa.record_batch(
            {
                name: pa.array([row.get(name) for row in rows], pa.type_for_alias(kind))
                for name, kind in self.adds.items()
            }
        )

    def _row(self, text: str, path: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        lines = text.splitlines()
        lengths = [len(line) for line in lines] or [0]
        named = next((fields[key] for key in _PATH_KEYS if isinstance(fields.get(key), str)), path)
        signs = sum(
            _COMMENT.match(line) is not None and _GENERATED.search(line[:500]) is not None
            for line in lines[:_HEAD_LINES]
        )
        ours = self.variant == "curate"
        row: dict[str, Any] = {
            "max_line_length": max(lengths),
            "mean_line_length": sum(lengths) / len(lengths),
            "alphanumeric_fraction": (_num_alphanumeric(text) if ours else sum(map(str.isalnum, text)))
            / max(len(text), 1),
            "num_generated_signs": signs,
            "num_minified_signs": int(_MINIFIED_NAME.search(named) is not None) + int(_is_packed(text, lines)),
            "license_allowed": int(self.licenses is None or _allows(self.licenses, fields)),
            "has_xml_header": int("<?xml version=" in text[:100]),
            "num_stars": next(
                (int(fields[key]) for key in _STAR_KEYS if isinstance(fields.get(key), int | float)), None
            ),
        }
        language, extension = _kind_of(named, fields)
        row |= self._of_language(text, language, extension)
        if self.variant == "opencoder":
            parts = code_comments.divide(text, language) or code_comments.Parts(text, "", 0)
            python = row["comment_fraction"] if language == "python" else None
            row |= code_opencoder.measure(text, parts, language, python)
            sizes = code_opencoder.line_sizes(text)
            row |= {"max_line_length": max(sizes, default=0), "mean_line_length": sum(sizes) / max(len(sizes), 1)}
        return row

    def _of_language(self, text: str, language: str, extension: str) -> dict[str, Any]:
        entry = extensions().get((language, extension))
        row: dict[str, Any] = {
            "code_extension": f"{language}/{extension}",
            "extension_included": int(entry is not None and entry.include),
        }
        comments = (self.min_comment_fraction, self.max_comment_fraction)
        others = (self.min_visible_fraction, self.min_visible_chars, self.min_data_chars, self.max_data_chars)
        if self.variant == "curate" and all(bound is None for bound in (*comments, *others)):
            return row
        row["comment_fraction"] = code_comments.comment_fraction(text, language) if language != "html" else None
        row["alphabetic_fraction"] = sum(map(str.isalpha, text)) / max(len(text), 1)
        if language == "html" and self.variant != "opencoder":
            shown = code_comments.visible_html(text)
            row |= {"visible_fraction": len(shown) / max(len(text), 1), "num_visible_chars": len(shown)}
        if language in _DATA_LANGUAGES:
            row["num_data_chars"] = len(text)
        return row

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return the rules that are on."""
        bounds = (
            ("max_line_length", None, self.max_line_length),
            ("mean_line_length", None, self.max_mean_line_length),
            ("alphanumeric_fraction", self.min_alphanumeric_fraction, None),
            ("comment_fraction", self.min_comment_fraction, self.max_comment_fraction),
            ("num_stars", self.min_stars, None),
            ("visible_fraction", self.min_visible_fraction, None),
            ("num_visible_chars", self.min_visible_chars, None),
            ("num_data_chars", self.min_data_chars, self.max_data_chars),
        )
        set_bounds = (bound for bound in bounds if bound[1] is not None or bound[2] is not None)
        rules = [self.rule(f"{block}.{column}", column, least, most) for column, least, most in set_bounds]
        if self.xml_header:
            rules.append(Rule(f"{block}.xml_header", "has_xml_header", at_most=0.0))
        if self.variant == "starcoder":
            rules += _table_rules(block)
        if self.variant == "opencoder":
            rules += [
                Rule(f"{block}.{column}", column, at_least=least, at_most=most) for column, least, most in OPENCODER
            ]
        if self.generated:
            rules.append(Rule(f"{block}.generated", "num_generated_signs", at_most=0.0))
        if self.minified:
            rules.append(Rule(f"{block}.minified", "num_minified_signs", at_most=0.0))
        if self.licenses is not None:
            rules.append(Rule(f"{block}.license", "license_allowed", at_least=1.0))
        return tuple(rules)


def _table_rules(block: str) -> list[Rule]:
    """Return the rules of the table of extensions: each bound is a map from language and extension."""
    table = {f"{language}/{extension}": entry for (language, extension), entry in extensions().items()}
    longest = {kind: entry.max_line_length for kind, entry in table.items() if entry.max_line_length is not None}
    alphanumeric = {
        kind: entry.min_alphanumeric_fraction
        for kind, entry in table.items()
        if entry.min_alphanumeric_fraction is not None
    }
    letters = {
        kind: entry.min_alphabetic_fraction
        for kind, entry in table.items()
        if entry.min_alphabetic_fraction is not None
    }
    by = "code_extension"
    return [
        Rule(f"{block}.extension", "extension_included", at_least=1.0),
        Rule(f"{block}.extension_line_length", "max_line_length", at_most=longest, by=by),
        Rule(f"{block}.extension_mean_line", "mean_line_length", at_most=dict.fromkeys(longest, _MEAN_LINE), by=by),
        Rule(f"{block}.extension_alphanumeric", "alphanumeric_fraction", at_least=alphanumeric, by=by),
        Rule(f"{block}.extension_letters", "alphabetic_fraction", at_least=letters, by=by),
        Rule(
            f"{block}.extension_xml_header",
            "has_xml_header",
            at_most={kind: 0.0 for kind, entry in table.items() if entry.xml_header},
            by=by,
        ),
    ]


def _kind_of(path: str, fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return language, as the table writes it, and extension of a file."""
    name = re.split(r"[/\\]", path)[-1]
    extension = name.rpartition(".")[2] if "." in name else ""
    stated = next((fields[key] for key in _LANGUAGE_KEYS if isinstance(fields.get(key), str)), None)
    if stated is None:
        return _languages_by_extension().get(extension.lower(), ""), extension
    language = stated.lower().replace(" ", "-")
    return {"c#": "c-sharp", "f#": "f-sharp"}.get(language, language), extension


def _fields(metadata: str | None) -> Mapping[str, Any]:
    fields = json.loads(metadata) if metadata else {}
    return fields if isinstance(fields, dict) else {}


def _num_alphanumeric(text: str) -> int:
    if text.isascii():
        return sum(map(str.isalnum, text))
    import regex

    return len(regex.findall(r"[\p{L}\p{M}\p{N}]", text))


def _is_packed(text: str, lines: list[str]) -> bool:
    packed = "".join(line for line in lines if len(line) > _PACKED_LINE)
    if not packed or 2 * len(packed) < len(text):
        return False
    spaces = sum(map(str.isspace, packed))
    return 10 * spaces <= len(packed) and 20 * len(_CODE_SIGNS.findall(packed)) >= len(packed)


def _allows(allowed: tuple[str, ...], fields: Mapping[str, Any]) -> bool:
    """Whether one of the document's licences is named; a document that states none is not allowed."""
    stated: list[str] = []
    for key in _LICENSE_KEYS:
        value = fields.get(key)
        stated += (
            [value]
            if isinstance(value, str)
            else [item for item in value if isinstance(item, str)]
            if isinstance(value, list)
            else []
        )
    names = {
        name.strip(" ()").lower()
        for item in stated
        for name in re.split(r"\s+OR\s+|\s*[/,;]\s*", item, flags=re.IGNORECASE)
    }
    return any(name.lower() in names for name in allowed)
