"""The dataset card: what lies in an export, where it is from, what was done to it, and what is not known about it.

Every number is read from the run's files. The recipe's words and the web's are shown, never acted upon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from curate.export.facts import Facts
from curate.export.gaps import gaps
from curate.export.markdown import code, fenced, table, text
from curate.export.selection import canaries_of
from curate.export.survey import NOT_STATED, OTHERS, UNREADABLE
from curate.export.treatment import benchmarks, duplicates, funnels, mixture, personal, texts, tokenizer
from curate.report.display import num_bytes, number, share

MAX_PATHS = 8  # of a source's patterns
MAX_ROWS = 25  # of a table of labels; the others are summed up
_MONTHS = 24  # dates are shown by month where that makes no more rows
_BAR = 24  # characters of the longest bar


def card(facts: Facts, reading: list[str]) -> str:
    """Return the card in Markdown.

    Args:
        facts: What it tells.
        reading: Lines on the files and how they are read.
    """
    lines = [f"# {text(facts.name)}", "", *_opening(facts), "## What is in this folder", "", *reading]
    sections = {
        "Counts": _counts,
        "Sources": _sources,
        "Licences": _licences,
        "Languages": _languages,
        "Dates": _dates,
        "From input to text": texts,
        "What was removed, and why": funnels,
        "Duplicates": duplicates,
        "Benchmarks": benchmarks,
        "Personal information": personal,
        "Tokenizer": tokenizer,
        "Mixture": mixture,
        "How it was made": _made,
        "Known gaps": gaps,
        "Use": _use,
    }
    for heading, section in sections.items():
        content = list(section(facts))
        if content:
            lines += [f"## {heading}", "", *content]
            if content[-1]:
                lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _opening(facts: Facts) -> list[str]:
    total: Counter[str] = Counter()
    for source in facts.selection.sources:
        for split in facts.selection.splits:
            total.update(facts.counts(source, split))
    amounts = []
    if facts.order == "mixture":
        windows = sum(one["windows"] for one in facts.written.values())
        drawn = sum(one["tokens"] for one in facts.written.values())
        amounts = [f"{number(windows)} windows in the order of training", f"{number(drawn)} token ids"]
    else:
        amounts = [f"{number(total['documents'])} documents", f"{num_bytes(total['bytes'])} of text"]
        amounts += [f"{number(total['tokens'])} tokens"] if total["tokens"] else []
    sources = len(facts.selection.sources)
    return [
        f"A text corpus for language-model pretraining: {', '.join(amounts)}, from {sources} "
        f"source{'s' if sources != 1 else ''}. "
        f"Made with curate {text(facts.report.get('curate'))} from the recipe beside this card (`recipe.yaml`).",
        "",
    ]


def _counts(facts: Facts) -> Iterator[str]:
    if facts.order == "mixture":
        yield "The files hold windows as training reads them; how often each source is shown stands under *Mixture*. Below, the"
        yield "documents that the windows are drawn from count once each."
        return
    with_tokens = any("tokens" in one for one in facts.written.values())
    rows = []
    for source in facts.selection.sources:
        for split in facts.selection.splits:
            found = facts.counts(source, split)
            row = [code(source), split, number(found["documents"]), num_bytes(found["bytes"])]
            rows.append(row + ([number(found["tokens"])] if with_tokens else []))
    yield from table(["source", "split", "documents:", "text:", *(["tokens:"] if with_tokens else [])], rows)
    if with_tokens:
        yield "Tokens include one end-of-text id per document. Text is counted in bytes of UTF-8."
    else:
        yield "Text is counted in bytes of UTF-8."
    empty = [f"{code(row[0].strip('`'))} ({row[1]})" for row in rows if row[2] == "0"]
    if empty:
        yield ""
        yield f"Without documents, and therefore without files: {', '.join(empty)}."


def _sources(facts: Facts) -> Iterator[str]:
    rows = []
    for source in facts.selection.sources:
        read = facts.settings(source).get("read") or {}
        paths = read.get("paths") or ()
        paths = [paths] if isinstance(paths, str) else list(paths)
        shown = ", ".join(code(path) for path in paths[:MAX_PATHS])
        shown += f" and {len(paths) - MAX_PATHS} more" if len(paths) > MAX_PATHS else ""
        inputs = facts.report.get("inputs", {}).get(source, {})
        rows.append(
            [
                code(source),
                text(read.get("kind", "–")),
                shown or "–",
                number(inputs.get("num_files")),
                num_bytes(inputs.get("bytes")),
                text(inputs["licence"]) if inputs.get("licence") else "not stated",
                text(inputs["provenance"]) if inputs.get("provenance") else "not stated",
            ]
        )
    yield from table(
        ["source", "kind", "paths, as in the recipe", "files:", "size:", "licence, as stated", "written by"], rows
    )
    yield "Licence and author (people or machines) of a source are what the recipe states; nobody checked them. The sha256 of"
    yield "each input file is in `manifest.json`."
    marks = {
        source: facts.settings(source).get("gate", {}).get("opt_out") or ()
        for source in facts.selection.sources
        if (facts.settings(source).get("read") or {}).get("kind") == "warc"
    }
    for source, names in marks.items():
        yield ""
        if names:
            yield f"Pages of {code(source)} that opt out by {', '.join(code(name) for name in names)} were left out."
        else:
            yield f"Opt-out marks of pages of {code(source)} were not looked at."


def _label_table(heading: str, labels: Mapping[str, list[int]]) -> list[str]:
    """Return a table of labels by documents, largest first; what is beyond MAX_ROWS is summed up."""
    total = sum(counts[0] for counts in labels.values())
    order = sorted(labels, key=lambda label: (-labels[label][0], label))
    rows = [
        [text(label), number(labels[label][0]), share(labels[label][0], total), num_bytes(labels[label][1])]
        for label in order[:MAX_ROWS]
    ]
    if rest := order[MAX_ROWS:]:
        documents, size = (sum(labels[label][place] for label in rest) for place in (0, 1))
        rows.append([f"{number(len(rest))} more", number(documents), share(documents, total), num_bytes(size)])
    return table([heading, "documents:", "share:", "text:"], rows)


def _licences(facts: Facts) -> Iterator[str]:
    for source, one in facts.surveys.items():
        if sum(counts[0] for counts in one["licences"].values()):
            yield f"{code(source)}:"
            yield ""
            yield from _label_table("licence of the document", one["licences"])
    if facts.surveys:
        yield "A document's licence is what its input says about it (or its source tree: licence files and headers), else what the"
        yield f"recipe states about the source; *{NOT_STATED}* where neither says anything."


def _languages(facts: Facts) -> Iterator[str]:
    for source, one in facts.surveys.items():
        if sum(counts[0] for counts in one["languages"].values()):
            measured = "language" in facts.selection.run.steps(source)
            yield f"{code(source)}, {'as measured' if measured else 'as its input declares it'}:"
            yield ""
            yield from _label_table("language", one["languages"])


def _dates(facts: Facts) -> Iterator[str]:
    total = facts.labels("dates")
    if not total:
        return
    everything = total.total()
    known = {label: count for label, count in total.items() if label not in (NOT_STATED, UNREADABLE, OTHERS)}
    unknown = everything - sum(known.values())
    if known:
        if len(known) > _MONTHS or not all(len(label) == 7 for label in known):
            years: Counter[str] = Counter()
            for label, count in known.items():
                years[label[:4]] += count
            known = dict(years)
        most = max(known.values())
        rows = [
            [
                label,
                number(known[label]),
                share(known[label], everything),
                "█" * max(1, round(_BAR * known[label] / most)),
            ]
            for label in sorted(known)
        ]
        yield from table(["date", "documents:", "share:", ""], rows)
    yield (
        f"Of {number(everything)} documents {number(unknown)} ({share(unknown, everything)}) have no known date"
        + (f", {number(total[UNREADABLE])} of them one in a form that was not read." if total[UNREADABLE] else ".")
    )
    yield "A date is that of the input's metadata: of WARC records when the page was fetched, not when it was written."


def _made(facts: Facts) -> Iterator[str]:
    manifest = facts.selection.run.manifest
    command = "curate run recipe.yaml --no-train"
    for option in ("limit", "sample"):
        command += f" --{option} {manifest[option]}" if manifest.get(option) else ""
    export = f"curate export runs/{facts.name} --format {facts.format}"
    export += f" --order {facts.order}" if facts.order != "arranged" else ""
    chosen = facts.selection
    export += f" --split {chosen.splits[0]}" if len(chosen.splits) == 1 and facts.order == "arranged" else ""
    everything = not set(chosen.run.sources) - {*chosen.sources, canaries_of(chosen.run)}
    export += "" if everything else "".join(f" --source {source}" for source in chosen.sources)
    yield from fenced(f"{command}\n{export}", "bash")
    yield "`recipe.yaml` is the recipe with all defaults filled in; its relative paths start at the folder of the recipe that was"
    yield "run. The same recipe over the same inputs gives the same bytes."
    yield ""
    libraries = ", ".join(f"{text(name)} {text(version)}" for name, version in manifest.get("libraries", {}).items())
    rows = [
        ["curate", text(manifest.get("curate"))],
        ["recipe", f"{code(facts.name)}, sha256 {code(facts.recipe_sha256)}"],
        ["seed", text(manifest.get("seed"))],
        ["Python", text(manifest.get("python"))],
        ["libraries", libraries],
        ["reproducible", number(bool(manifest.get("reproducible")))],
    ]
    yield from table(["", ""], rows)


def _use(facts: Facts) -> Iterator[str]:
    del facts
    yield "This card says what was done. What the data may be used for, under which law and licence, and what it is good for, is"
    yield "for its publisher to say here, and for its user to decide."
