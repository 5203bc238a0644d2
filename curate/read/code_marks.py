"""Marks of source files that nobody wrote by hand in this place: generated, vendored, minified. They remove nothing.

Each mark is a word that says by which rule it was given:

- generated: `name` (endings and names that generators give, such as `_pb2.py`), `lockfile`, `header` (a comment
  near the top says so: Go's "Code generated ... DO NOT EDIT", "@generated", "automatically generated"), `source_map`.
- vendored: the folder that the file lies in (`node_modules`, `vendor`, `third_party` ...), or `name` for copies of
  well-known libraries and wrappers that packages carry along (`jquery-3.7.1.js`, `gradlew`).
- minified: `name` (`.min.js` ...), or `line_length`: JavaScript or CSS with more than 110 characters a line on
  average, comments and blank lines apart.
"""

from __future__ import annotations

import re

HEAD_LINES = 60  # a generator signs near the top, often below a licence
HEAD_CHARACTERS = 16 << 10
MOST_MEAN_LINE = 110  # characters: what GitHub's linguist allows a JavaScript or CSS file


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


_LOCKFILES = _set("""package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock deno.lock cargo.lock cargo.toml.orig
    poetry.lock pdm.lock uv.lock pipfile.lock composer.lock gemfile.lock podfile.lock go.sum flake.lock mix.lock
    pubspec.lock gradle.lockfile packages.lock.json package.resolved conan.lock .terraform.lock.hcl pixi.lock""")
_GENERATED_NAME = re.compile(
    r"""(?ix) (?:
        _pb2(?:_grpc)?\.pyi?
      | \.pb(?:\.gw|\.validate)?\.go | \.pb\.(?:cc|h|swift|cpp) | _pb\.(?:js|d\.ts|rb) | \.pb2?\.dart
      | \.g\.(?:dart|cs|i\.cs) | \.freezed\.dart
      | \.designer\.(?:cs|vb) | \.generated\.\w+ | [._-]generated\.\w+ | _gen\.go | _string\.go
      | \.tab\.[ch](?:pp)? | \.yy\.c | \.js\.map | \.css\.map | \.xib | \.nib | -lock\.ya?ml
    ) $ | ^ (?: zz_generated\. .* | moc_\w+\.cpp | qrc_\w+\.(?:cpp|py) | ui_\w+\.h
        | aclocal\.m4 | ltmain\.sh | config\.(?:guess|sub) | __init__\.pb\.py ) $"""
)
_SIGNATURE = re.compile(
    r"""(?ix)
      @generated\b(?!\s+(?:tag|marker|annotation))
    | \b code \s generated \s (?: by | from ) \b
    | \b do \s not \s (?: edit | modify | change | hand-?edit ) \b
      (?: \s (?: this \s file | it | by \s hand | manually | directly ) | \s* (?: [.!,;:)*/\-#]|$ ) )
    | \b auto (?: matically )? [-_\s]? generated \b
      (?: \s (?: by | from | with | using | file | code | header | source | on | at ) \b | \s* (?: [.,;:!)*/\-]|$ ) )
    | \b generated \s automatically \b
    | \b (?: file | code | module | table | source | header )
      \s (?: is | was | has \s been ) \s (?: auto(?:matically)? [-\s]? )? generated \b
    | ^ [^\w]* generated \s (?: by | from | with | using | on ) \b
    | \b this \s is \s an? \s (?: auto (?:matically)? [-\s]? )? generated \s file \b
    """
)
_COMMENT = re.compile(r"\s{0,40}(?:#|//|/\*|\*|--|<!--|;|%|\"\"\"|'''|\(\*|\.\.|@rem\b|rem\b|dnl\b|\")", re.IGNORECASE)
_BLOCK_OPEN, _BLOCK_CLOSE = re.compile(r"/\*|<!--|\(\*|\"\"\"|'''"), re.compile(r"\*/|-->|\*\)|\"\"\"|'''")
_SOURCE_MAP = re.compile(r"(?://|/\*)[#@][ \t]*sourceMappingURL=")

_VENDORED_FOLDERS = _set("""node_modules bower_components jspm_packages vendor vendors vendored _vendor _vendored third_party third-party
    thirdparty 3rdparty 3rd_party 3rd-party external externals extern externs godeps pods carthage deps site-packages
    dist-packages .yarn .bundle .venv venv virtualenv __pypackages__""")
_VENDORED_NAME = re.compile(
    r"""(?ix) ^ (?:
        (?: jquery|bootstrap|angular|react|vue|ember|backbone|underscore|lodash|moment
        |d3|three|modernizr|require|prototype|mootools|foundation )
        (?: [.\-][a-z]+ ){0,3} [.\-] v?\d[\d.]* (?: [.\-][a-z]+ ){0,3} \.(?:js|css)
      | font-?awesome[\w.\-]* \.(?:css|scss|less) | normalize\.css | gradlew (?:\.bat)? | mvnw (?:\.cmd)? | gradle-wrapper\.properties
      | install-sh | missing | depcomp | compile | test-driver | config\.(?:guess|sub) | libtool\.m4 | lt\w+\.m4 | ltmain\.sh
      | catch2?\.hpp | sqlite3\.[ch] | stb_\w+\.h | doctest\.h
    ) $"""
)
_MINIFIED_NAME = re.compile(r"(?i)[.\-_]min\.(?:js|mjs|cjs|css|html|json)$|\.prod\.js$")
_LINES_COUNT = ("JavaScript", "CSS", "TypeScript")


def code_marks(path: str, text: str, language: str | None) -> dict[str, str]:
    """Return the marks of a file: `generated`, `vendored`, `minified`, each with the word for its rule.

    Args:
        path: Relative path with forward slashes; the folders of the input's own prefix are not in it.
        text: The file's text.
        language: Its programming language, as `curate.read.languages` names it.
    """
    folders, _, name = path.rpartition("/")
    marks = {
        "generated": _generated(name, text),
        "vendored": _vendored(folders, name),
        "minified": _minified(name, text, language),
    }
    return {mark: rule for mark, rule in marks.items() if rule}


def _generated(name: str, text: str) -> str:
    if name.lower() in _LOCKFILES:
        return "lockfile"
    if _GENERATED_NAME.search(name):
        return "name"
    is_open = False
    for line in text[:HEAD_CHARACTERS].splitlines()[:HEAD_LINES]:
        is_comment = is_open or _COMMENT.match(line) is not None
        if is_comment and _SIGNATURE.search(line[:400]):
            return "header"
        opened = [match.end() for match in _BLOCK_OPEN.finditer(line)]
        closed = [match.end() for match in _BLOCK_CLOSE.finditer(line)]
        if opened or closed:  # the last sign of the line decides; one that is both (\"\"\") turns over
            last = max(opened + closed)
            is_open = not is_open if last in opened and last in closed and len(opened) == 1 else last not in closed
    return "source_map" if _SOURCE_MAP.search(text, max(0, len(text) - 400)) else ""


def _vendored(folders: str, name: str) -> str:
    for folder in folders.lower().split("/"):
        if folder in _VENDORED_FOLDERS:
            return folder
    return "name" if _VENDORED_NAME.match(name) else ""


def _minified(name: str, text: str, language: str | None) -> str:
    if _MINIFIED_NAME.search(name):
        return "name"
    if language not in _LINES_COUNT:
        return ""
    lines = [line for line in text.splitlines() if line.strip() and not _COMMENT.match(line)]
    return "line_length" if lines and sum(map(len, lines)) > MOST_MEAN_LINE * len(lines) else ""
