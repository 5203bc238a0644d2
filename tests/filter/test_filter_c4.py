import pytest
from pydantic import ValidationError

from curate.filter.c4 import C4Lines

SENTENCES = "One two three. Four five six. Seven eight nine. Ten is more. Over and out."  # five sentences


def test_what_is_left_and_why(apply):
    text = "\n".join(
        (
            "Home | About | Contact",  # no terminal mark
            "The lock opened at dawn.[1][2] The barge left.[citation needed]",
            "Read on...",  # an ellipsis is no end
            "",
            "Well done.",  # two words
            "Please enable JavaScript in your browser.",
            "This site uses cookies to count its visitors.",
            "  It was carried upstream!  ",
            "a" * 1001 + " is a long word.",
        )
    )
    (row,) = apply(C4Lines(), text)
    assert row == {
        "text": "The lock opened at dawn. The barge left.\nIt was carried upstream!",
        "num_lines_kept": 2,
        "num_lines_long_word": 1,
        "num_lines_unterminated": 2,
        "num_lines_few_words": 1,
        "num_lines_javascript": 1,
        "num_lines_policy": 1,
        "num_lorem_ipsum": 0,
        "num_curly_brackets": 0,
        "num_sentences": 3,
    }


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("two words.", False),
        ("now three words.", True),
        ("A longest word " + "a" * 999 + ".", True),  # 1,000 characters with its stop
        ("A longest word " + "a" * 1000 + ".", False),
        ("Is this the end?", True),
        ('He said "this is it"', True),
        ("He said 'this is it'", True),
        ("He said “this is it”", True),
        ("This is no end,", False),
        ("This is no end...", False),
        ("船闸每天清晨开放。", True),
        ("Read our Terms of Use here.", False),
        ("Read our Privacy Policy here.", False),
        ("Our cookie policy is here.", False),
        ("We use cookies on it.", False),
        ("On the use of cookies here.", False),
        ("A javascript file is here.", False),
    ],
)
def test_lines_of_the_paper(apply, line, kept):
    (row,) = apply(C4Lines(), line)
    assert row["text"] == (line if kept else "")
    assert row["num_lines_kept"] == int(kept)


def test_published_numbers_of_both_variants(apply, fired):
    paper, tfds = C4Lines(), C4Lines(variant="tfds")
    assert (paper.min_sentences, paper.min_words_per_line, "'" in paper.terminal_marks) == (5, 3, True)
    assert (tfds.min_sentences, tfds.min_words_per_line, "'" in tfds.terminal_marks) == (3, 5, False)
    four = " ".join(f"This is sentence number {name}." for name in ("one", "two", "three", "four"))
    assert "block.min_sentences" in fired(paper, apply(paper, four)[0])
    assert fired(paper, apply(paper, four + " This is sentence number five.")[0]) == []
    assert fired(tfds, apply(tfds, four)[0]) == []
    two = "This is sentence number one. This is sentence number two."
    assert fired(tfds, apply(tfds, two)[0]) == ["block.min_sentences"]
    assert fired(tfds, apply(tfds, two + " This is sentence number three.")[0]) == []
    assert apply(tfds, "Only four words here.\nBut here are five words.")[0]["text"] == "But here are five words."
    assert C4Lines(variant="tfds", min_sentences=4).min_sentences == 4  # what the recipe says wins


def test_page_rules(apply, fired):
    def rules(text, **settings):
        step = C4Lines(**settings)
        return fired(step, apply(step, text)[0])

    assert rules(SENTENCES) == []
    assert rules(SENTENCES + " Lorem Ipsum dolor sit amet.") == ["block.lorem_ipsum"]
    assert rules(SENTENCES + " It ends with {this}.") == ["block.curly_bracket"]
    assert rules(SENTENCES + "\nA line without end {") == []  # cut before the page is judged by it
    assert (
        rules(SENTENCES + "\nHere javascript has {one} bracket.") == []
    )  # datatrove's order: javascript before brackets
    assert rules("") == ["block.empty", "block.min_sentences"]
    assert rules(SENTENCES + " lorem ipsum { here.", lorem_ipsum="off", curly_bracket="off") == []
    assert rules("", empty="off", min_sentences="off") == []


def test_edits_can_be_off(apply):
    text = "Heading\n\nA line[3] on javascript and the privacy policy"
    off = {
        "terminal_punctuation": "off",
        "javascript": "off",
        "policy": "off",
        "min_words_per_line": "off",
        "max_word_length": "off",
    }
    assert apply(C4Lines(**off), text)[0]["text"] == "Heading\n\nA line on javascript and the privacy policy"
    assert apply(C4Lines(**off, citations="off"), text)[0]["text"] == text
    assert (
        apply(C4Lines(terminal_punctuation="off"), "A heading of words\nOne more")[0]["text"] == "A heading of words"
    )  # FineWeb


def test_rewriting_twice_changes_nothing(apply):
    text = "The lock opened at dawn.[1]\nHome\n\nThe barge left at noon."
    (once,) = apply(C4Lines(), text)
    (twice,) = apply(C4Lines(), once["text"])
    assert twice["text"] == once["text"]


def test_refusals():
    with pytest.raises(ValidationError, match="no variant 'dclm' of c4_lines; there are: paper, tfds"):
        C4Lines(variant="dclm")
    with pytest.raises(ValidationError, match="min_words_per_line"):
        C4Lines(min_words_per_line=0)


def test_a_removed_code_page_names_the_rule(apply, fired):  # case filter-007
    js = "function f(a) {\n  return {x: a, y: [1, 2, 3]};\n}\n" * 8
    names = fired(C4Lines(terminal_punctuation="off"), apply(C4Lines(terminal_punctuation="off"), js)[0], "c4_lines")
    assert names[0] == "c4_lines.curly_bracket"
