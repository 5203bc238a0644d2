"""The planted documents: faults that a crawl holds, each with what a pipeline has to do about it.

`expect` is written from the design of the fault, for the rules of `recipes/web_code_books.yaml`, never from the output of
a run. Fields:

- `kept`: whether the document stays in the corpus. `skipped`: it is a record that never is a document.
- `stage`, `rule`: of a removal: the stages, and the rules or the beginnings of rule names, any of which is right.
- `copy_of`: for a copy: the URL, or the `source_id`, or the path of the document that stays in its place.
- `text_contains`, `text_not_contains`: pieces that the kept text must or must not hold (white space is not compared).

Where no rule of the recipe knows the fault by name (a soft 404 is, to a rule, a page of few words), the expectation lists
what its content must set off. Two kinds are planted that the rules cannot see at all; they are expected to be kept, and say so.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.read.demo_parts import fillers, sites
from curate.read.demo_parts.archive import Page
from curate.read.demo_parts.prose import Block
from curate.read.demo_parts.sites import CADERNO, JOURNAL, NOTES, REVUE, SHOP

_WRITING = Path(__file__).with_name("writing")
MIRRORS = ("mirror-one.copies.example", "mirror-two.copies.example")

# What a page of almost no prose sets off; which rule speaks first depends on the order of the recipe's steps.
_JUNK_STAGES = ["extract", "filter"]
_JUNK_RULES = ["extract.empty", "language.", "gopher_quality.", "gopher_repetition.", "c4_lines.", "fineweb.", "where"]
_COPY_STAGES = ["dedup", "validation"]  # validation: the document it copies was drawn as a validation document
_COPY_RULES = ["dedup.", "exact", "minhash", "validation."]
_KEPT = {"kept": True}
_LEAK = {"kept": False, "stage": ["decontaminate"], "rule": ["decontaminate"]}


@dataclass(frozen=True, slots=True)
class Essay:
    """A page that we wrote."""

    slug: str
    title: str
    author: str
    paragraphs: tuple[str, ...]

    @property
    def blocks(self) -> list[Block]:
        """Its paragraphs as blocks."""
        return [["p", paragraph] for paragraph in self.paragraphs]

    @property
    def text(self) -> str:
        """Its paragraphs as plain text."""
        return "\n\n".join(self.paragraphs)


@dataclass(frozen=True, slots=True)
class Item:
    """A benchmark item; `passage` is empty for a question that stands alone."""

    id: str
    passage: str
    query: str
    choices: tuple[str, ...]
    gold: int


def essays(name: str) -> list[Essay]:
    """Read `writing/<name>.txt`: `=== slug`, title, author, then paragraphs between blank lines."""
    found = []
    for part in (_WRITING / f"{name}.txt").read_text(encoding="utf-8").split("=== ")[1:]:
        head, *paragraphs = part.strip().split("\n\n")
        slug, title, author = head.splitlines()
        found.append(Essay(slug, title, author, tuple(" ".join(text.split()) for text in paragraphs)))
    return found


def benchmarks() -> dict[str, list[Item]]:
    """Return the two test sets, by file name without its ending."""
    questions = json.loads((_WRITING / "questions.json").read_text(encoding="utf-8"))
    reading = json.loads((_WRITING / "reading.json").read_text(encoding="utf-8"))
    return {
        "questions": [Item(name, "", query, tuple(choices), gold) for name, query, choices, gold in questions],
        "reading": [Item(name, text, query, tuple(choices), gold) for name, text, query, choices, gold in reading],
    }


@dataclass(frozen=True, slots=True)
class Planted:
    """What is planted, beside the regular pages.

    Attributes:
        pages: Records for the web archives.
        code: Path below `code/`, bytes, truth.
        books: Book as JSON object, truth (None: a regular book).
    """

    pages: list[Page]
    code: list[tuple[str, bytes, dict[str, Any] | None]]
    books: list[tuple[dict[str, Any], dict[str, Any] | None]]


def plant(module_text: Callable[[str], str]) -> Planted:
    """Return all planted documents, with the essays that no fault was planted in.

    Args:
        module_text: Gives the source of a standard library module (`textwrap`).
    """
    web = _Web(essays("pt"), essays("en"), essays("other"), benchmarks())
    web.copies()
    web.encodings()
    web.leaks()
    web.addresses()
    web.empty_pages()
    web.repetition()
    web.languages()
    web.records()
    return Planted(web.pages, _code(module_text, web.items["questions"]), _books(web))


def _truth(kind: str, expect: dict[str, Any], note: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "expect": expect, "note": note, **more}


def _removed(stages: Sequence[str], rules: Sequence[str], **more: Any) -> dict[str, Any]:
    return {"kept": False, "stage": list(stages), "rule": list(rules), **more}


def _junk() -> dict[str, Any]:
    return _removed(_JUNK_STAGES, _JUNK_RULES)


def _copy(of: str) -> dict[str, Any]:
    return _removed(_COPY_STAGES, _COPY_RULES, copy_of=of)


class _Web:
    """Builds the planted pages. Each essay serves one purpose, so that no two faults meet by accident."""

    def __init__(self, pt: list[Essay], en: list[Essay], other: list[Essay], items: dict[str, list[Item]]) -> None:
        self.pt, self.en, self.other, self.items = pt, en, other, items
        self.pages: list[Page] = []
        self.by_id = {item.id: item for group in items.values() for item in group}
        for essay in (*pt[0:9], *pt[18:], *en):
            self.add(self.url(essay), self.html(essay), None)

    # Helpers

    def host(self, essay: Essay) -> str:
        return CADERNO if essay in self.pt else JOURNAL

    def url(self, essay: Essay, host: str | None = None) -> str:
        return f"https://{host or self.host(essay)}/{essay.slug}"

    def html(self, essay: Essay, blocks: Sequence[Block] | None = None, charset: str = "utf-8") -> str:
        others = [other for other in (self.pt if essay in self.pt else self.en) if other is not essay]
        first = sites.number(essay.slug, len(others))
        links = [(other.title, f"/{other.slug}") for other in (others + others)[first : first + 5]]
        return sites.article(
            self.host(essay),
            essay.slug,
            essay.title,
            essay.blocks if blocks is None else blocks,
            links,
            author=essay.author,
            language="pt-BR" if essay in self.pt else "en",
            charset=charset,
        )

    def add(self, url: str, body: str | bytes, truth: dict[str, Any] | None, **record: Any) -> None:
        data = body.encode() if isinstance(body, str) else body
        # A copy must not come before what it copies: equal texts keep the first by (path, offset).
        later = truth is not None and "copy_of" in truth["expect"]
        place = f"{'9' if later else '5'}{sites.number(url, 10**12):012}"
        self.pages.append(Page(url, data, truth=truth, place=record.pop("place", place), **record))

    def mixed(self, slug: str, parts: Sequence[tuple[Essay, int]], title: str) -> Essay:
        """An essay out of paragraphs of several, at most two from each: similar to all of them, a copy of none."""
        return Essay(slug, title, "The editors", tuple(essay.paragraphs[number] for essay, number in parts))

    # Faults

    def copies(self) -> None:
        pt, en = self.pt, self.en
        for number, essay in enumerate((*pt[0:6], *en[0:6])):
            note = "the same bytes at another address"
            url = self.url(essay, MIRRORS[number % 2])
            self.add(url, self.html(essay), _truth("exact_copy", _copy(self.url(essay)), note))
        for essay in en[0:4]:
            last = essay.paragraphs[-1].rpartition(". ")[0]
            paragraphs = (*essay.paragraphs[:-1], f"{last}.") if last else essay.paragraphs[:-1]
            page = sites.render("bare", language="en", title=essay.title, paragraphs=paragraphs)
            similarity = _jaccard(essay.text, "\n\n".join(paragraphs))
            note = (
                "the text in another site's template, its last sentence lost: shorter, so that the first page stays; "
                f"Jaccard {similarity:.2f} of 5-word shingles"
            )
            self.add(
                f"https://reprints.copies.example/{essay.slug}", page, _truth("near_copy", _copy(self.url(essay)), note)
            )
        for essay in (*pt[6:9], *en[6:9], *en[3:6]):
            edited = _edited(essay)
            note = f"a word or two of each paragraph dropped; Jaccard {_jaccard(essay.text, edited.text):.2f} of 5-word shingles"
            url = self.url(essay, "edited.copies.example")
            self.add(url, self.html(essay, edited.blocks), _truth("near_copy", _copy(self.url(essay)), note))
        pairs = ((en[10], en[12]), (en[11], en[13]), (en[9], en[8]), (en[7], en[6]))
        for number, (one, two) in enumerate(pairs):
            essay = self.mixed(
                f"digest-{number + 1}", ((one, 0), (one, 1), (two, 2), (two, 3)), "From our pages this week"
            )
            note = "two paragraphs each of two other pages: similar to both (Jaccard about 0.3), a copy of neither"
            self.add(f"https://{JOURNAL}/{essay.slug}", self.html(essay), _truth("similar", _KEPT, note))
        for essay, book in ((pt[17], "pamphlet-pt"), (en[9], "pamphlet-en")):
            note = "also a book, and the recipe keeps books before web pages"
            if essay in pt:
                self.add(self.url(essay), self.html(essay), _truth("cross_source_copy", _copy(book), note))
            else:
                self.pages = [page for page in self.pages if page.url != self.url(essay)]
                self.add(self.url(essay), self.html(essay), _truth("cross_source_copy", _copy(book), note))

    def encodings(self) -> None:
        pt = self.pt

        def sentence(essay: Essay) -> str:
            # Not one with "à": its second byte reads as a no-break space, which HTML is free to join with the space
            # behind it, so that no repair can be sure of it.
            sentences = [text for part in essay.paragraphs for text in part.split(". ") if "à" not in text.lower()]
            return max(sentences, key=lambda text: sum(ord(char) > 127 for char in text))

        def repaired(essay: Essay) -> dict[str, Any]:
            return {"kept": True, "text_contains": [sentence(essay)], "text_not_contains": ["Ã", "\ufffd", "Â"]}

        for essay, times in ((pt[9], 1), (pt[10], 1), (pt[11], 2)):
            text = self.html(essay)
            for _ in range(times):
                text = _misread(text)
            note = f"UTF-8 read as Windows-1252 and stored again, {times} time(s)"
            self.add(self.url(essay), text, _truth("mojibake", repaired(essay), note))
        page = self.html(pt[12], charset="iso-8859-1").encode("cp1252")
        note = "ISO-8859-1 stated in the page only"
        self.add(self.url(pt[12]), page, _truth("legacy_encoding", repaired(pt[12]), note), content_type="text/html")
        note = "UTF-8, but the HTTP header says ISO-8859-1"
        record = {"content_type": "text/html; charset=ISO-8859-1"}
        self.add(self.url(pt[13]), self.html(pt[13]), _truth("wrong_charset", repaired(pt[13]), note), **record)
        page = self.html(pt[14], charset="").encode("cp1252")
        note = "Windows-1252 stated nowhere"
        self.add(self.url(pt[14]), page, _truth("legacy_encoding", repaired(pt[14]), note), content_type="text/html")
        page = b"\xff\xfe" + self.html(pt[15], charset="").encode("utf-16-le")
        note = "UTF-16 with a byte order mark"
        self.add(self.url(pt[15]), page, _truth("legacy_encoding", repaired(pt[15]), note), content_type="text/html")

    def leaks(self) -> None:
        en, pt = self.en, self.pt
        hosts = [(en[a], en[b]) for a, b in ((0, 2), (1, 3), (4, 8), (5, 7), (6, 10), (11, 12), (13, 0), (2, 9))]
        hosts += [(pt[a], pt[b]) for a, b in ((18, 20), (19, 21), (22, 23), (24, 18))]

        def page(number: int, lines: Sequence[str]) -> str:
            one, two = hosts[number % len(hosts)]
            turn = number // len(hosts)
            parts: list[tuple[Essay, int]] = [(one, turn), (two, 3 - turn)]
            essay = self.mixed(f"quiz-{number + 1}", parts, f"Puzzle corner {number + 1}")
            blocks: list[Block] = [*essay.blocks[:1], *(["p", line] for line in lines), *essay.blocks[1:]]
            return self.html(essay, blocks)

        number = 0
        for name in ("q01", "q05", "q09", "q13", "q17", "q28", "q21", "q23"):
            item = self.by_id[name]
            options = f"The possible answers are {', '.join(item.choices)}; the right one is {item.choices[item.gold]}."
            note = f"benchmark item {name}, word for word, with its choices"
            truth = _truth("leak", _LEAK, note, item=name)
            number = {"q21": 8, "q23": 9}.get(name, number)
            self.add(f"https://{NOTES}/puzzles/{name}", page(number, [item.query, options]), truth)
            number += 1
        number = 12
        for name in ("q03", "q11", "q26", "q32"):
            words = self.by_id[name].query.upper().replace(",", " --").replace("?", " ?").replace(";", " ...").split()
            note = f"benchmark item {name} in capitals, with other punctuation"
            lines = [" ".join(words) + " Write to us with your answer."]
            self.add(f"https://{NOTES}/riddles/{name}", page(number, lines), _truth("leak", _LEAK, note, item=name))
            number += 1
        for number, name in zip((16, 17, 10, 11), ("r01", "r04", "r09", "r12"), strict=True):
            item = self.by_id[name]
            note = f"the passage of benchmark item {name}"
            self.add(
                f"https://{NOTES}/passages/{name}", page(number, [item.passage]), _truth("leak", _LEAK, note, item=name)
            )
        for number, name in ((18, "r02"), (19, "r07")):
            quote = self.by_id[name].passage.split(". ")[0] + "."
            note = f"one sentence of the passage of {name}, less than half of it: a quotation, no leak"
            self.add(
                f"https://{NOTES}/quotes/{name}", page(number, [quote]), _truth("quotation", _KEPT, note, item=name)
            )
        for number, name in ((13, "q02"), (14, "q08")):
            answer = self.by_id[name].choices[self.by_id[name].gold]
            lines = [f"The answer to last week's question was as follows: {answer}."]
            note = f"the answer of {name} alone: no leak"
            self.add(
                f"https://{JOURNAL}/answers/{name}",
                page(number + 10, lines),
                _truth("answer_only", _KEPT, note, item=name),
            )

    def addresses(self) -> None:
        pt, en = self.pt, self.en
        secret = ("benedita.salles@correio-da-serra.example", "45.33.32.156", "2a00:1450:4001:81b::200e")
        plain = ("192.168.0.14", "version 8.4.2.1")
        lines = (
            (
                pt[16],
                f"Quem quiser falar comigo pode escrever para {secret[0]} e esperar a resposta até segunda-feira. "
                f"O nosso servidor responde em {secret[1]} e a impressora da sala fica em {plain[0]}, como sempre.",
                (secret[0], secret[1]),
                (plain[0],),
            ),
            (
                self.mixed("letters-desk", ((en[12], 0), (en[13], 2)), "From the letters desk"),
                f"Letters to the editor reach us at {secret[0].replace('benedita.salles', 'letters')} on every working day. "
                f"The archive moved to {secret[2]} last autumn and is still running {plain[1]} of the old program.",
                (secret[0].replace("benedita.salles", "letters"), secret[2]),
                (plain[1],),
            ),
            (
                self.mixed("readers-write", ((en[10], 1), (en[11], 2)), "Our readers write"),
                "One of them signs as J.Haldane+garden@orchard-mail.example and wants to trade seeds with anybody nearby. "
                "Another saw a visitor from 91.198.174.192 in the log of his weather station and asks who that might be.",
                ("J.Haldane+garden@orchard-mail.example", "91.198.174.192"),
                (),
            ),
        )
        for essay, line, gone, stay in lines:
            blocks: list[Block] = [*essay.blocks[:1], ["p", line], *essay.blocks[1:]]
            expect = {"kept": True, "text_not_contains": list(gone), "text_contains": list(stay)}
            note = "e-mail and public IP addresses; private addresses and version numbers must stay"
            self.add(self.url(essay), self.html(essay, blocks), _truth("pii", expect, note))

    def empty_pages(self) -> None:
        gone = (
            "The page you are looking for could not be found. It may have been moved or deleted.",
            "Oops! We searched everywhere, but this page does not exist any more.",
            "Sorry, nothing here. Check the address, or go back to the home page.",
            "404. That is an error. The requested address was not found on this server.",
            "This listing has expired. Similar offers are waiting for you on the home page.",
            "Página não encontrada. Verifique o endereço ou volte para o início.",
        )
        for number in range(12):
            text = gone[number % len(gone)]
            host = CADERNO if text.startswith("Pág") else JOURNAL
            page = sites.article(
                host, f"gone-{number}", "Not found", [["p", text]], [("Home", "/"), ("Search", "/search")]
            )
            note = "says that there is no page, with status 200"
            self.add(f"https://{host}/gone/{number}", page, _truth("soft_404", _junk(), note))
        for number in range(12):
            note = "links and headings only"
            page = fillers.index(f"index-{number}", number)
            self.add(f"https://{SHOP}/index/{number}", page, _truth("nav_only", _junk(), note))
        for number in range(20):
            page = fillers.shelf(f"shelf-{number}", number)
            note = "names, prices and buttons"
            self.add(f"https://{SHOP}/shelf/{number}", page, _truth("product_list", _junk(), note))
        for number in range(4):
            page = sites.render("script", title="App", number=17 + 6 * number)
            note = "an application that draws its text with a script: nothing to extract"
            self.add(f"https://apps.runtime.example/view/{number}", page, _truth("script_only", _junk(), note))
        for number, essay in enumerate((*self.en[:5], *self.pt[:5])):
            teaser = ". ".join(essay.paragraphs[1].split(". ")[:1]).rstrip(".") + "."
            page = self.html(essay, [["p", teaser], ["p", "Read more" if number < 5 else "Leia mais"]])
            note = "a teaser of one sentence"
            self.add(f"{self.url(essay)}/teaser", page, _truth("too_short", _junk(), note))

    def repetition(self) -> None:
        rules = ["gopher_repetition.", "fineweb.repeated_line"]
        for number in range(5):
            line = self.en[number].paragraphs[0].split(". ")[0] + "."
            other = self.en[number + 5].paragraphs[2]
            lines = [line] * 14
            page = sites.render("bare", language="en", title="Guest book", paragraphs=[other], lines=lines)
            truth = _truth("repeated_lines", _removed(["filter"], rules), "one line fourteen times, as in a guest book")
            self.add(f"https://{NOTES}/guests/{number}", page, truth)
            text = " and ".join([" ".join(line.replace(",", "").split()[:9])] * 12) + " and so on."
            blocks: list[Block] = [["p", f"{number + place} times over: {text}"] for place in range(3)]
            page = sites.article(NOTES, f"stuck-{number}", "Stuck record", [*blocks, ["p", other]], [])
            truth = _truth(
                "repeated_phrases", _removed(["filter"], rules), "nine words over and over inside a paragraph"
            )
            self.add(f"https://{NOTES}/stuck/{number}", page, truth)
        for number in range(12):
            page = sites.article(SHOP, f"spam-{number}", "Best deals", fillers.stuffing(number), [])
            rules = ["language.", "gopher_quality.", "gopher_repetition.", "c4_lines.", "fineweb.", "where"]
            truth = _truth(
                "spam", _removed(["extract", "filter"], ["extract.empty", *rules]), "search words in a row, no sentence"
            )
            self.add(f"https://best-deals-{number}.spam.example/", page, truth)
        for number, paragraphs in enumerate(fillers.ADVERTS):
            page = sites.article(SHOP, f"advert-{number}", "An honest review", [["p", text] for text in paragraphs], [])
            note = "an advertisement in whole sentences: no rule of this recipe can tell it from prose; a learned score might"
            self.add(f"https://reviews.spam.example/{number}", page, _truth("fluent_spam", _KEPT, note))
        latin = (
            "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore "
            "magna aliqua. Ut enim ad minim veniam, quis nostrud exercitation ullamco laboris nisi ut aliquip ex ea commodo."
        )
        for number in range(2):
            page = sites.article(NOTES, f"blank-{number}", "Sample page", [["p", latin]] * (2 + number), [])
            rules = ["language.", "c4_lines.", "gopher_quality.", "gopher_repetition.", "fineweb.", "where"]
            truth = _truth("lorem_ipsum", _removed(["filter"], rules), "filler text of a template")
            self.add(f"https://{NOTES}/sample/{number}", page, truth)

    def languages(self) -> None:
        for essay in self.other:
            code = essay.slug.split("/")[0]
            page = sites.article(REVUE, essay.slug, essay.title, essay.blocks, [], author=essay.author, language=code)
            truth = _truth(
                "other_language",
                _removed(["filter"], ["language."]),
                f"good prose in {code}, which the recipe does not keep",
            )
            self.add(f"https://{REVUE}/{essay.slug}", page, truth)

    def records(self) -> None:
        essay = self.mixed("compressed", ((self.en[2], 0), (self.en[4], 2)), "Two short readings")
        again = self.mixed("in-chunks", ((self.en[1], 1), (self.en[5], 3)), "Two more readings")
        body = gzip.compress(self.html(essay).encode(), 6, mtime=0)
        expect = {"kept": True, "text_contains": [essay.paragraphs[0][:80]]}
        truth = _truth("compressed_body", expect, "Content-Encoding: gzip")
        self.add(f"https://{NOTES}/readings/1", body, truth, headers=(("Content-Encoding", "gzip"),))
        expect = {"kept": True, "text_contains": [again.paragraphs[0][:80]]}
        truth = _truth("chunked_body", expect, "Transfer-Encoding: chunked")
        body = _chunked(self.html(again).encode())
        self.add(f"https://{NOTES}/readings/2", body, truth, headers=(("Transfer-Encoding", "chunked"),))
        lines = "You must enable JavaScript to use this page."
        essay = self.mixed("with-notice", ((self.en[3], 0), (self.en[8], 1)), "A reading with a notice")
        page = self.html(essay, [["p", lines], *essay.blocks])
        expect = {"kept": True, "text_contains": [essay.paragraphs[0][:80]], "text_not_contains": [lines]}
        self.add(
            f"https://{NOTES}/readings/3", page, _truth("boilerplate_line", expect, "a notice that C4's line rule cuts")
        )

        missing = sites.article(JOURNAL, "missing", "404", [["p", "There is no such page. " * 30]], [])
        for number in range(5):
            truth = _truth(
                "http_404", _removed(["gate"], ["gate.status"]), "an error page with the status it should have"
            )
            self.add(f"https://{JOURNAL}/missing/{number}", missing, truth, status=404)
        for number, status in enumerate((301, 301, 503)):
            truth = _truth("http_error", _removed(["gate"], ["gate.status"]), f"status {status}")
            self.add(
                f"https://{JOURNAL}/moved/{number}", "<html><body><p>Moved.</p></body></html>", truth, status=status
            )
        others = (
            ("image/png", _PNG, "a picture"),
            ("text/css", b"body { margin: 0 }\n" * 20, "a style sheet"),
            ("application/pdf", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj << /Type /Catalog >> endobj\n%%EOF\n", "a PDF"),
        )
        for content_type, body, note in others:
            truth = _truth("not_html", _removed(["gate"], ["gate.media_type"]), note)
            self.add(f"https://{NOTES}/assets/{content_type.replace('/', '-')}", body, truth, content_type=content_type)
        truth = _truth(
            "empty_body", _removed(["gate", "extract"], ["gate.empty_body", "extract.empty"]), "no byte of content"
        )
        self.add(f"https://{NOTES}/empty", b"", truth)
        for kind, number in (
            ("request", 0),
            ("request", 1),
            ("request", 2),
            ("revisit", 3),
            ("revisit", 4),
            ("metadata", 5),
        ):
            url = self.url(self.en[number])
            body = {
                "request": f"GET /{self.en[number].slug} HTTP/1.1\r\nHost: {JOURNAL}\r\nUser-Agent: demo\r\n\r\n".encode(),
                "revisit": b"",
                "metadata": b"fetchTimeMs: 212\r\n",
            }[kind]
            truth = _truth(f"{kind}_record", {"skipped": True}, "a record that holds no document")
            self.add(url, body, truth, kind=kind, place=f"7{number}")
        truth = _truth(
            "truncated_record",
            _removed(["read"], ["read.truncated", "read.bad_record"]),
            "the file ends in the middle of this record",
        )
        page = self.html(self.mixed("last", ((self.pt[3], 0), (self.pt[5], 1)), "A última página"))
        self.add(f"https://{CADERNO}/last", page, truth | {"cut_to": 0.6}, place="z")


def _misread(text: str) -> str:
    """UTF-8 bytes read as Windows-1252; the five bytes without a meaning there stay what they are (as browsers do)."""
    return "".join(
        bytes([byte]).decode("cp1252", "ignore") or chr(byte) if byte > 127 else chr(byte) for byte in text.encode()
    )


def _edited(essay: Essay) -> Essay:
    """Drop one word near the middle of each paragraph, and the last word but one of the first."""
    paragraphs = []
    for text in essay.paragraphs:
        words = text.split()
        middle = len(words) // 2
        paragraphs.append(" ".join(words[:middle] + words[middle + 1 :]))
    return Essay(essay.slug, essay.title, essay.author, tuple(paragraphs))


def _jaccard(one: str, two: str, n: int = 5) -> float:
    """Return the similarity of two texts by the definition (Broder 1997): shared over all distinct n-word shingles."""
    a, b = (
        {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}
        for words in (one.lower().split(), two.lower().split())
    )
    return len(a & b) / len(a | b)


def _chunked(body: bytes, size: int = 1000) -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts) + b"0\r\n\r\n"


_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6300010000050001"
    "0d0a2db40000000049454e44ae426082"
)


# Code


def _code(module_text: Callable[[str], str], questions: list[Item]) -> list[tuple[str, bytes, dict[str, Any] | None]]:
    by_id = {item.id: item for item in questions}
    found: list[tuple[str, bytes, dict[str, Any] | None]] = []
    for name in ("textwrap", "bisect", "heapq", "shlex", "fnmatch"):
        truth = _truth("exact_copy", _copy(f"stdlib/{name}.py"), "a vendored copy")
        found.append((f"vendor/{name}.py", module_text(name).encode(), truth))
    for name in ("cmd", "difflib", "string", "sched"):
        lines = module_text(name).rstrip().splitlines()
        text = "\n".join(lines[: int(len(lines) * 0.94)]) + "\n"
        truth = _truth("near_copy", _copy(f"stdlib/{name}.py"), "a vendored copy that lost its last 6% of lines")
        found.append((f"vendor/old_{name}.py", text.encode(), truth))
    minified = "".join(
        f"function f{n}(a,b){{var c=a*{n}+b;if(c>{n * 7}){{return f{(n + 1) % 90}(c-1,b)}}return c}};"
        for n in range(90)
    )
    truth = _truth("minified", _removed(["filter"], ["code."]), "one line of 5 kB")
    found.append(("projects/site/app.min.js", minified.encode(), truth))
    rows = "\n".join(f"    {{{n}, {n * n % 251}, {n * 7 % 97}, 0x{n * 2654435761 % 2**32:08x}}}," for n in range(400))
    generated = f"/* Code generated by tablegen; DO NOT EDIT. */\nstatic const int table[400][4] = {{\n{rows}\n}};\n"
    truth = _truth("generated", _removed(["filter"], ["code."]), "says that it is generated")
    found.append(("projects/tables/table.c", generated.encode(), truth))
    signs = "\n".join("+--" * 12 + "+\n" + "|  " * 12 + "|" for _ in range(40)) + "\n"
    truth = _truth("few_letters", _removed(["filter"], ["code."]), "a drawing without letters or digits")
    found.append(("projects/tables/grid.txt", signs.encode(), truth))
    truth = _truth("empty_file", _removed(["extract", "gate", "read"], ["extract.empty", "gate.", "read."]), "no byte")
    found.append(("projects/site/__init__.py", b"", truth))
    item = by_id["q38"]
    leak = f'''"""Gear trains: answers to the exercises."""

from fractions import Fraction


def turns(teeth: list[int], first: int) -> Fraction:
    """Return the turns of the last gear in a row of meshed gears."""
    # Exercise 12. {item.query}
    # Only the first and the last gear matter, so the answer is
    # {item.choices[item.gold]}.
    return Fraction(first * teeth[0], teeth[-1])


def direction(teeth: list[int]) -> int:
    """Return 1 if the last gear turns like the first one, else -1."""
    return 1 if len(teeth) % 2 else -1


if __name__ == "__main__":
    print(turns([12, 30, 60], 10), direction([12, 30, 60]))
'''
    found.append(
        (
            "projects/exercises/gears.py",
            leak.encode(),
            _truth("leak", _LEAK, "benchmark item q38 in a comment", item="q38"),
        )
    )
    return found


# Books


def _books(web: _Web) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    def book(name: str, essay: Essay, language: str, text: str | None = None) -> dict[str, Any]:
        return {
            "id": name,
            "title": essay.title,
            "author": essay.author,
            "language": language,
            "text": text or essay.text,
        }

    kept = _truth("cross_source_copy", _KEPT, "the book that stays; a web page has the same text")
    books: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
        (book("pamphlet-pt", web.pt[17], "pt"), kept),
        (book("pamphlet-en", web.en[9], "en"), kept),
    ]
    reader = Essay(
        "reader", "A reader of short pieces", "The editors", tuple(p for e in web.en[12:14] for p in e.paragraphs[1:3])
    )
    passage = web.by_id["r05"].passage
    truth = _truth("leak", _LEAK, "the passage of benchmark item r05", item="r05")
    books.append((book("reader-with-leak", reader, "en", f"{reader.text}\n\n{passage}\n\nDiscuss."), truth))
    almanac = Essay(
        "almanac", "Almanaque de pequenas histórias", "Vários", tuple(p for e in web.pt[18:25] for p in e.paragraphs)
    )
    books.append((book("almanac", almanac, "pt"), None))
    truth = _truth("exact_copy", _copy("almanac"), "the same book in a second edition")
    books.append((book("almanac-second-edition", almanac, "pt"), truth))
    return books
