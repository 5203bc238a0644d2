"""A user's own step: `module:Class` from a file in the recipe's folder, run only with --allow-code."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from curate.errors import UsageError


def load_module(name: str, path: Path) -> ModuleType:
    """Import the file as module `name`, so that its classes pickle by reference in every worker."""
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == str(path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file that can be imported.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UsageError(f"{path}: importing it failed: {type(error).__name__}: {error}") from error
    return module


def module_name(path: Path) -> str:
    """Return the name under which a plug-in file is imported: its content decides, so two versions never mix."""
    return f"curate_plugin_{path.stem}_{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
