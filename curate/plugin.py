"""A user's own step: `module:Class` from a file in the recipe's folder, run only with --allow-code.

The file may import other Python files of that folder. Which of them it needs is not known before it runs, so all of them
decide its name and with it every key that depends on it: a change of a helper redoes the work.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from curate.errors import UsageError
from curate.stage import MEASURED_TYPES, Step


class _Fresh(SourceFileLoader):
    """Reads the source itself: compiled files are told from old ones by whole seconds and size alone."""

    def get_code(self, fullname: str) -> CodeType:
        del fullname
        return self.source_to_code(self.get_data(self.path), self.path)


class _Helpers(MetaPathFinder):
    """Finds files beside a plug-in, after everything that can be imported anyway. Leaves the search path alone."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.digest = ""
        self.names: set[str] = set()

    def open(self, folder: Path, digest: str) -> None:
        """Look in this folder from now on; modules of another one, or of other contents, are forgotten."""
        if (folder, digest) != (self.folder, self.digest):
            for name in self.names:
                sys.modules.pop(name, None)
            self.names.clear()
            self.folder, self.digest = folder, digest
        if self not in sys.meta_path:
            sys.meta_path.append(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del target
        file = None if self.folder is None or path is not None else self.folder / f"{fullname}.py"
        if file is None or "." in fullname or not file.is_file():
            return None
        self.names.add(fullname)
        return importlib.util.spec_from_file_location(fullname, file, loader=_Fresh(fullname, str(file)))


_HELPERS = _Helpers()


def load_module(name: str, path: Path) -> ModuleType:
    """Import the file as module `name`, so that its classes pickle by reference in every worker.

    Files beside it can be imported by it, unless a library has the same name. One folder is open at a time: that of the
    module loaded last.

    Raises:
        UsageError: If importing it fails; the last line of the user's code that ran is named.
    """
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == str(path):
        return sys.modules[name]
    _HELPERS.open(path.parent, name.rpartition("_")[2])
    spec = importlib.util.spec_from_file_location(name, path, loader=_Fresh(name, str(path)))
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file that can be imported.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(
            f"{_place(error, path)}: importing it failed: {type(error).__name__}: {_one_line(error)}"
        ) from error
    return module


def module_name(path: Path) -> str:
    """Return the name under which a plug-in file is imported: content decides, so two versions never mix.

    The digest is over names and contents of all `*.py` files of its folder, in the order of their names.
    """
    digest = hashlib.sha256()
    for file in sorted(path.parent.glob("*.py"), key=lambda file: file.name):
        content = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
        digest.update(f"{file.name}\0{content}\n".encode())
    return f"curate_plugin_{path.stem}_{digest.hexdigest()[:16]}"


def step_class(module: ModuleType, name: str) -> type[Step]:
    """Return the step of that name, its declarations checked.

    Raises:
        UsageError: If there is no such step, or it declares what the pipeline cannot use.
    """
    file = module.__file__
    found = getattr(module, name, None)
    if not isinstance(found, type) or not issubclass(found, Step):
        own = [key for key, value in vars(module).items() if _is_own_step(module, value)]
        has = f"it has {', '.join(own)}" if own else "it has none"
        raise UsageError(f"{file} has no class {name} that derives from curate.stage.Step; {has}.")
    adds: Any = found.adds
    allowed = ", ".join(MEASURED_TYPES)
    if not isinstance(adds, Mapping):
        raise UsageError(f"{file}: {name}.adds must be a mapping from column to type ({allowed}); got {adds!r}.")
    for column, kind in adds.items():
        if not isinstance(column, str) or not column:
            raise UsageError(f"{file}: {name}.adds: a column's name must be text; got {column!r}.")
        if kind not in MEASURED_TYPES:
            raise UsageError(
                f"{file}: {name}.adds: the type of column '{column}' must be one of {allowed}; got {kind!r}."
            )
    reads: Any = found.reads
    if not isinstance(reads, tuple) or not all(isinstance(column, str) for column in reads):
        raise UsageError(f"{file}: {name}.reads must be a tuple of column names; got {reads!r}.")
    if "apply" in getattr(found, "__abstractmethods__", ()):
        raise UsageError(f"{file}: {name} has no method apply.")
    return found


def _is_own_step(module: ModuleType, value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Step) and value.__module__ == module.__name__


def _place(error: BaseException, path: Path) -> str:
    """Return file and line of the innermost frame of the error that lies in the plug-in's folder."""
    place, trace = str(path), error.__traceback__
    if isinstance(error, SyntaxError) and error.filename is not None and Path(error.filename).parent == path.parent:
        return f"{error.filename}:{error.lineno}"
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if Path(file).parent == path.parent:
            place = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _one_line(error: BaseException) -> str:
    """Return the error's message in one line, without the links that pydantic adds."""
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    lines = [line.strip() for line in message.splitlines()]
    return " ".join(line for line in lines if line and not line.startswith("For further information")).rstrip(".") + "."
