"""The variants of the code rules: bounds by hand on both sides, and decisions of bigcode's and OpenCoder's own code on real files."""

import gzip
import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import ValidationError

from curate.filter.code import OPENCODER, Code, extensions

REFERENCE = Path(__file__).parent / "reference"
DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")
STACK, STARCODER, OPEN = (Code(variant=name) for name in ("the_stack", "starcoder", "opencoder"))


def names(apply, fired, step, text, path="x.py", **fields):
    (row,) = apply(step, text, metadata=[json.dumps({"path": path, **fields})])
    return {name.removeprefix("block.") for name in fired(step, row)}


def values(apply, step, text, path="x.py", **fields):
    (row,) = apply(step, text, metadata=[json.dumps({"path": path, **fields})])
    return row


# ---- The Stack (bigcode-dataset, preprocessing/arguments.py): kept if strictly between 0.01 and 0.8, stars strictly above 5


@pytest.mark.parametrize(
    ("rule", "path", "kept", "gone", "fields"),
    [
        ("max_line_length", "x.zig", "a" * 1000, "a" * 1001, ({}, {})),
        ("mean_line_length", "x.zig", "a" * 99 + "\n" + "a" * 101, "a" * 100 + "\n" + "a" * 101, ({}, {})),
        ("alphanumeric_fraction", "x.zig", "a(((", "a((((", ({}, {})),
        # 10 of 999 characters in a comment are above 0.01, 10 of 1000 are 0.01 itself and go.
        (
            "comment_fraction",
            "x.go",
            "// 34567 9" + "\n" + "x;\n" * 329 + "y",
            "// 34567 9" + "\n" + "x;\n" * 329 + "yy",
            ({}, {}),
        ),
        # 79 of 100 characters are below 0.8, 80 of 100 are not.
        ("comment_fraction", "x.go", "//" + "a" * 77 + "\n" + "x" * 20, "//" + "a" * 78 + "\n" + "x" * 19, ({}, {})),
        ("num_stars", "x.zig", "abc", "abc", ({"stars": 6}, {"stars": 5})),
        ("xml_header", "x.zig", "a" * 100 + "<?xml version=", "a" * 86 + "<?xml version=", ({}, {})),
        ("xml_header", "x.zig", "a" * 87 + "<?xml version=", " <?xml version=", ({}, {})),
        # HTML: 101 of 504 characters shown are above a fifth; 101 of 505 are a fifth; 100 are too few.
        ("visible_fraction", "x.html", f"<!--{'c' * 396}-->" + "t" * 101, f"<!--{'c' * 397}-->" + "t" * 101, ({}, {})),
        ("num_visible_chars", "x.html", "t" * 101, "t" * 100, ({}, {})),
        ("num_data_chars", "x.json", "a" * 100, "a" * 99, ({}, {})),
        ("num_data_chars", "x.yaml", "aaaa\n" * 1000, "aaaa\n" * 1000 + "a", ({}, {})),
    ],
)
def test_the_stack_on_both_sides(apply, fired, rule, path, kept, gone, fields):
    assert rule not in names(apply, fired, STACK, kept, path, **fields[0])
    assert rule in names(apply, fired, STACK, gone, path, **fields[1])


def test_the_stack_lengths_are_as_said():
    assert len("// 34567 9" + "\n" + "x;\n" * 329 + "y") == 999
    assert len(f"<!--{'c' * 397}-->" + "t" * 101) == 505


def test_what_is_not_known_breaks_no_rule(apply, fired):
    row = values(apply, STACK, "abc def\n", "x.zig")
    assert (row["comment_fraction"], row["num_stars"], row["visible_fraction"], row["num_data_chars"]) == (None,) * 4
    assert names(apply, fired, STACK, "abc def\n", "x.zig") == set()


def test_off_and_own_bounds(apply, fired):
    text = "x;\n" * 30
    assert "comment_fraction" in names(apply, fired, STACK, text, "x.c")
    assert names(apply, fired, Code(variant="the_stack", comment_fraction="off"), text, "x.c") == set()
    assert "comment_fraction" in names(apply, fired, Code(min_comment_fraction=0.1), text, "x.c")
    with pytest.raises(ValidationError, match="comment_fraction is off"):
        Code(comment_fraction="off", max_comment_fraction=0.5)
    with pytest.raises(ValidationError, match="curate"):
        Code(variant="stack")


