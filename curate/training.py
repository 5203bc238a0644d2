"""The phases from encode to train: tokenizer, token shards, mixture, and one trainer process for each seed."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from curate.cache import key_of, sha256_file, stage_key, write_json
from curate.curation import Curation, Shard
from curate.decontaminate.canaries import STREAM
from curate.errors import Problem, RecipeError, StageError
from curate.groups import CLUSTER_SIZE
from curate.plan import Task
from curate.recipe import Recipe, Train
from curate.tokenizer_inputs import find_tokenizer

CANARIES_FILE = "canaries.parquet"
TASKS_FILE = "tasks.parquet"
_SAVED = 85  # the trainer saved and wants to be started again
_REPORT_SECONDS = 15.0


NO_TORCH = "training needs torch. Install it with `pip install 'curate[train]'`, or add --no-train."


def check_trainer(recipe: Recipe) -> None:
    """Ask the trainer whether it would take the settings of `train`, whose packages for loggers must be there; needs no torch.

    Raises:
        RecipeError: If the trainer refuses the settings; in its words.
    """
    settings = recipe.train
    if settings is None:
        return
    with tempfile.TemporaryDirectory(prefix="curate-") as scratch:
        path = Path(scratch) / "config.json"
        write_json(path, trainer_config(settings, settings.seeds[0]))
        result = subprocess.run(
            [sys.executable, "-m", "train", "check", "--settings-only", str(path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if result.returncode:
        place = recipe.places.get("train.overrides", recipe.places.get("train", ""))
        lines = result.stderr.replace(f"{path}: ", "").strip().splitlines()
        raise RecipeError(tuple(Problem("train", line, None, place) for line in lines))


def has_torch() -> bool:
    """Return whether the trainer can run here; loads nothing."""
    return importlib.util.find_spec("torch") is not None


def trainer_config(settings: Train, seed: int, *, answers: bool = False, tasks: bool = False) -> dict[str, Any]:
    """Return config.json of one training run; its paths are relative to its folder in the run folder."""
    return {
        **({"answers": f"../../{CANARIES_FILE}"} if answers else {}),
        **({"tasks": f"../../{TASKS_FILE}"} if tasks else {}),
        "preset": settings.preset,
        "seed": seed,
        "tokens": "../../tokens",
        "mixture": "../../mixture.json",
        "output": ".",
        "overrides": dict(settings.overrides),
    }


class Training:
    """Goes on where `Curation` ends."""

    def __init__(self, curation: Curation, *, workers: int, train: bool) -> None:
        self.curation = curation
        self.recipe = curation.recipe
        self.workers = workers
        self.wanted = train and self.recipe.train is not None
        self.settings = self.recipe.tokenizer  # with the marks that files beside a loaded one tell
        self.tokenizer = ""  # result key
        self.tokenizer_sha256 = ""
        self.encoded: dict[str, list[str]] = {name: [] for name in self.recipe.names()}  # source -> keys, in order
        self.arranged: dict[str, str] = {}  # source -> result key
        self.planted = ""  # result key of the canaries, or empty
        self.task_items = ""  # result key of the items of tasks, or empty
        self.not_looked_for: list[str] = []  # tasks whose files decontamination does not know
        self.exit_code = 0

    # -- encode --

    def encode(self) -> str:
        """Train or load the tokenizer; encode every document shard."""
        if self.recipe.tokenizer is None:
            return self._skip("encode")
        from curate.phases.tokens import encode_shard

        run = self.curation
        card = self._tokenizer()
        tasks = []
        for shard in run.shards:
            documents = run.entry(shard.collected).files["documents.parquet"]["sha256"]
            shard.encoded = run.key(
                "encode", documents=documents, tokenizer=self.tokenizer_sha256, stage=stage_key(self.settings)
            )
            arguments = (shard.encoded, shard.source.name, shard.collected, self.tokenizer, self.settings)
            tasks.append(Task("encode", shard.source.name, shard.name, (shard.encoded,), encode_shard, arguments))
            self.encoded[shard.source.name].append(shard.encoded)
        run.perform("encode", tasks + self._token_files() + self._canaries() + self._task_items())
        self._count_token_files()
        self._count_canaries()
        self._count_task_items()
        run.account.unchanged("encode")
        self._tell_losses(card)
        run.account.facts["tokenizer"] = card | {"fertility": self._fertility()}
        tokens = sum(run.entry(key).counts["tokens"] for keys in self.encoded.values() for key in keys)
        return f"{tokens:,} tokens, vocabulary {card['vocab_size']:,}"

    def _tell_losses(self, card: dict[str, Any]) -> None:
        """Say what texts lose by a tokenizer that was loaded."""
        if not card.get("losses"):
            return
        run = self.curation
        text = f"tokenizer: texts do not come back exactly: {'; '.join(card['losses'])}."
        lost = [run.entry(shard.encoded).counts.get("bytes_lost") for shard in run.shards]
        if lost and None not in lost:
            card["bytes_lost"] = sum(lost)
            text += f" {card['bytes_lost']:,} bytes of the documents are lost."
        run.account.warnings.append(text)
        run.progress.note(f"  note: {text}")

    def _fertility(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return what was counted of each source's texts and tokens by language; token files have no text."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for shard in self.curation.shards:
            languages = found.setdefault(shard.source.name, {})
            for language, counts in self.curation.entry(shard.encoded).counts["fertility"].items():
                sums = languages.setdefault(language, dict.fromkeys(counts, 0))
                for name, count in counts.items():
                    sums[name] += count
        return {source: dict(sorted(languages.items())) for source, languages in found.items()}

    def _token_files(self) -> list[Task]:
        """Return the tasks that take in sources of token files."""
        from curate.phases.token_files import TokenInputs, take_tokens
        from curate.sources import list_token_files

        run, seed = self.curation, self.recipe.seed
        tasks = []
        for source in self.recipe.token_sources:
            files, run.inputs[source.name] = list_token_files(source, self.recipe, run.cache, self.tokenizer_sha256)
            groups = [files] if run.limit is not None else [[one] for one in files]  # one reader counts to a limit
            for number, group in enumerate(groups):
                inputs = TokenInputs(source.name, source.reader, tuple(group), run.limit, run.sample, seed)
                key = run.key(
                    "encode",
                    source=source.name,
                    reader=stage_key(source.reader),
                    files=[(one.pattern, one.path, one.digest, index and index.digest) for one, index in group],
                    tokenizer=self.tokenizer_sha256,
                    stage=stage_key(self.settings),
                    limit=run.limit,
                    sample=None if run.sample is None else (run.sample, seed),
                )
                self.encoded[source.name].append(key)
                arguments = (key, inputs, self.tokenizer, self.settings)
                tasks.append(Task("encode", source.name, f"{number:05d}", (key,), take_tokens, arguments))
        return tasks

    def _count_token_files(self) -> None:
        """Put the documents of token files into the account: all are read and kept."""
        run = self.curation
        for source in self.recipe.token_sources:
            ledger = run.account.ledgers[source.name]
            for number, key in enumerate(self.encoded[source.name]):
                counts = run.entry(key).counts
                ledger.read += counts["documents"]
                ledger.kept += counts["documents"]
                ledger.bytes_read += counts["bytes"]
                ledger.bytes_kept += counts["bytes"]
                run.publish(key, "decisions.parquet", f"decisions/{source.name}/{number:05d}.parquet")
            ledger.bytes_payload += sum(file["bytes"] for file in run.inputs[source.name]["files"])
            compared = [name for name in ("dedup", "decontaminate", "validation") if getattr(self.recipe, name)]
            if compared:
                text = f"{source.name} holds tokens: it has no part in {', '.join(compared)}."
                run.account.warnings.append(text)
                run.progress.note(f"  note: {text}")

    def _canaries(self) -> list[Task]:
        """Return the task that plants canaries, if the recipe asks for them."""
        decontaminate = self.recipe.decontaminate
        if decontaminate is None or decontaminate.canaries is None:
            return []
        from curate.phases.canaries import plant
        from curate.tasks.benchmarks import benchmark_inputs

        run, settings, seed, window = self.curation, decontaminate.canaries, self.recipe.seed, self.recipe.window()
        benchmarks = benchmark_inputs(self.recipe, run.cache)
        self.planted = run.key(
            "encode",
            canaries=settings,
            benchmarks=[benchmark.identity() for benchmark in benchmarks],
            tokenizer=self.tokenizer_sha256,
            stage=stage_key(self.settings),
            window=window,
            seed=seed,
        )
        if settings.copies:
            self.encoded[STREAM] = [self.planted]
        arguments = (self.planted, settings, benchmarks, self.tokenizer, self.settings, window, seed)
        return [Task("encode", "", STREAM, (self.planted,), plant, arguments)]

    def _count_canaries(self) -> None:
        """Say what was planted: an account of its own, as nothing of it was read."""
        if not self.planted:
            return
        run = self.curation
        run.publish(self.planted, CANARIES_FILE, CANARIES_FILE)
        facts = {name: count for name, count in run.entry(self.planted).counts.items() if name != "ledger"}
        run.account.facts["canaries"] = facts
        if not facts["documents"]:
            return
        items = sum(one["leaked"] for one in facts["benchmarks"].values())
        text = (
            f"LEAKED ON PURPOSE: {items:,} benchmark items stand in the training data as {facts['documents']:,} documents "
            f"of {facts['tokens']:,} tokens (decontaminate.canaries, {CANARIES_FILE}). This run measures memorisation: "
            "its scores on these benchmarks are worth nothing."
        )
        run.account.warnings.append(text)
        run.progress.note(f"  note: {text}")

    def _task_items(self) -> list[Task]:
        """Return the task that encodes the items that the models are measured on, if the recipe asks for that."""
        settings, train = self.recipe.evaluate, self.recipe.train
        if settings is None or train is None:
            return []
        from curate.phases.task_items import write_items
        from curate.tasks.benchmarks import EVALUATE, benchmark_inputs, check_groups

        run, seed = self.curation, self.recipe.seed
        benchmarks = benchmark_inputs(self.recipe, run.cache, EVALUATE)
        check_groups(self.recipe, [one.name for one in benchmarks])
        looked = {file.digest for one in benchmark_inputs(self.recipe, run.cache) for file in one.files}
        missed = [one.name for one in benchmarks if not {file.digest for file in one.files} <= looked]
        self.not_looked_for = missed
        if missed:
            text = (
                f"tasks: {', '.join(missed)}: not looked for in the training data, which may hold their answers. Name the "
                "same files in decontaminate.benchmarks."
            )
            run.account.warnings.append(text)
            run.progress.note(f"  note: {text}")
        self.task_items = run.key(
            "encode",
            evaluate=stage_key(settings),
            benchmarks=[benchmark.identity() for benchmark in benchmarks],
            tokenizer=self.tokenizer_sha256,
            stage=stage_key(self.settings),
            context=train.context,
            seed=seed,
        )
        arguments = (self.task_items, settings, benchmarks, self.tokenizer, self.settings, train.context, seed)
        return [Task("encode", "", "tasks", (self.task_items,), write_items, arguments)]

    def _count_task_items(self) -> None:
        """Say how many items each task has, and what was passed over."""
        if not self.task_items:
            return
        run = self.curation
        run.publish(self.task_items, TASKS_FILE, TASKS_FILE)
        counts = run.entry(self.task_items).counts["tasks"]
        found = {name: one | {"looked_for": name not in self.not_looked_for} for name, one in counts.items()}
        run.account.facts["tasks"] = found
        for name, one in found.items():
            reasons = [f"{count:,} {reason}" for reason, count in one["passed_over"].items()]
            if one["seams_merged"]:
                reasons.append(f"{one['seams_merged']:,} with a token that reaches from the prompt into the choice")
            if reasons:
                run.progress.note(f"  note: task {name}: {one['items_usable']:,} items; without {', '.join(reasons)}")

    def _skip(self, phase: str) -> str:
        self.curation.account.unchanged(phase)
        return "not asked for"

    def _tokenizer(self) -> dict[str, Any]:
        """Make the tokenizer; return its card."""
        from curate.phases.tokens import load_tokenizer, tokenizer_file_of, train_tokenizer

        run, settings = self.curation, self.settings
        assert settings is not None
        if settings.load is not None:
            found = find_tokenizer(self.recipe, run.cache)
            settings = self.settings = found.settings
            self.tokenizer = run.key("encode", load=found.digest, stage=stage_key(settings))
            arguments: tuple[Any, ...] = (self.tokenizer, settings, found.path)
            task = Task("encode", "", "tokenizer", (self.tokenizer,), load_tokenizer, arguments)
        else:
            shards = [(shard.source.name, shard.collected) for shard in run.shards]
            weights = self._sample_weights()
            documents = [run.entry(key).files["documents.parquet"]["sha256"] for _, key in shards]
            seed = self.recipe.seed
            self.tokenizer = run.key(
                "encode",
                tokenizer=stage_key(settings),
                training=stage_key(settings.training),
                documents=documents,
                weights=weights,
                seed=seed,
            )
            arguments = (self.tokenizer, settings, shards, weights, seed)
            task = Task("encode", "", "tokenizer", (self.tokenizer,), train_tokenizer, arguments)
        run.perform("encode", [task])
        entry = run.entry(self.tokenizer)
        for file in entry.files:
            run.publish(self.tokenizer, file, f"tokenizer/{file}")
        self.tokenizer_sha256 = entry.files[tokenizer_file_of(entry)]["sha256"]
        card: dict[str, Any] = json.loads(entry.path("card.json").read_text())
        return card

    def _sample_weights(self) -> dict[str, float]:
        """Return the weights by which sources give texts to learn the tokenizer from."""
        from curate.mix.weights import sample_weights

        run, sizes = self.curation, dict.fromkeys((source.name for source in self.recipe.sources), 0)
        if self.recipe.mixture is None:
            return {}
        for shard in run.shards:
            sizes[shard.source.name] += run.entry(shard.collected).counts["ledger"]["bytes"]["kept"]
        return sample_weights(self.recipe.mixture, sizes)

    # -- arrange --

    def arrange(self) -> str:
        """Write each source's token shards, its documents in the order of training."""
        if self.recipe.tokenizer is None:
            return self._skip("arrange")
        from curate.phases.tokens import arrange_source

        run = self.curation
        groups = self._groups()
        order = self.recipe.mixture.order if self.recipe.mixture is not None else "shuffled"
        tasks = []
        for name, encoded in self.encoded.items():
            known: dict[str, Any] = {"encoded": encoded, "tokenizer": self.tokenizer_sha256, "seed": self.recipe.seed}
            stands = "input" if name == STREAM else order  # canaries stand in rounds
            known |= {"order": stands} if stands != "shuffled" else {}
            arguments: tuple[Any, ...] = (encoded, self.tokenizer, self.settings, self.recipe.seed, stands)
            if name not in groups:
                key = self.arranged[name] = run.key("arrange", **known)
                tasks.append(Task("arrange", name, "", (key,), arrange_source, (key, name, *arguments)))
                continue
            names, keys = groups[name]
            for number, group in enumerate(names):
                key = self.arranged[f"{name}/{group}"] = run.key("arrange", **known, groups=keys, group=number)
                task = (key, f"{name}/{group}", *arguments, keys, number)
                tasks.append(Task("arrange", name, group, (key,), arrange_source, task))
        run.perform("arrange", tasks)
        for name, key in self.arranged.items():
            files = sorted(run.entry(key).files, key=lambda file: file == "manifest.json")  # the manifest comes last
            for file in files:
                run.publish(key, file, f"tokens/{name}/{file}")
        run.account.unchanged("arrange")
        return f"{len(tasks)} sources" if not groups else f"{len(tasks)} streams of {len(self.encoded)} sources"

    def _groups(self) -> dict[str, tuple[tuple[str, ...], list[str]]]:
        """Assign documents to the cells of divided sources; return the names of a source's cells, and a result for each shard."""
        from curate.phases.tokens import assign_groups

        run, mixture = self.curation, self.recipe.mixture
        found: dict[str, tuple[tuple[str, ...], list[str]]] = {}
        tasks = []
        for name in self.recipe.names() if mixture is not None else ():
            division = mixture.division(name) if mixture is not None else None
            if division is None:
                continue
            keys = []
            for shard in run.shards:
                if shard.source.name == name:
                    axes = [
                        (*self._measured(shard, one.by), one.by, list(one.labels.values())) for one in division.axes
                    ]
                    key = run.key("arrange", encoded=shard.encoded, axes=axes)
                    arguments = (key, name, shard.encoded, axes)
                    tasks.append(Task("arrange", name, f"groups {shard.name}", (key,), assign_groups, arguments))
                    keys.append(key)
            found[name] = (tuple(division.cells()), keys)
        run.perform("arrange", tasks)
        return found

    def _measured(self, shard: Shard, column: str) -> tuple[str, str]:
        """Return the result and the file of it that hold a column of a shard's documents."""
        measured = None if column == CLUSTER_SIZE else shard.measurement(column)
        if measured is not None:
            return measured, "measurements.parquet"
        return shard.collected, "documents.parquet"  # the size of the cluster, or the language that the input declares

    def _tokens(self, split: str) -> dict[str, int]:
        counts = {}
        for name in self.arranged:
            manifest = json.loads((self.curation.output / "tokens" / name / "manifest.json").read_text())
            counts[name] = sum(shard["tokens"] for shard in manifest["shards"] if shard["split"] == split)
        return counts

    # -- mix --

    def mix(self) -> str:
        """Decide what each source gives; write mixture.json."""
        settings = self.recipe.mixture
        if settings is None:
            return self._skip("mix")
        from curate.mix.plan import plan_mixture
        from curate.mix.planted import with_planted

        run = self.curation
        window = self.recipe.window()
        available = self._tokens("train")
        planted = available.pop(STREAM, None)
        mixture = plan_mixture(settings, available, window=window, seed=self.recipe.seed)
        if planted is not None:
            mixture = with_planted(mixture, STREAM, planted)
        run.write("mixture.json", mixture)
        run.account.phase("mix").keys.append(run.key("mix", mixture=mixture))
        run.account.unchanged("mix")
        for warning in mixture["warnings"]:
            run.account.warnings.append(f"mixture: {warning}")
            run.progress.note(f"  note: {warning}")
        return f"{mixture['tokens']:,} tokens in windows of {window}"

    # -- train --

    def train(self) -> str:
        """Start one trainer process for each seed; as many at once as there are workers, or GPUs."""
        settings = self.recipe.train
        run = self.curation
        if settings is None or not self.wanted:
            self._clear_stale()
            return self._skip("train")
        data = self._data()
        keys = run.account.phase("train").keys
        waiting: deque[tuple[int, Path]] = deque()
        for seed in settings.seeds:
            folder = run.output / "train" / str(seed)
            config = trainer_config(settings, seed, answers=bool(self.planted), tasks=bool(self.task_items))
            keys.append(key_of(config=config, data=data))
            self._prepare(folder, config, keys[-1], data)
            waiting.append((seed, folder))
        self._clear_other_seeds(settings.seeds)
        record = run.account.phase("train")
        unfinished = deque((seed, folder) for seed, folder in waiting if not (folder / "summary.json").exists())
        record.tasks_reused, record.tasks_run = len(waiting) - len(unfinished), len(unfinished)
        run.progress.phase("train", record.tasks_run, record.tasks_reused)
        _Launcher(run, self._slots(), unfinished).work()
        if not all((folder / "summary.json").exists() for _, folder in waiting):
            self.exit_code = _SAVED
            return "saved, to be started again"
        run.account.unchanged("train")
        losses = []
        for seed in settings.seeds:
            summary = json.loads((run.output / "train" / str(seed) / "summary.json").read_text())
            losses.append(f"{summary['first_loss']:.2f} to {summary['last_loss']:.2f}")
            if summary["skipped_steps"]:
                text = (
                    f"train: seed {seed} skipped {summary['skipped_steps']} of {summary['steps']} steps and was rolled back "
                    f"{summary['rollbacks']} times; the report names the documents that they read."
                )
                run.account.warnings.append(text)
                run.progress.note(f"  note: {text}")
        return "loss " + ", ".join(losses)

    def _data(self) -> str | None:
        """Return the digest of all that the trainers read, or None without a mixture."""
        output = self.curation.output
        if self.recipe.mixture is None:
            return None
        tokens = {name: sha256_file(output / "tokens" / name / "manifest.json") for name in self.arranged}
        measured = {CANARIES_FILE: self.planted, TASKS_FILE: self.task_items}
        measured = {file: sha256_file(output / file) for file, key in measured.items() if key}
        return key_of(tokens=tokens | measured, mixture=sha256_file(output / "mixture.json"))

    def _clear_stale(self) -> None:
        """Remove training runs that read other data than this run wrote: the report would show them as its own."""
        data = self._data() if self.recipe.train is not None else None
        for folder in (self.curation.output / "train").glob("*"):
            if _stamp(folder).get("data", "") != data:
                self.curation.progress.note(f"  note: {folder} was trained on other data; it is removed.")
                shutil.rmtree(folder)
        with contextlib.suppress(OSError):
            (self.curation.output / "train").rmdir()

    def _slots(self) -> list[dict[str, str]]:
        """Return the environment additions of each place where a trainer can run."""
        devices = sorted(Path("/dev").glob("nvidia[0-9]*"))
        if devices:
            return [{"CUDA_VISIBLE_DEVICES": device.name.removeprefix("nvidia")} for device in devices]
        return [{} for _ in range(self.workers)]

    def _prepare(self, folder: Path, config: dict[str, Any], key: str, data: str | None) -> None:
        """Write config.json; a folder that another configuration or other data made is begun anew."""
        known = _stamp(folder).get("key")
        if known != key and folder.exists():
            if any(folder.iterdir()):
                self.curation.progress.note(
                    f"  note: {folder} was trained with other settings or data; it is begun anew."
                )
            shutil.rmtree(folder)
        if known != key:
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / "config.json", config)
            write_json(folder / "data.json", {"key": key, "data": data})

    def _clear_other_seeds(self, seeds: tuple[int, ...]) -> None:
        for folder in (self.curation.output / "train").iterdir():
            if folder.name not in {str(seed) for seed in seeds}:
                shutil.rmtree(folder)


