"""Rules on a page's address: listed domains and pages, and words that give the page away (Penedo et al. 2023, arXiv:2306.01116, G.1).

Lists of domains and words are other people's work and are not shipped. The lists that the variants were made with:

- `datatrove`: `url_filterblacklistsv0_3_0.tar.gz` (files `domains`, `urls`), `banned_words.txt`, `soft_banned_words.txt` and
  `banned_subwords.txt` in the folder `assets` of the package datatrove. The first two come from the blacklists of the
  Université Toulouse Capitole (UT1, https://dsi.ut-capitole.fr/blacklists/, CC-BY-SA): a folder a category, each with
  `domains` and `urls`, which are read as they are.
- `dclm`, `refinedweb`: `baselines/mappers/banlists/` of the repository mlfoundations/dclm, where the list of domains is a
  download of its own.

What the variants decide:

- A domain is listed: in `curate` the host, or a domain above it; in `datatrove` the registered domain (public suffixes of
  ICANN) or the whole host, in the case of the address; in `dclm` what stands between `//` and the next `/`, with its port,
  after every `www` in it is taken out.
- An address is listed: in `curate` the page, or one above it; in `datatrove` to the letter, with its scheme (which UT1 lists
  lack, so that theirs never matches an address with one); in `dclm` never.
- Words: in `curate` runs of letters and digits of any script without case, percent signs decoded; in `datatrove` runs of ASCII
  letters and digits with their case, so that `Porn` is not `porn`; in `dclm` what stands between word boundaries (`_` belongs
  to words), without case.
- Substrings: in `curate` inside of one word; in `datatrove` of the address without all that is no ASCII letter or digit; in
  `dclm` of the address without `-` and `.`; all without case.

With dclm's `www` taken out, `www.example.org` becomes `.example.org`, which a list without leading dots never holds.
`refinedweb` is `dclm` and 16 sites that language model corpora take from other sources, see `RESERVED`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator, field_validator, model_validator

from curate.errors import InputError
from curate.filter.bounds import AtMostNumber, Filter, Switch, is_off
from curate.listed import Listed
from curate.stage import Rule
from curate.text.addresses import listed_address, looked_up

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]  # shape (entries,), ascending

# Ours: words that hardly stand in the address of a page that is about something else.
_HARD_WORDS = (
    "porn porno porns pornos pornhub xvideos xhamster xnxx redtube youporn hentai milf milfs gilf cumshot cumshots "
    "blowjob blowjobs handjob gangbang bukkake creampie deepthroat upskirt camgirl camgirls camsex sexcam sexcams "
    "livesex sexchat cybersex sexshop xrated pornstar pornstars fisting rimjob titties bigtits bigcock "
    "pornografia putaria pornô pornografico"
)
HARD_WORDS = tuple(_HARD_WORDS.split())
# Ours: words of innocent pages, too; two of them together are rare there.
_SOFT_WORDS = (
    "sex sexy sexo sexe xxx adult adults erotic erotica erotik nude nudes naked nudity escort escorts webcam webcams cams "
    "fetish bdsm dating hookup hookups lesbian shemale incest voyeur orgy dildo boobs tits pussy cock dick anal teen "
    "teens hot slut sluts whore amateur casino casinos poker slots betting jackpot roulette gambling bonus "
    "viagra cialis levitra xanax tramadol torrent torrents warez keygen"
)
SOFT_WORDS = tuple(_SOFT_WORDS.split())
_SUBSTRINGS = "freeporn pornhub pornvideo sexvideo sexcam livesex xvideos xhamster pornstar hardcoresex"
SUBSTRINGS = tuple(_SUBSTRINGS.split())

# RefinedWeb leaves these out of its pages, as corpora bring them from better sources (paper, G.1.3; numbers as in dclm).
_RESERVED = (
    "arxiv.org askubuntu.com stackoverflow.com stackapps.com stackexchange.com mathoverflow.net exporter.nih.gov "
    "ncbi.nlm.nih.gov github.com irclogs.ubuntu.com news.ycombinator.com courtlistener.com reddit.com statmt.org "
    "uspto.gov en.wikipedia.org"
)
RESERVED = tuple(_RESERVED.split())

_LISTS = ("domains", "addresses", "hard_words", "soft_words", "substrings")
_OWN = {"hard_words": HARD_WORDS, "soft_words": SOFT_WORDS, "substrings": SUBSTRINGS}

# Columns in the order in which each variant tests them; the first that fires is the reason.
_ORDER: Mapping[str, tuple[str, ...]] = {
    "curate": ("domain", "address", "hard_words", "soft_words", "substrings"),
    "datatrove": ("domain", "address", "hard_words", "soft_words", "substrings"),
    "dclm": ("domain", "substrings", "hard_words", "soft_words"),
    "refinedweb": ("domain", "reserved", "substrings", "hard_words", "soft_words"),
}
_COLUMNS = {
    "domain": "url_domain_listed",
    "address": "url_address_listed",
    "reserved": "url_reserved",
    "hard_words": "num_url_hard_words",
    "soft_words": "num_url_soft_words",
    "substrings": "num_url_substrings",
}

_MaybeListed = Annotated[Listed | None, BeforeValidator(lambda value: None if is_off(value) else value)]


class Url(Filter):
    """Rules on the address of a page. A document without an address breaks none.

    Attributes:
        variant: Whose way of reading an address and the lists, see above. `curate` brings short word lists of its own, which
            lists given here replace; the others need lists.
        domains: Local files, one domain a line.
        addresses: Local files, one address a line. `curate`: also what lies below it.
        hard_words, soft_words, substrings: Local files, or words.
        max_hard_words, max_soft_words, max_substrings: Entries of each list that an address may hold, each counted once.
        domain, address, reserved: Whether pages with a listed domain, a listed address, of a site of `RESERVED` go.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("publicsuffixlist", "idna")
    reads: ClassVar[tuple[str, ...]] = ("url",)
    files: ClassVar[tuple[str, ...]] = _LISTS
    adds: ClassVar[Mapping[str, str]] = dict.fromkeys(_COLUMNS.values(), "int64")
    decides: ClassVar[tuple[str, ...]] = (
        *("max_hard_words", "max_soft_words", "max_substrings"),
        *("domain", "address", "reserved", "by"),
    )

    variant: Literal["curate", "datatrove", "dclm", "refinedweb"] = "curate"
    domains: _MaybeListed = None
    addresses: _MaybeListed = None
    hard_words: _MaybeListed = Listed(entries=HARD_WORDS)
    soft_words: _MaybeListed = Listed(entries=SOFT_WORDS)
    substrings: _MaybeListed = Listed(entries=SUBSTRINGS)
    max_hard_words: AtMostNumber = 0.0
    max_soft_words: AtMostNumber = 1.0
    max_substrings: AtMostNumber = 0.0
    domain: Switch = True
    address: Switch = True
    reserved: Switch = True

    @model_validator(mode="before")
    @classmethod
    def _no_foreign_words(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or values.get("variant", "curate") == "curate":
            return values
        return {**dict.fromkeys(_OWN), **values}

    @field_validator("variant", mode="before")
    @classmethod
    def _known_variant(cls, value: Any) -> Any:
        if value not in tuple(_ORDER):
            raise ValueError(f"there is no variant {value!r} of url; there are: {', '.join(_ORDER)}")
        return value

    @model_validator(mode="after")
    def _something_listed(self) -> Url:
        if self.addresses is not None and "address" not in _ORDER[self.variant]:
            raise ValueError(f"the variant {self.variant} compares no addresses; leave `addresses` out")
        if self.variant != "refinedweb" and not any(self._given(name) for name in _LISTS):
            raise ValueError(f"the variant {self.variant} has no list to compare with; name one of {', '.join(_LISTS)}")
        return self

    def _given(self, name: str) -> bool:
        listed: Listed | None = getattr(self, name)
        return listed is not None and bool(listed.files or listed.entries)

    def model_digest(self) -> str | None:
        """Return the sha256 of all lists, or None if no file is among them.

        Raises:
            InputError: If a file cannot be read.
        """
        import hashlib

        lists = [(name, getattr(self, name)) for name in _LISTS if self._given(name)]
        if not any(listed.files for _, listed in lists):
            return None
        found = hashlib.sha256()
        for name, listed in lists:
            parts = (name, *map(_file_digest, listed.files), "", *listed.entries)
            found.update(("\0".join(parts) + "\1").encode())
        return found.hexdigest()

    def prepare(self) -> None:
        """Read the lists."""
        self._lists()

    def _lists(self) -> _Lists:
        return _lists_of(self.variant, tuple(getattr(self, name) for name in _LISTS), self.model_digest())

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`: 0 or 1 for domain, address and reserved, else how many entries were found."""
        import pyarrow as pa

        lists, reading = self._lists(), _READINGS[self.variant]
        urls = batch["url"].to_pylist()
        none: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        is_listing = len(lists.domains) or len(lists.addresses)
        forms = [reading.forms(url) if url and is_listing else none for url in urls]
        counts = [_words_found(url, lists, reading) if url else (0, 0, 0) for url in urls]
        hard, soft, substrings = zip(*counts, strict=True) if counts else ((), (), ())
        columns = {
            "url_domain_listed": _any_listed(lists.domains, [domains for domains, _ in forms]),
            "url_address_listed": _any_listed(lists.addresses, [addresses for _, addresses in forms]),
            "url_reserved": [
                int(self.variant == "refinedweb" and bool(url) and _dclm_place(url) in RESERVED) for url in urls
            ],
            "num_url_hard_words": hard,
            "num_url_soft_words": soft,
            "num_url_substrings": substrings,
        }
        return pa.record_batch({name: pa.array(columns[name], pa.int64()) for name in self.adds})

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return the rules whose list is given, in the order of the variant."""
        bounds = {
            "domain": 0.0 if self.domain and self._given("domains") else None,
            "address": 0.0 if self.address and self._given("addresses") else None,
            "reserved": 0.0 if self.reserved else None,
            **{name: getattr(self, f"max_{name}") if self._given(name) else None for name in _OWN},
        }
        names = [name for name in _ORDER[self.variant] if bounds[name] is not None]
        return tuple(self.rule(f"{block}.{name}", _COLUMNS[name], None, bounds[name]) for name in names)


# -- how each variant reads an address and the lines of a list ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reading:
    """One variant.

    Attributes:
        domain_line, address_line: Forms under which a line of a list is looked up; none for a comment.
        prefix: What the forms of a plain host begin with.
        forms: Forms of an address that may be among the domains, and among the addresses.
        word_line: The word that a line means, or an empty string.
        words: Words of an address, or None if `\\b` decides.
        inside: The text in which substrings are looked for.
    """

    domain_line: Callable[[str], Iterable[str]]
    address_line: Callable[[str], Iterable[str]]
    prefix: bytes
    forms: Callable[[str], tuple[Sequence[str], Sequence[str]]]
    word_line: Callable[[str], str]
    words: Callable[[str], set[str]] | None
    inside: Callable[[str], str]


_NOT_ASCII_WORD = re.compile(r"[^a-zA-Z0-9]+")
_WORD = re.compile(r"[^\W_]+")
_WWW = re.compile(r"\A([a-z][a-z0-9+.\-]*://)?www\.(?=[^/?#]*\.)", re.IGNORECASE)


def _uncommented(line: str) -> tuple[str, ...]:
    return (line.strip(),) if line.strip() and line[0] != "#" else ()


def _site_line(line: str) -> Iterable[str]:
    line = line.strip()
    return (listed_address(_WWW.sub(r"\1", line)),) if line and line[0] != "#" else ()


def _page_line(line: str) -> Iterable[str]:
    for form in _site_line(line):
        yield form
        if form.startswith("page ") and "?" not in form:
            yield "below " + form.removeprefix("page ")


def _forms(url: str) -> tuple[list[str], list[str]]:
    found = list(looked_up(_WWW.sub(r"\1", url)))
    return [form for form in found if form.startswith("domain ")], found


def _all_words(url: str) -> set[str]:
    return set(_WORD.findall(unquote(url).casefold()))


def _host(url: str) -> str:
    """Return the host of an address, with or without a scheme, case and all, as tldextract finds it."""
    scheme, slashes, rest = url.partition("//")
    has_scheme = not scheme or (scheme[-1] == ":" and re.fullmatch(r"[A-Za-z0-9+.\-]+", scheme[:-1]) is not None)
    place = re.split(r"[/?#]", rest if slashes and has_scheme else url, maxsplit=1)[0].rpartition("@")[2]
    if place.startswith("[") and "]" in place:
        return place.partition("]")[0] + "]"
    return place.partition(":")[0].strip().rstrip(".\u3002\uff0e\uff61")


def _registered(url: str) -> tuple[str, ...]:
    """Return the registered domain and the host, or nothing for a host under no public suffix."""
    host = _host(url)
    labels = re.split("[.\u3002\uff0e\uff61]", host)
    known = _public_suffixes()(".".join(labels).lower()) if host else None
    if known is None:
        return ()
    return ".".join(labels[-known.count(".") - 1 :]), ".".join(labels)


@functools.cache
def _public_suffixes() -> Callable[[str], str | None]:
    from publicsuffixlist import PublicSuffixList

    registered: Callable[[str], str | None] = PublicSuffixList(accept_unknown=False, only_icann=True).privatesuffix
    return registered


def _dclm_place(url: str) -> str:
    try:
        return urlsplit(url).netloc.lower().replace("www", "")
    except ValueError:  # dclm stops here: brackets that hold no IPv6 address
        return ""


_DCLM = _Reading(
    domain_line=lambda line: (line.lower(),) if line else (),
    address_line=lambda _: (),
    prefix=b"",
    forms=lambda url: ((_dclm_place(url),), ()),
    word_line=str.lower,
    words=None,
    inside=lambda url: url.lower().replace("-", "").replace(".", ""),
)
_READINGS: Mapping[str, _Reading] = {
    "curate": _Reading(
        domain_line=_site_line,
        address_line=_page_line,
        prefix=b"domain ",
        forms=_forms,
        word_line=lambda line: line.strip().casefold() if not line.startswith("#") else "",
        words=_all_words,
        inside=lambda url: " ".join(_WORD.findall(unquote(url).casefold())),
    ),
    "datatrove": _Reading(
        domain_line=_uncommented,
        address_line=_uncommented,
        prefix=b"",
        forms=lambda url: (_registered(url), (url,)),
        word_line=lambda line: "" if line.startswith("#") else _NOT_ASCII_WORD.sub("", line).lower(),
        words=lambda url: set(_NOT_ASCII_WORD.split(url)),
        inside=lambda url: _NOT_ASCII_WORD.sub("", url).lower(),
    ),
    "dclm": _DCLM,
    "refinedweb": _DCLM,
}


# -- lists, read once a process ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lists:
    """Hashes of domains and addresses (8 bytes an entry, whatever its length), and words.

    Two forms share a hash with probability 2^-64: among five million entries, one look-up in 3.7 million million is
    answered wrongly.
    """

    domains: Hashes
    addresses: Hashes
    hard: frozenset[str]
    soft: frozenset[str]
    substrings: tuple[str, ...]


@functools.lru_cache(maxsize=4)
def _lists_of(variant: str, lists: tuple[Listed | None, ...], digest: str | None) -> _Lists:
    del digest  # part of the key: a file may change under its name
    reading = _READINGS[variant]
    domains, addresses, hard, soft, substrings = lists
    return _Lists(
        domains=_hashed(domains, reading, reading.domain_line),
        addresses=_hashed(addresses, reading, reading.address_line),
        hard=frozenset(_words(hard, reading)),
        soft=frozenset(_words(soft, reading)),
        substrings=tuple(sorted(_words(substrings, reading))),
    )


def _hashed(listed: Listed | None, reading: _Reading, forms: Callable[[str], Iterable[str]]) -> Hashes:
    import numpy as np

    from curate.filter.url_kernels import hash_lines, hash_texts

    parts = [np.zeros(0, np.uint64)]
    for path, data in _contents(listed):
        hosts, others = hash_lines(data, reading.prefix, without_www=bool(reading.prefix))
        found: list[str] = []
        for line in others:
            text = line.decode("utf-8", "surrogateescape")
            try:
                found += forms(text)
            except ValueError as error:
                raise InputError(path, f"{text.strip()!r}: {error}.", "Correct the line, or take it out.") from error
        parts += [hosts, hash_texts(found)]
    hashes = np.concatenate(parts)
    hashes.sort()
    return hashes


def _words(listed: Listed | None, reading: _Reading) -> set[str]:
    lines = (line for _, data in _contents(listed) for line in data.decode("utf-8", "surrogateescape").splitlines())
    return {word for line in lines if (word := reading.word_line(line))}  # a blank line would be found everywhere


def _contents(listed: Listed | None) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each file, then the entries, one a line."""
    if listed is None:
        return
    import fsspec

    for path in listed.files:
        with fsspec.open(path, "rb", compression="infer") as file:
            yield path, file.read()
    yield "the recipe", "\n".join(listed.entries).encode("utf-8", "surrogateescape")


def _file_digest(path: str) -> str:
    from pathlib import Path

    try:
        stat = Path(path).stat()
    except OSError as error:
        problem = f"the list cannot be read: {error.strerror}."
        raise InputError(path, problem, "Correct the path in the url block.") from error
    return _digest_of(path, stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=16)
def _digest_of(path: str, size: int, mtime_ns: int) -> str:
    import hashlib
    from pathlib import Path

    del size, mtime_ns  # they are part of the key: another file under the same name is read again
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _words_found(url: str, lists: _Lists, reading: _Reading) -> tuple[int, int, int]:
    """Return how many entries of each word list stand in an address."""
    inside = reading.inside(url) if lists.substrings else ""
    substrings = sum(entry in inside for entry in lists.substrings)
    if reading.words is not None:
        words = reading.words(url)
        return len(words & lists.hard), len(words & lists.soft), substrings
    lowered = url.lower()
    hard, soft = (
        len(set(_bounded(entries).findall(lowered))) if entries else 0 for entries in (lists.hard, lists.soft)
    )
    return hard, soft, substrings


@functools.lru_cache(maxsize=8)
def _bounded(entries: frozenset[str]) -> re.Pattern[str]:
    """Return the pattern of the longest entry that begins and ends at word boundaries."""
    longest_first = sorted(entries, key=lambda entry: (-len(entry), entry))
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE)


def _any_listed(hashes: Hashes, forms: Sequence[Sequence[str]]) -> list[int]:
    """Return for each row whether one of its forms is listed, as 0 or 1."""
    import numpy as np

    from curate.filter.url_kernels import hash_texts

    if not len(hashes):
        return [0] * len(forms)
    wanted = hash_texts([form for row in forms for form in row])
    hits = hashes[np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)] == wanted
    ends = np.cumsum([0, *map(len, forms)])
    found = np.concatenate(([0], np.cumsum(hits)))[ends]
    listed: list[int] = (np.diff(found) > 0).astype(np.int64).tolist()
    return listed
