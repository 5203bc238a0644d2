"""Documents that rules are judged by: main texts that people verified, site furniture of real pages, planted junk.

Furniture is what the same real pages hold besides their main text: menus, teasers, notices, block by block where people
or an alignment with the gold text say that it is not main text. A page's site decides its fold, so that what is learned
from a site is never measured on it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

GOOD, FURNITURE, PLANTED = "good", "furniture", "planted"
_HUMAN_TEXT = (
    "wcxb",
    "scrapinghub",
    "daniel",
    "zh_handcrafted",
)  # sets whose gold leaves nothing out: the rest is furniture


@dataclass(frozen=True, slots=True)
class RuleDocument:
    """A text and what it is.

    Attributes:
        kind: good, furniture or planted.
        group: Of good texts the page kind (WCXB) or the set; of planted ones what was planted.
        language: Declared by the set, or "?".
        fold: 0 to 4; -1 for planted documents: nothing is learned from them.
    """

    id: str
    kind: str
    group: str
    language: str
    fold: int
    site: str
    text: str


def load_documents(data: Path) -> list[RuleDocument]:
    """Return the documents of the real inputs below `data` and the planted ones.

    Raises:
        FileNotFoundError: If a set is not there.
    """
    return [*_real(data), *planted()]


def _real(data: Path) -> Iterator[RuleDocument]:
    from curate.extract.auto.model import shipped_model
    from curate.extract.auto.scan import Scanner
    from curate.extract.auto.tags import BLOCK_ELEMENT, ELEMENT_TAG, TITLE
    from curate.extract.auto.training.align import label_blocks
    from curate.extract.auto.training.gold import load_gold
    from curate.extract.auto.training.labelled import load_labelled

    scanner = Scanner(shipped_model().stop_words)
    for page in load_gold(data / "02_gold"):
        if not page.text:
            continue
        group = page.kind if page.set == "wcxb" else page.set
        yield RuleDocument(page.id, GOOD, group, page.language, page.fold, page.site, page.text)
        if page.set in _HUMAN_TEXT:
            scanned = scanner(page.html)
            tags = scanned.elements[scanned.blocks[:, BLOCK_ELEMENT], ELEMENT_TAG]
            texts = [scanned.block_text(block) for block in range(len(scanned.blocks))]
            shares = label_blocks(texts, page.text, [tag == TITLE for tag in tags])
            rest = [
                text
                for text, share, tag in zip(texts, shares, tags, strict=True)
                if share < 0.2 and tag != TITLE and text.strip()
            ]
            yield RuleDocument(page.id, FURNITURE, group, page.language, page.fold, page.site, "\n".join(rest))
    for one in load_labelled(data / "03_raw_html" / "raw.warc.gz", scanner):
        page, kept = one.page, set(one.kept)
        scanned = scanner(page.html)
        tags = scanned.elements[scanned.blocks[:, BLOCK_ELEMENT], ELEMENT_TAG]
        rest = [
            scanned.block_text(block)
            for block in range(len(scanned.blocks))
            if block not in kept and tags[block] != TITLE
        ]
        yield RuleDocument(page.id, GOOD, page.set, page.language, page.fold, page.site, page.text)
        yield RuleDocument(page.id, FURNITURE, page.set, page.language, page.fold, page.site, "\n".join(rest))


# ---- planted: of our own writing


_CITIES = ("Porto", "Leeds", "Lyon", "Graz", "Boise", "Turin", "Ghent", "Malmö", "Bilbao", "Perth")
_TRADES = ("plumber", "locksmith", "roof repair", "carpet cleaning", "dentist", "car rental", "moving company")
_DOORWAY = (
    "Looking for the best {trade} in {city}? Our {trade} team in {city} is here for you.",
    "If you need a {trade} in {city}, call our {city} {trade} service today.",
    "We are the number one {trade} company in {city} and we offer the lowest {trade} prices in {city}.",
    "Why choose our {trade} in {city}? Because our {city} {trade} experts are the best in {city}.",
    "The {trade} prices in {city} are low when you book the {trade} with us in {city}.",
    "Do not wait for another {trade}: the best {trade} in {city} is only one call away.",
)
_SPINS = (
    "If you need a {trade} in {city}, then you should know that {city} has many of them to offer.",
    "If you need a {trade} in {other}, then you should know that {other} has many of them to offer.",
    "When it comes to {trade} in {city}, we are the ones that you can trust with all of it.",
    "When it comes to {trade} near {other}, we are the ones that you can trust with all of it.",
)
_SALAD = ("cheap", "bonus", "casino", "pills", "loan", "credit", "deal", "best", "free", "online", "buy", "discount")
_GOODS = ("drill", "hammer", "wall lamp", "garden chair", "kettle", "desk", "bicycle pump", "paint roller", "ladder")
_GONE = {
    "en": ("Page not found", "Sorry, the page you are looking for does not exist. It may have moved. Try the search."),
    "pt": ("Página não encontrada", "A página que você procura não existe ou mudou de endereço. Use a busca do site."),
    "es": ("Página no encontrada", "Lo sentimos, la página que buscas no existe o ha cambiado de dirección."),
    "fr": ("Page introuvable", "La page que vous recherchez n'existe plus. Retournez à la page d'accueil du site."),
    "de": (
        "Seite nicht gefunden",
        "Die gesuchte Seite existiert nicht mehr. Bitte nutzen Sie die Suche oder das Menü.",
    ),
    "it": (
        "Pagina non trovata",
        "La pagina che stai cercando non esiste o è stata spostata. Torna alla pagina iniziale.",
    ),
    "ru": ("Страница не найдена", "Запрашиваемая страница была удалена или никогда не существовала на этом сайте."),
    "zh": ("页面不存在", "对不起，您访问的页面不存在或已被删除，请返回首页或使用搜索功能查找您需要的内容。"),
}
_ASSISTANT = (
    "As an AI language model, I cannot browse the internet, but here is a general overview of {goods}.",
    "I'm sorry, but I cannot provide prices of the {goods} because of my knowledge cutoff.",
    "Insert your text here. The {goods} is a useful thing that many people like to have at home.",
    "In conclusion, the {goods} plays a crucial role in our lives and it is important to choose it with care.",
)


def planted(per_kind: int = 40) -> list[RuleDocument]:
    """Return junk of our own writing, `per_kind` documents of each kind; the same at every call."""
    draw = random.Random(4)
    makers = {
        "doorway": _doorway,
        "word_salad": _word_salad,
        "spun": _spun,
        "product_list": _product_list,
        "soft_404": _soft_404,
        "machine_made": _machine_made,
    }
    return [
        RuleDocument(f"planted/{kind}-{number}", PLANTED, kind, "?", -1, "", make(draw, number))
        for kind, make in makers.items()
        for number in range(per_kind)
    ]


def _fill(draw: random.Random, sentences: Sequence[str], times: int, words: dict[str, str]) -> str:
    chosen = [draw.choice(sentences).format(**words) for _ in range(times)]
    return "\n\n".join(" ".join(chosen[start : start + 3]) for start in range(0, len(chosen), 3))


def _doorway(draw: random.Random, number: int) -> str:
    del number
    words = {"trade": draw.choice(_TRADES), "city": draw.choice(_CITIES)}
    return _fill(draw, _DOORWAY, draw.randint(8, 20), words)


def _spun(draw: random.Random, number: int) -> str:
    del number
    paragraphs = []
    for _ in range(draw.randint(4, 8)):
        words = {"trade": draw.choice(_TRADES), "city": draw.choice(_CITIES), "other": draw.choice(_CITIES)}
        paragraphs.append(_fill(draw, _SPINS, 3, words))
    return "\n\n".join(paragraphs)


def _word_salad(draw: random.Random, number: int) -> str:
    del number
    return "\n\n".join(" ".join(draw.choices(_SALAD, k=13)) for _ in range(draw.randint(6, 20)))


def _product_list(draw: random.Random, number: int) -> str:
    del number
    sign = draw.choice("$€£")
    lines = []
    for _ in range(draw.randint(12, 40)):
        price = f"{draw.randint(3, 900)}.{draw.randint(0, 99):02}"
        lines += [f"{draw.choice(_GOODS).title()} {draw.randint(100, 999)}", f"{sign}{price}", "Add to cart"]
    return "\n".join(lines)


def _soft_404(draw: random.Random, number: int) -> str:
    title, sentence = _GONE[list(_GONE)[number % len(_GONE)]]
    return f"{title}\n\n{sentence}" + ("\n\n404" if draw.random() < 0.3 else "")


def _machine_made(draw: random.Random, number: int) -> str:
    del number
    words = {"goods": draw.choice(_GOODS)}
    return _fill(draw, _ASSISTANT[:3], 2, words) + "\n\n" + _fill(draw, _ASSISTANT, 6, words)
