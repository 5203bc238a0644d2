"""Gates: canonical addresses, removal lists, marks of opting out, each alone and in a run."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import curate
from curate.document import RAW
from curate.errors import InputError, RecipeError
from curate.gate import Gate
from curate.optout import HEAD_BYTES, header_marks, page_marks
from curate.removal import RemovalLists, listed_id
from curate.text.addresses import MAX_SEGMENTS, hash_of, listed_address, looked_up, parse_address

# -- addresses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # RFC 3986, sections 6.2.2 and 6.2.3: the examples of the specification.
        ("example://a/b/c/%7Bfoo%7D", "eXAMPLE://a/./b/../b/%63/%7bfoo%7d"),
        ("HTTP://www.EXAMPLE.com/", "http://www.example.com/"),
        ("http://example.com", "http://example.com/"),
        ("http://example.com:/", "http://example.com:80/"),
        ("http://a/b/c/d;p?q", "http://a/b/c/g/../d;p?q"),
        # What this tool adds.
        ("https://example.org:443/a/", "http://user:pw@example.org./a#part"),
        ("example.org/a?", "https://example.org/a"),
        ("https://b\u00fccher.example/\u00fc", "https://xn--bcher-kva.example/%C3%BC"),  # RFC 3492 names this host
        ("https://stra\u00dfe.example/", "https://xn--strae-oqa.example/"),  # IDNA 2008; IDNA 2003 said strasse
        ("http://[2001:DB8::1]:80/x", "http://[2001:db8::1]/x"),
        (" https://example.org/a b ", "https://example.org/a%20b"),
    ],
)
def test_addresses_that_are_one_page(one: str, other: str) -> None:
    assert parse_address(one) is not None
    assert parse_address(one) == parse_address(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.org/A", "https://example.org/a"),
        ("https://example.org/?a=1&b=2", "https://example.org/?b=2&a=1"),
        ("https://example.org/a%2Fb", "https://example.org/a/b"),  # a reserved sign means something else unescaped
        ("https://example.org:8080/", "https://example.org/"),
        ("https://www.example.org/", "https://example.org/"),
        ("https://example.org//a", "https://example.org/a"),
    ],
)
def test_addresses_that_are_two_pages(one: str, other: str) -> None:
    assert parse_address(one) != parse_address(other)


COVERED = [
    # entry of a list, address, whether it goes
    ("example.org", "https://example.org/a", True),
    ("example.org", "https://www.example.org:8080/a", True),
    ("example.org", "https://notexample.org/", False),
    ("example.org", "https://example.org.evil.test/", False),
    ("Example.ORG.", "http://example.org", True),
    ("*.example.org", "https://example.org/", True),
    (".example.org", "https://a.b.example.org/", True),
    ("example.org:8080", "https://example.org:8080/", True),
    ("example.org:8080", "https://example.org/", False),
    ("org", "https://example.org/", False),
    ("localhost", "http://localhost/a", True),
    ("example.org/*", "https://example.org", True),
    ("example.org/*", "https://example.org/a/b?c=d", True),
    ("example.org/*", "https://www.example.org/a", False),
    ("https://example.org/news/*", "http://example.org/news", True),
    ("https://example.org/news/*", "http://example.org/news/", True),
    ("https://example.org/news/*", "http://example.org/news/2024/a.html?x", True),
    ("https://example.org/news/*", "http://example.org/newsletter", False),
    ("https://example.org", "https://example.org/", True),
    ("https://example.org", "https://example.org/a", True),  # who asks to be left out writes the site's address
    ("http://example.org/", "https://www.example.org/a?b", True),
    ("example.org/", "https://example.org/a", True),
    ("https://example.org/#top", "https://example.org/a", True),
    ("https://example.org:8080/", "https://example.org:8080/a", True),
    ("https://example.org:8080/", "https://example.org/a", False),
    ("https://example.org/", "https://notexample.org/a", False),
    ("https://example.org/?", "https://example.org", True),  # the front page alone
    ("https://example.org/?", "https://example.org/a", False),
    ("https://example.org/?a", "https://example.org/", False),
    ("example.org/a", "https://example.org/a/", True),
    ("example.org/a", "https://example.org/a?b", False),
    ("example.org/a?b", "https://example.org/a?b#c", True),
    ("urn:isbn:123", "urn:isbn:123", True),
    ("urn:isbn:123", "urn:isbn:1234", False),
    ("192.0.2.7", "http://192.0.2.7/a", True),
    ("example.org/" + "a/" * MAX_SEGMENTS + "*", "https://example.org" + "/a" * MAX_SEGMENTS, True),
    ("example.org/" + "a/" * MAX_SEGMENTS + "*", "https://example.org" + "/a" * (MAX_SEGMENTS + 9) + "/", True),
]


@pytest.mark.parametrize(("entry", "address", "goes"), COVERED)
def test_what_an_entry_covers(entry: str, address: str, goes: bool) -> None:
    assert (listed_address(entry) in set(looked_up(address))) is goes
    lists = RemovalLists(None, np.array([hash_of(listed_address(entry))], np.uint64))
    found = lists.removed_urls([None, address, ""])
    assert (found[0], found[2]) == (None, None)
    assert (found[1] is not None) is goes


@pytest.mark.parametrize(
    "entry",
    [
        "0.0.0.0 example.org",
        "||example.org^",
        "example.org/news*",
        "*",
        "/path",
        "example.org/a?b/*",
        "",
        "example.org/" + "a/" * (MAX_SEGMENTS + 1) + "*",
    ],
)
def test_lines_that_mean_nothing_are_refused(entry: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        listed_address(entry)


@given(
    st.text() | st.from_regex(r"(https?://)?[a-zA-Z0-9.\u00e0-\u00ff-]{1,20}(:\d{1,5})?(/[^ ]{0,20})?", fullmatch=True)
)
def test_no_address_breaks_the_look_up_and_canonical_forms_stay_as_they_are(text: str) -> None:
    forms = list(looked_up(text))
    assert len(forms) <= text.count(".") + 2 * MAX_SEGMENTS + 4
    address = parse_address(text)
    if address is not None:
        assert parse_address(address.place + address.path + address.query) == address


@given(st.text(max_size=60))
def test_what_a_list_takes_removes_at_least_itself(line: str) -> None:
    try:
        form = listed_address(line)
    except ValueError:
        return
    page = line.strip().removesuffix("/*").removeprefix("*.").removeprefix(".")
    assert form in set(looked_up(page))


def test_ids_are_ours_or_the_inputs_own() -> None:
    listed = [listed_id("<urn:uuid:1>"), listed_id(" ab "), "17"]
    lists = RemovalLists(np.sort(np.array([hash_of(one) for one in listed], np.uint64)), None)
    assert lists.removed_ids(["ab", "cd", "ef", "gh"], ["x", "urn:uuid:1", "17", None]) == [
        "ab",
        "urn:uuid:1",
        "17",
        None,
    ]


# -- marks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "marks"),
    [
        ("noai", ["noai"]),
        ("noindex, NoAI,noimageai", ["noindex", "noai", "noimageai"]),
        ("none", ["noindex"]),
        ("googlebot: noai", []),
        ("googlebot: nofollow, noai", []),  # what follows is for that crawler too
        ("googlebot: nofollow\nnoai", ["noai"]),
        ("*: noml", ["noml"]),
        # A date has a colon; the example is that of the search engine's documentation.
        ("noarchive, unavailable_after: 25 Jun 2010 15:00:00 PST, noai", ["noarchive", "noai"]),
        ("max-snippet:-1, noai", ["noai"]),
        ("noairlines", []),
    ],
)
def test_robots_header(value: str, marks: list[str]) -> None:
    assert [mark for mark, _ in header_marks(json.dumps({"x_robots_tag": value}))] == marks


@pytest.mark.parametrize(("value", "reserved"), [("1", True), (" 1 ", True), ("0", False), ("", False), ("10", False)])
def test_reservation_header(value: str, reserved: bool) -> None:
    found = list(header_marks(json.dumps({"tdm_reservation": value})))
    assert found == ([("tdm", "header tdm-reservation")] if reserved else [])


@pytest.mark.parametrize(
    ("page", "marks"),
    [
        ('<meta name="robots" content="noai, noimageai">', ["noai", "noimageai"]),
        ("<META CONTENT='NOAI' NAME='Robots'/>", ["noai"]),
        ("<meta name=robots content=noai>", ["noai"]),
        ('<meta data-x="a > b" name="robots" content="noai">', ["noai"]),
        ('<meta name="robots" content="no&#97;i">noai', ["noai"]),
        ('<meta name="tdm-reservation" content="1">', ["tdm"]),
        ('<meta name="tdm-reservation" content="0">', []),
        ('<meta name="description" content="noai">', []),
        ('<meta name="googlebot" content="noai">', []),
        ('<!-- <meta name="robots" content="noai"> -->', []),
        ('<script>s = \'<meta name="robots" content="noai">\'</script>', []),
        ("<p>How noai works: write meta name=robots content=noai.</p>", []),
        ('<!-- open <meta name="robots" content="noai">', []),
    ],
)
def test_meta_elements(page: str, marks: list[str]) -> None:
    text = "<html><head>" + page + "</head><body>x</body></html>"
    for content in (text.encode(), text.encode("utf-16")):
        assert [mark for mark, _ in page_marks(content, ("noai", "tdm", "noimageai"))] == marks


def test_meta_elements_far_down_are_not_looked_for() -> None:
    mark = b'<meta name="robots" content="noai">'
    assert list(page_marks(b" " * (HEAD_BYTES - len(mark)) + mark, ("noai",)))
    assert not list(page_marks(b" " * HEAD_BYTES + mark, ("noai",)))


@pytest.mark.parametrize("unit", [b"<!--", b"<script", b'<meta "', b"<meta a='", b"<meta x=", b"<"])
def test_no_page_hangs(unit: bytes) -> None:
    page = b"noai" + unit * (HEAD_BYTES // len(unit))
    start = time.process_time()
    assert not list(page_marks(page, ("noai",)))
    assert time.process_time() - start < 2  # linear: milliseconds; quadratic over 64 KiB: many seconds


def raw(**columns: list[object]) -> pa.RecordBatch:
    size = len(next(iter(columns.values())))
    rows = [
        {"offset": row, "part": 0, **{name: values[row] for name, values in columns.items()}} for row in range(size)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RAW)


def test_opting_out_is_honoured_by_default_and_can_be_set() -> None:
    noai, noindex = b'<meta name="robots" content="noai">', b'<meta name="robots" content="noindex">'
    batch = raw(content=[noai, noindex, b"<p>x", None], metadata=[None, None, '{"tdm_reservation":"1"}', None])
    ids = ["a", "b", "c", "d"]
    found = list(Gate().check(batch, ids))
    assert found == [
        ("gate.opt_out", "noai (meta robots)", "without noai, noml, tdm"),
        None,
        ("gate.opt_out", "tdm (header tdm-reservation)", "without noai, noml, tdm"),
        None,
    ]
    assert list(Gate(opt_out="off").check(batch, ids)) == [None] * 4
    assert [row is not None for row in Gate(opt_out=("noindex",)).check(batch, ids)] == [False, True, False, False]


def test_tags_types_and_codes_that_may_stand() -> None:
    gate = Gate(
        status=(100, 599),
        media_types=("application/ld+json", "text/x-c"),
        languages=("pt", "pt-BR", "zh_Hant", "por", "und"),
    )
    assert Gate(status="off", media_types="off").languages is None
    batch = raw(status=[599], media_type=["text/x-c"], language=["PT_br"], text=["x"])
    assert list(gate.check(batch, ["a"])) == [None]


# -- in a run ----------------------------------------------------------------------------------------------------------


def record(name: str, url: str, headers: str = "", head: str = "", status: int = 200) -> bytes:
    body = f"<html><head>{head}<title>{name}</title></head><body><p>The page {name} is here.</p></body></html>"
    http = f"HTTP/1.1 {status} OK\r\nContent-Type: text/html; charset=utf-8\r\n{headers}\r\n{body}".encode()
    warc = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{name}>\r\nWARC-Target-URI: {url}\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(http)}\r\n\r\n"
    )
    return gzip.compress(warc.encode() + http + b"\r\n\r\n")


RECORDS = (
    record("stays", "https://good.test/a"),
    record("by-id", "https://good.test/b"),
    record("by-domain", "https://www.listed.test/"),
    record("by-prefix", "https://good.test/private/x"),
    record("by-page", "http://good.test:80/c/"),
    record("by-header", "https://good.test/d", "X-Robots-Tag: googlebot: noarchive\r\nX-Robots-Tag: noai\r\n"),
    record("by-reservation", "https://good.test/e", "tdm-reservation: 1\r\n"),
    record("by-meta", "https://good.test/f", head='<meta name="robots" content="noai">'),
    record("gone", "https://good.test/g", status=404),
)
RECIPE = """\
sources:
  web:
    read: {kind: warc, paths: in.warc.gz}
    gate: {remove: {ids: ids.txt, urls: {files: ["lists/*"], entries: [good.test/c]}}}
    extract: {kind: resiliparse}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "in.warc.gz").write_bytes(b"".join(RECORDS))
    (tmp_path / "ids.txt").write_text("# asked for in March\n\nurn:uuid:by-id   # a person\n")
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "domains.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf# domains\r\nlisted.test\r\n"))
    (tmp_path / "lists" / "pages.zst").write_bytes(zstandard.compress(b"https://GOOD.test/private/*\nother.test"))
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return tmp_path


