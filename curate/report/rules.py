"""The rules of a run, from its resolved recipe: what was asked of each measurement, also where nothing fired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from curate.errors import RecipeError
from curate.expression import expression_columns
from curate.report.run import RunFolder, damage_named
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


def idle_rules(
    run: RunFolder, recipe: Recipe | None, source: str, fired: Mapping[str, int]
) -> dict[str, list[dict[str, Any]]]:
    """Return the rules of a source that tell nothing apart: `never` fired, or fired on every document (`always`).

    Each has its bound, the documents that had a value, and the lowest and the highest value: how near a document came.
    Rules that are off are left out. Values come from the statistics of the files, exactly.
    """
    never, always = [], []
    ranges: dict[str, tuple[int, Any, Any]] = {}
    for block, rules in rules_of(recipe, source).items():
        ranges |= _ranges(run, source, block)
        for rule in rules:
            bound = threshold(rule, {})
            if bound == "off":
                continue
            columns = [rule.column] if rule.expression is None else list(expression_columns(rule.expression))
            seen = [ranges.get(column, (0, None, None)) for column in columns]
            count, low, high = seen[0] if len(seen) == 1 else (min((one[0] for one in seen), default=0), None, None)
            row = {"rule": rule.name, "bound": bound, "documents": count, "lowest": low, "highest": high}
            if not fired.get(rule.name):
                never.append(row)
            elif count and fired[rule.name] >= count:
                always.append(row)
    return {"never": never, "always": always}


def _ranges(run: RunFolder, source: str, block: str) -> dict[str, tuple[int, Any, Any]]:
    """Return of each measured column the documents with a value, and for numbers the lowest and the highest."""
    import pyarrow.parquet as pq

    found: dict[str, tuple[int, Any, Any]] = {}
    for path in run.shards("measurements", source, block):
        with damage_named(path):
            metadata = pq.read_metadata(path)
        for group in range(metadata.num_row_groups):
            for place in range(metadata.num_columns):
                column = metadata.row_group(group).column(place)
                said = column.statistics
                count = column.num_values - (said.null_count or 0) if said is not None else column.num_values
                ends = []
                if said is not None and said.has_min_max and isinstance(said.min, int | float):
                    ends = [said.min + 0, said.max + 0]  # Parquet writes 0 as -0.0
                before, low, high = found.get(column.path_in_schema, (0, None, None))
                values = [value for value in (low, high, *ends) if value is not None]
                both = (min(values), max(values)) if values else (None, None)
                found[column.path_in_schema] = (before + count, *both)
    return found


def threshold(rule: Rule, measured: Mapping[str, Any]) -> str:
    """Return the bound of a rule in words, for a document with these measurements."""
    label = measured.get(rule.by) if rule.by is not None else None
    if rule.expression is None and rule.one_of is None:
        if any(isinstance(bound, Mapping) for bound in (rule.at_least, rule.at_most)) and label is None:
            return f"by {rule.by}"
        if bound_for(rule.at_least, label) is None and bound_for(rule.at_most, label) is None:
            return "off"
    return rule.threshold(label)