# ---- StarCoder: the table of extensions


def test_the_table():
    table = extensions()
    assert len(table) == 302
    assert table["python", "py"] == ("python", True, 1000.0, 0.25, None, True)
    assert table["ada", "ads"].min_alphabetic_fraction == 0.25
    assert table["glsl", "fsh"].max_line_length == 500.0
    assert table["markdown", "md"].max_line_length is None  # "remove": no bound
    assert table["sql", "tab"].include is False
    assert table["xslt", "xsl"].xml_header is False  # XML by nature
    assert table["json", "json"].min_alphabetic_fraction == 0.5


@pytest.mark.parametrize(
    ("rule", "path", "kept", "gone"),
    [
        ("extension_line_length", "x.py", "a" * 1000, "a" * 1001),
        ("extension_line_length", "x.fsh", "a" * 500, "a" * 501),
        ("extension_mean_line", "x.py", "a" * 99 + "\n" + "a" * 101, "a" * 100 + "\n" + "a" * 101),
        ("extension_alphanumeric", "x.py", "a(((", "a(((("),
        ("extension_letters", "x.ads", "a111", "a1111"),
        ("extension_letters", "x.json", "a1" * 50, "a1" * 50 + "1"),
        ("extension_xml_header", "x.py", "x = 1", "<?xml version='1.0'?>"),
        ("num_data_chars", "x.json", "a" * 100, "a" * 99),
        ("num_visible_chars", "x.html", "t" * 101, "t" * 100),
    ],
)
def test_starcoder_on_both_sides(apply, fired, rule, path, kept, gone):
    assert (
        names(apply, fired, STARCODER, kept, path) - {"extension_mean_line"} == set() or rule == "extension_mean_line"
    )
    assert rule not in names(apply, fired, STARCODER, kept, path)
    assert rule in names(apply, fired, STARCODER, gone, path)


def test_starcoder_extensions(apply, fired):
    text = "word " * 10
    assert names(apply, fired, STARCODER, text, "x.unknown") == {"extension"}
    assert names(apply, fired, STARCODER, text, "x.tab", language="SQL") == {"extension"}  # looked at and left out
    assert names(apply, fired, STARCODER, "a" * 5000, "x.md") == set()  # no bound on lines
    assert names(apply, fired, STARCODER, "<?xml version='1.0'?>" + text, "x.xsl") == set()
    assert names(apply, fired, STARCODER, text, "folder/Dockerfile", language="Dockerfile") == set()
    assert names(apply, fired, STARCODER, text, "x.cs", language="C#") == set()
    assert names(apply, fired, STARCODER, text, "x.py", language="Java") == {
        "extension"
    }  # a pair that is not in the table
    assert values(apply, STARCODER, text, "x.h")["code_extension"] == "c/h"


# ---- OpenCoder


def test_opencoder_numbers():
    bounds = {column: (least, most) for column, least, most in OPENCODER}
    assert bounds["num_code_words"] == (30, None)  # code_filter_config.py, "others"
    assert bounds["code_mean_word_length"] == (2, 10)
    assert [bounds[f"code_top_{n}gram_fraction"][1] for n in (2, 3, 4)] == [0.20, 0.18, 0.16]
    assert [bounds[f"code_repeated_{n}gram_fraction"][1] for n in range(5, 11)] == [0.80, 0.70, 0.70, 0.70, 0.70, 0.60]
    assert bounds["num_code_bytes"] == (None, 3e6)
    assert bounds["num_code_lines"] == (10, 100_000)
    assert bounds["mean_line_length"] == (5, 100)
    assert bounds["code_prompt_comment_fraction"] == (None, 0.01)


