"""Pages of made-up web sites: blocks of text to HTML, through templates of ours.

Everything that varies between pages (links, authors, dates, forum names) is chosen by a hash of the page's key.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.read.demo_parts.prose import Block

if TYPE_CHECKING:
    import jinja2

_FOLDER = Path(__file__).parent
_CODE = re.compile(r"``(.+?)``|`([^`]+?)`_*")
_STRONG = re.compile(r"\*\*(\S(?:.*?\S)?)\*\*")
DOCS = "docs.pyhandbook.example"
NOTES = "notes.toolshed.example"
FORUM = "forum.askaround.example"
MANUAL = "manual.numerics.example"
WEEKLY = "weekly.readmes.example"
JOURNAL = "journal.essays.example"
CADERNO = "caderno.cronicas.example"
REVUE = "revue.europe.example"
SHOP = "shop.hardware.example"
_AUTHORS = ("R. Delacourt", "Mina Okafor", "J. Haldane", "Petra Lindqvist", "Sam Whitfield", "A. Moreau", "Grace Tan")
_USERS = ("quietowl", "tinker42", "charmer", "ada_fan", "bitbucket", "late_riser", "mossy", "kettle", "riverrun", "zed")
_RANKS = ("Newcomer", "Member", "Regular", "Old hand", "Moderator")
_ASKS = (
    "Can somebody explain {title} to me? I have read the short summary twice and I am still not sure when I would need it.",
    "I came across {title} in code that I inherited and nobody here remembers why it was used. What does it actually do?",
    "My reviewer told me to look at {title} before I write my own version. Is there a readable description anywhere?",
    "What is the right way to think about {title}? I keep getting it slightly wrong and the errors do not help me much.",
    "I am writing a short talk for beginners and need a plain account of {title}. Where would you start?",
    "Does anyone have notes on {title}? I lost mine together with the old laptop and the exam is on Thursday.",
    "Before I file a bug I would like to understand what {title} promises and what it leaves open.",
    "We were arguing about {title} at lunch and could not agree on anything except that we should ask here.",
    "Sorry for the basic question, but how is {title} meant to be used in a larger program?",
    "I have to port something that relies on {title}. Which of its details should I watch out for?",
)
_THANKS = (
    "Thank you, that clears it up. I had mixed up two of the cases and now the tests pass.",
    "That was more than I had hoped for. I will print it and pin it above the desk.",
    "Very helpful, thanks. The part in the middle was exactly what I had been missing.",
    "Great, this works. I will come back if I find another way to break it.",
    "Thanks for taking the time. I wish the person who wrote our code had read this first.",
    "I see it now. The name had sent me in the wrong direction from the start.",
)


@dataclass(frozen=True, slots=True)
class Site:
    """The words around the text: what extraction should leave behind."""

    name: str
    menu: tuple[str, ...]
    legal: tuple[str, ...]
    by: str = "By"
    related: str = "You may also like"
    search: str = "Search"
    cookies: str = "We use cookies to improve your experience. Read our cookie policy."
    rights: str = "All rights reserved."


_LEGAL = ("Privacy", "Terms", "Contact", "Imprint")
SITES: Mapping[str, Site] = {
    DOCS: Site("The Handbook", (), _LEGAL),
    MANUAL: Site("Numerics Manual", (), _LEGAL),
    NOTES: Site("Toolshed Notes", ("Home", "Archive", "Tags", "About"), _LEGAL),
    WEEKLY: Site("Readme Weekly", ("Latest", "Issues", "Subscribe"), _LEGAL),
    FORUM: Site("Ask Around", (), _LEGAL, rights="Posts belong to their authors."),
    JOURNAL: Site("The Essay Journal", ("Essays", "Letters", "Authors", "Subscribe"), _LEGAL),
    CADERNO: Site(
        "Caderno de Crônicas",
        ("Início", "Crônicas", "Autores", "Assine"),
        ("Privacidade", "Termos de uso", "Contato"),
        by="Por",
        related="Leia também",
        search="Buscar",
        cookies="Usamos cookies para melhorar a sua experiência. Leia a nossa política de cookies.",
        rights="Todos os direitos reservados.",
    ),
    REVUE: Site("Revue Europe", ("Accueil", "Archives", "Contact"), ("Mentions", "Contact"), by="Par"),
    SHOP: Site("Hardware Shop", ("Under 10", "10 to 25", "Over 25", "In stock", "New"), _LEGAL),
}


def number(key: str, count: int) -> int:
    """Return a number below `count`, always the same for this key."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % count


def pick(key: str, options: Sequence[Any]) -> Any:
    """Return one of the options, always the same for this key."""
    return options[number(key, len(options))]


def day(key: str) -> str:
    """Return a date between 2021 and 2023 for this key."""
    return f"{2021 + number(key + '/y', 3)}-{1 + number(key + '/m', 12):02}-{1 + number(key + '/d', 28):02}"


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2
    from markupsafe import Markup, escape

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER / "sites"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )

    def marked(text: str) -> Markup:
        """Text with back quotes to HTML with code marks."""
        html = _CODE.sub(lambda match: f"<code>{match[1] or match[2]}</code>", str(escape(text)))
        return Markup(_STRONG.sub(r"<strong>\1</strong>", html))  # escaped above

    environment.filters["marked"] = marked
    return environment


def render(template: str, **values: Any) -> str:
    """Return a template of `sites/` filled with values."""
    return _environment().get_template(f"{template}.html").render(**values)


def article(
    host: str,
    key: str,
    title: str,
    blocks: Sequence[Block],
    links: Sequence[tuple[str, str]],
    *,
    author: str = "",
    language: str = "en",
    charset: str = "utf-8",
) -> str:
    """Return an article with header, side column and footer; `charset` empty: the page does not state one."""
    return render(
        "article",
        site=SITES[host],
        title=title,
        blocks=blocks,
        links=links,
        author=author or pick(key, _AUTHORS),
        date=day(key),
        language=language,
        charset=charset,
    )


def documentation(host: str, key: str, title: str, blocks: Sequence[Block], links: Sequence[tuple[str, str]]) -> str:
    """Return a page of documentation with a table of contents at its side."""
    return render(
        "documentation",
        site=SITES[host],
        title=title,
        blocks=blocks,
        links=links,
        date=day(key),
        language="en",
        charset="utf-8",
    )


def thread(key: str, title: str, blocks: Sequence[Block], links: Sequence[tuple[str, str]]) -> str:
    """Return a forum thread: a question, the blocks as its answer, and thanks."""
    posts = (
        [["p", pick(key + "/ask", _ASKS).format(title=f"``{title}``")]],
        blocks,
        [["p", pick(key + "/thanks", _THANKS)]],
    )
    first, second = number(key + "/u", len(_USERS)), number(key + "/v", len(_USERS) - 1)
    users = (_USERS[first], _USERS[(first + 1 + second) % len(_USERS)], _USERS[first])
    return render(
        "forum",
        site=SITES[FORUM],
        title=f"Question about {title}",
        section="help",
        date=day(key),
        language="en",
        links=links,
        posts=[
            {
                "blocks": post,
                "user": user,
                "rank": pick(user, _RANKS),
                "count": 3 + number(user + "/posts", 4000),
            }
            for post, user in zip(posts, users, strict=True)
        ],
    )
