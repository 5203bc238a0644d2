"""The phases from extract to collect: their tasks, their keys, what goes into the account and into the run folder."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.blocks import lay_out
from curate.cache import Cache, Entry, key_of, link, stage_key, write_bytes, write_json
from curate.errors import StageError
from curate.inputs import Part, fixed_shards
from curate.plan import PHASES, Task
from curate.progress import Progress
from curate.recipe import Recipe, SourceRecipe
from curate.sources import demo_path, list_sources, removal_task
from curate.tasks.bounds import resolve_bounds
from curate.tasks.copies import Linked, choose_copies, link_copies, resolve_copies
from curate.tasks.decontaminate import benchmark_index, decontaminate_corpus, overlaps_measure
from curate.tasks.earlier import remove_earlier, write_signatures
from curate.tasks.lines import cut_lines, lines_measure
from curate.tasks.semantic import find_semantic, vectors_measure
from curate.tasks.spans import cut_repeated_spans, tokens_measure

if TYPE_CHECKING:
    from curate.execute.local import LocalExecutor, TaskDone
    from curate.manifest import Account
    from curate.phases.cluster import ShardOfCorpus
    from curate.phases.decide import Judged
    from curate.phases.measure import Block

SHARD_BYTES = 2 << 20  # of input: small neighbours are grouped up to this (compressed HTML grows tenfold)
SHARD_FILES = 256

_SHOWN = 5  # warnings while running; the manifest has more, the ledger all

# Raise when the phase's own code changes its results; the stages have versions of their own.
VERSIONS = dict.fromkeys(PHASES, 1) | {
    "extract": 4,
    "encode": 5,
    "arrange": 3,
    "mix": 5,
    "cluster": 4,
    "choose": 4,
    "decontaminate": 5,
}


@dataclass(slots=True)
class Shard:
    """One shard of a source, with the result keys known so far."""

    source: SourceRecipe
    number: int
    parts: tuple[Part, ...]
    extracted: str = ""
    blocks: tuple[Block, ...] = ()
    finals: tuple[Block, ...] = ()
    judged: tuple[Judged, ...] = ()
    revision: str = ""  # key of the last text revision
    signatures: str = ""
    matches: str = ""
    lines: str = ""
    tokens: str = ""
    vectors: str = ""
    decided: list[str] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)
    choice: tuple[str, str] | None = None
    collected: str = ""
    encoded: str = ""
    first: int = 0

    @property
    def name(self) -> str:
        """Return the shard's file name in the run folder, without ending."""
        return f"{self.number:05d}"

    def measurement(self, column: str) -> str | None:
        """Return the result key of the last block that measures a column, or None if none does."""
        keys = {block.key: block.step.adds for block in self.blocks}
        for block in reversed(self.judged):
            adds = block.ranking.adds if block.ranking is not None else keys.get(block.key or "", {})
            if column in adds:
                return block.key
        return None


