"""`curate export`: the corpus of a finished run in the layout of another trainer or of a hub, with a card."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from curate import __version__
from curate.cache import key_of, sha256_file, write_json
from curate.errors import InputError, UsageError
from curate.export.card import card
from curate.export.facts import Facts
from curate.export.folder import MANIFEST, Task, Unfinished, check_target, local_path
from curate.export.layouts import Layout, Megatron, Nanotron, Npy
from curate.export.reading import blend, reading
from curate.export.selection import AGAIN, CANARIES, Selection, check_documents, check_tokens, reached
from curate.export.tokenizer import TokenizerFiles, tokenizer_files
from curate.progress import make_progress
from curate.report.collect import build_report
from curate.report.run import RunFolder
from curate.tokens.order import Plan

FORMATS = ("megatron", "npy", "nanotron", "parquet", "hf")
ORDERS = ("arranged", "mixture")
_TOKEN_FORMATS = FORMATS[:3]
_VERSION = 2  # of the bytes that this code writes; an unfinished export of another version is begun anew
_CARDS = {"hf": "README.md"}


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote.

    Attributes:
        output: The folder.
        card: Its card.
        documents, tokens, files, bytes: In the data files; tokens are 0 without ids, documents windows of `mixture`.
        resumed: Tasks that an earlier, interrupted export had finished.
    """

    output: Path
    card: Path
    documents: int
    tokens: int
    files: int
    bytes: int
    resumed: int


def export(
    run: str | Path,
    format: str,
    *,
    output: str | Path | None = None,
    sources: Sequence[str] = (),
    split: str | None = None,
    order: str = "arranged",
    quiet: bool = False,
) -> Exported:
    """Write a run's corpus in another format: whole or not at all; an interrupted export is taken up where it stopped.

    Args:
        run: A finished run folder, also one that was copied elsewhere.
        format: megatron, npy, nanotron, parquet or hf.
        output: The folder; default exports/<run>-<format>. It must be new or empty.
        sources: Only these; default all.
        split: Only train or validation; default both.
        order: `arranged`: each document once; `mixture`: the windows of training in its order, repetitions included.
        quiet: Show warnings only.

    Raises:
        UsageError: If the run, the output or the options cannot be used.
        InputError: If a file of the run is damaged: it is named.
    """
    run = Path(run)
    _check_options(format, split, order, sources)
    selection = Selection.of(run, sources, split or ("train" if order == "mixture" else None))
    plan = _check_contents(selection, format, order)
    target = local_path(output) if output is not None else Path("exports") / f"{run.resolve().name}-{format}"
    check_target(target)
    options = {"format": format, "sources": selection.sources, "splits": selection.splits, "order": order}
    key = key_of(version=_VERSION, curate=__version__, options=options, run=selection.state)
    tasks = _data_tasks(selection, format, plan)
    progress = make_progress(quiet=quiet)
    started = time.perf_counter()
    try:
        with Unfinished.opened(target, key) as folder:
            exporter = _Exporter(selection, format, order, plan, folder)
            progress.phase("export", len(tasks), 0)
            for task in tasks:
                folder.perform(task)
                progress.task(task.name)
            exporter.check_counts(tasks)
            last = exporter.last_tasks(tasks)
            for task in last:
                folder.perform(task)
            folder.finish([*tasks, *last])
        result = exporter.result(target, tasks)
        progress.done("export", time.perf_counter() - started, f"{result.files} files, {result.bytes:,} bytes")
    finally:
        progress.close()
    return result


def _check_options(format: str, split: str | None, order: str, sources: Sequence[str]) -> None:
    if format not in FORMATS:
        raise UsageError(f"--format {format}: no such format. Formats: {', '.join(FORMATS)}.")
    if split not in (None, "train", "validation"):
        raise UsageError(f"--split {split}: must be train or validation.")
    if order not in ORDERS:
        raise UsageError(f"--order {order}: must be {' or '.join(ORDERS)}.")
    if order == "mixture":
        if format not in _TOKEN_FORMATS:
            raise UsageError(f"--order mixture: orders windows of tokens; --format {format} has documents.")
        if split == "validation":
            raise UsageError("--order mixture: is the order of training; it has no validation documents.")
        if sources:
            raise UsageError("--order mixture: holds what training reads of all sources; leave --source out.")


