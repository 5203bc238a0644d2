"""Addresses of pages: their canonical form, and the forms by which a list of addresses names hosts, pages and parts of sites.

A line of a list of addresses is one of

- `example.org`: the host and every host below it, on any port. `*.example.org` and `.example.org` say the same, and so does
  the address of a site as people write it: `https://example.org`, `https://example.org/`. A name without a dot means that
  one host, never a top-level domain.
- `example.org/*`, `https://example.org/news/*`: the pages of this one host whose path begins so, by whole segments;
  `example.org/news/*` covers `/news`, `/news/` and `/news/a`, not `/newsletter`.
- anything longer: that one page. `example.org/?` is the home page alone.

Two addresses are one page if they agree in this canonical form: without scheme, user, fragment, the ports 80 and 443 and
an empty query; host in lower case and in its ASCII form, without a dot at its end; `.` and `..` in the path resolved;
without slashes at the end of the path; percent signs only where they must be, with upper-case digits (RFC 3986,
section 6.2.2). Path and query keep their case, the query its order. `www.` is a host below, no synonym.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import xxhash

MAX_SEGMENTS = 32  # of a path that prefixes may have: each costs every document a look-up

_ADDRESS = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://)?"
    r"(?:[^/?#@\s]*@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^/?#@:\s\[\]|^<>\"'\\{}`,;()]+)(?::(?P<port>\d*))?"
    r"(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?(?:#.*)?",
    re.DOTALL,
)
_OPAQUE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^/\s]\S*")  # urn:isbn:..., with nothing in it to make canonical
_OWN = re.compile(
    r"(?:urn|doi|hdl|ark|info|isbn|issn|arxiv):(?!/*\Z)\S+", re.IGNORECASE
)  # they name one thing anywhere
_WEB = re.compile(r"(?:https?|ftps?):", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+\-]*:(?!\d)")  # not a host with a port
_NO_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://(?:/|\Z)")
_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F))  # what `quote` leaves alone
_DEFAULT_PORTS = ("", "80", "443")

# What `page_key` leaves out.
_WWW = re.compile(r"www\d*\.(?=[^.]+\.)")
_SESSION_IN_PATH = re.compile(r";jsessionid=[^/;]*", re.IGNORECASE)
_FOLLOWING = (
    re.compile(  # parameters of advertisers, mailings and analytics; each names the visitor's way, not the page
        r"utm_\w+|_ga|_gl|gclid|gclsrc|dclid|[gw]braid|srsltid|fbclid|igshid|msclkid|ys?clid|twclid|ttclid|li_fat_id"
        r"|mc_[ce]id|_hsenc|_hsmi|__hs(?:tc|sc|fp)|mkt_tok|vero_(?:id|conv)|oly_(?:anon|enc)_id"
        r"|(?:pk|mtm|piwik|matomo)_(?:campaign|keyword|kwd|source|medium|content|cid|group|placement)",
        re.IGNORECASE,
    )
)
_SESSION = re.compile(r"(?:phpsessid|jsessionid|aspsessionid\w*)=.*|sid=[0-9a-z]{32}", re.IGNORECASE)
_COLDFUSION = frozenset(("cfid", "cftoken"))  # a session where both stand; `cfid` alone may name a category


@dataclass(frozen=True, slots=True)
class Address:
    """A canonical address.

    Attributes:
        host: Without port.
        place: Host, with a port that is no default one.
        path: With a slash at its start, or empty for the home page.
        query: With its question mark, or empty.
    """

    host: str
    place: str
    path: str
    query: str


def parse_address(text: str) -> Address | None:
    """Return the canonical form of an address with or without scheme, or None if it has no host."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    host = _ascii_host(match["host"])
    if not host:
        return None
    port = match["port"] or ""
    place = host if port in _DEFAULT_PORTS else f"{host}:{port}"
    query = _escapes(match["query"] or "")
    return Address(host, place, _resolved(_escapes(match["path"] or "")).rstrip("/"), f"?{query}" if query else "")


def _ascii_host(host: str) -> str:
    host = host.rstrip(".").lower()
    if host.isascii():
        return host
    import idna

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except UnicodeError:  # no name that can be registered; it still equals itself
        return host


