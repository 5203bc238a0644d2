"""What a corpus lacks and what nobody looked at, as far as its run can tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from curate.export.facts import Facts
from curate.export.markdown import code, text
from curate.export.selection import canaries_of
from curate.export.survey import NOT_STATED
from curate.export.treatment import untested
from curate.report.display import number, share

MAX_WARNINGS = 20
_LEAKED = "LEAKED ON PURPOSE:"  # how the run's warning of its canaries begins
_CHECKS = {  # steps by what they look at
    "the language of a document": ("language",),
    "words that offend": ("bad_words",),
    "quality, by a model": ("quality", "quality_buckets", "ccnet"),
}


def gaps(facts: Facts) -> Iterator[str]:
    """Yield a bullet for each gap."""
    for line in (*_reading(facts), *_counted(facts), *_steps(facts), *_whole_corpus(facts), *_warnings(facts)):
        yield f"- {line}"


def _reading(facts: Facts) -> Iterator[str]:
    report, selection = facts.report, facts.selection
    if report.get("limit"):
        yield f"Only the first {number(report['limit'])} documents of each source were read."
    if report.get("sample"):
        yield f"Only a sample of {share(report['sample'], 1)} of the documents was read."
    canaries = canaries_of(selection.run)
    if facts.with_canaries:
        yield (
            "**These ids hold benchmark items that were leaked on purpose** (canaries), to measure what leaks do: no model "
            "trained on them may be judged by those benchmarks."
        )
    elif selection.run.manifest.get("canaries"):
        yield (
            "The training data of the run holds benchmark items that were leaked on purpose (canaries). The files of this "
            "folder do not."
        )
    others = [name for name in selection.run.sources if name not in (*selection.sources, canaries)]
    if others:
        yield f"The run has further sources, which this export leaves out: {', '.join(map(code, others))}."
    if report.get("reproducible") is False:
        count = len(report.get("quarantine") or ())
        yield f"{_count(count, 'document')} stopped the worker and {'was' if count == 1 else 'were'} left out (quarantined)."
    lost = {
        source: sum(
            rule["documents"] for stage in funnel["stages"] if stage["stage"] == "read" for rule in stage["rules"]
        )
        for source, funnel in report.get("funnel", {}).items()
        if source in selection.sources
    }
    for source, count in lost.items():
        if count:
            yield f"{_count(count, 'record')} of {code(source)} could not be read."
    texts = [name for name in selection.sources if name not in (*facts.surveys, canaries)]
    if texts:
        yield (
            f"{', '.join(map(code, texts))} came as token files: nothing is known about the documents, and no step of the "
            "recipe read their texts."
        )


def _counted(facts: Facts) -> Iterator[str]:
    for source, one in facts.surveys.items():
        for name, words in (("licences", "no stated licence"), ("languages", "no known language")):
            labels: Mapping[str, list[int]] = one[name]
            whole = sum(counts[0] for counts in labels.values())
            without = labels.get(NOT_STATED, [0, 0])[0]
            if without:
                have = "has" if without == 1 else "have"
                yield f"{_count(without, 'document')} of {code(source)} ({share(without, whole)}) {have} {words}."


def _steps(facts: Facts) -> Iterator[str]:
    run = facts.selection.run
    named = {source: run.steps(source) for source in facts.selection.sources}
    kept_as_read = [source for source, steps in named.items() if not steps]
    if kept_as_read:
        yield f"No filter looked at {', '.join(map(code, kept_as_read))}: the documents are as they were read."
    for what, names in _CHECKS.items():
        without = [
            source for source, steps in named.items() if not any(step.partition("-")[0] in names for step in steps)
        ]
        if without:
            yield f"Not checked in {', '.join(map(code, without))}: {what}."


def _whole_corpus(facts: Facts) -> Iterator[str]:
    recipe, report = facts.recipe, facts.report
    if not recipe.get("dedup"):
        yield "Copies of documents were not looked for."
    if not recipe.get("decontaminate"):
        yield "No benchmark was looked for: scores of models trained on this corpus may be too high."
    for name in (report.get("contamination") or {}).get("benchmarks", {}):
        reasons = Counter(untested(facts, name))
        if reasons:
            why = ", ".join(f"{text(reason)} ({number(count)})" for reason, count in reasons.most_common())
            yield f"{_count(reasons.total(), 'item')} of the benchmark {text(name)} could not be looked for: {why}."
    if not recipe.get("validation"):
        yield "No documents were set aside for validation."
    for source, one in (report.get("validation") or {}).items():
        if one.get("shortfall") and source in facts.selection.sources:
            short = ", ".join(f"{number(count)} {name}" for name, count in one["shortfall"].items() if count)
            if short:
                yield f"The validation set of {code(source)} is short of {short}."
    mixture = report.get("mixture") or {}
    if mixture.get("shortfall_tokens"):
        yield f"Sources could not give {number(mixture['shortfall_tokens'])} tokens of their shares; others gave them."
    capped = [name for name, one in mixture.get("sources", {}).items() if one.get("cap_hit")]
    if capped:
        yield f"The mixture takes as much of {', '.join(map(code, capped))} as the cap on repetition allows."


def _warnings(facts: Facts) -> Iterator[str]:
    warnings = [
        warning
        for warning in facts.report.get("warnings") or ()
        if facts.with_canaries or not str(warning).startswith(_LEAKED)  # of a stream that these files do not hold
    ]
    for warning in warnings[:MAX_WARNINGS]:
        yield f"Warning of the run: {text(warning)}"
    if len(warnings) > MAX_WARNINGS:
        yield f"{number(len(warnings) - MAX_WARNINGS)} further warnings are in the run's `report.json`."


def _count(count: int, what: str) -> str:
    return f"{number(count)} {what}{'' if count == 1 else 's'}"
