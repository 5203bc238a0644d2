"""EPUB: built here member by member, by the rules of EPUB 2.0.1 and 3.3."""

import gzip
import io
import json
import struct
import zipfile

import pytest
from reading import documents, read_rows, rules

from curate.read.books import Books

CONTAINER = """<?xml version="1.0"?><container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="{}" media-type="application/oebps-package+xml"/></rootfiles></container>"""
XHTML = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><head><title>T</title></head><body>{}</body></html>'
PACKAGE = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="uid">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The Lock</dc:title><dc:creator>Ann Keeper</dc:creator>
<dc:creator>B. Other</dc:creator><dc:language>en-GB</dc:language><dc:identifier>other</dc:identifier>
<dc:identifier id="uid">urn:isbn:1</dc:identifier><dc:rights>CC BY-SA 4.0</dc:rights></metadata>
<manifest>{items}</manifest><spine toc="ncx">{spine}</spine>{guide}</package>"""


def epub(pages, *, extra=(), folder="OEBPS", guide="", spine=None, compression=zipfile.ZIP_DEFLATED, items=""):
    """Return an EPUB whose spine is `pages`: pairs of file name and body."""
    prefix = f"{folder}/" if folder else ""
    manifest = "".join(
        f'<item id="i{n}" href="{name}" media-type="application/xhtml+xml"/>' for n, (name, _) in enumerate(pages)
    )
    spine = spine or "".join(f'<itemref idref="i{n}"/>' for n in range(len(pages)))
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", compression) as book:
        book.writestr(zipfile.ZipInfo("mimetype"), "application/epub+zip")
        book.writestr("META-INF/container.xml", CONTAINER.format(f"{prefix}package.opf"))
        book.writestr(f"{prefix}package.opf", PACKAGE.format(items=manifest + items, spine=spine, guide=guide))
        for name, body in pages:
            book.writestr(prefix + name.replace("%20", " "), body if body.startswith("<?xml") else XHTML.format(body))
        for name, content in extra:
            book.writestr(name, content)
    return sink.getvalue()


def read(data, **settings):
    return read_rows(Books(**settings), data, "book.epub")


def page_text(body):
    [row] = read(epub([("a.xhtml", body)]))
    return row["text"]


TWO = [("text/one.xhtml", "<h1>One</h1><p>A.</p>"), ("text/two%20b.xhtml", "<h1>Two</h1><p>B.</p>")]


def test_a_book():
    [row] = read(epub(TWO))
    assert row["text"] == "One\n\nA.\n\nTwo\n\nB."
    assert (row["language"], row["source_id"], row["media_type"]) == ("en-GB", "urn:isbn:1", "application/epub+zip")
    assert json.loads(row["metadata"]) == {
        "format": "epub",
        "title": "The Lock",
        "creator": ["Ann Keeper", "B. Other"],
        "rights": "CC BY-SA 4.0",
        "license": "CC-BY-SA-4.0",
    }


def test_chapters_follow_the_spine_and_not_the_manifest():
    spine = '<itemref idref="i1"/><itemref idref="i0" linear="no"/>'
    rows = read(epub(TWO, spine=spine), chapters=True)
    assert [(row["part"], row["text"]) for row in rows] == [(0, "Two\n\nB."), (1, "One\n\nA.")]
    chapters = [json.loads(row["metadata"])["chapter"] for row in rows]
    assert chapters == [{"number": 1, "of": 2, "title": "Two"}, {"number": 2, "of": 2, "title": "One"}]


def test_navigation_covers_and_contents_are_no_chapters():
    nav = "<nav epub:type='toc'><ol><li><a href='one.xhtml'>One</a></li></ol></nav><p>words of the contents page</p>"
    contents = "<h1>Contents</h1><p><a href='one.xhtml'>Chapter One</a></p><p><a href='b'>Chapter Two</a></p>"
    preface = "<h1>Welcome</h1><p>A preface that is longer than its links.</p><p><a href='one.xhtml'>One</a></p>"
    pages = [
        ("cover.xhtml", "<img src='c.jpg' alt='Cover of the book'/>"),
        ("toc.xhtml", contents),
        ("pre.xhtml", preface),
        *TWO,
    ]
    guide = '<guide><reference type="toc" href="toc.xhtml#a"/><reference type="toc" href="pre.xhtml"/></guide>'
    items = '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
    spine = '<itemref idref="nav"/>' + "".join(f'<itemref idref="i{n}"/>' for n in range(5))
    data = epub(pages, guide=guide, items=items, spine=spine, extra=[("OEBPS/nav.xhtml", XHTML.format(nav))])
    texts = [row["text"] for row in read(data, chapters=True)]
    assert texts == ["Welcome\n\nA preface that is longer than its links.\n\nOne", "One\n\nA.", "Two\n\nB."]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>One\n <b>two</b>\tthree</p><p>four</p>", "One two three\n\nfour"),
        ("<p>one<br/>two</p>", "one\ntwo"),
        ("<p>a<i>b</i>c</p>", "abc"),
        ("<p>n\u00adot h\u00adere, caf&eacute;&nbsp;&mdash; &amp; &lt;</p>", "not here, café\u00a0— & <"),
        ("<ul><li>one</li><li>two<ul><li>three</li></ul></li></ul><p>x</p>", "one\ntwo\n\nthree\n\nx"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>", "a\tb\nc\td"),
        ("<pre>\nif a:\n    b\n</pre><p>x</p>", "if a:\n    b\n\nx"),
        (
            "<p>see<a epub:type='noteref' href='#n'>1</a>.</p><aside epub:type='footnote'><p>Note.</p></aside>",
            "see[1].\n\nNote.",
        ),
        ("<p>a<span epub:type='pagebreak' title='7'>7</span> b<span class='pagenum'>[Pg 8]</span></p>", "a b"),
        ("<p><ruby>漢<rt>kan</rt></ruby>字</p>", "漢字"),
        ("<p><img alt='T' src='t.png'/>he barge <img alt='a long description' src='x'/>left</p>", "The barge left"),
        (
            "<div class='poem'><div class='stanza'><span>one<br/></span><span>two<br/></span></div>"
            "<div class='stanza'><span>three</span></div></div>",
            "one\ntwo\n\nthree",
        ),
        (
            "<div class='poetry'><div class='stanza'><div class='verse'>one</div><div class='verse'>two</div></div></div><p>x</p>",
            "one\ntwo\n\nx",
        ),
        ("<div class='poem'><p>one<br/>two</p><p>three</p></div>", "one\ntwo\n\nthree"),
        ("<div class='poem'><div class='line'>one</div><div class='line'>two</div></div>", "one\ntwo"),
        ("<p>universe and diverse</p><p class='universal'>x</p>", "universe and diverse\n\nx"),
        ("<script>var a;</script><style>p{}</style><p>x<!-- y --></p>", "x"),
        ("<p>x</p><title/><p>y</p>", "x\n\ny"),
    ],
)
def test_pages(body, text):
    assert page_text(body) == text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>one<p>two &unknown; <b>three</i></p><a id='x'/>four<br>five", "one\n\ntwo &unknown; three\n\nfour\nfive"),
        ("<p><![CDATA[a < b]]> & c</p>", "a < b & c"),
        ("<div>" * 3000 + "deep" + "</div>" * 3000, "deep"),
        ("<?xml version='1.0' encoding='iso-8859-1'?><html><body><p>caf\u00e9</p></body></html>", "café"),
    ],
)
def test_pages_that_are_not_well_formed_are_read_as_browsers_do(page, text):
    assert page_text(page) == text


def test_no_entity_of_a_page_is_expanded():
    doctype = '<!DOCTYPE html [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/hostname">]>'
    page = f"<?xml version='1.0'?>{doctype}<html><body><p>x &b; &c; y</p></body></html>"
    assert page_text(page) == "x &b; &c; y"


ENCRYPTION = """<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" xmlns:enc="http://www.w3.org/2001/04/xmlenc#">
<enc:EncryptedData><enc:EncryptionMethod Algorithm="{}"/><enc:CipherData><enc:CipherReference URI="{}"/></enc:CipherData>
</enc:EncryptedData></encryption>"""
AES = "http://www.w3.org/2001/04/xmlenc#aes128-cbc"


@pytest.mark.parametrize(
    ("algorithm", "name", "is_read"),
    [
        (AES, "OEBPS/text/one.xhtml", False),
        ("http://www.idpf.org/2008/embedding", "OEBPS/fonts/a.otf", True),
        ("http://ns.adobe.com/pdf/enc#RC", "OEBPS/fonts/a%20b.ttf", True),
        (AES, "OEBPS/fonts/a.woff2", True),
        ("", "OEBPS/text/one.xhtml", False),
    ],
)
def test_books_under_rights_management_are_told(algorithm, name, is_read):
    rows = read(epub(TWO, extra=[("META-INF/encryption.xml", ENCRYPTION.format(algorithm, name))]))
    assert rules(rows) == ({} if is_read else {"read.encrypted": 1})
    assert is_read or "rights management" in rows[0]["detail"]


def test_a_zip_password_is_encryption():
    data = bytearray(epub([("a.xhtml", "<p>x</p>")], compression=zipfile.ZIP_STORED))
    for magic, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flag of every member
        start = 0
        while (start := data.find(magic, start)) >= 0:
            data[start + place] |= 1
            start += 4
    assert rules(read(bytes(data))) == {"read.encrypted": 1}


def test_a_damaged_page_costs_itself():
    broken = bytearray(epub([*TWO, ("c.xhtml", "<p>Something to damage.</p>")], compression=zipfile.ZIP_STORED))
    place = broken.find(b"Something to damage")
    broken[place : place + 4] = b"XXXX"
    for settings in ({}, {"chapters": True}):
        rows = read(bytes(broken), **settings)
        assert rules(rows) == {"read.bad_record": 1}
        assert "c.xhtml" in rows[-1]["detail"]
        assert "\n\n".join(row["text"] for row in documents(rows)) == "One\n\nA.\n\nTwo\n\nB."
        assert [row["part"] for row in rows] == list(range(len(rows)))


def test_a_missing_page_is_told():
    rows = read(epub(TWO, spine='<itemref idref="i0"/><itemref idref="gone"/>'))
    assert [row["text"] for row in documents(rows)] == ["One\n\nA."]
    assert rules(rows) == {"read.bad_record": 1}
    assert "'gone'" in rows[1]["detail"]


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda data: data[: len(data) // 2], "read.truncated"),
        (lambda data: data[:4], "read.truncated"),
        (lambda data: data.replace(b"PK\x01\x02", b"PK\x01\x03", 1), "read.bad_record"),
        (lambda data: b"not a zip file", "read.bad_record"),
        (lambda data: b"", "read.bad_record"),
    ],
)
def test_damaged_files_are_rows(damage, rule):
    rows = read(damage(epub(TWO)))
    assert rules(rows) == {rule: 1}
    assert "book.epub" in rows[0]["detail"]


def test_other_archives_are_told():
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("a.txt", "x")
    rows = read(sink.getvalue())
    assert rules(rows) == {"read.bad_record": 1}
    assert "no EPUB" in rows[0]["detail"]


def test_bombs_are_bounded():
    bomb = XHTML.format("<p>" + "a" * (64 << 20) + "</p>")
    rows = read(epub([("a.xhtml", bomb)]), max_bytes=1 << 20)
    assert rules(rows) == {"read.too_large": 1}
    many = epub([(f"{n}.xhtml", XHTML.format("<p>" + "a" * 200_000 + "</p>")) for n in range(8)])
    assert len(many) < 20_000
    assert rules(read(many, max_bytes=1 << 20)) == {"read.too_large": 1}  # together
    assert not rules(read(many, max_bytes=2 << 20))


def test_too_many_members_are_not_listed():
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for number in range(20_001):
            archive.writestr(str(number), b"")
    assert rules(read(sink.getvalue())) == {"read.too_large": 1}
    lying = bytearray(epub(TWO))
    struct.pack_into("<I", lying, len(lying) - 22 + 12, 1 << 30)
    assert rules(read(bytes(lying))) == {"read.too_large": 1}


def test_paths_are_found_however_they_are_written():
    for folder in ("", "OEBPS", "a b"):
        assert read(epub(TWO, folder=folder))[0]["text"].startswith("One")
    data = epub([("text/One.xhtml", "<p>A.</p>")])
    swapped = data.replace(b"OEBPS/text/One.xhtml", b"OEBPS/TEXT/one.xhtml")
    assert read(swapped)[0]["text"] == "A."


def test_a_package_is_found_without_a_container():
    data = epub(TWO).replace(b"META-INF/container.xml", b"META-INF/containex.xml")
    assert read(data)[0]["text"].startswith("One")


def test_compressed_files_and_other_names():
    data = epub(TWO)
    for name, packed in (("book.epub.gz", gzip.compress(data)), ("book", data), ("book.zip", data)):
        [row] = read_rows(Books(), packed, name)
        assert row["text"].startswith("One")


def test_many_chapters_come_in_batches():
    rows = read(epub([(f"{n}.xhtml", f"<h1>C{n}</h1><p>x</p>") for n in range(700)]), chapters=True)
    assert [row["text"] for row in rows] == [f"C{n}\n\nx" for n in range(700)]
