"""Languages, licences and marks of source files: samples by hand, and the labelled files of real packages."""

import gzip
import json
import time
from pathlib import Path

import pytest
from reading import real_data

from curate.read.code_marks import code_marks
from curate.read.languages import SHARED, programming_language
from curate.read.licenses import (
    license_of_folder,
    license_of_header,
    license_of_manifest,
    license_of_name,
    license_of_text,
    spdx_tag,
)

# -- languages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("a.h", "#ifndef A_H\n#define A_H\nint area(int a);\n#endif\n", "C"),
        ("a.h", "#pragma once\n#include <vector>\nstd::vector<int> areas();\n", "C++"),
        ("a.h", "namespace lock {\nclass Gate : public Door {\npublic:\n};\n}\n", "C++"),
        ("a.h", "/* a class of gates */\nstruct gate { int width; };\n", "C"),
        ("a.h", "#import <Foundation/Foundation.h>\n@interface Lock : NSObject\n@end\n", "Objective-C"),
        ("a.m", '#import "Lock.h"\n@implementation Lock\n@end\n', "Objective-C"),
        ("a.m", "function a = area(r)\n% area of a circle\na = pi * r.^2;\nend\n", "MATLAB"),
        ("a.m", ":- module lock.\n:- interface.\n:- pred open(int::in) is det.\n", "Mercury"),
        ("a.m", '(* lock *)\nBeginPackage["Lock`"]\n', "Mathematica"),
        ("a.pl", "#!/usr/bin/perl\nuse strict;\nmy $x = 1;\n", "Perl"),
        ("a.pl", ":- use_module(library(lists)).\nopen(X) :- lock(X), key(X).\n", "Prolog"),
        ("a.pl", "parent(ann, bob).\nparent(bob, cid).\n", "Prolog"),
        ("a.pl", 'print "hello\\n";\n', "Perl"),
        ("a.ts", "export const x: number = 1;\n", "TypeScript"),
        ("a.ts", '<?xml version="1.0"?>\n<!DOCTYPE TS>\n<TS version="2.1"></TS>\n', "XML"),
        ("a.v", "module lock(input clk);\nalways @(posedge clk) q <= d;\nendmodule\n", "Verilog"),
        ("a.v", "Require Import Arith.\nTheorem plus_n_O : forall n, n = n + 0.\nProof. auto. Qed.\n", "Coq"),
        ("a.v", "module main\n\nfn main() {\n\tprintln('hello')\n}\n", "V"),
        ("a.r", "area <- function(r) pi * r^2\n", "R"),
        ("a.r", 'REBOL [Title: "lock"]\nprint 1\n', "Rebol"),
        ("a.s", "\t.text\n\t.globl main\nmain:\n\tret\n", "Assembly"),
        ("a.inc", "<?php\nfunction area($r) {}\n", "PHP"),
        ("a.inc", "%macro open 1\n mov eax, %1\n%endmacro\n", "Assembly"),
        ("a.inc", "#define WIDTH 7\nstatic int open(void);\n", "C"),
        ("a.inc", "just words\n", None),
        ("a.cls", "\\NeedsTeXFormat{LaTeX2e}\n\\ProvidesClass{lock}\n", "TeX"),
        ("a.cls", 'VERSION 1.0 CLASS\nBEGIN\nEND\nAttribute VB_Name = "Lock"\n', "Visual Basic"),
        ("a.cls", "public with sharing class Lock {\n}\n", "Apex"),
        ("a.fs", "module Lock\nlet area r = r * r\n", "F#"),
        ("a.fs", "#version 330\nvoid main() { gl_FragColor = vec4(1.0); }\n", "GLSL"),
        ("a.fs", ": area ( r -- a ) dup * ;\n", "Forth"),
        ("a.d", "import std.stdio;\nvoid main() {}\n", "D"),
        ("a.d", "lock.o: lock.c lock.h\n", "Makefile"),
        ("a.pp", "class lock::gate {\n  file { '/etc/lock': ensure => present }\n}\n", "Puppet"),
        ("a.pp", "program lock;\nbegin\n  writeln('x');\nend.\n", "Pascal"),
        ("a.pro", "QT += core\nSOURCES += main.cpp\n", "QMake"),
        ("a.md", "# Lock\n\nWords.\n", "Markdown"),
        ("a.ml", "let area r = r * r\n", "OCaml"),
        ("a.ml", "structure Lock = struct\nval f = fn x => x\nend\n", "Standard ML"),
        ("go.mod", "module example.org/lock\n\ngo 1.22\n", "Go module"),
        ("a.C", "int x;\n", "C++"),
        ("a.c", "class Lock {}\n", "C"),
        ("lock.1", ".TH LOCK 1\n.SH NAME\n", "Roff"),
        ("lock.1", "1.1 first section\n", None),
        ("Makefile.am", "bin_PROGRAMS = lock\n", "Makefile"),
        ("Dockerfile.prod", "FROM debian\n", "Dockerfile"),
        ("a.m", "% -*- mode: mercury -*-\nx.\n", "Mercury"),
        ("lock", "/* -*- Mode: C++; tab-width: 4 -*- */\n", "C++"),
        ("lock", "# -*- coding: utf-8 -*-\n", None),
        ("lock", "#!/usr/bin/env -S deno run\n", "TypeScript"),
    ],
)
def test_languages_of_shared_endings(name, text, language):
    assert programming_language(name, text) == language


