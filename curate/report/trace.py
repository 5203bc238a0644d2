"""`curate trace`: the life of one document, from the byte it was read at to its places in training."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.errors import UsageError
from curate.report.contamination import leak_lines
from curate.report.display import number, one_line, plain
from curate.report.duplicates import likeness, what_differs
from curate.report.rules import resolved_recipe, rules_of, threshold
from curate.report.run import RunFolder, read_rows, read_table
from curate.report.samples import find_texts

_ID = re.compile(r"[0-9a-f]{32}\Z")
_PREFIX = re.compile(r"[0-9a-f]{4,31}\Z")
_NOT_MEASURED = ("id", "failure", "failure_message")
MAX_SHOWN = 10  # of candidates, cluster members, contaminated items, edits; all are counted
MAX_VISITS = 40
KEPT_CHARACTERS = 200  # of the document that stands for a removed one
TEXT_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Judgement:
    """A rule of the document's source: its bound in words, and whether it fired; None if it was not asked."""

    rule: str
    bound: str
    fired: bool | None


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement, with the rules that look at it."""

    block: str
    column: str
    value: Any
    rules: tuple[Judgement, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The duplicate cluster of a document; `members` holds the first other ids."""

    cluster: str
    size: int
    kept_id: str | None
    similarity: float | None
    verified: bool
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """Where a document's tokens are: shard and range in it, and the range [start, end) in the stream.

    The stream is named after the source, or `<source>/<group>` where the mixture divides it by a label.
    """

    stream: str
    split: str
    shard: str
    shard_start: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Visit:
    """A training slot that shows a window of the document, and the stage of training it lies in, counted from 0."""

    window: int
    slot: int
    stage: int


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A training run and the step (counted from 0) of each visit; None where it stopped before."""

    seed: str
    batch_windows: int
    steps: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class TraceResult:
    """The life of one document. What the run did not do is None or empty."""

    id: str
    source: str
    source_id: str | None
    url: str | None
    path: str | None
    offset: int | None
    input_file: Mapping[str, Any] | None
    text: str | None
    measurements: tuple[Measured, ...]
    other_rules: tuple[Judgement, ...]
    cluster: Cluster | None
    earlier: Mapping[str, Any] | None  # the row of earlier.parquet
    kept_copy: Mapping[str, Any] | None  # the row of EXTRACTED of the document that stands for it
    contamination: tuple[Mapping[str, Any], ...]
    edits: tuple[Mapping[str, Any], ...]
    decision: Mapping[str, Any] | None
    document: Mapping[str, Any] | None
    tokens: TokenPlace | None
    windows: range | None
    visits: tuple[Visit, ...]
    num_stages: int  # of training
    training: tuple[TrainingRun, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    id: str
    source: str
    shard: str
    url: str | None
    path: str | None
    offset: int | None


def trace(run: Path, key: str) -> TraceResult:
    """Return the life of the document with this id, unique beginning of an id, URL, or id in the input.

    Raises:
        UsageError: If no document fits, or several do; the message names candidates.
    """
    folder = RunFolder.open(run)
    found = _find(folder, key.strip())
    extracted = _row(folder, "extracted", found)
    decision = _row(folder, "decisions", found)
    document = _row(folder, "documents", found)
    place = extracted or decision or {}
    path = place.get("path")
    fired = {decision["rule"], *(decision["also_fired"] or ())} if decision and not decision["kept"] else set()
    measurements, other_rules = _measurements(folder, found, fired)
    tokens = _tokens(folder, found.source, found.id)
    windows, visits, num_stages, training = _visits(folder, tokens)
    return TraceResult(
        id=found.id,
        source=found.source,
        source_id=extracted["source_id"] if extracted else None,
        url=place.get("url"),
        path=path,
        offset=place.get("offset"),
        input_file=_input_file(folder, found.source, path),
        text=extracted["text"] if extracted else None,
        measurements=measurements,
        other_rules=other_rules,
        cluster=_cluster(folder, found.id),
        earlier=next(iter(_table_rows(folder, "earlier.parquet", found.id, ("id",))), None),
        kept_copy=_kept_copy(folder, decision),
        contamination=_table_rows(folder, "contamination.parquet", found.id, ("benchmark", "item", "start")),
        edits=_edits(folder, found),
        decision=decision,
        document=document,
        tokens=tokens,
        windows=windows,
        visits=visits,
        num_stages=num_stages,
        training=training,
    )


# -- finding it --------------------------------------------------------------------------------------------------------


def _find(folder: RunFolder, key: str) -> _Found:
    import polars as pl

    if not key:
        raise UsageError("Name a document: its id, the beginning of its id, its URL, or its id in the input.")
    if not any(folder.shards(kind, source) for source in folder.sources for kind in ("extracted", "decisions")):
        raise UsageError(f"{folder.path}: no document has been read in this run yet.")
    by_id = bool(_ID.match(key) or _PREFIX.match(key))
    found: dict[str, _Found] = {}
    near: dict[str, str] = {}
    searched = 0
    for source in folder.sources:
        for kind in ("decisions", "extracted"):
            for path, frame in folder.scan(kind, source, columns=("id", "source_id", "url", "path", "offset")):
                searched += frame.height if kind == "decisions" else 0
                matches = pl.col("id").str.starts_with(key) if by_id else pl.lit(False)
                for name in ("url", "source_id"):
                    if name in frame.columns:
                        matches = matches | (pl.col(name) == key).fill_null(False)
                for row in frame.filter(matches).iter_rows(named=True):
                    place = _Found(row["id"], source, path.name, row.get("url"), row.get("path"), row.get("offset"))
                    if row["id"] not in found or place.path is not None:
                        found[row["id"]] = place
                if "url" in frame.columns and not by_id and len(near) < 3:
                    alike = _bare(pl.col("url")) == _bare(pl.lit(key))
                    near |= {
                        row["url"]: row["id"]
                        for row in frame.filter(alike.fill_null(False)).head(3).iter_rows(named=True)
                    }
    if key in found:
        return found[key]
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        what = (
            f"{len(found)} documents have an id that begins with"
            if by_id
            else f"{len(found)} documents have the URL or input id"
        )
        raise UsageError(f"{what} {plain(key)}. Name one of them by its id:\n" + "\n".join(_candidates(found.values())))
    hint = f" Close to it: {'; '.join(f'{plain(url)} ({id})' for url, id in sorted(near.items()))}." if near else ""
    raise UsageError(
        f"{plain(key)}: none of this run's {number(searched)} documents has this id, URL or input id.{hint} "
        "An id has 32 hexadecimal digits (its first 4 or more are enough where they are unique); a URL must be exact; "
        "`curate inspect` shows the ids of samples."
    )


def _bare(expression: Any) -> Any:
    """Return a URL without scheme, www, fragment, closing slash and case."""
    bare = expression.str.to_lowercase().str.replace(r"^[a-z]+://(www\.)?", "").str.replace(r"#.*$", "")
    return bare.str.strip_chars_end("/")


def _candidates(found: Any) -> Iterator[str]:
    ordered = sorted(found, key=lambda one: (one.source, one.path or "", one.offset or 0, one.id))
    for one in ordered[:MAX_SHOWN]:
        yield f"  {one.id}  {one.source}  {one_line(one.path or '', 80)}" + (
            f" at {number(one.offset)}" if one.offset is not None else ""
        )
    if len(ordered) > MAX_SHOWN:
        yield f"  and {len(ordered) - MAX_SHOWN} more"


# -- its stations ------------------------------------------------------------------------------------------------------


def _row(folder: RunFolder, kind: str, found: _Found) -> dict[str, Any] | None:
    """Return the document's row of a table; its shards carry the same names in all tables."""
    path = folder.path / kind / found.source / found.shard
    if not path.is_file() or not path.stat().st_size:
        return None
    return read_rows(path, [found.id]).get(found.id)


