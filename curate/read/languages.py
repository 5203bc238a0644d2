"""Programming languages of files: by name, ending, interpreter line, editor's mode line and, where an ending is shared, content.

A shared ending (`.h`, `.m`, `.pl`, `.ts`, `.v` ...) is decided by the first rule of `SHARED` whose signs are in the
file's first 64 KiB, else it is the language named last. Signs are constructs that the other language does not have.
"""

from __future__ import annotations

import re
from functools import cache

LOOKED_AT = 64 << 10  # characters of a file in which signs are looked for

LANGUAGES = {
    "ABAP": "abap",
    "ActionScript": "as",
    "Ada": "adb ads",
    "Agda": "agda",
    "APL": "apl dyalog",
    "AppleScript": "applescript",
    "AsciiDoc": "adoc asciidoc",
    "Assembly": "asm a51 nasm",
    "Astro": "astro",
    "AWK": "awk gawk",
    "Batchfile": "bat cmd",
    "Bicep": "bicep",
    "BibTeX": "bib",
    "C": "c idc",
    "C#": "csx",
    "C++": "cc cpp cxx c++ hpp hxx h++ ipp tpp ixx",
    "Clojure": "clj cljs cljc edn",
    "CMake": "cmake",
    "COBOL": "cob cbl cpy",
    "CoffeeScript": "coffee",
    "Common Lisp": "lisp asd",
    "Crystal": "cr",
    "CSS": "css",
    "CSV": "csv tsv",
    "CUDA": "cu cuh",
    "Cython": "pyx pxd pxi",
    "D": "di",
    "Dart": "dart",
    "Diff": "diff patch",
    "Dockerfile": "dockerfile",
    "EJS": "ejs",
    "Elixir": "ex exs",
    "Elm": "elm",
    "Emacs Lisp": "el",
    "ERB": "erb",
    "Erlang": "erl hrl",
    "F#": "fsi fsx",
    "Fennel": "fnl",
    "Fortran": "f77 f90 f95 f03 f08",
    "GDScript": "gdscript",
    "Gettext": "po pot",
    "Gherkin": "feature",
    "GLSL": "glsl vert frag geom",
    "Go": "go",
    "Go module": "",
    "GraphQL": "graphql gql",
    "Groovy": "groovy gradle gvy",
    "Haml": "haml",
    "Handlebars": "hbs handlebars",
    "Haskell": "hs lhs",
    "Haxe": "hx",
    "HCL": "tf hcl tfvars",
    "HLSL": "hlsl fx fxh",
    "HTML": "html htm xhtml",
    "Idris": "idr",
    "INI": "ini cfg",
    "Java": "java",
    "JavaScript": "js mjs cjs jsx",
    "Jinja": "jinja jinja2 j2",
    "JSON": "json jsonc json5 geojson webmanifest",
    "Julia": "jl",
    "Jupyter Notebook": "ipynb",
    "Kotlin": "kt kts",
    "Lean": "lean",
    "Less": "less",
    "Linker Script": "ld lds",
    "Lua": "lua luau",
    "M4": "m4",
    "Makefile": "mk mak make",
    "Markdown": "markdown mkd mdx",
    "MATLAB": "matlab",
    "Meson": "",
    "Metal": "metal",
    "Nim": "nim nims",
    "Nix": "nix",
    "OCaml": "mli mll mly",
    "OpenCL": "opencl",
    "Org": "org",
    "Pascal": "pas dpr lpr",
    "Perl": "plx psgi pod",
    "PHP": "phtml php3 php4 php5",
    "PowerShell": "ps1 psm1 psd1",
    "Prolog": "prolog yap",
    "Protocol Buffer": "proto",
    "Pug": "pug jade",
    "PureScript": "purs",
    "Python": "py pyi pyw",
    "QML": "qml",
    "Racket": "rkt rktl",
    "Raku": "raku rakumod p6 pm6",
    "ReScript": "res resi",
    "reStructuredText": "rst",
    "R": "rmd",
    "Ruby": "rb rake gemspec ru",
    "SAS": "sas",
    "Sass": "sass",
    "Scala": "scala sbt",
    "Scheme": "scm ss sld",
    "SCSS": "scss",
    "Shell": "sh bash zsh ksh bats",
    "Solidity": "",
    "SPARQL": "rq sparql",
    "SQL": "sql",
    "Standard ML": "sml sig fun",
    "Starlark": "bzl star",
    "Stata": "do ado",
    "Stylus": "styl",
    "Svelte": "svelte",
    "SVG": "svg",
    "Swift": "swift",
    "SystemVerilog": "sv svh",
    "Tcl": "tcl tk",
    "TeX": "sty ltx dtx",
    "Thrift": "thrift",
    "TOML": "toml",
    "Turtle": "ttl",
    "Twig": "twig",
    "TypeScript": "mts cts",
    "Vala": "vala vapi",
    "Verilog": "vh vlg",
    "VHDL": "vhd vhdl",
    "Vim Script": "vim",
    "Visual Basic": "vb vbs",
    "Vue": "vue",
    "WebAssembly": "wat wast",
    "XML": "xml xsd xsl xslt rng csproj vcxproj props targets plist xaml",
    "Yacc": "y yy yacc",
    "YAML": "yaml yml",
    "Zig": "zig",
}
BY_EXTENSION = {extension: language for language, names in LANGUAGES.items() for extension in names.split()}

