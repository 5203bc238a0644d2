"""Curate pretraining corpora: every document accounted for, every decision explained.

The Python interface is three functions, loaded when first used:

    recipe = curate.load("recipes/web_code_books.yaml")
    curate.check(recipe)                # the plan, without touching anything
    result = curate.run(recipe)         # a run folder; see README
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curate.loading import load
    from curate.recipe import Recipe
    from curate.runner import Plan, RunResult, check, run

__version__ = "0.1.0"
__all__ = ["Plan", "Recipe", "RunResult", "__version__", "check", "load", "run"]

_HOMES = {
    "load": "curate.loading",
    "Recipe": "curate.recipe",
    "check": "curate.runner",
    "run": "curate.runner",
    "Plan": "curate.runner",
    "RunResult": "curate.runner",
}


def __getattr__(name: str) -> Any:
    """Import the public names where they are used: `curate --help` must start at once."""
    if name not in _HOMES:
        raise AttributeError(f"module 'curate' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