def _escapes(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        sign = chr(int(match[1], 16))
        return sign if sign in _UNRESERVED else match[0].upper()

    if "%" in text:
        text = _PERCENT.sub(one, text)
    return quote(text, safe=_PRINTABLE, errors="surrogateescape")


def _resolved(path: str) -> str:
    """Return a path without its `.` and `..` segments (RFC 3986, section 5.2.4)."""
    if "/." not in path:
        return path
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    return "".join(f"/{segment}" for segment in kept)


def listed_address(line: str) -> str:
    """Return the form under which a line of a list of addresses is looked up.

    Raises:
        ValueError: If the line is none of the three forms.
    """
    line = line.strip()
    prefix = line.endswith("/*")
    text = line[:-2] if prefix else line
    if not prefix and line.endswith("*"):
        raise ValueError("a star stands only at the end, behind a slash, as in example.org/news/*")
    address = parse_address(re.sub(r"\A\*?\.(?=[^./])", "", text))
    if address is None:
        if not prefix and _OPAQUE.fullmatch(line):
            return f"page {line}"
        raise ValueError("it is no host, address or prefix; write one a line, as example.org or example.org/news/*")
    if prefix:
        if address.query:
            raise ValueError("a prefix has no query")
        if address.path.count("/") > MAX_SEGMENTS:
            raise ValueError(f"a prefix has at most {MAX_SEGMENTS} segments")
        return f"below {address.place}{address.path}"
    if address.path or "?" in text.partition("#")[0]:
        return f"page {address.place}{address.path}{address.query}"
    return f"domain {address.place}"


def looked_up(url: str) -> Iterator[str]:
    """Yield every form of a list under which a document with this address is removed, the widest first."""
    address = parse_address(url)
    if address is None:
        yield f"page {url.strip()}"
        return
    labels = address.host.split(".")
    for first in range(max(0, len(labels) - 2), -1, -1):
        yield "domain " + ".".join(labels[first:])
    if address.place != address.host:
        yield f"domain {address.place}"
    yield f"below {address.place}"
    end = 0
    for _ in range(MAX_SEGMENTS):
        end = address.path.find("/", end + 1)
        if end < 0:
            break
        yield f"below {address.place}{address.path[:end]}"
    if address.path and address.path.count("/") <= MAX_SEGMENTS:
        yield f"below {address.place}{address.path}"
    yield f"page {address.place}{address.path}{address.query}"


def page_key(text: str) -> str | None:
    """Return the form in which all addresses of one page agree, or None if the text is no address.

    The canonical form above and, as far as it names the same page on any common server, what the keys of web archives leave
    out, too (the sort-friendly addresses of the Internet Archive): a `www.` or `www2.` before a host that goes on with two
    names; the order of query parameters (those of one name keep theirs), and empty ones; session numbers (PHPSESSID,
    ASPSESSIONID..., JSESSIONID in query or path, CFID with CFTOKEN, `sid` of 32 letters or digits); and the
    parameters by which advertisers, mailings and analytics follow a visitor (`utm_...`, `gclid`, `fbclid`, ...). Other than
    there, the case of path and query counts. A fragment counts if it begins with `!`: it tells pages apart on sites made by
    scripts. Names that are the same anywhere (`urn:isbn:...`, `doi:...`) are their own form.

    What many documents bear that have nothing in common is no address: words (`unknown`, `n/a`), `about:blank`, `data:`,
    `mailto:`, `file:`, and what without a scheme may as well be the name of a file (`index.html`; `example.org/` is read).
    """
    text = text.strip()
    if _OWN.fullmatch(text):
        return text
    if _SCHEME.match(text) and not _WEB.match(text):
        return None
    address = None if _NO_HOST.match(text) else parse_address(text)
    if address is None or not ("." in address.host or ":" in address.host or "://" in text):
        return None
    if "/" not in text and not text.lower().startswith("www."):
        return None
    place = _WWW.sub("", address.place, count=1) if address.place.startswith("www") else address.place
    path = address.path
    if ";" in path:
        path = _SESSION_IN_PATH.sub("", path).rstrip("/")
    fragment = text.partition("#")[2]
    return f"{place}{path}{_page_query(address.query[1:])}" + (f"#{fragment}" if fragment.startswith("!") else "")


def _page_query(query: str) -> str:
    """Return what of a query tells pages apart, with its question mark; or an empty string."""
    if not query:
        return ""
    pairs = [(one.partition("=")[0], one) for one in query.split("&") if one]
    left_out = _COLDFUSION if {name.lower() for name, _ in pairs} >= _COLDFUSION else frozenset()
    kept = [
        pair
        for pair in pairs
        if not (_FOLLOWING.fullmatch(pair[0]) or _SESSION.fullmatch(pair[1]) or pair[0].lower() in left_out)
    ]
    kept.sort(key=lambda pair: pair[0])
    return "?" + "&".join(one for _, one in kept) if kept else ""


def shown(form: str) -> str:
    """Return a form as a list would say it."""
    kind, _, rest = form.partition(" ")
    return f"{rest}/*" if kind == "below" else rest


def hash_of(form: str) -> int:
    """Return the 64 bits that stand for a form or an id."""
    return xxhash.xxh3_64_intdigest(form.encode("utf-8", "surrogatepass"))
