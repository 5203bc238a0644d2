"""Books of every form: told apart, cut into chapters on request, and nothing that comes along breaks the reader."""

import gzip
import io
import json
import time
import zipfile

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reading import documents, read_rows, real_data, rules
from test_epub import TWO, epub
from test_tei import tei

import curate
from curate.read.books import Books, by_heading_lines
from curate.read.files import Files

HTML = """<!DOCTYPE html><html lang="fr"><head><title>Le  canal</title><meta name="author" content="A. Éclusier"></head>
<body><h1>Le canal</h1><h2>I</h2><p>La péniche part.</p><h2>II</h2><p>Elle revient.</p></body></html>"""


def read(data, name, **options):
    return read_rows(Books(**options), data, name)


@pytest.mark.parametrize(
    ("data", "name", "form"),
    [
        (b"Plain words.", "a.txt", "text"),
        (b"Plain words.", "a", "text"),
        (b"a < b and <c> d", "a.txt", "text"),
        (HTML.encode(), "a.html", "html"),
        (HTML.encode(), "a.txt", "html"),
        (b"<p>A page without a head.</p>", "a.htm", "html"),
        (tei("<body><p>x</p></body>"), "a.xml", "tei"),
        (tei("<body><p>x</p></body>"), "a.txt", "tei"),
        (b"\xef\xbb\xbf<!-- c --><?xml-stylesheet x?>\n<TEI><text><body><p>x</p></body></text></TEI>", "a.xml", "tei"),
        (epub(TWO), "a.epub", "epub"),
        (epub(TWO), "a.txt", "epub"),
        (gzip.compress(tei("<body><p>x</p></body>")), "a.xml.gz", "tei"),
    ],
)
def test_forms_are_told_by_content_and_ending(data, name, form):
    [row] = read(data, name)
    assert json.loads(row["metadata"])["format"] == form
    assert row["text"]


def test_an_html_book():
    [row] = read(HTML.encode(), "a.html")
    assert row["text"] == "Le canal\n\nI\n\nLa péniche part.\n\nII\n\nElle revient."
    assert (row["language"], row["media_type"]) == ("fr", "text/html")
    assert json.loads(row["metadata"]) == {"format": "html", "title": "Le canal", "creator": ["A. Éclusier"]}
    rows = read(HTML.encode(), "a.html", chapters=True)
    assert [row["text"] for row in rows] == ["Le canal\n\nI\n\nLa péniche part.", "II\n\nElle revient."]


def test_text_is_unchanged_unless_it_is_cut():
    text = "  First line\r\n\r\n\r\nSecond\tline  \r\n"
    [row] = read(text.encode(), "a.txt")
    assert row["text"] == text
    assert json.loads(row["metadata"]) == {"format": "text"}
    [row] = read("Über die Brücke gehen die Füße".encode("cp1252"), "a.txt")
    assert row["text"] == "Über die Brücke gehen die Füße"


START = "The Project Gutenberg EBook of The Lock, by Ann Keeper\n\nTitle: The Lock\n\nAuthor: Ann Keeper\n\nLanguage: German\n\n"
START += "Release Date: June 1, 2008 [EBook #77]\n\n*** START OF THIS PROJECT GUTENBERG EBOOK THE LOCK ***\n\n"
END = "\n\n*** END OF THIS PROJECT GUTENBERG EBOOK THE LOCK ***\n\nThe licence.\n"


def test_gutenberg_is_cut_from_text():
    [row] = read((START + "The barge left." + END).encode(), "a.txt")
    assert row["text"] == "The barge left."
    assert (row["language"], row["source_id"]) == ("de", "77")
    facts = json.loads(row["metadata"])
    assert (facts["title"], facts["creator"], facts["gutenberg"]["ebook"]) == ("The Lock", ["Ann Keeper"], 77)
    [row] = read((START + "The barge left." + END).encode(), "a.txt", gutenberg=False)
    assert row["text"] == START + "The barge left." + END


def test_gutenberg_is_cut_from_pages_of_an_epub_also_where_it_fills_them():
    def paragraphs(text):
        return "".join(f"<p>{piece}</p>" for piece in text.split("\n\n") if piece)

    pages = [
        ("a.xhtml", paragraphs(START) + "<h1>One</h1><p>A.</p>"),
        ("b.xhtml", "<h1>Two</h1><p>B.</p>"),
        ("c.xhtml", paragraphs(END)),
        ("d.xhtml", "<p>More of the licence.</p>"),
    ]
    rows = read(epub(pages), "a.epub", chapters=True)
    assert [row["text"] for row in rows] == ["One\n\nA.", "Two\n\nB."]
    [row] = read(epub(pages), "a.epub")
    assert row["text"] == "One\n\nA.\n\nTwo\n\nB."
    assert json.loads(row["metadata"])["gutenberg"]["ebook"] == 77


