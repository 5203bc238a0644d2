"""Each form of Project Gutenberg's header and footer since 1991; the wordings are those of its published files."""

import gzip
import json
import sys
import time
from pathlib import Path

import pytest

from curate.text.gutenberg import find_book

sys.path.insert(0, str(Path(__file__).parents[1] / "read"))
from reading import real_data

BODY = "THE LOCK\n\nChapter 1\n\nThe barge left before noon.\n\n\nTHE END"


def cut(text):
    book = find_book(text)
    return text[book.start : book.end]


HEADERS = {
    "1991": (
        "**The Project Gutenberg Etext of The Lock, by A. Keeper**\n\nJanuary, 1992  [Etext #77]\n\n"
        '***START**THE SMALL PRINT!**FOR PUBLIC DOMAIN ETEXTS**START***\nWhy is this "Small Print!" statement here?\n'
        "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\n\n\n",
        "\n\n\nEnd of The Project Gutenberg Etext of The Lock, by A. Keeper\n",
    ),
    "1998": (
        "The Project Gutenberg Etext of The Lock by A. Keeper\n#3 in our series by A. Keeper\n\nPlease take a look.\n"
        "***START**THE SMALL PRINT!**FOR PUBLIC DOMAIN ETEXTS**START***\n"
        "*END THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\n\n\n",
        "\n\n\nEnd of this Project Gutenberg Etext of The Lock by A. Keeper\n",
    ),
    "copyrighted": (
        "The Project Gutenberg Etext of The Lock by A. Keeper\n\n"
        "*END*THE SMALL PRINT! FOR COPYRIGHT PROTECTED ETEXTS*Ver.04.29.93*END*\n\n",
        "\n\nEnd of Project Gutenberg's The Lock, by A. Keeper\n",
    ),
    "2002, small print behind the book": (
        "The Project Gutenberg EBook of The Lock, by A. Keeper\n\nTitle: The Lock\n\nAuthor: A. Keeper\n\n"
        "Release Date: Jun, 1998 [EBook #77]\n[Most recently updated: May 1, 2002]\n\nLanguage: English\n\n"
        "*** START OF THE PROJECT GUTENBERG EBOOK, THE LOCK ***\n\n\n",
        "\n\n\n*** END OF THE PROJECT GUTENBERG EBOOK, THE LOCK ***\n\nThis file should be named lock10.txt\n\n"
        "***START**THE SMALL PRINT!**FOR PUBLIC DOMAIN EBOOKS**START***\nWhy is this here?\n"
        "*END THE SMALL PRINT! FOR PUBLIC DOMAIN EBOOKS*Ver.02/11/02*END*\n",
    ),
    "2008": (
        "The Project Gutenberg EBook of The Lock, by A. Keeper\n\nThis eBook is for the use of anyone anywhere at no cost.\n\n"
        "Title: The Lock\n       A Tale of the Canal\n\nAuthor: A. Keeper\n\nRelease Date: June 1, 2008 [EBook #77]\n\n"
        "Language: English\n\nCharacter set encoding: ASCII\n\n*** START OF THIS PROJECT GUTENBERG EBOOK THE LOCK ***\n\n\n\n\n"
        "Produced by Two Volunteers and the Online Distributed\nProofreading Team at http://www.pgdp.net\n\n\n\n\n",
        "\n\n\n\nEnd of Project Gutenberg's The Lock, by A. Keeper\n\n*** END OF THIS PROJECT GUTENBERG EBOOK THE LOCK ***\n\n"
        "***** This file should be named 77.txt or 77.zip *****\n\n*** START: FULL LICENSE ***\n\nTHE FULL PROJECT GUTENBERG LICENSE\n",
    ),
    "2024": (
        "\ufeffThe Project Gutenberg eBook of The Lock\n    \nThis ebook is for the use of anyone anywhere.\n\nTitle: The Lock\n\n"
        "Author: A. Keeper\n\nRelease date: June 1, 2008 [eBook #77]\n                Most recently updated: May 1, 2024\n\n"
        "Language: English\n\nCredits: Two Volunteers\n\n\n*** START OF THE PROJECT GUTENBERG EBOOK THE LOCK ***\n\n\n",
        "\n\n*** END OF THE PROJECT GUTENBERG EBOOK THE LOCK ***\n\n    \n\nUpdated editions will replace the previous one.\n",
    ),
    "title over two lines": (
        "Project Gutenberg's The Lock, by A. Keeper\n\n*** START OF THIS PROJECT GUTENBERG EBOOK THE LOCK, OR THE\n"
        "KEEPER'S DAUGHTER ***\n\n\n",
        "\n\n\nEnd of Project Gutenberg's The Lock, by A. Keeper\n\n*** END OF THIS PROJECT GUTENBERG EBOOK THE LOCK, OR THE\nKEEPER ***\n",
    ),
    "no spaces": (
        "Project Gutenberg's The Lock, by A. Keeper\n\n***START OF THE PROJECT GUTENBERG EBOOK THE LOCK***\n\n\n",
        "\n\n\n***END OF THE PROJECT GUTENBERG EBOOK THE LOCK***\n\n\n******* This file should be named 77.txt *******\n",
    ),
    "E-text prepared by": (
        "The Project Gutenberg eBook, The Lock, by A. Keeper\n\n\n***START OF THE PROJECT GUTENBERG EBOOK THE LOCK***\n\n\n"
        "E-text prepared by Two Volunteers\n\n\n\nNote: Project Gutenberg also has an HTML version of this file\n"
        "      which includes the original illustrations.\n\n\n",
        "\n\n***END OF THE PROJECT GUTENBERG EBOOK THE LOCK***\n",
    ),
    "German footer": (
        "The Project Gutenberg Etext of The Lock\n\n*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\n\n",
        '\n\nEnde dieses Projekt Gutenberg Etextes "The Lock"\n',
    ),
    "curly apostrophe": (
        "Project Gutenberg’s The Lock, by A. Keeper\n\n*** START OF THIS PROJECT GUTENBERG EBOOK THE LOCK ***\n\n",
        "\n\nEnd of Project Gutenberg’s The Lock, by A. Keeper\n\n*** END OF THIS PROJECT GUTENBERG EBOOK THE LOCK ***\n",
    ),
}


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("form", HEADERS)
def test_the_book_alone_is_left(form, ends):
    header, footer = HEADERS[form]
    assert cut((header + BODY + footer).replace("\n", ends)) == BODY.replace("\n", ends)