def _stamp(folder: Path) -> dict[str, Any]:
    """Return what a training folder says about what it was trained on; empty if it says nothing."""
    with contextlib.suppress(OSError, ValueError):
        stamp: dict[str, Any] = json.loads((folder / "data.json").read_text())
        return stamp
    return {}


class _Launcher:
    """Runs trainer processes in a number of places, one after another in each."""

    def __init__(self, run: Curation, slots: list[dict[str, str]], waiting: deque[tuple[int, Path]]) -> None:
        self.run = run
        self.slots = slots
        self.waiting = waiting
        self.said = 0.0

    def work(self) -> None:
        """Run all; raise the first failure after the others were asked to save."""
        free = list(self.slots)
        busy: dict[subprocess.Popen[str], tuple[int, Path, dict[str, str], threading.Thread]] = {}
        try:
            while self.waiting or busy:
                while self.waiting and free:
                    seed, folder = self.waiting.popleft()
                    slot = free.pop(0)
                    process, reader = self._start(seed, folder, slot)
                    busy[process] = (seed, folder, slot, reader)
                time.sleep(0.1)
                for process in [one for one in busy if one.poll() is not None]:
                    seed, folder, slot, reader = busy.pop(process)
                    reader.join()
                    free.append(slot)
                    self._ended(seed, folder, process.returncode)
        finally:
            for process in busy:
                process.send_signal(signal.SIGTERM)  # it saves and exits
            for process, (_, _, _, reader) in busy.items():
                try:
                    process.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                reader.join()

    def _start(self, seed: int, folder: Path, slot: dict[str, str]) -> tuple[subprocess.Popen[str], threading.Thread]:
        process = subprocess.Popen(
            [sys.executable, "-m", "train", "run", str(folder / "config.json")],
            env=os.environ | slot | {"TRAIN_PARENT": str(os.getpid())},  # it ends with this process
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C reaches this process, which asks the trainers to save
        )
        reader = threading.Thread(target=self._read, args=(seed, folder, process), daemon=True)
        reader.start()
        return process, reader

    def _read(self, seed: int, folder: Path, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr as stream, (folder / "log.txt").open("a") as log:
            for line in stream:
                log.write(line)
                log.flush()
                if time.monotonic() - self.said > _REPORT_SECONDS:
                    self.said = time.monotonic()
                    self.run.progress.note(f"  seed {seed}: {line.rstrip()}")

    def _ended(self, seed: int, folder: Path, code: int) -> None:
        self.run.progress.task(f"seed {seed}")
        if code not in (0, _SAVED):
            lines = (folder / "log.txt").read_text(errors="replace").splitlines()[-8:]
            raise StageError(
                "",
                "train",
                str(folder),
                f"the trainer of seed {seed} failed (exit {code}):\n    " + "\n    ".join(lines),
                "Its log is log.txt in that folder. Do what it asks for, or run again to go on from the last checkpoint.",
            )
