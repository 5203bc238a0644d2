"""What a card tells of the treatment of texts: from input to text, filters, copies, benchmarks, personal data, tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from curate.export.facts import Facts
from curate.export.markdown import code, table, text
from curate.export.reading import drawn_shares
from curate.export.selection import CANARIES
from curate.report.display import num_bytes, number, share
from curate.report.funnel import MAX_BOUNDS, STAGES


def texts(facts: Facts) -> Iterator[str]:
    """Yield how each source's texts came about: extraction, repair, steps in their order."""
    rows = []
    for source in facts.selection.sources:
        settings = facts.settings(source)
        extract, repair = (settings.get(name) for name in ("extract", "repair"))
        steps = facts.selection.run.steps(source)
        rows.append(
            [
                code(source),
                code(extract["kind"]) if isinstance(extract, Mapping) else "as it was read",
                code(repair["kind"]) if isinstance(repair, Mapping) else "none",
                ", ".join(map(code, steps)) or "none",
            ]
        )
    yield from table(["source", "main text by", "repair of Unicode", "steps, in their order"], rows)
    yield "Their settings are in `recipe.yaml`."


def funnels(facts: Facts) -> Iterator[str]:
    """Yield each source's funnel: every rule with its bound and what it removed."""
    for source in facts.selection.sources:
        funnel = facts.report.get("funnel", {}).get(source)
        if not funnel:
            continue
        removed = funnel["read"] - funnel["kept"]
        yield f"### {text(source)}"
        yield ""
        yield (
            f"{number(funnel['read'])} documents were read, {number(removed)} ({share(removed, funnel['read'])}) removed, "
            f"{number(funnel['kept'])} kept; {num_bytes(funnel['bytes_read'])} of text were read, {_cut(funnel)}"
            f"{num_bytes(funnel['bytes_kept'])} kept."
        )
        yield ""
        rows = _rules(facts, source, funnel)
        if rows:
            yield from table(["stage", "rule", "kept if", "removed:", "of all read:", "text:"], rows)
        else:
            steps = facts.selection.run.steps(source)
            yield "Nothing was removed" + (": the recipe has no step for this source." if not steps else ".")
            yield ""
    yield "Each removed document counts once, at the first rule that it broke, in the order of the recipe."


def _rules(facts: Facts, source: str, funnel: Mapping[str, Any]) -> list[list[str]]:
    """Return a row for each rule: those that removed something, and behind the filters those that met no document."""
    rows: dict[str, list[list[str]]] = {stage["stage"]: [] for stage in funnel["stages"]}
    for stage in funnel["stages"]:
        for rule in stage["rules"]:
            bounds = ", ".join(text(bound, 80) for bound in rule["bounds"][:MAX_BOUNDS])
            bounds += " and others" if rule["num_bounds"] > MAX_BOUNDS else ""
            removed = [number(rule["documents"]), share(rule["documents"], funnel["read"]), num_bytes(rule["bytes"])]
            rows[stage["stage"]].append([text(stage["stage"]), code(rule["rule"]), bounds or "–", *removed])
    for one in facts.report.get("idle_rules", {}).get(source, {}).get("never", ()):
        idle = ["filter", code(one["rule"]), text(one["bound"], 80), "0", "0.0%", "0 B"]
        rows.setdefault("filter", []).append(idle)
    order = sorted(rows, key=lambda name: (STAGES.index(name) if name in STAGES else len(STAGES), name))
    return [row for name in order for row in rows[name]]


def _cut(funnel: Mapping[str, Any]) -> str:
    cut = funnel.get("bytes_cut") or 0
    return f"{num_bytes(cut)} cut out of kept documents, " if cut else ""