def run(folder: Path, *sets: str, **options: object) -> curate.RunResult:
    return curate.run(
        folder / "recipe.yaml", output=folder / "run", cache=folder / "cache", sets=sets, quiet=True, **options
    )


def test_each_gate_removes_what_it_names(project: Path) -> None:
    manifest = run(project).manifest
    ledger = manifest["ledger"]["web"]
    assert (ledger["read"], ledger["kept"]) == (9, 1)
    assert ledger["removed"] == {
        "gate": {"gate.removed_id": 1, "gate.removed_url": 3, "gate.opt_out": 3, "gate.status": 1}
    }
    rows = pq.read_table(project / "run" / "decisions" / "web").to_pylist()
    why = {row["url"]: (row["rule"], row["value_label"]) for row in rows if row["rule"] not in (None, "gate.status")}
    assert why == {
        "https://good.test/b": ("gate.removed_id", "urn:uuid:by-id"),
        "https://www.listed.test/": ("gate.removed_url", "listed.test"),
        "https://good.test/private/x": ("gate.removed_url", "good.test/private/*"),
        "http://good.test:80/c/": ("gate.removed_url", "good.test/c"),
        "https://good.test/d": ("gate.opt_out", "noai (header X-Robots-Tag)"),
        "https://good.test/e": ("gate.opt_out", "tdm (header tdm-reservation)"),
        "https://good.test/f": ("gate.opt_out", "noai (meta robots)"),
    }
    lists = manifest["inputs"]["web"]["remove"]
    assert [file["path"] for file in lists["urls"]["files"]] == ["domains.gz", "pages.zst"]
    assert (lists["urls"]["distinct"], lists["ids"]["distinct"]) == (4, 1)
    assert "<td>1 ids, 4 urls</td>" in (project / "run" / "report.html").read_text()