@pytest.mark.parametrize(
    ("rule", "path", "kept", "gone"),
    [
        ("num_code_words", "x.zig", "ab " * 30, "ab " * 29),
        ("num_code_chars", "x.zig", "a" * 50, "a" * 49),
        ("num_code_lines", "x.zig", "ab\n" * 10, "ab\n" * 9),
        ("max_line_length", "x.zig", "a" * 999 + "\n", "a" * 1000 + "\n"),  # with its line feed
        ("mean_line_length", "x.zig", "abcd\n" * 9, "abc\n" * 9),
        ("code_mean_word_length", "x.zig", "ab " * 9, "a " * 9),
        ("code_mean_word_length", "x.zig", "a" * 10, "a" * 11),
        ("code_letter_fraction", "x.zig", "ab()", "ab()("),
        ("code_digit_fraction", "x.zig", "abcd1", "abcd1" * 3 + "1"),
        ("code_white_space_fraction", "x.zig", "ab  ", "ab   "),
        # A line comment takes its line feed along: 8 of 10 characters, and 9 of 11.
        ("code_comment_fraction", "x.c", "//34567\n" + "x\n", "//345678\n" + "x\n"),
        ("code_is_generated", "x.zig", "a" * 193 + "generate", "a" * 192 + "generate"),  # within the first 200
        # 10 of 25 characters are 0.4, 10 of 24 more; a file ends with a line feed, whether it stands there or not.
        ("code_hex_word_char_fraction", "x.c", "0xab56789A " + "x" * 13, "0xab56789A " + "x" * 12),
        ("code_assert_line_fraction", "x.zig", "assert x\n" * 2 + "y\n" * 3, "assert x\n" * 3 + "y\n" * 4),
        ("code_prompt_comment_fraction", "x.c", "// TODO\n" + "x\n" * 99, "// FixMe\n" + "x\n" * 98),
        ("code_replacement_char_fraction", "x.zig", "\ufffd" + "a" * 99, "\ufffd" + "a" * 98),
        ("python_import_fraction", "x.py", "import a\n" * 3 + "y\n" * 7, "import a\n" * 4 + "y\n" * 6),
        ("python_pass_fraction", "x.py", "pass\n" + "y\n" * 19, "pass\n" + "y\n" * 18),
        ("python_print_fraction", "x.py", "print(1)\n" * 2 + "y\n" * 3, "print(1)\n" * 3 + "y\n" * 4),
        ("python_parses", "x.py", "x = 1\n", "x = \n"),
        ("python_has_variables", "x.py", "x = 1\n", "f(1)\n"),
    ],
)
def test_opencoder_on_both_sides(apply, fired, rule, path, kept, gone):
    assert rule not in names(apply, fired, OPEN, kept, path)
    assert rule in names(apply, fired, OPEN, gone, path)


def test_opencoder_repetition_by_hand(apply):
    # Words a b c d e f twice: each 5-gram that recurs covers its words; all twelve letters stand in one.
    row = values(apply, OPEN, "a b c d e f\na b c d e f\n", "x.zig")
    assert row["num_code_words"] == 12
    assert row["code_repeated_5gram_fraction"] == 1.0
    assert row["code_repeated_6gram_fraction"] == 1.0
    assert row["code_repeated_7gram_fraction"] == 0.0
    # The first of the most frequent pairs is "a b", twice two of twelve letters.
    assert row["code_top_2gram_fraction"] == round(4 / 12, 8)
    # Words of different length: "aa b" recurs: 2 * 3 of 3 + 3 + 4 letters.
    assert values(apply, OPEN, "aa b cccc aa b", "x.zig")["code_top_2gram_fraction"] == round(6 / 10, 8)
    # Punctuation is white space: x.y and x y are the same two words.
    assert values(apply, OPEN, "x.y (x) y", "x.zig")["num_code_words"] == 4
    # Lines of one sign, and "},", repeat nothing; "ab" stands twice among five lines.
    assert values(apply, OPEN, "ab\n}\n},\n}\n},\nab\n", "x.zig")["code_repeated_line_fraction"] == round(2 / 6, 8)