_XML = r"\A\s*<(?:\?xml|!DOCTYPE)"
_CPP = (
    r"^[ \t]*(?:template\s*<|class[ \t]+\w+(?:[ \t]+final)?[ \t]*(?::[^:;\n]{1,200})?\{?[ \t]*$"
    r"|namespace\s+\w|using\s+(?:namespace\s)?\w+|(?:public|private|protected)\s*:)"
    r"|\bstd::|^[ \t]*#\s*include\s*<(?:c?(?:string|math|stdint|stddef|stdlib|assert)|iostream|vector|memory|map|set|utility"
    r"|algorithm|functional|type_traits)>"
    r"|\b(?:static_cast|reinterpret_cast|constexpr|nullptr|noexcept)\b|\boperator\s*[=<>+\-*\[(]"
)
_OBJECTIVE_C = r"^[ \t]*(?:@(?:interface|implementation|protocol|class|property|end|import|synthesize|autoreleasepool)\b|#import\s)"
_APEX = (
    r"^[ \t]*(?:@\w+\s+)?(?:public|global|private)\s+(?:(?:with|without|inherited)\s+sharing\s+|virtual\s+|abstract\s+){0,3}"
    r"(?:class|interface|enum)\s"
)
_ASSEMBLY = r"^[ \t]*(?:%(?:macro|define|ifdef|include)\b|\.(?:macro|equ|globa?l|section|text|data)\b|\w+\s+(?:equ|macro|proc)\b|;\s)"
_COQ = (
    r"^[ \t]*(?:(?:Global|Local|Polymorphic)\s+)?"
    r"(?:Require|From\s+\w+\s+Require|Theorem|Lemma|Definition|Inductive|Fixpoint|Proof|Qed|Section|Notation)\b[^;\n]{0,300}[.:]"
)
_DEPENDENCIES = r"\A(?:[^\s:]+\.(?:o|d|lo|obj)\s+){0,9}[^\s:]+\.(?:o|d|lo|obj)\s*:\s"
# Ending -> rules in order: (language, signs); the last has no signs and takes what is left; None: no language is known.
SHARED: dict[str, tuple[tuple[str | None, str], ...]] = {
    "asc": (("AsciiDoc", r"^={1,5}\s+\w"), (None, "")),
    "bas": (("Visual Basic", r"^[ \t]*(?:Attribute\s+VB_|Option\s+Explicit|End\s+(?:Sub|Function)\b)"), ("BASIC", "")),
    "cl": (("OpenCL", r"\b__?kernel\b|\bget_global_id\b"), ("Common Lisp", r"^[ \t]*\((?:def\w+|in-package|let)"), (None, "")),
    "cls": (
        ("TeX", r"\\(?:ProvidesClass|NeedsTeXFormat|LoadClass|ProcessOptions)\b"),
        ("Visual Basic", r"^[ \t]*(?:VERSION\s+\d\.\d\s+CLASS|Attribute\s+VB_)"),
        ("Apex", _APEX),
        ("ObjectScript", r"^Class\s+%?[\w.]+"),
        (None, ""),
    ),
    "cs": (("Smalltalk", r"^!\w[\w ]*methodsFor:"), ("C#", "")),
    "d": (("DTrace", r"^[ \t]*(?:#pragma\s+D\b|\w*:\w*:\w*:\w*\s*(?:/|\{|$)|dtrace:::)"), ("Makefile", _DEPENDENCIES), ("D", "")),
    "e": (("Eiffel", r"^[ \t]*(?:feature|inherit|note|deferred\s+class|class\s+[A-Z_]+)\b"), (None, "")),
    "es": (("Erlang", r"^[ \t]*(?:%%|-module\(|main\s*\(.*?\)\s*->)"), ("JavaScript", "")),
    "f": (("Forth", r"^(?::\s+\S+\s|\\\s)"), ("Fortran", "")),
    "for": (("Forth", r"^(?::\s+\S+\s|\\\s)"), ("Fortran", "")),
    "fr": (("Forth", r"^(?::\s+\S+\s|\\\s)"), ("Frege", r"^[ \t]*module\s"), (None, "")),
    "fs": (
        ("GLSL", r"^[ \t]*(?:#version\s+\d|precision\s+\w+p|uniform\s|varying\s|void\s+main\s*\()|\bgl_Frag"),
        ("Forth", r"^(?::\s+\S+\s|\\\s)"),
        ("F#", ""),
    ),
    "gd": (("GAP", r"\b(?:DeclareOperation|DeclareAttribute|InstallMethod|BindGlobal)\b"), ("GDScript", "")),
    "h": (("Objective-C", _OBJECTIVE_C), ("C++", _CPP), ("C", "")),
    "hh": (("Hack", r"\A\s*<\?hh\b"), ("C++", "")),
    "inc": (
        ("PHP", r"<\?(?:php|=)"),
        ("Assembly", _ASSEMBLY),
        ("BitBake", r"^[ \t]*(?:SRC_URI|DEPENDS|RDEPENDS\S*|LICENSE|PV|SRCREV)\s*[?+:]?="),
        ("Pascal", r"(?i)^[ \t]*(?:\{\$\w+|procedure\s+\w+|function\s+\w+.*:\s*\w+;|unit\s+\w+;)"),
        ("SQL", r"(?i)^[ \t]*(?:create\s+(?:table|procedure|view)|insert\s+into|drop\s+table)\b"),
        ("C++", r"^[ \t]*(?:template\s*<|class\s+\w|namespace\s+\w)|\bstd::"),
        ("C", r"^[ \t]*#\s*(?:include|define|ifn?def|pragma)\b|^[ \t]*(?:static|extern|const|typedef|struct)\s"),
        (None, ""),
    ),
    "lsp": (("NewLisp", r"^[ \t]*\((?:define|context)\s"), ("Common Lisp", "")),
    "m": (
        ("Objective-C", _OBJECTIVE_C),
        ("Mercury", r"^:-\s*(?:module|interface|implementation|use_module|import_module|pred|func|type|mode)\b"),
        ("Mathematica", r"\A\s*\(\*|^[ \t]*(?:BeginPackage|Begin)\[|::usage\s*="),
        ("MATLAB", r"^[ \t]*(?:%|function\b|classdef\b|end\s*$|(?:clear|close|clc|hold|figure)\b)|\.\*|\.\^|\.\.\.\s*$"),
        ("Objective-C", r"^[ \t]*(?://|/\*|#\s*(?:include|define|ifn?def|pragma)\b|(?:static|extern|typedef|void|int|return)\b)"),
        ("MUMPS", r"^\w+\s*;"),
        ("MATLAB", ""),
    ),
    "md": (("GCC Machine Description", r"^[ \t]*\((?:define_(?:insn|expand|attr|predicate)|include)\b"), ("Markdown", "")),
    "ml": (("Standard ML", r"^[ \t]*(?:structure|signature|functor)\s+\w+\s*[:=]|\bval\s+\w+\s*=\s*fn\b"), ("OCaml", "")),
    "mm": (("XML", r"\A\s*<(?:map|\?xml)\b"), ("Objective-C++", "")),
    "mod": (
        ("Go module", r"^[ \t]*(?:module\s+\S+\s*$|go\s+\d\.\d+|require\s*\(?)"),
        ("Modula-2", r"^[ \t]*(?:IMPLEMENTATION\s+|DEFINITION\s+)?MODULE\s+\w+\s*;"),
        ("XML", _XML),
        ("AMPL", r"^[ \t]*(?:param|set|var|minimize|maximize|subject\s+to)\s+\w+.*[;:]"),
        (None, ""),
    ),
    "ms": (("Assembly", r"^[ \t]*\.(?:globa?l|text|data|include|macro)\b"), ("Roff", r"^[.'][A-Za-z]{2}\b"), (None, "")),
    "n": (("Roff", r"^[.'][A-Za-z]{2}\b"), ("Nemerle", r"^[ \t]*(?:module|namespace|using)\s"), (None, "")),
    "p": (("Gnuplot", r"^[ \t]*(?:s?plot|set\s+(?:term|output|title))\b"), ("OpenEdge ABL", r"^[ \t]*(?i:define)\s"), (None, "")),
    "php": (("Hack", r"\A\s*<\?hh\b"), ("PHP", "")),
    "pl": (
        ("Perl", r"\A#!.*\bperl|^[ \t]*(?:use\s+(?:strict|warnings|\w+::|v?5)|package\s+[\w:]+;|my\s+[$@%(]|sub\s+\w+\s*\{)"),
        ("Prolog", r"^[ \t]*:-|^[a-z]\w*(?:\([^\n]*\))?\s*:-|^[a-z]\w*\([^()\n]*\)\.\s*$"),
        ("Raku", r"^[ \t]*(?:use\s+v6\b|(?:my\s+)?class\s+\w+\s*(?:is\s+\w+\s*)?\{)"),
        ("Perl", ""),
    ),
    "pm": (("XPM", r"\A\s*/\*\s*XPM"), ("Raku", r"^[ \t]*(?:use\s+v6\b|unit\s+(?:module|class)\b)"), ("Perl", "")),
    "pp": (("Puppet", r"^[ \t]*(?:class\s+[\w:]+\s*(?:\(|\{|inherits)|define\s+[\w:]+|node\s+|\w+\s*\{\s*['\"$])|=>"), ("Pascal", "")),
    "pro": (
        ("Prolog", r"^[ \t]*:-|^[a-z]\w*(?:\([^\n]*\))?\s*:-"),
        ("QMake", r"^[ \t]*(?:TEMPLATE|QT|CONFIG|SOURCES|HEADERS|TARGET|SUBDIRS)\s*[+\-]?="),
        ("IDL", r"(?i)^[ \t]*(?:pro|function)\s+\w+.*$|^[ \t]*compile_opt\b"),
        ("Prolog", ""),
    ),
    "properties": (("Java Properties", ""),),
    "q": (("HiveQL", r"(?i)^[ \t]*(?:select|create\s+(?:table|view)|set\s+hive\.)\s"), ("q", "")),
    "r": (("Rebol", r"^[ \t]*(?i:rebol)\s{0,9}\["), ("R", "")),
    "rs": (("XML", _XML), ("RenderScript", r"^[ \t]*#pragma\s+(?:rs|version)\b"), ("Rust", "")),
    "s": (("Assembly", ""),),
    "sc": (("SuperCollider", r"^\+?[ \t]?\w+[ \t]?:[ \t]?\w+[ \t]?\{|^[ \t]*\*\w+[ \t]?\{|\bSynthDef\b|\^this\b"), ("Scala", "")),
    "sol": (("Gerber Image", r"^(?:%FS|D\d\d\*|M02\*)"), ("Solidity", "")),
    "st": (("Smalltalk", r"^!|\bsubclass:\s*#|\bifTrue:\s*\["), ("StringTemplate", r"\$\w+[$.;(]|<\w+>"), ("Smalltalk", "")),
    "t": (("Turing", r"^[ \t]*(?:put\s+\"|end\s+(?:for|loop|if)\b)"), ("Terra", r"^[ \t]*(?:terra\s+\w|local\s+\w+\s*=)"), ("Perl", "")),
    "tex": (("TeX", ""),),
    "toc": (("TeX", r"\\contentsline"), ("World of Warcraft Addon Data", r"^##\s*Interface:"), (None, "")),
    "ts": (("XML", r"\A\s*<(?:\?xml|!DOCTYPE\s+TS|TS)\b"), ("TypeScript", "")),
    "tsx": (("XML", _XML), ("TypeScript", "")),
    "v": (
        ("Coq", _COQ),
        ("Verilog", r"^[ \t]*(?:module\s+\w+\s*[#(;]|endmodule|`(?:timescale|include|define|ifdef)|always\s*@|assign\s)"),
        ("V", r"^[ \t]*(?:(?:pub\s+)?fn\s+[\w(]|module\s+\w+\s*$|import\s+\w+\s*$|\w+\s*:=\s)"),
        ("Verilog", ""),
    ),
    "vba": (("Vim Script", r"^UseVimball"), ("Visual Basic", "")),
    "y": (("Yacc", ""),),
}  # fmt: skip
_SHARED_UPPER = {"C": "C++", "H": "C++", "F": "Fortran", "R": "R", "S": "Assembly"}  # .C is no .c on Unix