def duplicates(facts: Facts) -> Iterator[str]:
    """Yield how copies were looked for, and what was removed as one; nothing where they were not."""
    settings = facts.recipe.get("dedup")
    if not settings:
        return
    kinds = [name for name in ("exact", "minhash", "lines", "spans", "against", "semantic") if name in settings]
    found = facts.report.get("duplicates") or {}
    minhash = settings.get("minhash")
    yield f"Looked for over all sources of the run at once, by {', '.join(kinds) if kinds else 'the defaults'}."
    if isinstance(minhash, Mapping):
        verify = minhash.get("verify")
        yield (
            f"Near copies: MinHash over {minhash.get('ngram')}-word shingles, {minhash.get('bands')} bands of "
            f"{minhash.get('rows')} rows"
            + (f", each pair verified at a Jaccard similarity of at least {verify}." if verify else ", not verified.")
        )
    order = (settings.get("keep") or {}).get("order")
    if order:
        yield f"Of copies in several sources the one of the source named first stays: {', '.join(map(text, order))}."
    if found.get("clusters") is not None:
        yield (
            f"{number(found['clusters'])} clusters of copies with {number(found['documents'])} documents were found; "
            f"{number(found['num_removed'])} documents were removed as copies."
        )
    removed = [
        [
            code(one["rule"]),
            code(one["source"]),
            code(one["kept_source"]) if one["kept_source"] else "–",
            number(one["documents"]),
        ]
        for one in found.get("removed", ())
        if one["source"] in facts.selection.sources
    ]
    if removed:
        yield ""
        yield from table(["rule", "removed from", "the copy that stays is in", "documents:"], removed)


def benchmarks(facts: Facts) -> Iterator[str]:
    """Yield how benchmark items were looked for and which were found; nothing where they were not."""
    settings = facts.recipe.get("decontaminate")
    if not settings:
        return
    action = {"drop": "removed", "cut": "kept without the matching span", "flag": "kept and listed"}
    yield (
        f"Documents that share runs of words ({_ngrams(settings)}) with at least {share(settings.get('threshold'), 1)} of a "
        f"benchmark item were {action.get(str(settings.get('action')), 'treated')}."
    )
    yield ""
    found = (facts.report.get("contamination") or {}).get("benchmarks", {})
    rows = [
        [
            text(name),
            number(one.get("items")),
            number(len(untested(facts, name))),
            number(one.get("found")),
            share(one.get("found"), one.get("items")),
            number(one.get("documents")),
        ]
        for name, one in found.items()
    ]
    if rows:
        yield from table(
            ["benchmark", "items:", "of them not looked for:", "items found:", "share:", "documents:"], rows
        )
    yield "Found are copies and near copies of the wording; paraphrases and translations are not."


def untested(facts: Facts, benchmark: str) -> list[str]:
    """Return why each item of a benchmark that could not be looked for was not, as the manifest says."""
    asked = (facts.selection.run.manifest.get("decontamination") or {}).get("benchmarks") or {}
    return [str(item["reason"]) for item in (asked.get(benchmark) or {}).get("untested") or ()]


def _ngrams(settings: Mapping[str, Any]) -> str:
    """Return the lengths of n-grams in use: a text of fewer words than `min_ngram`, or a smaller `ngram`, makes them shorter."""
    longest = settings["ngram"]
    shortest = min(settings[name] for name in ("ngram", "min_ngram", "min_words") if name in settings)
    if shortest == longest:
        return f"n-grams of {longest} words"
    return f"n-grams of {shortest} to {longest} words, by the length of the item"