def _check_contents(selection: Selection, format: str, order: str) -> Plan | None:
    """Return the plan of `--order mixture`; refuse what the run does not have."""
    run, path = selection.run, selection.run.path
    check_documents(selection)
    if format not in _TOKEN_FORMATS:
        if selection.holds_canaries:
            raise UsageError(f"--source {CANARIES}: has ids, no texts. Use --format {', '.join(_TOKEN_FORMATS)}.")
        if not selection.with_documents:
            raise UsageError(
                f"{path}: its sources are token files, without texts. Use --format {', '.join(_TOKEN_FORMATS)}."
            )
        return None
    if not (run.recipe.get("tokenizer") or run.manifest.get("tokenizer")):
        raise UsageError(
            f"{path}: this run has no tokens, and --format {format} holds ids. Add `tokenizer` to the recipe and run it again, "
            "or use --format parquet or hf, which hold texts."
        )
    if not reached(run, "arrange"):
        raise UsageError(
            f"{path}: this run ended before the phase arrange, which writes its tokens, and --format {format} holds ids. Run "
            "its recipe on, without --until, or use --format parquet or hf, which hold texts."
        )
    check_tokens(selection)
    return _plan(run) if order == "mixture" else None


def _plan(run: RunFolder) -> Plan:
    path = run.path / "mixture.json"
    if path.is_file():
        return Plan.load(path)
    if not run.recipe.get("mixture"):
        raise UsageError(f"{run.path}: this run has no mixture.json. Add `mixture` to the recipe and run it again.")
    if not reached(run, "mix"):
        raise UsageError(
            f"{run.path}: this run ended before the phase mix, which writes mixture.json. Run its recipe on, without --until."
        )
    raise InputError(str(path), "is absent.", AGAIN)


def _data_tasks(selection: Selection, format: str, plan: Plan | None) -> list[Task]:
    """Return the tasks that count documents and those that write the data.

    Raises:
        UsageError: If nothing would be written.
        InputError: If a file that is looked at for it is damaged.
    """
    from curate.export.documents import document_tasks, name_hub, name_parquet
    from curate.export.survey import survey_task
    from curate.export.tokens import shard_tasks, verify_tasks, window_tasks

    if format not in _TOKEN_FORMATS:
        tasks = document_tasks(selection, name_hub if format == "hf" else name_parquet)
    else:
        layouts: dict[str, Layout] = {"megatron": Megatron(), "npy": Npy(), "nanotron": Nanotron()}
        if plan is not None:
            tasks = verify_tasks(selection, plan) + window_tasks(selection, plan, layouts[format])
        else:
            tasks = shard_tasks(selection, layouts[format])
    if not any(task.files for task in tasks):
        chosen = f"the splits {' and '.join(selection.splits)} of {', '.join(selection.sources)}"
        raise UsageError(f"{selection.run.path}: there is no document in {chosen}; nothing was written.")
    return [survey_task(selection, source) for source in selection.with_documents] + tasks