class Curation:
    """The curation of one run; `Training` goes on where it ends."""

    def __init__(
        self,
        recipe: Recipe,
        output: Path,
        cache: Cache,
        executor: LocalExecutor,
        account: Account,
        progress: Progress,
        *,
        limit: int | None,
        sample: float | None,
    ) -> None:
        self.recipe = recipe
        self.output = output
        self.cache = cache
        self.executor = executor
        self.account = account
        self.progress = progress
        self.limit = limit
        self.sample = sample
        self.shards: list[Shard] = []
        self.inputs: dict[str, Any] = {}
        self.files: set[Path] = set()  # of the run folder, relative; all others are left over from an earlier run
        self.clusters: str | None = None
        self.linked: Linked | None = None
        self.index: str | None = None

    # -- helpers --

    def perform(self, phase: str, tasks: Sequence[Task]) -> None:
        """Run those tasks of a phase that have no result yet."""
        record = self.account.phase(phase)
        record.keys.extend(key for task in tasks for key in task.keys)
        todo = [task for task in tasks if task.missing(self.cache)]
        record.tasks_run += len(todo)
        record.tasks_reused += len(tasks) - len(todo)
        self.progress.phase(phase, len(todo), len(tasks) - len(todo))

        def done(result: TaskDone) -> None:
            record.peak_bytes = max(record.peak_bytes, result.peak_bytes)
            self.progress.task(result.task.label)

        self.executor.run(todo, done)

    def entry(self, key: str) -> Entry:
        """Return a result that must be there."""
        entry = self.cache.entry(key)
        assert entry is not None, key
        return entry

    def _digests(self, keys: Sequence[str], name: str) -> list[str]:
        return [self.entry(key).files[name]["sha256"] for key in keys]

    def publish(self, key: str, name: str, place: str) -> None:
        """Link a file of a result into the run folder."""
        link(self.entry(key).path(name), self.output / place)
        self.files.add(Path(place))

    def write(self, place: str, value: Any) -> None:
        """Write a JSON file of the run folder."""
        write_json(self.output / place, value)
        self.files.add(Path(place))

    def key(self, phase: str, **parts: Any) -> str:
        """Return a result key of this phase."""
        return key_of(phase=phase, version=VERSIONS[phase], **parts)

    # -- extract --

    def extract(self) -> str:
        """Read, gate, extract, repair."""
        import importlib.metadata

        from curate.phases.extract import ExtractSettings, extract_shard

        arrow = importlib.metadata.version("pyarrow")  # it writes every file, and its version shows in the bytes
        tasks = []
        for source, parts in zip(self.recipe.sources, self._parts(), strict=True):
            lists = self._removal_lists(source)
            self.inputs[source.name] |= {**source.stated.values(), **lists[1]}
            sizes = tuple(part.bytes for part in parts)
            whole = self.limit is not None
            groups = (tuple(range(len(parts))),) if whole else fixed_shards(sizes, SHARD_BYTES, SHARD_FILES)
            for number, group in enumerate(groups):
                shard = Shard(source, number, tuple(parts[index] for index in group))
                keys = {"extractor": stage_key(source.extractor), "repair": stage_key(source.repair)}
                shard.extracted = self.key(
                    "extract",
                    source=source.name,
                    reader=stage_key(source.reader),
                    gate=stage_key(source.gate.without_lists()),
                    lists=lists[0],
                    **keys,
                    files=[part.identity() for part in shard.parts],
                    limit=self.limit,
                    sample=None if self.sample is None else (self.sample, self.recipe.seed),
                    arrow=arrow,
                )
                settings = ExtractSettings(
                    source.name,
                    source.reader,
                    source.gate,
                    source.extractor,
                    source.repair,
                    keys["extractor"],
                    keys["repair"],
                    self.limit,
                    self.sample,
                    self.recipe.seed,
                    lists[0],
                )
                arguments = (shard.extracted, settings, shard.parts)
                tasks.append(Task("extract", source.name, shard.name, (shard.extracted,), extract_shard, arguments))
                self.shards.append(shard)
        self.perform("extract", tasks)
        first = 0
        for shard in self.shards:
            counts = self.entry(shard.extracted).counts
            shard.first = first
            first += counts["extracted"]
            ledger = self.account.ledgers[shard.source.name]
            ledger.read += counts["read"]
            ledger.kept += counts["read"]
            ledger.bytes_read += counts["bytes_read"]
            ledger.bytes_kept += counts["bytes_read"]
            ledger.bytes_payload += counts["payload"]
            for reason, count in counts["skipped"].items():
                ledger.skipped[reason] = ledger.skipped.get(reason, 0) + count
            self.account.warnings.extend(f"{shard.source.name}: {text}" for text in counts["warnings"])
            self.account.add_repairs(shard.source.name, counts["repairs"], counts["repaired"])
            for name in ("extracted", "sizes"):
                self.publish(shard.extracted, f"{name}.parquet", f"{name}/{shard.source.name}/{shard.name}.parquet")
        self._truth()
        self._removals("extract", [{"bytes": {}, **self.entry(shard.extracted).counts} for shard in self.shards])
        self.account.warn_unreadable()
        self._unlisted()
        for source in self.recipe.sources:  # those of token files are read later
            if not self.account.ledgers[source.name].read:
                self.account.warnings.append(f"{source.name}: its files hold no record at all.")
        for warning in self.account.warnings[:_SHOWN]:
            self.progress.note(f"  note: {warning}")
        if len(self.account.warnings) > _SHOWN:
            self.progress.note(
                f"  note: {len(self.account.warnings) - _SHOWN} more records could not be read; manifest.json names them."
            )
        return self._documents("read", sum(ledger.read for ledger in self.account.ledgers.values()))

    def _parts(self) -> list[list[Part]]:
        """Return the input files of each source, the large ones in parts; with a limit whole, as one reader counts to it."""
        from curate.phases.parts import PART_BYTES, divide

        found, facts = list_sources(self.recipe, self.cache, (self.output, self.cache.root / "entries"))
        self.inputs |= facts
        perform = functools.partial(self.perform, "extract")
        return divide(found, self.cache, perform, every=None if self.limit is not None else PART_BYTES)

    def _removal_lists(self, source: SourceRecipe) -> tuple[str | None, dict[str, Any]]:
        """Compile the removal lists of a source; return their key and what the manifest says of them, if there are any."""
        task, facts = removal_task(source, self.recipe, self.cache)
        if task is None:
            return None, {}
        self.perform("extract", [task])
        for name, count in self.entry(task.keys[0]).counts.items():
            facts[name]["distinct"] = count
            if not count:
                self.account.warnings.append(
                    f"{source.name}: the list gate.remove.{name} is empty: it removes nothing."
                )
        return task.keys[0], {"remove": facts}

    def _unlisted(self) -> None:
        """Warn of a list of addresses that can remove nothing, as no document states one."""
        for name, ledger in self.account.ledgers.items():
            counts = [self.entry(shard.extracted).counts for shard in self.shards if shard.source.name == name]
            if ledger.read and sum(count["without_url"] for count in counts) == ledger.read:
                text = f"{name}: no document has an address, so gate.remove.urls removes none. Check `url` of `read`."
                self.account.warnings.append(text)

    def _truth(self) -> None:
        """Keep the demo corpus's truth table in the run folder: the report compares it with what was decided."""
        if (
            self.limit is None
            and self.sample is None
            and any(path.startswith("demo://") for source in self.recipe.sources for path in source.paths)
        ):
            truth = Path(demo_path("demo://truth.jsonl", self.cache))
            write_bytes(self.output / "truth.jsonl", truth.read_bytes())
            self.files.add(Path("truth.jsonl"))

    def _removals(self, phase: str, counts: Sequence[Any]) -> None:
        """Move removed documents in the account, source by source."""
        for source in self.recipe.sources:
            removed: dict[str, int] = {}
            sizes: dict[str, int] = {}
            for shard, count in zip(self.shards, counts, strict=True):
                if shard.source is source:
                    for name, number in count["removed"].items():
                        removed[name] = removed.get(name, 0) + number
                    for name, number in count["bytes"].items():
                        sizes[name] = sizes.get(name, 0) + number
            self.account.remove(phase, source.name, removed, sizes)
            self._check_errors(phase, source.name, removed)

    def _check_errors(self, phase: str, source: str, removed: dict[str, int]) -> None:
        """Fail the run if more rows made steps raise than `max_errors`, and show some of what they said."""
        errors = {name: number for name, number in removed.items() if name.endswith(".error")}
        if sum(errors.values()) > self.recipe.max_errors:
            counts = ", ".join(f"{name.partition('/')[2]} {number:,}" for name, number in errors.items())
            said = "".join(f"\n    {message}" for message in self._error_messages(phase, source))
            raise StageError(
                source,
                phase,
                "",
                f"steps raised an error on {sum(errors.values())} documents, more than max_errors "
                f"({self.recipe.max_errors}): {counts}.{said}\n ",
                "Mend the cause, or raise max_errors: such documents are removed and counted.",
            )

    def _error_messages(self, phase: str, source: str) -> list[str]:
        """Return up to three of the messages with which documents of a source were removed as errors."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        found: list[str] = []
        for shard in self.shards:
            key = shard.extracted if phase == "extract" else shard.decided[0] if shard.decided else ""
            if shard.source.name == source and key and len(found) < 3:
                table = pq.read_table(self.entry(key).path("removed.parquet"), columns=["id", "rule", "value_label"])
                table = table.filter(pc.ends_with(table["rule"], ".error")).slice(0, 3)
                found += [f"{row['id']}: {row['rule']}: {row['value_label']}" for row in table.to_pylist()]
        return found[:3]

    def _documents(self, verb: str, number: int) -> str:
        kept = sum(ledger.kept for ledger in self.account.ledgers.values())
        return f"{number:,} documents {verb}, {kept:,} still kept"

    # -- measure --

    def measure(self) -> str:
        """Apply the steps of each source; store their numbers."""
        from curate.phases.measure import measure_shard

        self.index = benchmark_index(self)
        tasks = []
        for shard in self.shards:
            last = self._last_measures(shard)
            keys = tuple(dict.fromkeys([block.key for block in shard.blocks] + [one.key for one in last]))
            if keys:
                arguments = (shard.source.name, shard.extracted, shard.blocks, last)
                tasks.append(Task("measure", shard.source.name, shard.name, keys, measure_shard, arguments))
        self.perform("measure", tasks)
        for shard in self.shards:
            for block in shard.blocks:
                place = f"measurements/{shard.source.name}/{block.name}/{shard.name}.parquet"
                self.publish(block.key, "measurements.parquet", place)
        self.account.unchanged("measure")
        return f"{sum(len(source.steps) for source in self.recipe.sources)} steps over {len(self.shards)} shards"

    def _last_measures(self, shard: Shard) -> list[Any]:
        """Return the measures of the shard's last revision, after setting the keys of its blocks."""
        from curate.dedup.minhash import Signatures
        from curate.dedup.settings import clustering
        from curate.phases.cluster import SIGNATURES, prepare_signatures
        from curate.phases.measure import LastMeasure

        layout = lay_out(
            shard.source, shard.extracted, lambda revision, step: self.key("measure", revision=revision, step=step)
        )
        shard.blocks, shard.finals = layout.blocks, layout.finals
        shard.judged, shard.revision = layout.judged, layout.revision
        last: list[Any] = []
        if self.clustered:
            dedup = self.recipe.dedup
            signatures = Signatures.of(clustering(dedup), stored=dedup is not None and dedup.stores_signatures)
            own = stage_key(signatures)
            masks = [block.stage_key for block in shard.finals if block.step.rewrites]
            shard.signatures = self.key("measure", revision=shard.revision, signatures=own, finals=masks)
            argument = (shard.source.name, shard.finals)
            last.append(
                LastMeasure(
                    "dedup",
                    signatures,
                    own,
                    shard.signatures,
                    SIGNATURES,
                    prepare_signatures,
                    argument,
                    ("word_hashes",),
                )
            )
        lines = lines_measure(self, shard)
        if lines is not None:
            shard.lines = lines.key
            last.append(lines)
        tokens = tokens_measure(self, shard)
        if tokens is not None:
            shard.tokens = tokens.key
            last.append(tokens)
        vectors = vectors_measure(self, shard)
        if vectors is not None:
            shard.vectors = vectors.key
            last.append(vectors)
        overlaps = overlaps_measure(self, shard, self.index)
        if overlaps is not None:
            shard.matches = overlaps.key
            last.append(overlaps)
        return last

    @property
    def clustered(self) -> bool:
        """Return whether copies must be found: for dedup, or because validation or decontamination asks for them."""
        return any((self.recipe.dedup, self.recipe.decontaminate, self.recipe.validation))

    # -- decide --

    def decide(self) -> str:
        """Apply bounds to numbers."""
        from curate.phases.decide import decide_shard

        resolve_bounds(self)
        tasks = []
        for shard in self.shards:
            blocks = [dataclasses.astuple(block) for block in shard.judged]
            key = self.key("decide", extracted=shard.extracted, blocks=blocks)
            shard.decided = [key]
            arguments = (key, shard.source.name, shard.extracted, shard.judged)
            tasks.append(Task("decide", shard.source.name, shard.name, (key,), decide_shard, arguments))
        self.perform("decide", tasks)
        before = sum(ledger.kept for ledger in self.account.ledgers.values())
        self._removals("decide", [self.entry(shard.decided[0]).counts for shard in self.shards])
        after = sum(ledger.kept for ledger in self.account.ledgers.values())
        return f"{before - after:,} documents removed, {after:,} still kept"

    # -- cluster --

    def _corpus(self) -> list[ShardOfCorpus]:
        from curate.dedup.settings import clustering
        from curate.phases.cluster import ShardOfCorpus

        keep = clustering(self.recipe.dedup).keep
        ranks = keep.ranks([source.name for source in self.recipe.sources])
        return [
            ShardOfCorpus(
                shard.source.name,
                ranks[shard.source.name],
                shard.first,
                shard.extracted,
                shard.signatures,
                shard.blocks,
                tuple(shard.decided),
                tuple(shard.edits),
                shard.lines,
                shard.tokens,
                tuple((name, found) for name in keep.columns if (found := shard.measurement(name)) is not None),
            )
            for shard in self.shards
        ]

    def cluster(self) -> str:
        """Find copies over all sources."""
        from curate.document import DUPLICATES

        if not self.clustered:
            self._empty("duplicates.parquet", DUPLICATES)
            self.account.unchanged("cluster")
            return "not asked for"
        from curate.dedup.settings import clustering

        corpus = self._corpus()
        self.linked = link_copies(self, corpus, clustering(self.recipe.dedup))
        self.clusters = self.linked.clusters
        self.publish(self.clusters, "duplicates.parquet", "duplicates.parquet")
        self.account.unchanged("cluster")
        passes = [cut_lines(self, corpus, self.clusters)]
        passes.append(cut_repeated_spans(self, self._corpus(), self.clusters))
        passes.append(remove_earlier(self, self._corpus()))
        self._removals("cluster", [_removed_by(shard) for shard in zip(*passes, strict=True)])
        import pyarrow.parquet as pq

        sizes = pq.read_table(self.entry(self.clusters).path("clusters.parquet"), columns=["cluster"])["cluster"]
        told = f"{len(sizes):,} documents in {len(sizes.unique()):,} clusters of copies"
        if self.recipe.dedup is None or self.recipe.dedup.copies is None:
            told += ", which this recipe keeps"
        removed = sum(sum(one["removed"].values()) for cut in passes for one in cut)
        return told + (f"; {removed:,} documents removed by lines, spans or earlier corpora" if removed else "")

    def _empty(self, place: str, schema: Any) -> None:
        """Write a file with zero rows."""
        from curate.pipeline import ParquetFile

        temporary = self.cache.temporary / "empty.parquet"
        with ParquetFile(temporary, schema):
            pass
        write_bytes(self.output / place, temporary.read_bytes())
        self.files.add(Path(place))

    # -- decontaminate --

    def decontaminate(self) -> str:
        """Remove, cut or flag documents that hold benchmark items."""
        from curate.document import CONTAMINATION

        if self.index is None:
            self._empty("contamination.parquet", CONTAMINATION)
            self.account.unchanged("decontaminate")
            return "not asked for"
        counts = decontaminate_corpus(self, self._corpus(), self.index, self.clusters)
        self._removals("decontaminate", counts)
        return f"{sum(sum(one['removed'].values()) for one in counts):,} documents removed"

    # -- choose --

    def choose(self) -> str:
        """Choose kept copies and validation documents."""
        if not self.clustered:
            self.account.unchanged("choose")
            return "not asked for"
        assert self.linked is not None
        dedup = self.recipe.dedup.copies if self.recipe.dedup else None
        corpus, recipe = self._corpus(), self.recipe
        found = resolve_copies(self, corpus, self.linked, dedup)
        semantic = find_semantic(self, corpus, found[1])
        key, compared = choose_copies(self, corpus, self.linked, found, semantic, dedup, recipe.validation, recipe.seed)
        entry = self.entry(key)
        for number, shard in enumerate(self.shards):
            shard.choice = (key, f"choice-{number:05d}.parquet")
        self._removals("choose", entry.counts["shards"])
        self.publish(key, "duplicates.parquet", "duplicates.parquet")
        facts = {name: value for name, value in entry.counts.items() if name not in ("shards", "validation")}
        facts["compared"] = compared["compared"]
        if compared["unsure"]:
            facts["not_compared"] = {"documents": compared["unsure"], "pairs_at_most": compared["uncompared"]}
        if dedup is not None:
            self.account.facts["dedup"] = facts
        if "validation" in entry.counts:
            self.account.facts["validation"] = entry.counts["validation"]
            self._shortfalls(entry.counts["validation"])
        removed = sum(sum(one["removed"].values()) for one in entry.counts["shards"])
        return (
            f"{removed:,} copies removed, {sum(ledger.kept for ledger in self.account.ledgers.values()):,} still kept"
        )

    def _shortfalls(self, drawn: Mapping[str, Any]) -> None:
        """Say where the validation set is smaller than asked: it takes at most a tenth of a source."""
        for name, facts in drawn.items():
            if facts["shortfall"]:
                lacking = ", ".join(f"{number:,} {what}" for what, number in facts["shortfall"].items() if number)
                text = f"validation: {name} gives {facts['documents']:,} documents and is short of {lacking} (at most a tenth is taken)."
                self.account.warnings.append(text)
                self.progress.note(f"  note: {text}")

    # -- collect --

    def collect(self) -> str:
        """Write the curated corpus and the decisions."""
        from curate.dedup.settings import clustering
        from curate.phases.collect import Collected, collect_shard

        minhash = clustering(self.recipe.dedup).minhash
        assert minhash is not None
        near = f"< {minhash.verify:g}" + (", containment" if minhash.measure == "containment" else "")
        semantic = self.recipe.dedup.semantic if self.recipe.dedup is not None else None
        alike = f"< {semantic.similarity:g}" if semantic is not None else ""
        tasks = []
        for shard in self.shards:
            languages = [block.key for block in shard.blocks if "language" in block.step.adds]
            settings = Collected(
                source=shard.source.name,
                extracted=shard.extracted,
                decided=tuple(shard.decided),
                edits=tuple(shard.edits),
                choice=shard.choice,
                near=near,
                alike=alike,
                blocks=shard.blocks,
                finals=shard.finals,
                language=languages[-1] if languages else None,
                stated=shard.source.stated,
            )
            shard.collected = self.key(
                "collect",
                extracted=shard.extracted,
                revision=shard.revision,
                decided=self._digests(shard.decided, "removed.parquet"),
                edits=self._digests(shard.edits, "edits.parquet"),
                choice=self.entry(shard.choice[0]).files[shard.choice[1]]["sha256"] if shard.choice else None,
                near=near,
                alike=alike,
                finals=[(block.name, block.stage_key) for block in shard.finals],
                language=settings.language,
                stated=stage_key(settings.stated),
            )
            arguments = (shard.collected, settings)
            tasks.append(Task("collect", shard.source.name, shard.name, (shard.collected,), collect_shard, arguments))
        self.perform("collect", tasks)
        self._settle()
        for shard in self.shards:
            place = f"{shard.source.name}/{shard.name}.parquet"
            for name in ("documents", "decisions", "edits"):
                self.publish(shard.collected, f"{name}.parquet", f"{name}/{place}")
        write_signatures(self)
        self._quarantine()
        kept = sum(ledger.kept for ledger in self.account.ledgers.values())
        size = sum(ledger.bytes_kept for ledger in self.account.ledgers.values())
        return f"{kept:,} documents, {size:,} bytes"

    def _settle(self) -> None:
        measured: dict[str, dict[str, int]] = {}
        for source in self.recipe.sources:
            whole: dict[str, Any] = {}
            for shard in self.shards:
                if shard.source is source:
                    counts = self.entry(shard.collected).counts
                    _sum_into(whole, counts["ledger"])
                    if counts["measured"]:
                        _sum_into(measured.setdefault(source.name, {}), counts["measured"])
            self.account.settle(source.name, whole)
            errors = self.account.phase("collect").sources[source.name]["removed"]
            self._check_errors("collect", source.name, errors)
        if measured:
            self.account.facts["rewritten"] = measured

    def _quarantine(self) -> None:
        from curate.document import QUARANTINE
        from curate.phases.collect import quarantined
        from curate.pipeline import ParquetFile

        temporary = self.cache.temporary / "quarantine.parquet"
        with ParquetFile(temporary, QUARANTINE) as file:
            for shard in self.shards:
                file.write_rows(quarantined(self.entry(shard.collected).path("decisions.parquet")))
        write_bytes(self.output / "quarantine.parquet", temporary.read_bytes())
        self.files.add(Path("quarantine.parquet"))


def _removed_by(passes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return documents and bytes that several passes over one shard removed, one after the other."""
    whole: dict[str, Any] = {"removed": {}, "bytes": {}}
    for one in passes:
        _sum_into(whole, {name: one[name] for name in whole})
    return whole


def _sum_into(whole: dict[str, Any], part: Any) -> None:
    for name, value in part.items():
        if isinstance(value, dict):
            _sum_into(whole.setdefault(name, {}), value)
        else:
            whole[name] = whole.get(name, 0) + value