def test_every_shared_ending_is_decided_for_an_empty_file():
    for extension, rules in SHARED.items():
        assert programming_language(f"a.{extension}", "") == rules[-1][0]
        assert not rules[-1][1], f"the last rule of .{extension} must take what is left"


def test_no_text_takes_long_to_tell():
    for piece in (
        "\n",
        " ",
        "\t\n",
        "a.o ",
        "(",
        "class a ",
        ":-",
        "a(",
        "<a ",
        "module x",
        "/* ",
        "#",
        "licen",
        '"""',
        "-*-",
    ):
        text = piece * (400_000 // len(piece))
        start = time.process_time()
        for extension in SHARED:
            programming_language(f"a.{extension}", text)
        code_marks("vendor/a.js", text, "JavaScript")
        license_of_text(text)
        license_of_header(text[:4096])
        spdx_tag(text)
        for name in ("pom.xml", "setup.cfg", "a.gemspec", "DESCRIPTION", "package.json", "Cargo.toml"):
            license_of_manifest(name, text.encode())
        assert time.process_time() - start < 8, repr(piece)


# -- licences ----------------------------------------------------------------------------------------------------------

MIT = """MIT License

Copyright (c) 2020 A. Keeper

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.
"""
BSD2 = """Redistribution and use in source and binary forms, with or without
modification, are permitted provided that the following conditions are met:

1. Redistributions of source code must retain the above copyright notice, this
   list of conditions and the following disclaimer.
2. Redistributions in binary form must reproduce the above copyright notice.
"""
BSD3 = (
    BSD2 + "3. Neither the name of the copyright holder may be used to endorse or promote products derived from it.\n"
)
ISC = """Permission to use, copy, modify, and/or distribute this software for any
purpose with or without fee is hereby granted, provided that the above
copyright notice and this permission notice appear in all copies.
"""
ZLIB = """This software is provided 'as-is', without any express or implied warranty.
2. Altered source versions must be plainly marked as such, and must not be misrepresented.
3. This notice may not be removed or altered from any source distribution.
"""
APACHE_NOTICE = """Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License."""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (MIT, "MIT"),
        (BSD2, "BSD-2-Clause"),
        (BSD3, "BSD-3-Clause"),
        (ISC, "ISC"),
        (
            ISC.replace(
                ", provided that the above\ncopyright notice and this permission notice appear in all copies", ""
            ),
            "0BSD",
        ),
        (ZLIB, "Zlib"),
        ("This is free and unencumbered software released into the public domain.", "Unlicense"),
        (
            "Boost Software License - Version 1.0 - August 17th, 2003\n\nPermission is hereby granted, free of charge, to any",
            "BSL-1.0",
        ),
        ("Eclipse Public License - v 2.0\n", "EPL-2.0"),
        ("Creative Commons Attribution-ShareAlike 4.0 International Public License", "CC-BY-SA-4.0"),
        ("Business Source License 1.1\n", "BUSL-1.1"),
        (BSD3 + "\n\nBundled code:\n\n" + MIT, "BSD-3-Clause"),  # a project's own stands first
        ("All rights reserved. Ask before you use it.", None),
        ("", None),
    ],
)
def test_licence_texts(text, name):
    assert license_of_text(text) == name


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("Apache-2.0", "Apache-2.0"),
        ("CC0-1.0", "CC0-1.0"),
        ("GPL-1", "GPL-1.0"),
        ("GPL-2", "GPL-2.0"),
        ("GPL-3", "GPL-3.0"),
        ("LGPL-2", "LGPL-2.0"),
        ("LGPL-2.1", "LGPL-2.1"),
        ("LGPL-3", "LGPL-3.0"),
        ("MPL-1.1", "MPL-1.1"),
        ("MPL-2.0", "MPL-2.0"),
        ("GFDL-1.3", "GFDL-1.3"),
        ("BSD", "BSD-3-Clause"),
    ],
)
def test_licence_texts_as_debian_ships_them(file, name):
    path = Path("/usr/share/common-licenses") / file
    if not path.is_file():
        pytest.skip(f"NO {path}: this is not Debian")
    assert license_of_text(path.read_text(encoding="utf-8", errors="replace")) == name


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (f"/*\n * {APACHE_NOTICE}\n */", "Apache-2.0"),
        ("// This file is licensed under the MIT License.", "MIT"),
        (
            "# it under the terms of the GNU General Public License as published by\n# the Free Software Foundation; either "
            "version 2 of the License, or\n# (at your option) any later version.",
            "GPL-2.0-or-later",
        ),
        ("# under the terms of the GNU General Public License version 2 as\n# published by the FSF.", "GPL-2.0-only"),
        ("; under the terms of the GNU Lesser General Public License, version 2.1, or later", "LGPL-2.1-or-later"),
        ("// This Source Code Form is subject to the terms of the Mozilla Public\n// License, v. 2.0.", "MPL-2.0"),
        ("// Distributed under the Boost Software License, Version 1.0.", "BSL-1.0"),
        ("\n".join(f"// {line}" for line in MIT.splitlines()), "MIT"),
        ("// See https://creativecommons.org/licenses/by-sa/4.0/", "CC-BY-SA-4.0"),
        ("// Use of this source code is governed by a BSD-style license that can be found in the LICENSE file.", None),
        ("int licensed = 1;", None),
    ],
)
def test_notices(head, name):
    assert (license_of_header(head) or None) == name