BY_NAME = {
    "makefile": "Makefile",
    "gnumakefile": "Makefile",
    "bsdmakefile": "Makefile",
    "kbuild": "Makefile",
    "makefile.am": "Makefile",
    "makefile.in": "Makefile",
    "dockerfile": "Dockerfile",
    "containerfile": "Dockerfile",
    "cmakelists.txt": "CMake",
    "meson.build": "Meson",
    "meson_options.txt": "Meson",
    "rakefile": "Ruby",
    "gemfile": "Ruby",
    "vagrantfile": "Ruby",
    "podfile": "Ruby",
    "fastfile": "Ruby",
    "brewfile": "Ruby",
    "build": "Starlark",
    "build.bazel": "Starlark",
    "workspace": "Starlark",
    "workspace.bazel": "Starlark",
    "module.bazel": "Starlark",
    "tiltfile": "Starlark",
    "sconstruct": "Python",
    "sconscript": "Python",
    "wscript": "Python",
    "jenkinsfile": "Groovy",
    "procfile": "Procfile",
    "justfile": "Just",
    "configure.ac": "M4",
    "configure.in": "M4",
    "go.mod": "Go module",
    "go.sum": "Go checksums",
    "cargo.lock": "TOML",
    "poetry.lock": "TOML",
    "uv.lock": "TOML",
    "pipfile": "TOML",
    "pipfile.lock": "JSON",
    "composer.lock": "JSON",
    "flake.lock": "JSON",
    "yarn.lock": "YAML",
    "pkgbuild": "Shell",
    "apkbuild": "Shell",
    "gradlew": "Shell",
    ".bashrc": "Shell",
    ".bash_profile": "Shell",
    ".profile": "Shell",
    ".zshrc": "Shell",
    ".vimrc": "Vim Script",
    ".emacs": "Emacs Lisp",
    ".gitignore": "Ignore List",
    ".dockerignore": "Ignore List",
    ".npmignore": "Ignore List",
    ".gitattributes": "Git Attributes",
    ".gitmodules": "INI",
    ".editorconfig": "INI",
    ".clang-format": "YAML",
    ".eslintrc": "JSON",
    ".babelrc": "JSON",
    ".prettierrc": "JSON",
}
_NAME_STARTS = (("dockerfile.", "Dockerfile"), ("makefile.", "Makefile"), ("jenkinsfile.", "Groovy"))