def _input_file(folder: RunFolder, source: str, path: str | None) -> Mapping[str, Any] | None:
    files = (folder.manifest.get("inputs", {}).get(source) or {}).get("files", [])
    return next((file for file in files if file.get("path") == path), None)


def _measurements(
    folder: RunFolder, found: _Found, fired: set[Any]
) -> tuple[tuple[Measured, ...], tuple[Judgement, ...]]:
    rules = rules_of(resolved_recipe(folder), found.source)
    measured: list[Measured] = []
    seen: dict[str, Any] = {}
    told: set[str] = set()
    others: list[Judgement] = []
    for block in dict.fromkeys((*rules, *folder.blocks(found.source))):
        path = folder.path / "measurements" / found.source / block / found.shard
        row = read_rows(path, [found.id]).get(found.id, {}) if path.is_file() and path.stat().st_size else {}
        seen |= row
        for column, value in row.items():
            if column in _NOT_MEASURED or isinstance(value, list):
                continue
            asked = [rule for rule in rules.get(block, ()) if rule.column == column and rule.expression is None]
            told |= {rule.name for rule in asked}
            judged = (
                Judgement(rule.name, threshold(rule, seen), rule.name in fired if value is not None else None)
                for rule in asked
            )
            measured.append(Measured(block, column, value, tuple(judged)))
        for rule in rules.get(block, ()):  # expressions, and rules of columns that an earlier block measured
            if rule.name not in told:
                told.add(rule.name)
                seen_all = bool(seen) if rule.expression is not None else rule.column in seen
                others.append(Judgement(rule.name, threshold(rule, seen), rule.name in fired if seen_all else None))
    # Rules of gates, duplicates and leaks, and all rules of a recipe that cannot be loaded, are known by having fired.
    others += [Judgement(str(rule), "", True) for rule in sorted(fired - told - {None})]
    return tuple(measured), tuple(others)


