"""TEI to text. The samples follow the Guidelines' own elements; what each must give was written down beside it."""

import json

import pytest
from reading import documents, read_rows, rules

from curate.read.books import Books

HEADER = """<teiHeader><fileDesc><titleStmt><title type="main">The Lock</title><title type="sub">A tale</title>
<author><persName><surname>Keeper</surname><forename>Ann</forename></persName></author><editor>B. Editor</editor></titleStmt>
<publicationStmt><publisher>Canal Press</publisher><idno>L7</idno>
<availability><licence target="https://creativecommons.org/licenses/by/4.0/">Free to share</licence></availability></publicationStmt>
<sourceDesc><bibl><date when="1880">about 1880</date></bibl></sourceDesc></fileDesc>
<profileDesc><langUsage><language ident="en">English</language></langUsage></profileDesc></teiHeader>"""


def tei(text, header=HEADER, prolog='<?xml version="1.0" encoding="UTF-8"?>'):
    return f'{prolog}\n<TEI xmlns="http://www.tei-c.org/ns/1.0">{header}<text>{text}</text></TEI>'.encode()


def text_of(body, **settings):
    [row] = read_rows(Books(**settings), tei(f"<body>{body}</body>"), "a.xml")
    return row["text"]


def chapters_of(text):
    rows = read_rows(Books(chapters=True), tei(text), "a.xml")
    assert [row["part"] for row in rows] == list(range(len(rows)))
    return [(json.loads(row["metadata"])["chapter"].get("title"), row["text"]) for row in rows]


def test_the_header_is_metadata_and_no_text():
    [row] = read_rows(Books(), tei("<body><p>Text.</p></body>"), "a.xml")
    assert row["text"] == "Text."
    assert (row["language"], row["source_id"], row["media_type"]) == ("en", "L7", "application/tei+xml")
    assert json.loads(row["metadata"]) == {
        "format": "tei",
        "title": "The Lock",
        "creator": ["Ann Keeper"],
        "editor": ["B. Editor"],
        "publisher": "Canal Press",
        "license_url": "https://creativecommons.org/licenses/by/4.0/",
        "rights": "Free to share",
        "date": "1880",
        "license": "CC-BY-4.0",
    }


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>One\n   two <hi>three</hi>.</p>\n\n<p>Four.</p>", "One two three.\n\nFour."),
        ("<head>I</head><p>A.</p>", "I\n\nA."),
        ("<lg><l>a line,</l>\n<l>and one</l></lg><lg><l>more</l></lg>", "a line,\nand one\n\nmore"),
        ("<p>a <lb/>line of <pb n='7'/>print</p>", "a line of print"),
        ("<p>water-<lb/>fall and the wa<lb break='no'/>ter</p>", "waterfall and the water"),
        ("<p>water-<pb n='8'/><fw>8 THE LOCK</fw>\n<lb/>fall</p>", "waterfall"),
        ("<p>Jean-<lb/>Pierre, 1880-<lb/>1890</p>", "Jean-Pierre, 1880-1890"),
        ("<p>hin¬<lb/>Aus</p>", "hinAus"),
        ("<p>soft\u00adly</p>", "softly"),
        ("<p>a<milestone unit='x'/>b</p>", "a b"),
        (
            "<p><choice><sic>teh</sic><corr>the</corr></choice> <choice><abbr>Mr</abbr><expan>Mister</expan></choice></p>",
            "the Mister",
        ),
        ("<p><choice><orig>haue</orig><reg>have</reg></choice> <app><rdg>x</rdg><lem>it</lem></app></p>", "have it"),
        ("<p>a <del>b</del><add>c</add> <subst><del>d</del><add>e</add></subst></p>", "a c e"),
        ("<p>so<gap reason='torn'/> on</p>", "so […] on"),
        (
            "<p>A<note place='foot' n='1'>First.</note> b.<note>Second <hi>one</hi>.</note></p><p>C.</p>",
            "A[1] b.\n\n[1] First.\n\nSecond one.\n\nC.",
        ),
        ("<p>A<note><p>One.</p><p>Two.</p></note> b.</p>", "A b.\n\nOne.\n\nTwo."),
        ("<p>A <note place='inline'>(here)</note> b.</p>", "A (here) b."),
        ("<lg><l>one<note>N.</note></l><l>two</l></lg>", "one\ntwo\n\nN."),
        ("<note n='*'>Of the editor.</note><p>A.</p>", "[*] Of the editor.\n\nA."),
        ("<list><item>one</item><item>two</item></list>", "one\ntwo"),
        ("<table><row><cell>a</cell><cell>b</cell></row><row><cell>c</cell><cell>d</cell></row></table>", "a\tb\nc\td"),
        ("<sp><speaker>Ann</speaker><p>Open!</p></sp><stage>Exit.</stage>", "Ann\n\nOpen!\n\nExit."),
        ("<p>a<figure><figDesc>A drawing of a lock</figDesc></figure> b</p>", "a\n\nb"),
        ("<p>a<!-- c --><?x y?> &amp; b &#233;</p>", "a & b é"),
    ],
)
def test_what_is_printed_is_read(body, text):
    assert text_of(body) == text