SHEBANG = re.compile(r"#!\s*(?:/usr/bin/env\s+(?:-S\s+)?(?:-\w+\s+)*(?:\w+=\S+\s+)*)?(?:\S*/)?([A-Za-z+#]+)")
BY_INTERPRETER = {
    "python": "Python", "pypy": "Python", "perl": "Perl", "raku": "Raku", "ruby": "Ruby", "jruby": "Ruby",
    "node": "JavaScript", "nodejs": "JavaScript", "bun": "JavaScript", "deno": "TypeScript", "tsx": "TypeScript",
    "sh": "Shell", "bash": "Shell", "dash": "Shell", "zsh": "Shell", "ksh": "Shell", "ash": "Shell", "bats": "Shell",
    "fish": "fish", "php": "PHP", "lua": "Lua", "luajit": "Lua", "awk": "AWK", "gawk": "AWK", "tclsh": "Tcl",
    "wish": "Tcl", "expect": "Tcl", "rscript": "R", "julia": "Julia", "groovy": "Groovy", "make": "Makefile",
    "runhaskell": "Haskell", "stack": "Haskell", "guile": "Scheme", "racket": "Racket", "sbcl": "Common Lisp",
    "escript": "Erlang", "elixir": "Elixir", "scala": "Scala", "kotlin": "Kotlin", "swift": "Swift", "ocaml": "OCaml",
    "gnuplot": "Gnuplot", "pwsh": "PowerShell", "nix-shell": "Nix", "swipl": "Prolog", "osascript": "AppleScript",
    "crystal": "Crystal", "dart": "Dart", "gjs": "JavaScript",
}  # fmt: skip
_MODE_LINE = re.compile(
    r"-\*-\s*(?:(?:.{0,80}?;\s*)?(?i:mode):\s*)?([A-Za-z][\w+#\-]*)\s*(?:;.{0,80}?)?-\*-|\bvim?:.{0,60}?\b(?:ft|filetype)=(\w+)"
)
BY_MODE = {
    "c": "C", "c++": "C++", "cpp": "C++", "objc": "Objective-C", "java": "Java", "python": "Python", "perl": "Perl",
    "cperl": "Perl", "prolog": "Prolog", "ruby": "Ruby", "lisp": "Common Lisp", "common-lisp": "Common Lisp",
    "emacs-lisp": "Emacs Lisp", "scheme": "Scheme", "sh": "Shell", "shell-script": "Shell", "bash": "Shell",
    "makefile": "Makefile", "make": "Makefile", "javascript": "JavaScript", "js": "JavaScript", "php": "PHP",
    "fortran": "Fortran", "f90": "Fortran", "matlab": "MATLAB", "octave": "MATLAB", "mercury": "Mercury",
    "verilog": "Verilog", "coq": "Coq", "tcl": "Tcl", "sql": "SQL", "lua": "Lua", "yaml": "YAML", "tex": "TeX",
    "latex": "TeX", "haskell": "Haskell", "erlang": "Erlang", "rust": "Rust", "go": "Go", "asm": "Assembly",
    "cmake": "CMake", "conf": "INI", "dosini": "INI", "nroff": "Roff", "text": None,
}  # fmt: skip
_MAN_PAGE = re.compile(r"[1-9](?:[a-z]{0,4})")