def _cluster(folder: RunFolder, id: str) -> Cluster | None:
    import polars as pl

    path = folder.path / "duplicates.parquet"
    if not path.is_file() or not path.stat().st_size:
        return None
    row = read_rows(path, [id]).get(id)
    if row is None:
        return None
    ids = (
        read_table(path, ("id", "cluster"))
        .filter((pl.col("cluster") == row["cluster"]) & (pl.col("id") != id))["id"]
        .sort()
    )
    return Cluster(
        row["cluster"],
        row["cluster_size"],
        row["kept_id"],
        row["similarity"],
        bool(row["verified"]),
        tuple(ids.head(MAX_SHOWN)),
    )


def _kept_copy(folder: RunFolder, decision: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    kept_id = decision["kept_id"] if decision else None
    if kept_id is None:
        return None
    return find_texts(folder, "extracted", ((source, kept_id) for source in folder.sources)).get(kept_id)


def _table_rows(folder: RunFolder, name: str, id: str, order: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    import polars as pl

    frame = folder.table(name)
    return () if frame is None else tuple(frame.filter(pl.col("id") == id).sort(*order).iter_rows(named=True))


def _edits(folder: RunFolder, found: _Found) -> tuple[Mapping[str, Any], ...]:
    import polars as pl

    rows: list[Mapping[str, Any]] = []
    for _, frame in folder.scan("edits", found.source):
        rows += frame.filter(pl.col("id") == found.id).sort("start", "end").iter_rows(named=True)
    return tuple(rows)


def _tokens(folder: RunFolder, source: str, id: str) -> TokenPlace | None:
    places = (_place(folder, stream, id) for stream in folder.streams if stream.partition("/")[0] == source)
    return next((place for place in places if place is not None), None)


def _place(folder: RunFolder, stream: str, id: str) -> TokenPlace | None:
    import polars as pl

    from curate.tokens.shard import MANIFEST, TokenSource

    place = folder.path / "tokens" / stream
    for split in sorted({shard["split"] for shard in folder.json(f"tokens/{stream}/{MANIFEST}")["shards"]}):
        opened = TokenSource.open(place, split)
        documents = tokens = 0
        for shard in opened.shards:
            at = (
                read_table(place / f"{shard.name}.docs.parquet", ("id",))
                .with_row_index()
                .filter(pl.col("id") == id)["index"]
            )
            if len(at):
                index = documents + int(at[0])
                start = int(opened.document_ends[index - 1]) if index else 0
                return TokenPlace(stream, split, shard.name, start - tokens, start, int(opened.document_ends[index]))
            documents += shard.documents
            tokens += shard.tokens
    return None


def _visits(
    folder: RunFolder, tokens: TokenPlace | None
) -> tuple[range | None, tuple[Visit, ...], int, tuple[TrainingRun, ...]]:
    from curate.tokens.order import Plan

    if tokens is None or tokens.split != "train" or not (mixture := folder.json("mixture.json")):
        return None, (), 0, ()
    plan = Plan.load(mixture)
    source = tokens.stream
    if source not in plan.names:
        return None, (), 0, ()
    windows = plan.windows_of_tokens(source, tokens.start, tokens.end)
    visits = sorted((slot, window) for window in windows for slot in plan.slots_of_window(source, window))
    training: list[TrainingRun] = []
    for seed in folder.seeds():
        resolved = folder.json(f"train/{seed}/resolved.json").get("identity", {})
        if size := resolved.get("batch_windows"):
            steps = [slot // int(size) for slot, _ in visits]
            last = int(resolved.get("steps", steps[-1] + 1 if steps else 0))
            training.append(TrainingRun(seed, int(size), tuple(step if step < last else None for step in steps)))
    shown = tuple(Visit(window, slot, plan.stage_of(slot)) for slot, window in visits)
    return windows, shown, len(plan.stages), tuple(training)


# -- telling it --------------------------------------------------------------------------------------------------------


def trace_lines(result: TraceResult) -> Iterator[str]:
    """Yield lines for a terminal; what a terminal would act upon is spelled out."""
    yield f"Document {result.id}"
    yield from _told("source", one_line(result.source))
    yield from _told("URL", one_line(result.url) if result.url else None)
    yield from _told("input id", one_line(result.source_id) if result.source_id else None)
    if result.path is not None:
        offset = f" at {number(result.offset)}" if result.offset is not None else ""
        yield from _told("input file", one_line(result.path) + offset)
    if result.input_file:
        yield from _told(
            "file digest", f"sha256 {result.input_file.get('sha256')}, {number(result.input_file.get('bytes'))} bytes"
        )
    yield ""
    yield from _text_lines(result)
    yield from _measurement_lines(result)
    yield from _copy_lines(result)
    yield from _decision_lines(result)
    yield from _token_lines(result)


def trace_text(run: Path, key: str) -> str:
    """Return what `curate trace RUN KEY` prints; arguments and errors as for `trace`."""
    return "\n".join(trace_lines(trace(run, key)))


def _told(name: str, value: str | None) -> Iterator[str]:
    if value is not None:
        yield f"  {name:<13} {value}"


def _text_lines(result: TraceResult) -> Iterator[str]:
    if result.text is None:
        yield "Extracted: no text"
    else:
        yield f"Extracted: {number(len(result.text.encode('utf-8', 'surrogatepass')))} bytes, {number(len(result.text))} characters"
        for line in plain(result.text[:TEXT_CHARACTERS]).split("\n"):
            yield f"  │ {line}".rstrip()
        if len(result.text) > TEXT_CHARACTERS:
            yield f"  … and {number(len(result.text) - TEXT_CHARACTERS)} more characters"
    yield ""


def _measurement_lines(result: TraceResult) -> Iterator[str]:
    if result.measurements or result.other_rules:
        yield "Measured"
    block = None
    for one in result.measurements:
        if one.block != block:
            block = one.block
            yield f"  {one_line(block)}"
        value = one_line(one.value) if isinstance(one.value, str) else number(one.value)
        judged = "; ".join(f"{_mark(rule)} {rule.bound} ({one_line(rule.rule)})" for rule in one.rules)
        yield f"    {one_line(one.column):<32} {value:>12}  {judged}".rstrip()
    for rule in result.other_rules:
        yield f"  {_mark(rule)} {one_line(rule.rule)}" + (f": {one_line(rule.bound)}" if rule.bound else "")
    if result.measurements or result.other_rules:
        yield ""


def _mark(rule: Judgement) -> str:
    return "– not asked" if rule.fired is None else "✗ FIRED" if rule.fired else "✓"


def _copy_lines(result: TraceResult) -> Iterator[str]:
    if (cluster := result.cluster) is not None:
        yield f"Duplicates: one of {number(cluster.size)} in cluster {cluster.cluster}"
        if cluster.kept_id is not None:
            row = result.decision
            rule = row["rule"] if row and row["kept_id"] == cluster.kept_id else None
            yield f"  the kept copy is {cluster.kept_id}: {likeness(rule, cluster.similarity, cluster.verified)}"
        for member in cluster.members:
            yield f"  with {member}"
        if cluster.size - 1 > len(cluster.members):
            yield f"  and {number(cluster.size - 1 - len(cluster.members))} more"
        yield ""
    if (row := result.earlier) is not None:
        how = "the texts are equal" if row["exact"] else f"similarity {number(row['similarity'])} (estimated)"
        yield f"Earlier corpora: {one_line(row['run'])} holds it as {row['earlier_id']}, {how}"
        yield f"  there in source {one_line(row['earlier_source'])}" + (
            f", {one_line(row['earlier_url'])}" if row["earlier_url"] else ""
        )
        yield ""
    if result.contamination:
        yield f"Contamination: {number(len(result.contamination))} benchmark items"
        for row in result.contamination[:MAX_SHOWN]:
            yield from leak_lines(row, "  ")
        yield ""
    if result.edits:
        yield f"Edits: {number(len(result.edits))} spans cut out, {number(sum(row['end'] - row['start'] for row in result.edits))} bytes"
        for row in result.edits[:MAX_SHOWN]:
            yield f"  bytes {number(row['start'])} to {number(row['end'])} by {one_line(row['rule'])} ({one_line(row['phase'])})"
        yield ""


def _decision_lines(result: TraceResult) -> Iterator[str]:
    row = result.decision
    if row is None:
        yield "Decision: none yet"
    elif row["kept"]:
        yield "Decision: kept"
    else:
        value = row["value_label"] if row["value_label"] is not None else row["value"]
        shown = "" if value is None else f": {one_line(value) if isinstance(value, str) else number(value)}"
        bound = f", bound {one_line(row['threshold'])}" if row["threshold"] else ""
        yield f"Decision: removed by {one_line(row['rule'] or '?')} (stage {one_line(row['stage'] or '?')}){shown}{bound}"
        if row["also_fired"]:
            yield "  also fired: " + ", ".join(one_line(rule) for rule in row["also_fired"])
        if row["kept_id"]:
            yield from _kept_lines(result, row)
    if (document := result.document) is not None:
        size = len(document["text"].encode("utf-8", "surrogatepass"))
        language = f", language {one_line(document['language'])}" if document["language"] else ""
        yield f"  in the corpus: {number(size)} bytes, split {one_line(document['split'])}{language}"
    yield ""


def _kept_lines(result: TraceResult, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield which document stands for this one, where it is from, and the words in which they differ."""
    verified = result.cluster.verified if result.cluster and result.cluster.kept_id == row["kept_id"] else None
    yield f"  in favour of {row['kept_id']}: {likeness(row['rule'], row['similarity'], verified)}"
    if (kept := result.kept_copy) is None:
        return
    place = one_line(kept["path"]) + (f" at {number(kept['offset'])}" if kept["offset"] is not None else "")
    yield "    " + ", ".join([one_line(kept["source"]), *([one_line(kept["url"])] if kept["url"] else []), place])
    there, here = what_differs(kept["text"], result.text or "")
    yield from (f"    │ {line}".rstrip() for line in plain(kept["text"][:KEPT_CHARACTERS]).split("\n"))
    if len(kept["text"]) > KEPT_CHARACTERS:
        yield f"    … and {number(len(kept['text']) - KEPT_CHARACTERS)} more characters"
    for what, pieces in (("there", there), ("here", here)):
        if pieces:
            yield f"    as extracted, only {what}: " + " │ ".join(one_line(piece, 80) for piece in pieces)


def _token_lines(result: TraceResult) -> Iterator[str]:
    if (place := result.tokens) is None:
        yield "Tokens: none" + ("" if result.document is not None else " (not in the corpus)")
        return
    length = place.end - place.start
    span = f"tokens {number(place.shard_start)} to {number(place.shard_start + length)}"
    yield f"Tokens: {number(length)}, in shard {place.shard}, {span}"
    if place.split != "train":
        yield f"  split {one_line(place.split)}: never trained on"
        return
    if result.windows is None:
        yield "  no mixture: not drawn for training"
        return
    yield (
        f"  windows {_range(result.windows)} of the source's stream"
        if result.windows
        else "  behind the last whole window: never drawn"
    )
    if result.windows and not result.visits:
        yield "  the mixture draws none of them"
    for index, visit in enumerate(result.visits[:MAX_VISITS]):
        seeds: dict[str, list[str]] = {}
        for run in result.training:
            step = run.steps[index]
            seeds.setdefault(f"step {number(step)}" if step is not None else "not reached", []).append(
                one_line(run.seed)
            )
        at = "; ".join(
            f"{step} of seed{'' if len(names) == 1 else 's'} {', '.join(names)}" for step, names in seeds.items()
        )
        stage = f", stage {visit.stage + 1} of {result.num_stages}" if result.num_stages > 1 else ""
        yield f"  window {number(visit.window)} in slot {number(visit.slot)}{stage}" + (f": {at}" if at else "")
    if len(result.visits) > MAX_VISITS:
        yield f"  and {number(len(result.visits) - MAX_VISITS)} more slots"
    if result.training:
        yield "  (steps count from 0)"


def _range(windows: range) -> str:
    return number(windows.start) if len(windows) == 1 else f"{number(windows.start)} to {number(windows.stop - 1)}"
