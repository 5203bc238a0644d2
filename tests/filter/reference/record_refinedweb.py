"""Run DCLM's line corrections once, as they were published, on real documents and on texts of ours.

    python record_refinedweb.py CHECKOUT    # needs fasttext, retrie, beautifulsoup4, justext, lxml_html_clean, nltk, uniseg, unidecode

The answers go to refinedweb_lines.json.gz: for each document the file, the row, how its text follows from the row, the first
32 hex digits of the text's sha256; the same of the text that comes out, or null if none does; whether it then stays.
No text is kept.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import importlib
import json
import os
import re
import sys
import types
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = Path(os.environ.get("CURATE_DATA") or HERE.parents[3] / "shared" / "data")
FILES = ("02_gold/wcxb/gold.jsonl", "02_gold/scrapinghub/gold.jsonl", "02_gold/daniel/gold.jsonl")
_NO_TEXT = re.compile(r"(?is)<(script|style|noscript|template|svg)\b.*?</\1\s*>|<!--.*?-->")
_BLOCK = re.compile(
    r"(?i)<(?:/?(?:p|div|li|ul|ol|h\d|td|tr|table|section|nav|header|footer|article|option|button|label)\b|br)[^>]*>"
)
_TAG = re.compile(r"(?s)<[^>]*>")

# Lines at both sides of every number, and at the ends of a text, where each step strips white space.
PLANTED = (
    "",
    " ",
    "\n\n",
    "word",
    "two words",
    "ABCd",
    "ABcd",
    "AB cd",
    "ABC de",
    "A b C d E",
    "123",
    "12 3",
    "  123",
    "one more line\n  123\nand another line",
    "  123\none more line here",
    "ǅǅ ab\nÀÉ é è ê\nÀÉÍ é è",
    "3 likes\nand some more words follow in this line of the text",
    "3.5K views\nA b",
    "1,234  downloads!\nA b",
    "12m followers of ours\nA b",
    "~~ 7\u00a0comments ~~\nA b",
    "likes 3\nA b",
    "3likes\nA b",
    "٣ likes\nA b",
    "one\ntwo words\n\n\nthree\n \nfour words are here",
    "a b\r\nc\r\nd e\r\n",
    "a b\x0bc\nd\x0be f",
    "there are 3 items in cart\nand more words follow here",
    "items in cart\na b",
    "Items In Cart and then items in cart again\na b",
    "one two three four five six seven items in cart\na b",
    "one two three four five six seven eight items in cart\na b",
    "some text Read more...\na b",
    "some text Read more now\na b",
    "some text read more >>\na b",
    "Read more...\na b",
    "some text Read more...  \na b",
    "some text Read more…\na b",
    "some text read more.. .\na b",
    "Sign-in to see this\na b",
    "  Sign-in to see this\na b",
    "a b\n  Sign-in to see this",
    "sign-in\na b",
    "please Sign-in here\na b",
    "Sign-In items in cart read more...\na b",
    "\u2003\na b",
    "中文的一行文字没有空格\n第二行 有空格",
    "SHOUTING LINE HERE\n" + "quiet words go on and on\n" * 12,
    "SHOUTING LINE HERE\n" + "quiet words go on and on\n" * 9,
    "SHOUT ONE\n" + "nine words are in this line of the text\n" * 4 + "and two",
    "SHOUT ONE\n" + "nine words are in this line of the text\n" * 4 + "and",
    "SHOUT ONE\n" + "nine words are in this line of the text\n" * 4,
    "- - -\n* *\n~ ~\na b",
    "word\u00a0word other\nfoo\u00a0bar",
    "a b\x00c d",
)


def digest(text: str) -> str:
    """Return the first 32 hex digits of the sha256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def page_text(data: Path, row: dict[str, Any]) -> str:
    """Return what a page shows, navigation and all, a block a line."""
    source = gzip.decompress((data / "02_gold" / row["html"]).read_bytes()).decode("utf-8", "replace")
    shown = html.unescape(_TAG.sub("", _BLOCK.sub("\n", _NO_TEXT.sub("", " ".join(source.split())))))
    return "\n".join(line.strip(" ") for line in shown.split("\n"))


def real(data: Path) -> Iterator[tuple[str, int, str, str]]:
    """Yield file, row, how the text follows, and the text."""
    for name in FILES:
        with (data / name).open(encoding="utf-8") as file:
            for number, line in enumerate(file):
                row = json.loads(line)
                yield name, number, "text", row["text"]
                yield name, number, "page", page_text(data, row)


def dclm(checkout: str) -> Callable[[str], tuple[str | None, bool]]:
    """Return the function from a text to the corrected one (None if nothing is left), and whether the document stays."""
    from record_url import without_packages

    without_packages(checkout)
    transformers = sys.modules["transformers"] = types.ModuleType("transformers")
    transformers.AutoTokenizer = None  # of other filters in the file
    core = importlib.import_module("baselines.mappers.core_utils")
    modifiers = importlib.import_module("baselines.mappers.modifiers")
    filters = importlib.import_module("baselines.mappers.filters.content_filters")
    steps = (
        lambda page: modifiers.uppercase_ratio_line_modifier(page, max_ratio=0.5),
        lambda page: modifiers.numeric_ratio_line_modifier(page, max_ratio=0.999999),
        modifiers.counter_line_modifier(),
        lambda page: modifiers.line_length_modifier(page, min_length=2),
        modifiers.substring_line_modifier("items in cart", max_length=10, remove_substring_only=True),
        modifiers.substring_line_modifier("Read more...", max_length=10, location="suffix", remove_substring_only=True),
        modifiers.substring_line_modifier("Sign-in", max_length=10, location="prefix", remove_substring_only=True),
    )

    def corrected(text: str) -> tuple[str | None, bool]:
        # what `word_counter_enricher` counts
        page = {"text": text, "previous_word_count": len(core.split_words(text, ignore_punctuation=True))}
        for step in steps:
            pages = step(page)
            if not pages:
                return None, False
            (page,) = pages
        return page["text"], bool(
            filters.word_removal_ratio_filter(page, "previous_word_count", max_removed_ratio=0.05)
        )

    return corrected


def main() -> None:
    """Write the recording."""
    corrected = dclm(sys.argv[1])
    rows = []
    for file, number, how, text in real(DATA):
        after, stays = corrected(text)
        rows.append([file, number, how, digest(text), None if after is None else digest(after), stays])
    answer = {
        "implementation": f"DCLM baselines, fasttext {version('fasttext')}",
        "real": rows,
        "planted": [corrected(text) for text in PLANTED],
    }
    with gzip.GzipFile(HERE / "refinedweb_lines.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(answer, separators=(",", ":")).encode())


if __name__ == "__main__":
    main()
