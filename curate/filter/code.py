"""Rules for source code (The Stack, Kocetkov et al. 2022, arXiv:2211.15533; StarCoder, Li et al. 2023, arXiv:2305.06161).

Numbers of bigcode's preprocessing: longest line 1,000, mean line 100, alphanumeric 0.25. Signs of generated and minified
files are ours. No prose rule (terminal marks, stop words, curly brackets) is in here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, field_validator

from curate.filter.bounds import AtLeastShare, AtMostNumber, Filter, Switch, is_off
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


class Code(Filter):
    """The Stack's basic rules, generated and minified files, licences.

    Attributes:
        max_line_length: Longest line, characters.
        max_mean_line_length: Mean length of the lines, blank ones included, characters.
        min_alphanumeric_fraction: Letters with their marks, and digits, among all characters.
        generated: Remove files that say in a comment near their top that they are generated.
        minified: Remove files named `.min.js` and the like, and packed ones: most characters in lines over 200, with
            hardly any white space and many brackets and semicolons.
        licenses: Licences that stay, as in the input's field `license`, compared without case; a file under several
            (`MIT OR Apache-2.0`, or a list) stays if one is named. off: all.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("path", "metadata")
    adds: ClassVar[Mapping[str, str]] = {
        "max_line_length": "int64",
        "mean_line_length": "float64",
        "alphanumeric_fraction": "float64",
        "num_generated_signs": "int64",
        "num_minified_signs": "int64",
        "license_allowed": "int64",
    }
    decides: ClassVar[tuple[str, ...]] = (
        "max_line_length",
        "max_mean_line_length",
        "min_alphanumeric_fraction",
        "generated",
        "minified",
        "by",
    )

    max_line_length: AtMostNumber = 1000.0
    max_mean_line_length: AtMostNumber = 100.0
    min_alphanumeric_fraction: AtLeastShare = 0.25
    generated: Switch = True
    minified: Switch = True
    licenses: Annotated[tuple[str, ...] | None, BeforeValidator(_names)] = None

    @field_validator("licenses")
    @classmethod
    def _some_licenses(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is not None and not names:
            raise ValueError("licenses names none, so nothing could stay; name licences, or write off for all")
        return names

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`."""
        import pyarrow as pa

        paths = batch["path"].to_pylist()
        metadata = batch["metadata"].to_pylist()
        rows = [
            self._row(text or "", path or "", _fields(fields))
            for text, path, fields in zip(batch["text"].to_pylist(), paths, metadata, strict=True)
        ]
        return pa.record_batch(
            {name: pa.array([row[name] for row in rows], pa.type_for_alias(kind)) for name, kind in self.adds.items()}
        )

    def _row(self, text: str, path: str, fields: Mapping[str, Any]) -> dict[str, float]:
        lines = text.splitlines()
        lengths = [len(line) for line in lines] or [0]
        named = next((fields[key] for key in _PATH_KEYS if isinstance(fields.get(key), str)), path)
        signs = sum(
            _COMMENT.match(line) is not None and _GENERATED.search(line[:500]) is not None
            for line in lines[:_HEAD_LINES]
        )
        return {
            "max_line_length": max(lengths),
            "mean_line_length": sum(lengths) / len(lengths),
            "alphanumeric_fraction": _num_alphanumeric(text) / max(len(text), 1),
            "num_generated_signs": signs,
            "num_minified_signs": int(_MINIFIED_NAME.search(named) is not None) + int(_is_packed(text, lines)),
            "license_allowed": int(self.licenses is None or _allows(self.licenses, fields)),
        }

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return the rules that are on."""
        bounds = (
            ("max_line_length", None, self.max_line_length),
            ("mean_line_length", None, self.max_mean_line_length),
            ("alphanumeric_fraction", self.min_alphanumeric_fraction, None),
        )
        set_bounds = (bound for bound in bounds if bound[1] is not None or bound[2] is not None)
        rules = [self.rule(f"{block}.{column}", column, least, most) for column, least, most in set_bounds]
        if self.generated:
            rules.append(Rule(f"{block}.generated", "num_generated_signs", at_most=0.0))
        if self.minified:
            rules.append(Rule(f"{block}.minified", "num_minified_signs", at_most=0.0))
        if self.licenses is not None:
            rules.append(Rule(f"{block}.license", "license_allowed", at_least=1.0))
        return tuple(rules)


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