def test_the_content_of_a_list_is_in_the_key_and_its_name_is_not(project: Path) -> None:
    timings = project / "run" / "timings.json"
    run(project)
    (project / "ids.txt").rename(project / "renamed.txt")
    recipe = RECIPE.replace("ids.txt", "renamed.txt")
    (project / "recipe.yaml").write_text(recipe)
    run(project)
    assert json.loads(timings.read_text())["phases"]["extract"]["tasks_run"] == 0
    (project / "renamed.txt").write_text("urn:uuid:stays")
    manifest = run(project).manifest
    assert manifest["ledger"]["web"]["removed"]["gate"]["gate.removed_id"] == 1
    kept = pq.read_table(project / "run" / "documents" / "web")
    assert kept["url"].to_pylist() == ["https://good.test/b"]


def test_our_own_id_out_of_a_decision_removes_the_document(project: Path) -> None:
    run(project)
    [kept] = pq.read_table(project / "run" / "documents" / "web")["id"].to_pylist()
    ledger = run(project, f"sources.web.gate.remove.ids=[{kept!r}]").manifest["ledger"]["web"]
    assert ledger["kept"] == 1  # the other id is listed no more
    assert ledger["removed"]["gate"]["gate.removed_id"] == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"good.test\n0.0.0.0 bad.test\n", "line 2: '0.0.0.0 bad.test' cannot be compared"),
        (gzip.compress(b"good.test\n" * 99, mtime=0)[:-9], "the list is damaged"),
        (b"PK\x03\x04...", "a zip archive"),
        (b"x" * (2 << 20), "longer than 1 MiB"),
    ],
)
def test_a_list_that_cannot_be_trusted_stops_the_run(project: Path, content: bytes, told: str) -> None:
    (project / "lists" / "bad").write_bytes(content)
    with pytest.raises(InputError, match=told):
        run(project)