@cache
def _names() -> dict[str, str]:
    """Return every language by its name in small letters."""
    tables = (BY_EXTENSION, BY_NAME, BY_INTERPRETER, BY_MODE, _SHARED_UPPER, dict.fromkeys(LANGUAGES))
    found = {*LANGUAGES, *(name for table in tables for name in table.values())}
    found |= {name for rules in SHARED.values() for name, _ in rules}
    return {name.lower(): name for name in found if name}


def is_language(name: str) -> bool:
    """Return whether this is the name of one of these languages; a short one as it is spelt here, for `lua` is Luba too."""
    known = _names().get(name.lower())
    return known is not None and (known == name or len(name) > 3)


def programming_language(name: str, text: str) -> str | None:
    """Return the programming or markup language of a file, or None.

    Args:
        name: File name without folders and without the ending of a compression.
        text: Its text, or the beginning of it.
    """
    lower = name.lower()
    if lower in BY_NAME:
        return BY_NAME[lower]
    for start, language in _NAME_STARTS:
        if lower.startswith(start) and not lower.endswith((".md", ".txt", ".py", ".rb", ".go")):
            return language
    written = name.rpartition(".")[2] if "." in name[1:] else ""
    extension = written.lower()
    if written in _SHARED_UPPER and written != extension:
        return _SHARED_UPPER[written]
    if extension in BY_EXTENSION:
        return BY_EXTENSION[extension]
    head = text[:LOOKED_AT]
    by_mode = _of_mode_line(head)
    if extension in SHARED:
        languages = [language for language, _ in SHARED[extension]]
        return by_mode if by_mode is not None and by_mode in languages else _of_signs(extension, head)
    if match := SHEBANG.match(head):
        return BY_INTERPRETER.get(match[1].lower())
    if _MAN_PAGE.fullmatch(extension) and re.search(r"""(?m)^[.'](?:TH|Dd|SH)\b""", head):
        return "Roff"
    return by_mode


def _of_mode_line(head: str) -> str | None:
    for line in head[:2000].splitlines()[:5]:
        if match := _MODE_LINE.search(line[:400]):
            return BY_MODE.get((match[1] or match[2]).lower())
    return None


def _of_signs(extension: str, head: str) -> str | None:
    for language, signs in SHARED[extension]:
        if not signs or _compiled(signs).search(head):
            return language
    return None


@cache
def _compiled(signs: str) -> re.Pattern[str]:
    return re.compile(signs, re.MULTILINE)
