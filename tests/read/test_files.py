import gzip
import json
import pickle

import pytest
import zstandard
from reading import documents, read_rows, rules

from curate.read.files import Files
from curate.read.languages import programming_language
from curate.read.licenses import spdx_tag


def read_file(data, name, **settings):
    [row] = read_rows(Files(**settings), data, name)
    return row


def test_a_source_file():
    source = "# SPDX-License-Identifier: MIT OR Apache-2.0\r\nprint('ação')\r\n"
    row = read_file(source.encode(), "src/tool.py")
    assert row["text"] == source
    assert json.loads(row["metadata"]) == {
        "programming_language": "Python",
        "license": "MIT OR Apache-2.0",
        "license_source": "spdx",
    }
    assert (row["language"], row["offset"], row["media_type"]) == (None, 0, "text/plain")


@pytest.mark.parametrize(
    ("name", "head", "language"),
    [
        ("a.py", "", "Python"),
        ("A.PY", "", "Python"),
        ("x.tar.rs", "", "Rust"),
        ("include.h", "", "C"),
        ("view.tsx", "", "TypeScript"),
        ("Makefile", "", "Makefile"),
        ("CMakeLists.txt", "", "CMake"),
        ("tool", "#!/usr/bin/env python3\n", "Python"),
        ("tool", "#!/usr/bin/env -S LANG=C node --x\n", "JavaScript"),
        ("tool", "#! /bin/bash -e\n", "Shell"),
        ("tool", "#!/usr/bin/perl5.30\n", "Perl"),
        ("notes.txt", "", None),
        ("README", "words", None),
        (".py", "", None),
        ("tool", "#!", None),
    ],
)
def test_programming_languages(name, head, language):
    assert programming_language(name, head) == language


@pytest.mark.parametrize(
    ("head", "expression"),
    [
        ("// SPDX-License-Identifier: MIT\n", "MIT"),
        ("/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */", "GPL-2.0-only WITH Linux-syscall-note"),
        ("<!-- SPDX-License-Identifier: (MIT AND BSD-3-Clause) -->", "(MIT AND BSD-3-Clause)"),
        ("SPDX-License-Identifier: \n", None),
        ("MIT License", None),
    ],
)
def test_licence_tags(head, expression):
    assert spdx_tag(head) == expression


def test_compressed_files_are_unpacked_and_named_by_the_inner_ending():
    for pack, ending in ((gzip.compress, "gz"), (zstandard.compress, "zst")):
        row = read_file(pack(b"fn main() {}"), f"main.rs.{ending}")
        assert row["text"] == "fn main() {}"
        assert json.loads(row["metadata"]) == {"programming_language": "Rust"}


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("Größe der Brücke über den Fluß".encode("cp1252"), "cp1252"),
        ("注释：计算所有船只的总重量，然后返回结果。".encode("gb18030"), "gb18030"),
        ("Žluťoučký kůň".encode("utf-16"), "utf-16-le"),
    ],
)
def test_other_encodings_are_detected(data, encoding):
    row = read_file(data, "a.txt")
    assert row["text"] == data.decode("utf-16" if encoding == "utf-16-le" else encoding)
    assert json.loads(row["metadata"])["decoded"]["encoding"] == encoding


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n", b"a\0b", b"%PDF-1.7\n", b"PK\x03\x04", b"\x7fELF", b"\xff\xfea"]
)
def test_binary_files_are_no_documents(data):
    row = read_file(data, "a.txt")
    assert row["rule"] == "read.undecodable"
    assert row["text"] is None


def test_an_empty_file_is_an_empty_document():
    assert read_file(b"", "a.py")["text"] == ""


def test_the_limit_is_kept_on_both_sides_also_when_unpacking():
    for pack in (bytes, gzip.compress):
        assert read_file(pack(b"12345"), "a", max_bytes=5)["text"] == "12345"
        row = read_file(pack(b"12345"), "a", max_bytes=4)
        assert row["rule"] == "read.too_large"
    assert read_file(gzip.compress(bytes(1 << 28)), "bomb", max_bytes=1 << 20)["rule"] == "read.too_large"


def test_a_cut_file_is_truncated():
    rows = read_rows(Files(), gzip.compress(b"words and words")[:-5], "a.gz")
    assert rules(rows) == {"read.truncated": 1}
    assert not documents(rows)


def test_settings_pickle():
    assert pickle.loads(pickle.dumps(Files(max_bytes=3))) == Files(max_bytes=3)
