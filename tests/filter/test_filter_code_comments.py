"""Comments by family of languages: places worked out by hand, and the shares that bigcode's script measured on real files."""

import pytest

from curate.filter.code_comments import FAMILIES, comment_fraction, divide, visible_html


@pytest.mark.parametrize(
    ("language", "text", "comments"),
    [
        (
            "c",
            'int a; // one\nchar *b = "// no"; /* two\nlines */ char c = \'"\'; // three\n',
            "// one\n/* two\nlines */// three\n",
        ),
        ("c", "a = b / c; // d \\\n still\ne", "// d \\\n still\n"),
        ("c", "#if 0\n// off\n#endif\nx; // on", "// on\n"),
        ("c", "#include <a.h> // in\n#define B don't /* d */ // e\n", "// in/* d */// e\n"),
        ("c", '"open // no\nx; // yes', "// yes\n"),  # a string ends with its line
        ("java", "String s = \"/* no */\"; char q = '\\''; /** yes */ // too", "/** yes */// too"),
        ("java", 'String s = """\n// no\n"""; // yes', "// yes"),
        ("javascript", "a = 'it\\'s // no'; b = `// ${no} \n // no`; // yes", "// yes"),
        ("javascript", "a = b.replace(/\\/\\//g, '') // yes", "// yes"),
        ("javascript", "a = b / c; // yes / maybe", "// yes / maybe"),
        ("javascript", "x = /[/*]/.test(y) /* yes */", "/* yes */"),
        ("go", 's := `// no` + "/* no */" + \'"\' // yes\n/* and\nthis */', "// yes/* and\nthis */"),
        ("shell", "#!/bin/sh\necho \"# no\" '# no' ${#a} $# a#b # yes\n# and this", "#!/bin/sh# yes# and this"),
        ("sql", "SELECT '-- no', \"--no\" -- yes\n/* and this */", "-- yes/* and this */"),
        ("html", "<p>a</p><!-- yes --><p title='<!--'>", "<!-- yes --><!--'>\n"),
        ("css", "a { b: url('/*no*/') } /* yes */", "/* yes */"),
        ("ruby", "a = '# no' # yes\nb = \"#{no}\"", "# yes"),
        ("python", "#!/usr/bin/env python\nx = '# no'  # yes\n", "#!/usr/bin/env python# yes"),
        ("python", 'def f():\n    """Doc."""\n    x = """no"""  # yes\n', '"""Doc."""# yes'),
        ("c", "/* open", "/* open\n"),
    ],
)
def test_comments_by_hand(language, text, comments):
    parts = divide(text, language)
    assert parts.comments == comments
    assert len(parts.code) + len(parts.comments) == len(text.strip("\n")) + 1


def test_rust():
    text = "/// doc\n// line\n/* a /* nested */ b */ let c = '\\''; let d = r#\"// no\"#; /** doc */ /*! doc */ let e: &'a str = \"x\";\n"
    parts = divide(text, "rust")
    assert parts.comments == "/// doc\n// line\n/* a /* nested */ b *//** doc *//*! doc */"
    assert parts.num_comment_chars == len("// line\n/* a /* nested */ b */")  # documentation is none, as with bigcode


def test_shares_by_hand():
    assert comment_fraction("x; // ab\n", "go") == 5 / 9
    assert comment_fraction("x; // ab\n", "c") == 6 / 9  # pygments: with the line feed in C
    # Python: the docstring "Say it.", a line end, and " one" without its sign: 7 + 1 + 4, of 37 characters.
    text = 'def f():\n    """Say it."""\n    x  # one'
    assert len(text) == 39
    assert comment_fraction(text, "python") == 12 / 39
    assert (
        comment_fraction("def f()\n    pass  # one\n", "python") == 3 / 24
    )  # does not parse: the comment alone, "one"
    assert comment_fraction("def f(:\n    pass  # one\n", "python") == 0.0  # nor can it be split into tokens
    assert comment_fraction("", "c") is None
    assert comment_fraction("x", "brainfuck") is None
    assert divide("x", "brainfuck") is None


def test_every_family_has_a_scanner():
    for language in FAMILIES:
        assert divide("x\n", language).code == "x\n"


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("<p>One <b>two</b> &amp; 3</p>", "One two & 3"),
        ("<style>a{}</style>x<script>var a = '<b>';</script>y<template>no</template>", "xy"),
        ("<!-- no --><p>yes</p>  \n <p>\t</p>", "yes\n "),  # white space alone is one sign
        ("<pre>  \n  </pre>", "  \n  "),
        ("<!doctype html><p>a<br/>b", "ab"),
    ],
)
def test_visible_text(page, shown):
    assert visible_html(page) == shown


@pytest.mark.parametrize("language", ["c", "java", "javascript", "go", "rust", "python", "shell", "sql", "html"])
def test_takes_linear_time(language):
    import time

    for text in (
        "/*" * 100_000,
        "'" * 200_000,
        '"' * 200_000,
        "`" * 200_000,
        "/" * 200_000,
        "#" * 200_000,
        "<!--" * 50_000,
        '"""' * 60_000,
    ):
        start = time.process_time()
        divide(text, language)
        assert time.process_time() - start < 3, text[:4]
