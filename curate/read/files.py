"""Source code and plain text: one document a file."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from curate.read.compression import read_chunks, refusal
from curate.read.rows import MAX_RECORD_BYTES, Rows
from curate.stage import Source
from curate.text.decoding import decode

if TYPE_CHECKING:
    import pyarrow as pa

HEAD_BYTES = 16 << 10
SHEBANG = re.compile(r"#!\s*(?:/usr/bin/env\s+(?:-S\s+)?(?:\w+=\S+\s+)*)?(?:\S*/)?([A-Za-z+#]+)")
SPDX = re.compile(r"SPDX-License-Identifier:[ \t]*([A-Za-z0-9.+\-:() \t]+)")
# Binary formats whose first kilobytes can look like text.
BINARY_MAGIC = (b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"\x7fELF", b"wOFF", b"wOF2", b"\xca\xfe\xba\xbe")

LANGUAGES = {
    "Ada": "adb ads",
    "Assembly": "asm s",
    "AWK": "awk",
    "Batchfile": "bat cmd",
    "C": "c h",
    "C#": "cs csx",
    "C++": "cc cpp cxx c++ hh hpp hxx h++ ipp tpp",
    "Clojure": "clj cljs cljc edn",
    "CMake": "cmake",
    "CoffeeScript": "coffee",
    "Common Lisp": "lisp lsp cl",
    "Crystal": "cr",
    "CSS": "css",
    "CUDA": "cu cuh",
    "Cython": "pyx pxd pxi",
    "D": "d di",
    "Dart": "dart",
    "Dockerfile": "dockerfile",
    "Elixir": "ex exs",
    "Elm": "elm",
    "Emacs Lisp": "el",
    "Erlang": "erl hrl",
    "F#": "fs fsi fsx",
    "Fortran": "f f77 f90 f95 f03 f08 for",
    "Go": "go",
    "GraphQL": "graphql gql",
    "Groovy": "groovy gradle",
    "Haskell": "hs lhs",
    "HCL": "tf hcl",
    "HTML": "html htm xhtml",
    "INI": "ini cfg",
    "Java": "java",
    "JavaScript": "js mjs cjs jsx",
    "JSON": "json",
    "Julia": "jl",
    "Kotlin": "kt kts",
    "Less": "less",
    "Lua": "lua",
    "Makefile": "mk mak",
    "Markdown": "md markdown mkd",
    "MATLAB": "matlab",
    "Nim": "nim",
    "Nix": "nix",
    "Objective-C": "m mm",
    "OCaml": "ml mli",
    "Pascal": "pas pp",
    "Perl": "pl pm",
    "PHP": "php phtml",
    "PowerShell": "ps1 psm1 psd1",
    "Prolog": "pro",
    "Protocol Buffer": "proto",
    "Python": "py pyi pyw",
    "R": "r rmd",
    "Racket": "rkt",
    "reStructuredText": "rst",
    "Ruby": "rb rake gemspec",
    "Rust": "rs",
    "Sass": "sass",
    "Scala": "scala sc",
    "Scheme": "scm ss",
    "SCSS": "scss",
    "Shell": "sh bash zsh ksh",
    "Solidity": "sol",
    "SQL": "sql",
    "Svelte": "svelte",
    "Swift": "swift",
    "Tcl": "tcl",
    "TeX": "tex sty cls",
    "TOML": "toml",
    "TypeScript": "ts tsx mts cts",
    "Verilog": "v vh sv svh",
    "VHDL": "vhd vhdl",
    "Vim Script": "vim",
    "Visual Basic": "vb vbs bas",
    "Vue": "vue",
    "XML": "xml xsd xsl xslt",
    "YAML": "yaml yml",
    "Zig": "zig",
}
BY_EXTENSION = {extension: language for language, names in LANGUAGES.items() for extension in names.split()}
BY_NAME = {
    "makefile": "Makefile",
    "gnumakefile": "Makefile",
    "dockerfile": "Dockerfile",
    "containerfile": "Dockerfile",
    "cmakelists.txt": "CMake",
    "rakefile": "Ruby",
    "gemfile": "Ruby",
    "build.bazel": "Starlark",
    "sconstruct": "Python",
    "jenkinsfile": "Groovy",
}
BY_INTERPRETER = {
    "python": "Python",
    "pypy": "Python",
    "perl": "Perl",
    "ruby": "Ruby",
    "node": "JavaScript",
    "nodejs": "JavaScript",
    "deno": "TypeScript",
    "sh": "Shell",
    "bash": "Shell",
    "dash": "Shell",
    "zsh": "Shell",
    "ksh": "Shell",
    "ash": "Shell",
    "php": "PHP",
    "lua": "Lua",
    "awk": "AWK",
    "gawk": "AWK",
    "tclsh": "Tcl",
    "wish": "Tcl",
    "rscript": "R",
    "julia": "Julia",
    "groovy": "Groovy",
    "make": "Makefile",
    "runhaskell": "Haskell",
    "guile": "Scheme",
    "racket": "Racket",
    "escript": "Erlang",
    "elixir": "Elixir",
}


class Files(Source):
    """Files that are documents: source code, plain text. Compressed ones (gzip, zstd, lz4) are unpacked.

    Attributes:
        max_bytes: Largest file after unpacking; a larger one is removed as `read.too_large`.

    The text is unchanged but for its encoding. The metadata holds `programming_language` (by file name, extension or
    interpreter line), `license` (an SPDX tag in the first 16 KiB) and, if it is not plain UTF-8, `decoded`.
    Rules: read.too_large, read.undecodable (binary files), read.truncated, read.bad_record.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("charset-normalizer", "lz4", "resiliparse", "zstandard")

    max_bytes: int = Field(default=MAX_RECORD_BYTES, ge=1)

    def read(self, file: IO[bytes], name: str) -> Iterator[pa.RecordBatch]:
        """Yield one RAW batch of one row."""
        rows = Rows()
        rows.add(0, **self._values(file, name))
        yield rows.flush()

    def _values(self, file: IO[bytes], name: str) -> dict[str, Any]:
        kind, chunks = read_chunks(file)
        data = io.BytesIO()
        for chunk in chunks:
            if chunk.problem:
                return _bad("read.truncated" if chunk.at_end else "read.bad_record", name, chunk.problem)
            data.write(chunk.data)
            if data.tell() > self.max_bytes:
                limit = f"the file exceeds the limit of {self.max_bytes} bytes (max_bytes). Raise max_bytes to read it"
                return _bad("read.too_large", name, limit)
        content = data.getvalue()
        if is_binary(content):
            why = refusal(content) or "a binary file, text was expected. Exclude it from the paths"
            return _bad("read.undecodable", name, why)
        decoded = decode(content)
        head = decoded.text[:HEAD_BYTES]
        metadata: dict[str, Any] = {}
        path = PurePosixPath(name.replace("\\", "/"))
        language = programming_language(path.stem if kind != "plain" else path.name, head)
        if language:
            metadata["programming_language"] = language
        if license_tag := spdx_license(head):
            metadata["license"] = license_tag
        if not decoded.exact:
            metadata["decoded"] = decoded.note
        return {
            "text": decoded.text,
            "media_type": "text/plain",
            "metadata": json.dumps(metadata, ensure_ascii=False, separators=(",", ":")) if metadata else None,
        }