def test_notes_that_volunteers_mark_go_with_what_gutenberg_added():
    page = "<html><body><div class='transnote'><p>Spelling as printed.</p></div><p>The barge left.</p></body></html>"
    for data, name in ((page.encode(), "a.html"), (epub([("a.xhtml", page)]), "a.epub")):
        assert read(data, name)[0]["text"] == "The barge left."
        assert read(data, name, gutenberg=False)[0]["text"] == "Spelling as printed.\n\nThe barge left."


def test_the_title_of_a_gutenberg_page_is_the_books():
    body = "".join(f"<p>{piece}</p>" for piece in (START + "The barge left." + END).split("\n\n") if piece)
    page = f"<html><head><title>The Project Gutenberg eBook of The Lock</title></head><body>{body}</body></html>"
    [row] = read(page.encode(), "a.html")
    assert row["text"] == "The barge left."
    assert json.loads(row["metadata"])["title"] == "The Lock"


def test_text_is_cut_at_heading_lines_on_request_only():
    text = (
        "THE LOCK\n\nCONTENTS\n\nCHAPTER I. The Barge\nCHAPTER II. The Toll\n\n\nPART ONE\n\n\nCHAPTER I. The Barge\n\n"
        "It left before noon.\nChapter two was what they read.\n\nCHAPTER II.\n\nThey paid.\n\nIII\n\nThe end of it all.\n"
    )
    assert [row["text"] for row in read(text.encode(), "a.txt")] == [text]
    rows = read(text.encode(), "a.txt", chapters=True)
    assert [row["part"] for row in rows] == [0, 1, 2, 3]
    titles = [json.loads(row["metadata"])["chapter"].get("title") for row in rows]
    assert titles == [None, "CHAPTER I. The Barge", "CHAPTER II.", "III"]
    assert rows[1]["text"].startswith("PART ONE\n\n\nCHAPTER I. The Barge\n\nIt left")
    assert rows[1]["text"].endswith("what they read.")


@pytest.mark.parametrize(
    "heading",
    [
        "CHAPTER IV",
        "Chapter 12: The Toll",
        "Capítulo III",
        "Kapitel 7.",
        "CHAPITRE PREMIER",
        "BOOK THE FIRST",
        "XIV.",
        "Epilogue",
        "Глава 2",
        "THE FIRST BOOK",
    ],
)
def test_headings_of_plain_text(heading):
    pieces = by_heading_lines(f"Words of a title page.\n\n{heading}\n\nText.\n")
    assert [piece.title for piece in pieces] == ["", heading]


@pytest.mark.parametrize(
    "line",
    [
        "Chapter and verse were quoted",
        "I",
        "mild",
        "Introductions were made.",
        "Part of the way",
        "Letter by letter",
        "Section heads",
    ],
)
def test_lines_that_look_like_headings(line):
    pieces = by_heading_lines(f"Words of a title page.\n\n{line}\n\nText.\n")
    assert (len(pieces) == 1) == (line not in ("I",))  # a lone numeral is a heading, whatever it stands for


