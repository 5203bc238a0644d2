"""Pages with known main text: the sets, who may be trained on, which pages are of one site, and the score.

A set is a folder with `gold.jsonl` (id, html, url, lang, page_type, text, with, without) and the pages' bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from curate.extract.encoding import decode_html

NUM_FOLDS = 5
BY_CHARACTER = frozenset({"zh", "ja", "th", "my"})  # languages scored by character: they write no spaces


@dataclass(frozen=True, slots=True)
class GoldSet:
    """A set of pages.

    Attributes:
        name: Its folder.
        licence: Of the gold text; the pages belong to their sites.
        weight: Of its pages in training; below 1 where the gold is not human. 0: never trained on, only measured.
        kind: text: all of it; snippets: what must and must not appear; prefix: the text's beginning.
        one_site: All its pages are of one template.
    """

    name: str
    licence: str
    weight: float
    kind: Literal["text", "snippets", "prefix"] = "text"
    one_site: bool = False


GOLD_SETS = (
    GoldSet("wcxb", "CC-BY-4.0", 1.0),
    GoldSet("scrapinghub", "MIT", 1.0),
    GoldSet("zh_handcrafted", "MIT", 1.0),
    GoldSet("readability", "Apache-2.0", 0.6),
    GoldSet("newspaper4k", "MIT", 1.0),
    GoldSet("template_docs_ptbr", "MPL-2.0", 0.4, one_site=True),
    GoldSet("trafilatura", "Apache-2.0", 0.5, "snippets"),
    GoldSet("goose3", "Apache-2.0", 0.0, "prefix"),
    GoldSet("daniel", "GPL-3.0", 0.0),
    GoldSet("template_docs", "GPL-2.0-or-later, CC-BY-SA-3.0", 0.0, one_site=True),
)

_SECOND_LEVEL = frozenset({"co", "com", "org", "net", "ac", "gov", "edu", "gob", "or", "ne", "go"})
_ARCHIVED = re.compile(r"/web/\d+[a-z_]*/(https?:/+[^/]+)")
_CANONICAL = re.compile(
    r"(?:rel=[\"']?canonical[\"']?[^>]*href|og:url[\"'][^>]*content)=[\"']?https?://([^/\"' >]+)", re.IGNORECASE
)
_LINK = re.compile(r"href=[\"']?https?://([^/\"' >]+)", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class GoldPage:
    """A page and what is known of its main text.

    Attributes:
        set: Name of its set.
        id: Unique over all sets.
        url: "" if not kept.
        language: Declared language, or "?".
        kind: article, forum, product, collection, listing, documentation, service, or "".
        content: The page as served.
        html: The page decoded.
        text: Its main text; "" if only snippets are known.
        wanted, unwanted: Snippets that must, and must not, be in the main text.
        site: Pages of one site are never on both sides of a fold.
    """

    set: str
    id: str
    url: str
    language: str
    kind: str
    content: bytes
    html: str
    text: str
    wanted: tuple[str, ...]
    unwanted: tuple[str, ...]
    site: str

    @property
    def fold(self) -> int:
        """The fold that the page is tested in."""
        return fold_of(self.site)


def fold_of(site: str) -> int:
    """Return the fold of a site: 0 to NUM_FOLDS - 1."""
    return int(hashlib.md5(f"f1{site}".encode(), usedforsecurity=False).hexdigest(), 16) % NUM_FOLDS


def load_gold(data: Path, sets: Iterable[GoldSet] = GOLD_SETS) -> list[GoldPage]:
    """Return the pages of the sets below `data`.

    Raises:
        FileNotFoundError: If a set is not there.
    """
    pages: list[GoldPage] = []
    for gold in sets:
        for line in (data / gold.name / "gold.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            content = gzip.decompress((data / row["html"]).read_bytes())
            html = decode_html(content).text
            site = gold.name if gold.one_site else site_of(row["url"], html, row["id"])
            pages.append(
                GoldPage(
                    set=gold.name,
                    id=row["id"],
                    url=row["url"],
                    language=row["lang"],
                    kind=row["page_type"] or "",
                    content=content,
                    html=html,
                    text=row["text"],
                    wanted=_snippets(row["with"]),
                    unwanted=_snippets(row["without"]),
                    site=site,
                )
            )
    return pages


def _snippets(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = json.loads(value) if value.startswith("[") else [value]
    return tuple(text for text in value if text)


def registered_domain(host: str) -> str:
    """Return the part of a host name that a site owner registers, nearly: two labels, three where the second is a general one."""
    labels = host.lower().partition(":")[0].split(".")
    if len(labels) > 2 and labels[-2] in _SECOND_LEVEL and len(labels[-1]) == 2:
        return ".".join(labels[-3:])
    return ".".join(labels[-2:])


def site_of(url: str, html: str, page: str) -> str:
    """Return the site of a page: of its address, what an archive's address holds, else what the page calls itself.

    A page without an address that names none belongs to the host it links to most, if that is more than twice, else to
    itself: `page`.
    """
    archived = _ARCHIVED.search(url)
    host = urlsplit(archived[1].replace(":///", "://") if archived else url).netloc
    if host:
        return registered_domain(host)
    match = _CANONICAL.search(html)
    if match:
        return registered_domain(match[1])
    linked = Counter(registered_domain(host) for host in _LINK.findall(html)).most_common(1)
    return linked[0][0] if linked and linked[0][1] > 2 else page


# ---- the score


def words_of(text: str, language: str) -> Counter[str]:
    """Return the bag of a text's words in lower case; of their characters in languages without spaces."""
    words = _WORD.findall(text.lower())
    return Counter("".join(words)) if language in BY_CHARACTER else Counter(words)


def word_scores(text: str, page: GoldPage) -> tuple[float, float, float]:
    """Return precision, recall and F1 of a text's bag of words against a page's gold; zeros if either is empty."""
    found, gold = words_of(text, page.language), words_of(page.text, page.language)
    num_found, num_gold = found.total(), gold.total()
    if not num_found or not num_gold:
        return 0.0, 0.0, 0.0
    common = (found & gold).total()
    return common / num_found, common / num_gold, 2 * common / (num_found + num_gold)


def snippet_hits(text: str, snippets: Sequence[str]) -> list[bool]:
    """Return for each snippet whether the text holds it; white space does not count."""
    bare = _SPACE.sub("", text)
    return [_SPACE.sub("", snippet) in bare for snippet in snippets]