def personal(facts: Facts) -> Iterator[str]:
    """Yield which personal data were looked for in which sources, and what was found."""
    rewritten = facts.report.get("rewritten") or {}
    for source in facts.selection.sources:
        for block, settings in _steps(facts, source, "pii"):
            on = [name for name in ("emails", "phones", "ibans", "payment_cards", "secrets") if settings.get(name)]
            addresses = settings.get("ip_addresses")
            on += [f"IP addresses ({addresses})"] if addresses not in (None, "off") else []
            on += (
                [f"national ids ({', '.join(map(str, settings['national_ids']))})"]
                if settings.get("national_ids")
                else []
            )
            done = "replaced" if settings.get("mask", True) else "counted, not replaced"
            yield f"- {code(source)}: {text(', '.join(on)) or 'nothing'} were looked for and {done}."
            prefix = f"{block}.num_"
            counts = {
                name.removeprefix(prefix).replace("_", " "): count
                for name, count in (rewritten.get(source) or {}).items()
                if name.startswith(prefix) and not name.endswith("num_pii") and count
            }
            if counts:
                yield f"  Found: {', '.join(f'{text(name)} {number(count)}' for name, count in counts.items())}."
    without = [source for source in facts.selection.sources if not _steps(facts, source, "pii")]
    if without:
        yield f"- Not looked for in {', '.join(map(code, without))}."
    yield ""
    yield "Patterns find forms such as addresses and numbers. Names, and facts about people, stand in the text as they were."


def _steps(facts: Facts, source: str, kind: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return name and settings of a source's steps of one kind."""
    steps = facts.settings(source).get("steps") or ()
    names = facts.selection.run.steps(source)
    return [
        (name, dict(step[kind] or {}))
        for name, step in zip(names, steps, strict=True)
        if isinstance(step, Mapping) and kind in step
    ]


def tokenizer(facts: Facts) -> Iterator[str]:
    """Yield what made the ids; nothing where there are none."""
    found = facts.report.get("tokenizer")
    if not found or not any("tokens" in one for one in facts.written.values()):
        return
    stream = next(iter(facts.report["tokens"].values()))
    rows = [
        ["kind", text(found.get("kind"))],
        ["vocabulary", f"{number(stream['vocab_size'])} ids, stored as {stream['dtype']}"],
        [
            "end of text",
            f"{code(found.get('eos', ''))}, id {stream['eos_id']}; ends each document and stands nowhere else",
        ],
        ["sha256", code(stream["tokenizer_sha256"])],
    ]
    if found.get("training_documents"):
        rows.append(
            ["trained on", f"{number(found['training_documents'])} documents, {num_bytes(found['training_bytes'])}"]
        )
    yield from table(["", ""], rows)
    if facts.not_in_transformers:
        yield "Its files are in `tokenizer/`."
        yield f"It has none that transformers opens with the same ids: {text(facts.not_in_transformers)}."
    else:
        yield 'Its files are in `tokenizer/`; `transformers.AutoTokenizer.from_pretrained("tokenizer")` gives the same ids. The end'
        yield "of text is not added, and marks such as it stand for themselves with `split_special_tokens=True`."


def mixture(facts: Facts) -> Iterator[str]:
    """Yield the shares of training, asked and realised; nothing where there are no ids."""
    plan = facts.report.get("mixture")
    if not plan or not any("tokens" in one for one in facts.written.values()):
        return
    yield (
        f"The recipe plans {number(plan['tokens'])} tokens of training in windows of {number(plan['window'])}"
        + (
            ", which these files hold in that order."
            if facts.order == "mixture"
            else "; these files hold each document once."
        )
    )
    yield ""
    shares = drawn_shares(plan)
    rows = [
        [
            code(name),
            share(one.get("weight_normalised"), 1),
            share(shares[name], 1),
            number(one.get("tokens_drawn")),
            number(round(one["epochs"], 3)) if one.get("epochs") is not None else "–",
        ]
        for name, one in plan["sources"].items()
    ]
    yield from table(["source", "asked:", "realised:", "tokens drawn:", "epochs:"], rows)
    if canaries := facts.selection.run.manifest.get("canaries"):
        yield (
            f"Asked are shares of what the recipe asks for; {code(CANARIES)} come on top of it "
            f"({number(canaries['documents'])} documents), and realised are shares of all tokens that are drawn."
        )
    stages = plan.get("stages") or ()
    if len(stages) > 1:
        yield f"In {len(stages)} stages, up to token {', '.join(number(stage['until_tokens']) for stage in stages)}."