def test_tags_stand_in_comments_only():
    assert spdx_tag("# SPDX-FileCopyrightText: 2020 A\n#\n# SPDX-License-Identifier: Apache-2.0\n") == "Apache-2.0"
    assert spdx_tag("rem SPDX-License-Identifier: MIT\n") == "MIT"
    assert spdx_tag('if tag == "the SPDX-License-Identifier: of a file":\n') is None


@pytest.mark.parametrize(
    ("written", "expression"),
    [
        ("MIT", "MIT"),
        ("MIT OR Apache-2.0", "MIT OR Apache-2.0"),
        ("MIT/Apache-2.0", "MIT OR Apache-2.0"),
        ("(MIT AND Zlib) OR Apache-2.0 WITH LLVM-exception", "(MIT AND Zlib) OR Apache-2.0 WITH LLVM-exception"),
        ("Apache License 2.0", "Apache-2.0"),
        ("BSD 3-Clause License", "BSD-3-Clause"),
        ("MIT License", "MIT"),
        ("SEE LICENSE IN license.txt", None),
        ("BSD", None),
        ("Copyright 2020 A. Keeper", None),
        ("", None),
    ],
)
def test_names_in_package_metadata(written, expression):
    assert license_of_name(written) == expression


@pytest.mark.parametrize(
    ("file", "content", "expression"),
    [
        ("package.json", '{"name": "x", "license": "ISC"}', "ISC"),
        ("package.json", '{"licenses": [{"type": "MIT"}, {"type": "Apache-2.0"}]}', "MIT OR Apache-2.0"),
        ("package.json", "{broken", None),
        ("package.json", "[1]", None),
        ("Cargo.toml", '[package]\nname = "x"\nlicense = "MIT OR Apache-2.0"\n', "MIT OR Apache-2.0"),
        ("Cargo.toml", "[package]\nlicense.workspace = true\n", None),
        ("pyproject.toml", '[project]\nlicense = "BSD-3-Clause"\n', "BSD-3-Clause"),
        ("pyproject.toml", '[project]\nlicense = {text = "MIT License"}\n', "MIT"),
        ("pyproject.toml", '[project]\nlicense = {file = "LICENSE"}\n', None),
        ("pyproject.toml", '[project]\nclassifiers = ["License :: OSI Approved :: MIT License"]\n', "MIT"),
        ("pyproject.toml", '[tool.poetry]\nlicense = "Apache-2.0"\n', "Apache-2.0"),
        ("setup.cfg", "[metadata]\nname = x\nlicense = MIT\n", "MIT"),
        ("x.gemspec", "Gem::Specification.new do |spec|\n  spec.license = 'MIT'\nend\n", "MIT"),
        ("x.cabal", "name: x\nlicense:            BSD-3-Clause\n", "BSD-3-Clause"),
        ("DESCRIPTION", "Package: x\nLicense: MIT + file LICENSE\n", "MIT"),
        (
            "pom.xml",
            "<project><licenses><license><name>Apache License, Version 2.0</name></license></licenses></project>",
            "Apache-2.0",
        ),
    ],
)
def test_package_metadata(file, content, expression):
    assert license_of_manifest(file, content.encode()) == expression


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"LICENSE": MIT}, ("MIT", "LICENSE")),
        ({"LICENCE.md": MIT, "main.c": "x"}, ("MIT", "LICENCE.md")),
        ({"license.py": MIT}, None),
        ({"LICENSE": "Ask us.", "COPYING": MIT}, ("MIT", "COPYING")),
        ({"LICENSE": "Ask us."}, ("NOASSERTION", "LICENSE")),
        (
            {"LICENSE-MIT": MIT, "LICENSE-APACHE": "Apache License\nVersion 2.0, January 2004"},
            ("Apache-2.0 AND MIT", "LICENSE-APACHE"),
        ),
        (
            {"LICENSE-MIT": MIT, "Cargo.toml": '[package]\nlicense = "MIT OR Apache-2.0"'},
            ("MIT OR Apache-2.0", "Cargo.toml"),
        ),
        ({"LICENSE": MIT, "LICENSE.docs": ZLIB}, ("MIT", "LICENSE")),
        ({"package.json": "{}"}, None),
        (
            {
                "COPYING": "GNU GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007",
                "COPYING.LESSER": "GNU LESSER GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007",
            },
            ("LGPL-3.0", "COPYING.LESSER"),
        ),
    ],
)
def test_the_licence_of_a_folder(files, found):
    assert license_of_folder([(name, text.encode()) for name, text in files.items()]) == found