def test_opencoder_strings_by_hand(apply):
    # 21 letters in one string word of 21 + 2 quotes + 5 other characters and a line feed.
    row = values(apply, OPEN, 'x = ("' + "a" * 21 + '")', "x.c")
    assert row["code_string_char_fraction"] == round(21 / 30, 8)
    assert row["code_long_word_char_fraction"] == round(21 / 30, 8)
    assert values(apply, OPEN, 'x = ("' + "a" * 20 + '")', "x.c")["code_long_word_char_fraction"] == 0.0
    words = '"' + "w " * 21 + '"\n'
    assert values(apply, OPEN, words + "x\n" * 4, "x.c")["code_long_string_line_fraction"] == 0.2
    assert values(apply, OPEN, '"' + "w " * 20 + '"\n' + "x\n" * 4, "x.c")["code_long_string_line_fraction"] == 0.0
    assert values(apply, OPEN, "A" * 1025, "x.c")["code_is_encoded_data"] == 1
    assert values(apply, OPEN, "A" * 1024 + " x" * 1024, "x.c")["code_is_encoded_data"] == 0


# ---- what bigcode's and OpenCoder's own code decided of 777 real files, recorded by reference/record_code.py

# OpenCoder's signal -> our column
SIGNALS = {
    "num_words": "num_code_words",
    "num_chars": "num_code_chars",
    "mean_word_length": "code_mean_word_length",
    "frac_chars_replacement_symbols": "code_replacement_char_fraction",
    **{f"frac_chars_top_{n}grams": f"code_top_{n}gram_fraction" for n in (2, 3, 4)},
    **{f"frac_chars_dupe_{n}grams": f"code_repeated_{n}gram_fraction" for n in range(5, 11)},
    "frac_lines_dupe_lines": "code_repeated_line_fraction",
    "size_file_byte": "num_code_bytes",
    "num_lines": "num_code_lines",
    "num_chars_line_max": "max_line_length",
    "num_chars_line_mean": "mean_line_length",
    "frac_chars_alphabet": "code_letter_fraction",
    "frac_chars_digital": "code_digit_fraction",
    "frac_chars_whitespace": "code_white_space_fraction",
    "frac_chars_comments": "code_comment_fraction",
    "cate_xml_start": "has_xml_header",
    "cate_autogen": "code_is_generated",
    "frac_lines_long_string": "code_long_string_line_fraction",
    "frac_chars_string_length": "code_string_char_fraction",
    "frac_chars_long_word_length": "code_long_word_char_fraction",
    "cate_encoded_data": "code_is_encoded_data",
    "frac_chars_hex_words": "code_hex_word_char_fraction",
    "frac_lines_prompt_comments": "code_prompt_comment_fraction",
    "frac_lines_assert": "code_assert_line_fraction",
}
PYTHON_SIGNALS = {
    "cate_ast": "python_parses",
    "cate_var_zero": "python_has_variables",
    "frac_lines_func_ratio": "python_function_fraction",
    "frac_lines_pass": "python_pass_fraction",
    "frac_lines_import": "python_import_fraction",
    "frac_lines_simplefunc": "python_simple_function_fraction",
    "frac_lines_print": "python_print_fraction",
}


@pytest.fixture(scope="module", params=[3, pytest.param(1, marks=pytest.mark.slow)], ids=["third", "all"])
def recorded(request):
    """Return what was recorded, and a batch of the same files: every third one, or all."""
    sys.path.insert(0, str(REFERENCE))
    try:
        from record_code import documents
    finally:
        sys.path.remove(str(REFERENCE))
    for folder in ("02_gold", "05_code"):
        if not (DATA / folder).is_dir():
            pytest.skip(f"real inputs are absent: set CURATE_DATA to the folder that holds {folder}, not {DATA}")
    known = json.loads(gzip.decompress((REFERENCE / "code.json.gz").read_bytes()))["documents"]
    texts = []
    for row, (place, text) in zip(known, documents(DATA), strict=True):
        assert {name: row[name] for name in place} == place, "another file than the one recorded"
        texts.append(text)
    known, texts = known[:: request.param], texts[:: request.param]
    metadata = [json.dumps({"path": row["path"], "language": row["language"]}) for row in known]
    columns = {"text": pa.array(texts, pa.large_string()), "metadata": pa.array(metadata, pa.large_string())}
    return known, pa.record_batch(columns | {"path": pa.array([row["path"] for row in known])})