def programming_language(name: str, head: str) -> str | None:
    """Return the programming or markup language of a file, or None.

    Args:
        name: File name without folders and without the ending of a compression.
        head: The first characters of its text.
    """
    lower = name.lower()
    if lower in BY_NAME:
        return BY_NAME[lower]
    extension = lower.rpartition(".")[2] if "." in lower[1:] else ""
    if extension in BY_EXTENSION:
        return BY_EXTENSION[extension]
    match = SHEBANG.match(head)
    return BY_INTERPRETER.get(match[1].lower()) if match else None


def spdx_license(head: str) -> str | None:
    """Return the licence expression of an SPDX tag (SPDX 2.3, annex E), or None."""
    match = SPDX.search(head)
    if match is None:
        return None
    return re.sub(r"\s+", " ", match[1]).strip().rstrip("-").strip() or None  # "-->" closes an XML comment


def is_binary(content: bytes) -> bool:
    """Whether a file is no text: it holds NUL bytes (UTF-16 and UTF-32 with a mark apart) or a binary format's mark."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return len(content) % 2 == 1
    return content.startswith(BINARY_MAGIC) or b"\0" in content or bool(refusal(content))


def _bad(rule: str, name: str, why: str) -> dict[str, Any]:
    return {"rule": rule, "detail": f"{name}: {why}"}