def test_chapters_of_real_books():
    """The numbers of chapters are the published ones: 61 and 12; the preface and the front matter come on top."""
    expected = {"old/pandp12.txt": 61, "1342-0.txt": 61, "11-0.txt": 12}
    seen = 0
    with gzip.open(real_data("04_books") / "books.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            book = json.loads(line)
            name = book["source"].partition(":")[2]
            if "GITenberg" not in book["source"] or name not in expected:
                continue
            seen += 1
            rows = read(book["text"].encode(), "a.txt", chapters=True)
            titles = [json.loads(row["metadata"])["chapter"].get("title", "") for row in rows]
            assert sum(title.lower().startswith("chapter") for title in titles) == expected[name]
            assert not any("Project Gutenberg" in row["text"] for row in rows)
    assert seen == 3


@pytest.mark.parametrize(
    ("data", "name", "rule"),
    [
        (b"\x89PNG\r\n\x1a\n", "a.txt", "read.undecodable"),
        (b"a\0b", "a.txt", "read.undecodable"),
        (gzip.compress(b"words")[:-5], "a.txt.gz", "read.truncated"),
        (b"x" * 11, "a.txt", "read.too_large"),
        (gzip.compress(b"x" * (1 << 24)), "a.gz", "read.too_large"),
    ],
)
def test_what_is_no_book(data, name, rule):
    rows = read(data, name, max_bytes=10)
    assert rules(rows) == {rule: 1}
    assert name in rows[0]["detail"]


def test_an_empty_file_is_an_empty_document():
    for name in ("a.txt", "a.html"):
        for option in (False, True):
            [row] = read(b"", name, chapters=option)
            assert (row["text"], row["rule"]) == ("", None)


def test_no_markup_takes_long():
    """Each piece is what a regular expression or a parser could walk over again and again."""
    pieces = [
        "<!--",
        "<![CDATA[",
        "<!DOCTYPE x [",
        "<a ",
        "<p/>",
        "&a",
        "]]>",
        "<?xml ",
        "<p>",
        "&lt;",
        "\n\n",
        "CHAPTER I\n\n",
    ]
    for piece in pieces:
        for start in ("<html xmlns='x'><body>", "<TEI><text>", "<?xml version='1.0'?>", ""):
            data = (start + piece * (200_000 // len(piece))).encode()
            for name in ("a.html", "a.xml"):
                begun = time.process_time()
                read(data, name, chapters=True)
                assert time.process_time() - begun < 10, (start, piece, name)


def mutated(data):
    """Byte strings that are nearly a valid file."""
    place = st.integers(0, len(data))
    return st.builds(
        lambda start, stop, junk: data[: min(start, stop)] + junk + data[max(start, stop) :],
        place,
        place,
        st.binary(max_size=9),
    )


NAMES = st.sampled_from(["a.epub", "a.xml", "a.txt", "a.html", "a.gz", "a", "a.tei.zst"])
ANY = st.one_of(
    st.binary(max_size=400),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    mutated(epub(TWO)),
    mutated(
        tei("<front><div><p>x</p></div></front><body><div><head>h</head><lg><l>y</l></lg><note>z</note></div></body>")
    ),
    mutated(HTML.encode()),
    mutated((START + "A book.\n\nCHAPTER I\n\nx\n" + END).encode()),
    mutated(gzip.compress(HTML.encode(), mtime=0)),
)


@settings(max_examples=400, deadline=None)
@given(data=ANY, name=NAMES, chapters=st.booleans())
@example(data=b"PK\x05\x06" + bytes(18), name="a.epub", chapters=False)
@example(data=b"<TEI>\x00</TEI>", name="a.xml", chapters=True)
@example(data=b"<html><select><textarea><p>", name="a.html", chapters=True)
@example(data=b"\xff\xfe<\x00", name="a.xml", chapters=True)
def test_any_bytes_give_rows(data, name, chapters):
    rows = read(data, name, chapters=chapters)
    assert rows
    for row in documents(rows):
        row["text"].encode("utf-8")
    [row] = read_rows(Files(), data, name)
    assert (row["rule"] is None) != (row["text"] is None)


def test_pages_that_reference_a_zip_bomb_of_nested_archives_stay_closed():
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.txt", b"0" * (1 << 24))
    rows = read(epub(TWO, extra=[("OEBPS/inner.zip", inner.getvalue())]), "a.epub", max_bytes=1 << 16)
    assert len(documents(rows)) == 1  # a member that no page is made of is never unpacked


def test_a_run_over_books_balances_and_gives_every_chapter_an_id(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.epub").write_bytes(epub(TWO))
    (folder / "b.epub").write_bytes(epub(TWO)[:900])
    (folder / "c.xml").write_bytes(tei("<body><div><p>One.</p></div><div><p>Two.</p></div></body>"))
    (folder / "d.txt").write_text(START + "Three." + END, encoding="utf-8")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "name: books\nsources:\n  books:\n    read: {kind: books, paths: in, chapters: true}\n", encoding="utf-8"
    )
    result = curate.run(curate.load(recipe), output=tmp_path / "out", cache=tmp_path / "cache", workers=1)
    ledger = result.manifest["ledger"]["books"]
    assert (ledger["read"], ledger["kept"], ledger["removed"]) == (6, 5, {"read": {"read.truncated": 1}})
    rows = pq.read_table(tmp_path / "out" / "documents" / "books").to_pylist()
    assert [(row["path"], row["text"]) for row in rows] == [
        ("a.epub", "One\n\nA."),
        ("a.epub", "Two\n\nB."),
        ("c.xml", "One."),
        ("c.xml", "Two."),
        ("d.txt", "Three."),
    ]
    assert len({row["id"] for row in rows}) == 5


def test_every_form_of_one_book_gives_one_text():
    words = "One\n\nThe barge left before noon.\n\nTwo\n\nIt came back."
    pages = [
        ("a.xhtml", "<h1>One</h1><p>The barge left before noon.</p>"),
        ("b.xhtml", "<h1>Two</h1><p>It came back.</p>"),
    ]
    body = (
        "<div><head>One</head><p>The barge left before noon.</p></div><div><head>Two</head><p>It came back.</p></div>"
    )
    forms = {
        "a.epub": epub(pages),
        "a.xml": tei(f"<body>{body}</body>"),
        "a.html": f"<html><body>{''.join(body for _, body in pages)}</body></html>".encode(),
        "a.txt": words.encode(),
    }
    for name, data in forms.items():
        [row] = read(data, name)
        assert row["text"] == words, name
        if name != "a.txt":  # whose headings are not told from other short lines
            parts = read(data, name, chapters=True)
            assert [part["text"] for part in parts] == ["One\n\nThe barge left before noon.", "Two\n\nIt came back."]