@pytest.fixture(scope="module")
def measured(recorded):
    """Return the rows of each variant over the recorded files."""
    _, batch = recorded
    return {
        name: Code(variant=name).apply(batch).to_pylist() for name in ("curate", "the_stack", "starcoder", "opencoder")
    }


def broken(fired, name, row):
    return {rule.removeprefix("block.") for rule in fired(Code(variant=name), row)}


def test_decisions_of_bigcode(recorded, measured, fired):
    filters = {
        "basic": {"max_line_length", "mean_line_length", "alphanumeric_fraction"},
        "xml": {"xml_header"},
        "html": {"visible_fraction", "num_visible_chars"},
        "comments": {"comment_fraction"},
    }
    seen = set()
    for row, stack, table in zip(recorded[0], measured["the_stack"], measured["starcoder"], strict=True):
        bigcode, rules = row["bigcode"], broken(fired, "the_stack", stack)
        for name in filters.keys() & bigcode.keys():
            assert bigcode[name] is not bool(rules & filters[name]), (name, row["path"])
            seen.add((name, bigcode[name]))
        by_extension = {rule for rule in broken(fired, "starcoder", table) if rule.startswith("extension")}
        assert bigcode["extension"] is not bool(by_extension - {"extension_xml_header"}), row["path"]
        if "comment_fraction" in bigcode:
            assert stack["comment_fraction"] == bigcode["comment_fraction"], row["path"]
    assert len(seen) == 2 * len(filters)  # each filter keeps and removes some


def test_measures_and_decisions_of_opencoder(recorded, measured, fired):
    """Every signal of the general set, and of Python's. HTML has a set of its own there, and its comments are of three languages."""
    hits = set()
    known = {f"qsc_code_{name}": column for name, column in SIGNALS.items()}
    known |= {f"qsc_codepython_{name}": column for name, column in PYTHON_SIGNALS.items()}
    for row, ours in zip(recorded[0], measured["opencoder"], strict=True):
        if row["language"] == "HTML":
            continue
        signals, rules = row["opencoder"]["values"], broken(fired, "opencoder", ours)
        for name, column in known.items():
            if name not in signals:
                continue
            value = 1 - signals[name] if name == "qsc_codepython_cate_var_zero" else signals[name]
            assert ours[column] == pytest.approx(value, rel=1e-7, abs=1e-8), (name, row["path"])
            rule = "xml_header" if column == "has_xml_header" else column
            assert (name in row["opencoder"]["broken"]) is (rule in rules), (name, row["path"])
            hits |= {name} if rule in rules else set()
    print(f"{len(hits)} of {len(known)} rules of OpenCoder removed a file: {', '.join(sorted(hits))}")
    assert len(hits) >= 20


def test_the_variants_differ(measured, fired):
    kept = {name: [not broken(fired, name, row) for row in rows] for name, rows in measured.items()}
    print({name: f"{decided.count(False)} of {len(decided)} removed" for name, decided in kept.items()})
    names = list(kept)
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            differing = sum(a != b for a, b in zip(kept[one], kept[other], strict=True))
            print(f"{one} and {other}: {differing} differ")
            assert differing >= 20, (one, other)


@pytest.mark.parametrize(
    "settings", ["{}", "{variant: the_stack, comment_fraction: off, min_stars: off}", "{variant: starcoder}"]
)
def test_the_resolved_recipe_means_the_same(tmp_path, settings):
    from curate.loading import load

    (tmp_path / "in.jsonl").write_text('{"text": "x"}\n', encoding="utf-8")
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f"name: r\nsources:\n  a:\n    read: {{kind: jsonl, paths: in.jsonl}}\n    steps: [{{code: {settings}}}]\n",
        encoding="utf-8",
    )
    recipe = load(path)
    again = tmp_path / "again.yaml"
    again.write_text(recipe.as_yaml(), encoding="utf-8")
    assert load(again).sources[0].steps == recipe.sources[0].steps