# -- marks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text", "marks"),
    [
        ("a.go", "// Code generated by protoc-gen-go. DO NOT EDIT.\npackage a\n", {"generated": "header"}),
        ("a.py", "# @generated by tool\nx = 1\n", {"generated": "header"}),
        ("a.c", "/*\n * This file was automatically generated by SWIG.\n */\nint x;\n", {"generated": "header"}),
        ("a.py", '"""Lock.\n\nDo not edit this file; run make.\n"""\nx = 1\n', {"generated": "header"}),
        ("a.py", "# do not edit this line unless you know why\nx = 1\n", {}),
        ("a.py", 'x = 1\nprint("automatically generated, do not edit")\n', {}),
        ("a.py", "x = 1\n" * 70 + "# Code generated by hand. DO NOT EDIT.\n", {}),
        ("a_pb2.py", "x = 1\n", {"generated": "name"}),
        ("api.pb.go", "package a\n", {"generated": "name"}),
        ("web/yarn.lock", "# yarn lockfile v1\n", {"generated": "lockfile"}),
        ("web/package-lock.json", "{}\n", {"generated": "lockfile"}),
        ("a.js", "var a = 1;\n//# sourceMappingURL=a.js.map\n", {"generated": "source_map"}),
        ("web/node_modules/a/index.js", "var a;\n", {"vendored": "node_modules"}),
        ("pip/_vendor/idna/core.py", "x = 1\n", {"vendored": "_vendor"}),
        ("third_party/a.c", "int x;\n", {"vendored": "third_party"}),
        ("vendors.py", "x = 1\n", {}),
        ("web/jquery-3.7.1.js", "var a;\n", {"vendored": "name"}),
        ("src/jquery.js", "var a;\n", {}),
        ("gradlew", "#!/bin/sh\n", {"vendored": "name"}),
        ("web/jquery-3.7.1.min.js", "var a;", {"vendored": "name", "minified": "name"}),
        ("a.min.css", "a{b:c}", {"minified": "name"}),
        ("a.js", "var a=1;" + "b" * 103, {"minified": "line_length"}),  # 111 characters
        ("a.js", "var a=1;" + "b" * 102, {}),  # 110
        ("a.js", "/* " + "words " * 60 + "*/\nvar a = 1;\n\n\n", {}),
        ("a.txt", "words " * 100, {}),
    ],
)
def test_marks(path, text, marks):
    assert code_marks(path, text, programming_language(path.rpartition("/")[2], text)) == marks


def test_labelled_files_of_real_packages():
    """Languages by package; marks as labelled by whoever collected the files, in whose rules names count for less."""
    languages = agreed = minified = minified_found = generated = generated_found = vendored = vendored_found = 0
    with gzip.open(real_data("05_code") / "code.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            file = json.loads(line)
            language = programming_language(file["path"].rpartition("/")[2], file["text"])
            languages += 1
            agreed += language == file["language"] or (file["language"] == "C" and language in ("C++", "Objective-C"))
            marks = code_marks(file["path"], file["text"], language)
            minified, minified_found = (
                minified + ("minified" in file["tags"]),
                minified_found + ("minified" in file["tags"] and "minified" in marks),
            )
            generated += "generated" in file["tags"]
            generated_found += "generated" in file["tags"] and "generated" in marks
            vendored, vendored_found = (
                vendored + ("vendored" in file["tags"]),
                vendored_found + ("vendored" in file["tags"] and "vendored" in marks),
            )
    assert agreed == languages == 3601
    assert minified_found == minified == 22
    assert (vendored_found, vendored) == (367, 369)  # two headers of zstd in a folder named after it
    assert generated_found / generated > 0.85  # the others speak of generators, or of one line not to be edited