class _Exporter:
    """Looks at what the data tasks of one export wrote, and makes the tasks behind them."""

    def __init__(self, selection: Selection, format: str, order: str, plan: Plan | None, folder: Unfinished) -> None:
        self.selection = selection
        self.format = format
        self.order = order
        self.plan = plan
        self.folder = folder
        self.path = selection.run.path

    def written(self, tasks: Sequence[Task]) -> dict[str, Mapping[str, Any]]:
        """Return what is known of each data file: the task's counts, and its size."""
        return {
            task.files[0]: {
                **self.folder.facts[task.name],
                "file_bytes": sum(self.folder.files[name]["bytes"] for name in task.files),
            }
            for task in tasks
            if task.files
        }

    def surveys(self) -> dict[str, Mapping[str, Any]]:
        """Return the counts of documents by source."""
        return {source: self.folder.facts[f"survey {source}"] for source in self.selection.with_documents}

    def check_counts(self, tasks: Sequence[Task]) -> None:
        """Compare the documents and bytes of the written files with those of the run, by source and split.

        Raises:
            InputError: If they do not agree.
        """
        if self.plan is not None:
            return  # windows repeat some documents and leave others out; their number was compared file by file
        files = self.written(tasks).values()
        for source, survey in self.surveys().items():
            for split in self.selection.splits:
                of_split = [one for one in files if one["source"].partition("/")[0] == source and one["split"] == split]
                for name in ("documents", "bytes"):
                    found, expected = sum(one[name] for one in of_split), survey[name][split]
                    if found != expected:
                        place = str(self.path / ("tokens" if self.format in _TOKEN_FORMATS else "documents") / source)
                        problem = f"{split}: {found:,} {name} were written, documents/{source} has {expected:,}."
                        raise InputError(place, problem, AGAIN)

    def last_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks behind the data: recipe, tokenizer, card, and the list of all files, which is the last."""
        written = self.written(tasks)
        recipe = self.path / "recipe.yaml"
        facts = Facts(
            self.selection,
            self.format,
            self.order,
            self._report(),
            self.surveys(),
            written,
            sha256_file(recipe) if recipe.is_file() else "",
            self._tokenizer.refused,
        )
        last = [self._copy(name) for name in ("recipe.yaml", "manifest.json") if (self.path / name).is_file()]
        last += [_bytes(f"tokenizer/{name}", content) for name, content in self._tokenizer.contents.items()]
        if self.format == "megatron":
            mixture = {} if self.plan is not None else facts.report.get("mixture") or {}
            last.append(_json("blend.json", blend(written, mixture)))
        last.append(Task(self._card, (self._card,), partial(self._write_card, facts)))
        return [*last, Task(MANIFEST, (MANIFEST,), partial(self._write_manifest, [*tasks, *last], written))]

    def _report(self) -> Mapping[str, Any]:
        """Return the run's report, made again where the run ended before it."""
        return self.selection.run.json("report.json") or build_report(self.path)

    @cached_property
    def _tokenizer(self) -> TokenizerFiles:
        return tokenizer_files(self.selection) if self.format in _TOKEN_FORMATS else TokenizerFiles({}, "")

    @property
    def _card(self) -> str:
        return _CARDS.get(self.format, "CARD.md")

    def _copy(self, name: str) -> Task:
        def write(folder: Path) -> Mapping[str, Any]:
            shutil.copyfile(self.path / name, folder / name)
            return {}

        return Task(name, (name,), write)

    def _write_card(self, facts: Facts, folder: Path) -> Mapping[str, Any]:
        content = card(facts, reading(self.format, self.order, self._ids()))
        if self.format == "hf":
            from curate.export.documents import schema_of
            from curate.export.huggingface import head

            content = head(facts, schema_of(self.selection)) + content
        (folder / self._card).write_text(content, "utf-8")
        return {}

    def _ids(self) -> dict[str, Any]:
        """Return what a reader must know of the ids: dtype in the files, vocab_size, eos_id, window of `mixture`."""
        if self.format not in _TOKEN_FORMATS:
            return {}
        one = self.selection.tokens(self.selection.streams[0], "train")
        dtype = "int32" if (self.format, one.dtype) == ("megatron", "uint32") else one.dtype
        window = {"window": self.plan.window} if self.plan is not None else {}
        return {"dtype": dtype, "vocab_size": one.vocab_size, "eos_id": one.eos_id, **window}

    def _write_manifest(
        self, tasks: Sequence[Task], written: Mapping[str, Mapping[str, Any]], folder: Path
    ) -> Mapping[str, Any]:
        manifest = self.selection.run.manifest
        files = []
        for task in tasks:
            for name in task.files:
                counts = {
                    key: value for key, value in written.get(name, {}).items() if key not in ("file_bytes", "memory")
                }
                size = self.folder.files[name]
                of_text = {"text_bytes": counts.pop("bytes")} if "bytes" in counts else {}
                files.append({"path": name, **size, **counts, **of_text})
        content = {
            "format": self.format,
            "order": self.order,
            "curate": __version__,
            "recipe": manifest.get("recipe"),
            "run_manifest_sha256": sha256_file(self.path / "manifest.json"),
            **self._ids(),
            "sources": list(self.selection.sources),
            "splits": list(self.selection.splits),
            "files": files,
        }
        write_json(folder / MANIFEST, content)
        return {}

    def result(self, target: Path, tasks: Sequence[Task]) -> Exported:
        """Return what was written."""
        written = self.written(tasks).values()
        return Exported(
            target,
            target / self._card,
            sum(one.get("documents", one.get("windows", 0)) for one in written),
            sum(one.get("tokens", 0) for one in written),
            len(self.folder.files),
            sum(one["bytes"] for one in self.folder.files.values()),
            self.folder.resumed,
        )


def _bytes(name: str, content: bytes) -> Task:
    def write(folder: Path) -> Mapping[str, Any]:
        (folder / name).write_bytes(content)
        return {}

    return Task(name, (name,), write)


def _json(name: str, value: Any) -> Task:
    def write(folder: Path) -> Mapping[str, Any]:
        write_json(folder / name, value)
        return {}

    return Task(name, (name,), write)