@pytest.mark.parametrize(
    ("set_", "told"),
    [
        ("sources.web.gate.remove.ids=nowhere.txt", "no file matches"),
        ("sources.web.gate.remove.urls=[ids.txt]", r"is a file, where a list holds the entries themselves"),
        ("sources.web.gate.remove.urls=['a b']", "it is no host, address or prefix"),
        ("sources.web.gate.opt_out=[noia]", "must be"),
        ("sources.web.gate.remove.url=[a.test]", "did you mean 'urls'"),
        (
            "sources.web.gate.languages=[english]",
            r"gate\.languages: 'english' is no language tag: .* such as en, pt-BR",
        ),
        ("sources.web.gate.languages=[en, xx]", r"'xx' is no language tag"),
        ("sources.web.gate.status=[200, 999]", r"gate\.status: 999 is no HTTP status: they are 100 to 599"),
        ("sources.web.gate.status=[99]", "99 is no HTTP status"),
        ("sources.web.gate.media_types=[html]", r"gate\.media_types: 'html' is no media type: .* such as text/html"),
        ("sources.web.gate.media_types=[Text/HTML]", "write it in lower case"),
    ],
)
def test_what_cannot_work_is_refused(project: Path, set_: str, told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        run(project, set_)


def test_a_missing_list_is_found_by_check(project: Path) -> None:
    (project / "ids.txt").unlink()
    with pytest.raises(RecipeError, match=r"recipe\.yaml:4: sources\.web\.gate\.remove\.ids: .*no file matches"):
        curate.check(project / "recipe.yaml")


def test_lists_that_can_remove_nothing_are_told(project: Path) -> None:
    (project / "ids.txt").write_text("# nothing yet\n")
    (project / "in.jsonl").write_text('{"text": "No address here."}\n')
    recipe = RECIPE + "  more:\n    read: {kind: jsonl, paths: in.jsonl}\n    gate: {remove: {urls: [a.test]}}\n"
    (project / "recipe.yaml").write_text(recipe)
    warnings = run(project).manifest["warnings"]
    assert any("gate.remove.ids is empty" in text for text in warnings)
    assert any(text.startswith("more: no document has an address") for text in warnings)


def test_a_long_list_costs_its_hashes(tmp_path: Path) -> None:
    """Half a million lines in a bounded sort: what is left in memory is nothing, on disk eight bytes an entry."""
    from curate.cache import Cache
    from curate.inputs import list_inputs
    from curate.phases.removal import ListInputs, compile_lists, open_lists
    from curate.plan import TaskContext

    count = 500_000
    (tmp_path / "list").write_text("".join(f"host{number % (count // 2)}.test\n" for number in range(count)))
    cache = Cache(tmp_path / "cache")
    cache.prepare()
    files = tuple(list_inputs(["list"], tmp_path, cache))
    peak = 0
    for memory, key in ((1 << 20, "a" * 32), (1 << 30, "b" * 32)):
        context = TaskContext(cache, memory, frozenset([key]))
        if memory < 1 << 30:  # what all the memory there is would take is no question, and tracing is slow
            tracemalloc.start()
        compile_lists(context, key, None, ListInputs(files, ()))
        if tracemalloc.is_tracing():
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        lists = open_lists(context, key)
        assert lists is not None
        assert lists.urls is not None
        assert len(lists.urls) == count // 2
        assert lists.removed_urls(["https://host77.test/x", "https://host250000.test/"]) == ["host77.test", None]
    assert cache.entry("a" * 32).path("urls.u64").read_bytes() == cache.entry("b" * 32).path("urls.u64").read_bytes()
    assert 0 < peak < 16 << 20  # 1 MiB of buffers, and 65,536 waiting numbers of Python
    cache.close()