@pytest.mark.parametrize("form", HEADERS)
def test_a_footer_alone_and_a_header_alone_are_cut(form):
    header, footer = HEADERS[form]
    assert cut(header + BODY + "\n") == BODY
    long = "The barge left before noon.\n" * 400 + BODY
    assert cut(long + footer) == long


def test_facts():
    book = find_book(HEADERS["2008"][0] + BODY + HEADERS["2008"][1])
    assert book.facts == {
        "title": "The Lock A Tale of the Canal",
        "author": "A. Keeper",
        "release_date": "June 1, 2008",
        "language": "English",
        "ebook": 77,
        "credits": "Produced by Two Volunteers and the Online Distributed Proofreading Team at http://www.pgdp.net",
    }
    old = find_book(HEADERS["1991"][0] + BODY).facts
    assert old == {"title": "The Lock", "author": "A. Keeper", "release_date": "January, 1992", "ebook": 77}
    new = find_book(HEADERS["2024"][0] + BODY).facts
    assert new["ebook"] == 77
    assert new["release_date"] == "June 1, 2008"
    assert new["credits"] == "Two Volunteers"


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        "He quoted it: “End of Project Gutenberg’s Alice” stood there.\n\n" + BODY,
        "A page about *** START OF THIS PROJECT GUTENBERG EBOOK X ***, in the middle of a line.\n\n" + BODY,
        "End of Project Gutenberg's list of marks\n\n" + BODY * 9,
        "",
        "\n\n\n",
    ],
)
def test_other_texts_are_left_alone(text):
    book = find_book(text)
    assert (book.start, book.end, book.facts) == (0, len(text), {})


def test_transcribers_notes_go_at_the_edges_and_stay_inside():
    start, end = HEADERS["2008"]
    inside = BODY.replace("Chapter 1", "[Transcriber's Note: the page is torn here.]\n\nChapter 1")
    first = "[Transcriber's Note: the spelling\nis as printed.\n\nTwo errors were corrected.]\n\n\n"
    last = "\n\n\nTranscriber's Notes\n\n\np. 7: for 'lok' read 'lock'.\n\np. 9: a comma was added.\n"
    long = "The barge left before noon.\n" * 40
    book = find_book(start + first + inside + "\n\n" + long + last + end)
    text = start + first + inside + "\n\n" + long + last + end
    assert text[book.start : book.end] == inside + "\n\n" + long.rstrip()
    assert book.facts["transcriber_notes"] >= len(first) - 3 + len(last) - 3
    assert cut(start + "Transcriber's Note:\n\nThe spelling is as printed.\n\n\n" + BODY + end) == BODY
    two = "TRANSCRIBER'S NOTES\n\nThe spelling is as printed.\n\nErrors were corrected.\n\n\n\n\n"
    assert cut(start + two + BODY + end) == BODY


def test_no_text_takes_long():
    for piece in (
        "*** START OF THE PROJECT GUTENBERG EBOOK\n",
        "\n",
        " ",
        "*",
        "[Transcriber's Note: ",
        "Title: x\n y",
    ):
        text = piece * (1_000_000 // len(piece))
        start = time.process_time()
        find_book(text)
        assert time.process_time() - start < 5, piece


def test_real_books():
    seen = 0
    with gzip.open(real_data("04_books") / "books.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            book = json.loads(line)
            left = cut(book["text"])
            if "GITenberg" not in book["source"]:
                assert left == book["text"], book["title"]
                continue
            seen += 1
            assert "gutenberg" not in left[:2000].lower(), book["source"]
            assert "gutenberg" not in left[-2000:].lower(), book["source"]
            assert 0.85 < len(left) / len(book["text"]) < 0.99, book["source"]
            facts = find_book(book["text"]).facts
            assert facts["ebook"] == int(book["source"].partition("_")[2].partition(":")[0])
    assert seen == 8