def test_front_body_and_back_stay_in_order():
    text = "<front><p>1</p></front><body><p>2</p></body><back><p>3</p></back>"
    [row] = read_rows(Books(), tei(text), "a.xml")
    assert row["text"] == "1\n\n2\n\n3"


def test_chapters():
    text = (
        "<front><div type='preface'><head>Preface</head><p>Dear reader.</p></div></front><body>"
        "<div type='part'><head>Part I</head><div type='chapter'><head>One</head><p>A.</p><div type='section'><head>s</head>"
        "<p>B.</p></div></div><div type='chapter'><head>Two</head><p>C.</p></div></div>"
        "<div type='part'><head>Part II</head><div type='chapter'><p>D.</p></div></div></body>"
    )
    assert chapters_of(text) == [
        ("Preface", "Preface\n\nDear reader."),
        ("One", "Part I\n\nOne\n\nA.\n\ns\n\nB."),
        ("Two", "Two\n\nC."),
        ("Part II", "Part II\n\nD."),
    ]
    [whole] = read_rows(Books(), tei(text), "a.xml")
    assert whole["text"] == "\n\n".join(piece for _, piece in chapters_of(text))


def test_divisions_without_type_are_chapters_and_those_that_hold_only_divisions_are_entered():
    text = "<body><div><head>Book I</head><div><p>A.</p></div><div><p>B.</p></div></div><div><p>C.</p><div><p>D.</p></div></div></body>"
    assert [piece for _, piece in chapters_of(text)] == ["Book I\n\nA.", "B.", "C.\n\nD."]


def test_a_corpus_holds_several_texts_in_order():
    one, two = (tei(f"<body><p>{word}.</p></body>").decode().partition("\n")[2] for word in ("One", "Two"))
    corpus = f'<teiCorpus xmlns="http://www.tei-c.org/ns/1.0">{HEADER}{one}{two}</teiCorpus>'
    rows = read_rows(Books(), corpus.encode(), "corpus.xml")
    assert [(row["part"], row["text"]) for row in rows] == [(0, "One."), (1, "Two.")]


def test_p4_without_namespace_and_in_another_encoding():
    body = "<text><body><p>Mélange d’eau</p></body></text>"
    document = f'<?xml version="1.0" encoding="ISO-8859-1"?>\n<!DOCTYPE TEI.2 SYSTEM "tei2.dtd">\n<TEI.2>{body}</TEI.2>'
    [row] = read_rows(Books(), document.encode("cp1252"), "a.xml")
    assert row["text"] == "Mélange d’eau"


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize(
    ("subset", "reference", "text"),
    [
        ('<!ENTITY mdash "&#8212;">', "&mdash;", "—"),
        ("<!ENTITY lock 'L'>", "&lock;", "L"),
        ("", "&eacute;", "é"),
    ],
)
def test_entities_for_characters_are_put_in(subset, reference, text):
    prolog = f'<?xml version="1.0"?><!DOCTYPE TEI [{subset}]>'
    [row] = read_rows(Books(), tei(f"<body><p>a{reference}b</p></body>", prolog=prolog), "a.xml")
    assert row["text"] == f"a{text}b"


@pytest.mark.parametrize(
    ("subset", "reference"),
    [
        ('<!ENTITY l0 "ha">' + LAUGHS, "&l9;"),
        ('<!ENTITY file SYSTEM "file:///etc/hostname">', "&file;"),
        ('<!ENTITY net SYSTEM "http://127.0.0.1:9/x">', "&net;"),
        (f'<!ENTITY long "{"x" * 60}">', "&long;"),
        ('<!ENTITY % p SYSTEM "file:///etc/hostname"> %p;', "&undefined;"),
    ],
)
def test_other_entities_are_refused(subset, reference):
    prolog = f'<?xml version="1.0"?><!DOCTYPE TEI [{subset}]>'
    rows = read_rows(Books(), tei(f"<body><p>a{reference}b</p></body>", prolog=prolog), "a.xml")
    assert rules(rows) == {"read.bad_record": 1}
    assert reference in rows[0]["detail"]
    assert not documents(rows)


@pytest.mark.parametrize(
    ("document", "mentions"),
    [
        (tei("<body><p>A.</body>"), "not well-formed"),
        (tei("<body>" + "<p>" * 3000 + "</p>" * 3000 + "</body>"), "depth"),
        (b'<?xml version="1.0"?><catalog><book/></catalog>', "<catalog>"),
        (b'<?xml version="1.0"?><TEI', "no root element"),
    ],
)
def test_what_cannot_be_read_says_why(document, mentions):
    rows = read_rows(Books(), document, "a.xml")
    assert rules(rows) == {"read.bad_record": 1}
    assert mentions in rows[0]["detail"]
    assert "a.xml" in rows[0]["detail"]


def test_a_long_text_is_read_whole_or_refused_never_cut():
    """libxml2 refuses a run of text over 10 MB."""
    for count in (1_000_000, 2_000_000):
        words = "barge " * count
        [row] = read_rows(Books(), tei(f"<body><p>{words}</p></body>"), "a.xml")
        assert (row["rule"] is None) == (count == 1_000_000)
        assert row["rule"] or len(row["text"]) == len(words) - 1
