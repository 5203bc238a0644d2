"""What fills the pages that nobody wants: shelves of a shop, indexes of links, search words in a row, advertisements."""

from __future__ import annotations

from curate.read.demo_parts import sites
from curate.read.demo_parts.prose import Block
from curate.read.demo_parts.sites import SHOP, SITES

_NOUNS = (
    "hammer",
    "drill",
    "bracket",
    "hinge",
    "ladder",
    "brush",
    "saw",
    "clamp",
    "level",
    "bolt",
    "valve",
    "pump",
    "cable",
)
_KINDS = (
    "steel",
    "oak",
    "brass",
    "cordless",
    "folding",
    "mini",
    "deluxe",
    "classic",
    "outdoor",
    "compact",
    "professional",
)
_SEARCH_WORDS = (
    "cheap",
    "buy",
    "best",
    "discount",
    "online",
    "pills",
    "casino",
    "bonus",
    "free",
    "loan",
    "credit",
    "deal",
)


def shelf(key: str, number: int) -> str:
    """Return a page of products: names, prices, buttons."""
    products = []
    for place in range(24):
        seed = f"{key}/{place}"
        name = f"{sites.pick(seed + 'k', _KINDS)} {sites.pick(seed + 'n', _NOUNS)} {sites.number(seed + 's', 900) + 100}".title()
        price = f"${sites.number(seed + 'p', 200)}.{sites.number(seed + 'c', 100):02}"
        products.append({"name": name, "price": price, "stars": f"{sites.number(seed, 50) / 10} / 5"})
    return sites.render("shop", site=SITES[SHOP], title=f"Shelf {number + 1}", products=products)


def index(key: str, number: int) -> str:
    """Return a page of links and headings."""
    letters = "ABCDEFGHIJ"
    groups = [
        (
            letter,
            [
                (f"{kind} {sites.pick(f'{key}{letter}{kind}', _NOUNS)}", f"/{letter}/{kind}".replace(" ", "-"))
                for kind in _KINDS
            ],
        )
        for letter in letters
    ]
    return sites.render("navigation", language="en", site=SITES[SHOP], title=f"Index {number + 1}", groups=groups)


def stuffing(number: int) -> list[Block]:
    """Return lines of search words."""
    lines = []
    for line in range(12):
        chosen = [sites.pick(f"spam{number}/{line}/{place}", _SEARCH_WORDS) for place in range(14)]
        lines.append(["p", " ".join(chosen)])
    return lines


ADVERTS = (
    (
        "I had tried every mattress on the market before a friend told me about the CloudRest. From the very first night the "
        "pain in my back was gone, and my husband says that I am a different person at breakfast. I cannot recommend it enough.",
        "The company behind it is small and honest, and it answers the telephone on Sundays. If you order before the end of "
        "the month you will get two pillows as a present, and the delivery is of course free. Do not wait until they are gone.",
        "Some people will tell you that a mattress is only a mattress. They have not slept on this one. I have bought three more "
        "for my children, and I check the offers every morning in case there is another reason to buy.",
    ),
    (
        "There is one simple habit that changed how I look at money, and it takes less than a minute in the evening. I used to "
        "worry about every bill that came through the door. Now the system does the thinking for me and I sleep like a child.",
        "Nobody in the banks wants you to know how easy it is. The course explains each step with short films, and the members "
        "help one another in a friendly group. Places are limited, because the teacher insists on knowing everyone by name.",
        "I paid for it within the first week out of what I had saved, and so did my sister. You can read her story on the next "
        "page. Join tonight and the second course is yours for nothing, with no obligation of any kind.",
    ),
)
