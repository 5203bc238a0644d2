"""The rules of a run, from its resolved recipe: what was asked of each measurement, also where nothing fired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from curate.errors import RecipeError
from curate.report.run import RunFolder
from curate.stage import Rule, bound_for

if TYPE_CHECKING:
    from curate.recipe import Recipe


def resolved_recipe(run: RunFolder) -> Recipe | None:
    """Return the run's recipe; None if it is absent, or needs code that only `--allow-code` may load."""
    from curate.loading import load

    if not run.recipe_text.strip():
        return None
    try:
        return load(run.path / "recipe.yaml", base=run.base)
    except RecipeError:
        return None


def rules_of(recipe: Recipe | None, source: str) -> dict[str, tuple[Rule, ...]]:
    """Return the rules of a source by block, in the order in which they decide; empty if the recipe does not tell."""
    if recipe is None:
        return {}
    return {block.name: block.rules() for one in recipe.sources if one.name == source for block in one.steps}


def idle_rules(recipe: Recipe | None, source: str, fired: Mapping[str, int]) -> list[dict[str, str]]:
    """Return the rules of a source that fired on no document, with their bounds; rules that are off are left out."""
    rules = [rule for block in rules_of(recipe, source).values() for rule in block]
    asked = [{"rule": rule.name, "bound": threshold(rule, {})} for rule in rules if not fired.get(rule.name)]
    return [row for row in asked if row["bound"] != "off"]


def threshold(rule: Rule, measured: Mapping[str, Any]) -> str:
    """Return the bound of a rule in words, for a document with these measurements."""
    label = measured.get(rule.by) if rule.by is not None else None
    if rule.expression is None and rule.one_of is None:
        if any(isinstance(bound, Mapping) for bound in (rule.at_least, rule.at_most)) and label is None:
            return f"by {rule.by}"
        if bound_for(rule.at_least, label) is None and bound_for(rule.at_most, label) is None:
            return "off"
    return rule.threshold(label)
