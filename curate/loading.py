"""Reading a recipe: YAML to the frozen typed objects of `curate.recipe`. What cannot work is refused, all at once.

It loads none of the families' heavy libraries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from curate.classify.settings import Classifier
from curate.decontaminate.canaries import STREAM
from curate.decontaminate.settings import Decontaminate
from curate.dedup.kinds import Semantic
from curate.dedup.settings import Dedup, Keep, Validation
from curate.errors import Problem, RecipeError, UsageError
from curate.evaluate.settings import Evaluate
from curate.expression import expression_columns, expression_problem
from curate.filter.buckets import QualityBuckets
from curate.filter.extraction import Extraction
from curate.gate import Gate, Remove
from curate.inputs import expand_variables, is_remote
from curate.listed import Listed
from curate.mix.settings import Mixture
from curate.mixture_checks import mixture_problems, name_problems
from curate.plugin import load_module, module_name, step_class
from curate.read.token_files import TokenFiles
from curate.recipe import (
    EXTRACTORS,
    PRESET_CONTEXT,
    READERS,
    REPAIRS,
    STEPS,
    TOKENS,
    Recipe,
    SourceRecipe,
    StepBlock,
    TokenSourceRecipe,
    Train,
)
from curate.refusal import fields, nearest, refusals, shown, unknown_key, wanted_mapping
from curate.stage import Source, Step
from curate.stated import Stated
from curate.tokens.settings import TokenizerSettings
from curate.yamlfile import Key, Tree, dotted, merge, override, read

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}\Z")
_BLOCK = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_\-]*\Z")


def load(path: str | Path, *, sets: Iterable[str] = (), allow_code: bool = False, base: Path | None = None) -> Recipe:
    """Read and check a recipe.

    Args:
        path: The YAML file.
        sets: Overrides such as `dedup.minhash.verify=0.8`.
        allow_code: Whether steps named `module:Class` may be imported from the recipe's folder.
        base: The recipe's folder, where paths start; default that of `path`. For the resolved recipe of a run folder.

    Raises:
        RecipeError: With all problems at once: file, line, key, and what would be right.
    """
    path = Path(path)
    tree = _read_extended(path, ())
    for assignment in sets:
        override(tree, assignment)
    if tree.problems:
        raise RecipeError(tuple(tree.problems))
    return _Loader(tree, path, base or path.parent, allow_code).recipe()


def _read_extended(path: Path, chain: tuple[Path, ...]) -> Tree:
    tree = read(path, str(path))
    if not isinstance(tree.value, Mapping):
        if not tree.problems:
            tree.problems.append(
                Problem("", "a recipe is a mapping of keys such as name, sources, dedup.", 1, str(path))
            )
        tree.value = {}
        return tree
    base = tree.value.get("extends")
    if base is None:
        return tree
    place, line = tree.place(("extends",))
    tree.value = {name: value for name, value in tree.value.items() if name != "extends"}
    if not isinstance(base, str):
        tree.problems.append(Problem("extends", f"must be the path of one recipe; got {shown(base)}.", line, place))
        return tree
    target = path.parent / base
    if target.resolve() in {*(one.resolve() for one in chain), path.resolve()}:
        tree.problems.append(Problem("extends", f"{base} extends this recipe in turn: a circle.", line, place))
        return tree
    if not target.is_file():
        tree.problems.append(
            Problem("extends", f"{target} does not exist. The path is relative to this recipe.", line, place)
        )
        return tree
    return merge(_read_extended(target, (*chain, path)), tree)


class _Loader:
    """Builds the typed recipe, collecting every problem on the way."""

    def __init__(self, tree: Tree, path: Path, base: Path, allow_code: bool) -> None:
        self.tree = tree
        self.path = path
        self.base = base
        self.allow_code = allow_code
        self.problems: list[Problem] = []
        self.modules: dict[str, str] = {}
        self.token_sources: list[TokenSourceRecipe] = []

    def problem(self, key: Key, message: str) -> None:
        place, line = self.tree.place(key)
        self.problems.append(Problem(dotted(key), message, line, place))

    def recipe(self) -> Recipe:
        values: dict[str, Any] = dict(self.tree.value)
        known = (
            "name",
            "seed",
            "max_errors",
            "sources",
            "dedup",
            "decontaminate",
            "tokenizer",
            "validation",
            "mixture",
            "train",
            "classifier",
            "evaluate",
        )
        for key in values:
            if key not in known:
                self.problem((key,), unknown_key(key, (*known, "extends")))
        name = values.get("name", self.path.stem)
        if not isinstance(name, str) or not _NAME.match(name):
            self.problem(("name",), f"must be a short name of letters, digits, '_', '-' and '.'; got {shown(name)}.")
        seed = self._whole(("seed",), values.get("seed", 0), 0, 2**63 - 1)
        max_errors = self._whole(("max_errors",), values.get("max_errors", 100), 0, 2**63 - 1)
        sources = self._sources(values.get("sources"))
        sections = {
            "dedup": self._section(Dedup, ("dedup",)),
            "decontaminate": self._section(Decontaminate, ("decontaminate",)),
            "tokenizer": self._section(TokenizerSettings, ("tokenizer",)),
            "validation": self._section(Validation, ("validation",)),
            "mixture": self._section(Mixture, ("mixture",)),
            "train": self._section(Train, ("train",)),
            "classifier": self._section(Classifier, ("classifier",)),
            "evaluate": self._section(Evaluate, ("evaluate",)),
        }
        self._cross_checks(sources, sections)
        self._check_token_sources(sources, sections)
        if self.problems:
            raise RecipeError(tuple(self.problems))
        return Recipe(
            name=str(name),
            seed=seed,
            max_errors=max_errors,
            sources=tuple(sources),
            token_sources=tuple(self.token_sources),
            base=self.base,
            modules=self.modules,
            places=self._places(),
            **sections,
        )

    def _places(self) -> dict[str, str]:
        keys: list[Key] = [("sources", name, "read", "paths") for name in self.tree.value["sources"]]
        keys += [
            ("sources", name, "gate", "remove", listed)
            for name in self.tree.value["sources"]
            for listed in Remove.model_fields
        ]
        keys += [("decontaminate", "benchmarks"), ("dedup", "against", "runs"), ("tokenizer", "load")]
        keys += [("dedup", "semantic", name) for name in ("model", "embeddings")]
        keys += [("train",), ("train", "overrides")]
        groups = (self.tree.value.get("evaluate") or {}).get("groups") or {}
        keys += [("evaluate", "groups", group) for group in groups]
        keys = [key for key in keys if self.tree.has(key)]
        for section, listed in (("decontaminate", "benchmarks"), ("evaluate", "tasks")):
            if self.tree.has((section, listed)):
                keys += [(section, listed, one) for one in range(len(self.tree.value[section][listed]))]
        return {dotted(key): self.tree.shown_place(key) for key in keys}

    def _whole(self, key: Key, value: Any, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.problem(key, f"must be a whole number from {low} to {high}; got {shown(value)}.")
            return low
        return value

    # -- sections --

    def _section(self, model: type[BaseModel], key: Key) -> Any:
        """Build an optional section; absent means None, `{}` or nothing after the colon means all defaults."""
        parent: Any = self.tree.value
        for part in key[:-1]:
            parent = parent[part]
        if not isinstance(parent, Mapping) or key[-1] not in parent:
            return None
        return self._build(model, parent[key[-1]], key)

    def _build(self, model: type[BaseModel], value: Any, key: Key, around: tuple[str, ...] = ()) -> Any:
        """Return an instance of `model`, or None after noting the problems; `around`: keys that stand beside its own."""
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            self.problem(key, f"must {wanted_mapping(fields(model))}; got {shown(value)}.")
            return None
        try:
            return model.model_validate(dict(value))
        except ValidationError as error:
            for location, message in refusals(error, model, value, around):
                self.problem((*key, *location), message)
        return None

    # -- sources --

    def _sources(self, value: Any) -> list[SourceRecipe]:
        if not isinstance(value, Mapping) or not value:
            self.problem(
                ("sources",),
                "is missing or empty: name at least one source, such as web: {read: {kind: warc, paths: ...}}.",
            )
            return []
        found = []
        for name, block in value.items():
            if not _NAME.match(name):
                self.problem(
                    ("sources", name),
                    "a source's name has only letters, digits, '_', '-' and '.' (it becomes a folder).",
                )
            source = self._source(name, block)
            if source is not None:
                found.append(source)
        return found

    def _source(self, name: str, block: Any) -> SourceRecipe | None:
        key: Key = ("sources", name)
        known = ("read", "gate", "extract", "repair", "steps", *fields(Stated))
        if not isinstance(block, Mapping) or "read" not in block:
            self.problem(key, "needs `read`, such as read: {kind: jsonl, paths: data/*.jsonl}.")
            return None
        for inner in block:
            if inner not in known:
                self.problem((*key, inner), unknown_key(inner, known))
        stated = self._build(Stated, {name: block[name] for name in fields(Stated) if name in block}, key)
        if isinstance(block["read"], Mapping) and block["read"].get("kind") == TOKENS:
            self._token_source(name, block, stated)
            return None
        kind, paths, reader = self._reader((*key, "read"), block["read"])
        extractor_kind, extractor = self._kind((*key, "extract"), block.get("extract"), EXTRACTORS)
        repair_kind, repair = self._kind((*key, "repair"), block.get("repair"), REPAIRS)
        gate = self._build(Gate, block.get("gate"), (*key, "gate"))
        steps = self._steps((*key, "steps"), block.get("steps"))
        needs_html = kind == "warc" or getattr(reader, "html", None) is not None
        if needs_html and block.get("extract") is None:
            self.problem(key, "reads HTML, so it needs `extract`, such as extract: {kind: auto}.")
        if reader is not None and not needs_html and extractor is not None:
            html = (
                "To extract from HTML, name its field `html: ...` in `read`; else" if hasattr(reader, "html") else "So"
            )
            self.problem(
                (*key, "extract"), f"would do nothing: the source is read as text. {html} leave `extract` out."
            )
        for index, step in enumerate(steps):
            if isinstance(step.step, Extraction) and extractor_kind != "auto" and (extractor or not needs_html):
                message = "can never fire: only extract: {kind: auto} says how sure it is of a text. Take the step out."
                self.problem((*key, "steps", index, step.kind), message)
        if reader is None or gate is None or stated is None:
            return None
        return SourceRecipe(
            name, kind, paths, reader, gate, extractor, extractor_kind, repair, repair_kind, steps, stated
        )

    def _token_source(self, name: str, block: Mapping[str, Any], stated: Stated | None) -> None:
        key: Key = ("sources", name)
        for inner in ("gate", "extract", "repair", "steps"):
            if inner in block:
                self.problem((*key, inner), "does not apply: the source holds tokens, and no texts to look at.")
        inside = {key_: value for key_, value in block["read"].items() if key_ not in ("kind", "paths")}
        reader = self._build(TokenFiles, inside, (*key, "read"), ("kind", "paths"))
        paths = self._paths((*key, "read", "paths"), block["read"].get("paths"))
        if reader is not None and stated is not None:
            self.token_sources.append(TokenSourceRecipe(name, paths, reader, stated))

    def _check_token_sources(self, sources: Sequence[SourceRecipe], sections: Mapping[str, Any]) -> None:
        """Refuse token files without the tokenizer that made them, and phases over texts where there are none."""
        tokenizer, dedup = sections["tokenizer"], sections["dedup"]
        for one in self.token_sources:
            key: Key = ("sources", one.name, "read", "kind")
            if "tokenizer" not in self.tree.value:
                self.problem(key, "token files need the tokenizer that made them: tokenizer: {load: path/to/it.model}.")
            elif tokenizer is not None and tokenizer.load is None:
                message = "the recipe trains a tokenizer, and these files hold another one's ids: load the one that made them."
                self.problem(key, message)
            if dedup is not None and one.name in dedup.keep.order:
                self.problem(
                    ("dedup", "keep", "order"), f"names '{one.name}', which holds tokens and no texts to compare."
                )
        if self.token_sources and not sources and not self.problems:
            for name in ("dedup", "decontaminate", "validation"):
                if sections[name] is not None:
                    self.problem((name,), "looks at texts, and every source holds tokens.")

    def _paths(self, key: Key, raw: Any) -> tuple[str, ...]:
        """Return the paths of a source as written, after noting what cannot be one."""
        paths = (raw,) if isinstance(raw, str) else raw
        if not isinstance(paths, tuple) or not paths or not all(isinstance(path, str) and path for path in paths):
            self.problem(key, f"must be a path or a list of paths; got {shown(raw)}.")
            return ()
        for path in paths:
            try:
                expand_variables(path)
            except ValueError as error:
                self.problem(key, str(error))
        return paths

    def _reader(self, key: Key, value: Any) -> tuple[str, tuple[str, ...], Source | None]:
        if not isinstance(value, Mapping):
            kinds = ", ".join((*READERS, TOKENS))
            self.problem(key, f"must be a mapping with kind ({kinds}) and paths; got {shown(value)}.")
            return "", (), None
        rest = {name: item for name, item in value.items() if name != "paths"}
        paths = self._paths((*key, "paths"), value.get("paths"))
        kind, reader = self._kind(key, rest, READERS)
        return kind or "", paths, reader

    def _kind(self, key: Key, value: Any, kinds: Mapping[str, type[Any]]) -> tuple[str | None, Any]:
        """Build what `{kind: name, ...}` says; a plain name is short for {kind: name}."""
        if value is None:
            return None, None
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, Mapping):
            self.problem(key, f"must be a mapping with kind ({', '.join(kinds)}); got {shown(value)}.")
            return None, None
        kind = value.get("kind", next(iter(kinds)) if kinds is EXTRACTORS else None)
        if not isinstance(kind, str) or kind not in kinds:
            known = (*kinds, TOKENS) if kinds is READERS else tuple(kinds)
            near = nearest(str(kind), known)
            self.problem((*key, "kind"), f"must be one of {', '.join(known)}; got {shown(kind)}{near}")
            return None, None
        inner = {name: item for name, item in value.items() if name != "kind"}
        around = ("kind", "paths") if kinds is READERS else ("kind",)
        return kind, self._build(kinds[kind], inner, key, around)

    # -- steps --

    def _steps(self, key: Key, value: Any) -> tuple[StepBlock, ...]:
        if value is None:
            return ()
        if not isinstance(value, tuple):
            self.problem(key, "must be a list of steps, such as - gopher_quality: {}.")
            return ()
        blocks: list[StepBlock] = []
        taken: set[str] = set()
        for index, entry in enumerate(value):
            block = self._step((*key, index), entry, taken)
            if block is not None:
                taken.add(block.name)
                blocks.append(block)
        if len(blocks) == len(value):  # else what is missing would be reported twice
            self._check_columns(key, blocks)
        return tuple(blocks)

    def _step(self, key: Key, entry: Any, taken: set[str]) -> StepBlock | None:
        if isinstance(entry, str):
            entry = {entry: None}
        if not isinstance(entry, Mapping) or len(entry) != 1:
            self.problem(key, "a step is one name with its settings, such as - gopher_quality: {min_words: 50}.")
            return None
        kind, inner = next(iter(entry.items()))
        inside = (*key, kind)
        name = self._block_name(inside, kind, inner, taken)
        if isinstance(inner, Mapping):
            inner = {key_: value for key_, value in inner.items() if key_ != "name"}
        if kind == "where":
            expression = inner.get("expression") if isinstance(inner, Mapping) else inner
            if not isinstance(expression, str) or not expression.strip():
                self.problem(
                    inside,
                    f'must be an expression over measured columns, such as "num_words >= 50"; got {shown(inner)}.',
                )
                return None
            for other in inner if isinstance(inner, Mapping) else ():
                if other != "expression":
                    self.problem((*inside, other), unknown_key(other, ("expression", "name")))
            return StepBlock(name, kind, None, expression)
        model = STEPS.get(kind) if ":" not in kind else self._plugin(inside, kind)
        if model is None:
            if ":" not in kind:
                self.problem(
                    inside,
                    f"unknown step{nearest(kind, (*STEPS, 'where'))} Known steps: {', '.join((*STEPS, 'where'))}.",
                )
            return None
        step = self._build(model, inner, inside)
        if step is None:
            return None
        places = {field: getattr(step, field, None) for field in step.files}
        found = {field: self._in_folder((*inside, field), value) for field, value in places.items()}
        if found == places:
            return StepBlock(name, kind, step)
        placed = step.model_copy(update=found)
        if problem := placed.file_problem():
            self.problem(inside, problem)
        return StepBlock(name, kind, placed, written=step)

    def _in_folder(self, key: Key, value: Any) -> Any:
        """Return a setting that names files, with each path taken against the recipe's folder, after noting which are absent."""
        if isinstance(value, Listed):
            return value.model_copy(update={"files": self._in_folder(key, value.files)})
        if isinstance(value, tuple):
            return tuple(self._in_folder(key, one) for one in value)
        if isinstance(value, Mapping):
            return {label: self._in_folder(key, one) for label, one in value.items()}
        if not isinstance(value, str) or is_remote(value):  # an address is fetched when the run starts
            return value
        found = self.base / value
        if not found.exists():  # a classifier is a folder
            self.problem(key, f"{found} does not exist. A relative path starts at the recipe's folder.")
        return str(found)

    def _block_name(self, key: Key, kind: str, inner: Any, taken: set[str]) -> str:
        given = inner.get("name") if isinstance(inner, Mapping) else None
        if given is not None:
            if not isinstance(given, str) or not _BLOCK.match(given):
                self.problem(
                    (*key, "name"), f"a block's name has only letters, digits, '_' and '-'; got {shown(given)}."
                )
            elif given in taken:
                self.problem((*key, "name"), f"the name {given!r} is taken by an earlier step.")
            return str(given)
        plain = kind.rpartition(":")[2] if ":" in kind else kind
        name, number = plain, 1
        while name in taken:
            number += 1
            name = f"{plain}-{number}"
        return name

    def _plugin(self, key: Key, kind: str) -> type[Step] | None:
        module, _, class_name = kind.partition(":")
        file = self.base / f"{module.removesuffix('.py')}.py"
        if not self.allow_code:
            self.problem(key, f"runs code from {file}; allow it with --allow-code if you trust the recipe.")
            return None
        if not file.is_file() or file.resolve().parent != self.base.resolve():
            self.problem(key, f"{file} does not exist: the module must lie in the recipe's folder.")
            return None
        name = module_name(file.resolve())
        try:
            model = step_class(load_module(name, file.resolve()), class_name)
        except UsageError as error:
            self.problem(key, str(error))
            return None
        self.modules[name] = str(file.resolve())
        return model

    def _check_columns(self, key: Key, blocks: list[StepBlock]) -> None:
        """Refuse rules on columns that nobody measures before them, and expressions that cannot work."""
        known: dict[str, str] = {}  # column -> type name
        for index, block in enumerate(blocks):
            place = (*key, index, block.kind)
            if isinstance(block.step, QualityBuckets):
                for name in block.step.scores:
                    if known.get(name) not in ("float64", "int64"):
                        what = "holds no numbers" if name in known else "is measured by no step before it"
                        self.problem((*place, "scores"), f"'{name}' {what}{nearest(name, tuple(known))}")
            if block.step is not None:
                known |= dict(block.step.adds)
            if block.expression is not None:
                unknown = [name for name in expression_columns(block.expression) if name not in known]
                for name in unknown:
                    end = nearest(name, tuple(known))
                    what = f"measured so far: {', '.join(known)}" if known else "no step before it measures any"
                    self.problem(
                        place, f"'{name}' is measured by no step before it{end} A rule reads measured columns ({what})."
                    )
                problem = None if unknown else expression_problem(block.expression, known)
                if problem is not None:
                    self.problem(place, problem)
                continue
            for rule in block.rules():
                columns = (rule.column, rule.by) if rule.expression is None else expression_columns(rule.expression)
                for column in columns:
                    if column is not None and column not in known:
                        what = f"put a step that measures it before this one (known: {', '.join(known)})"
                        self.problem(place, f"{rule.name} needs the column '{column}', which no step measures: {what}.")

    # -- what only the whole shows --

    def _cross_checks(self, sources: list[SourceRecipe], sections: Mapping[str, Any]) -> None:
        written = self.tree.value.get("sources")
        names = tuple(written) if isinstance(written, Mapping) else ()
        dedup, mixture = sections["dedup"], sections["mixture"]
        if dedup is not None:
            for name in dedup.keep.order:
                if name not in names:
                    self.problem(
                        ("dedup", "keep", "order"), f"names '{name}', which is no source{nearest(name, names)}"
                    )
            texts = [source.name for source in sources]
            for kind, looked in (("lines", dedup.lines), ("spans", dedup.spans)):
                for name in looked.sources if looked is not None else ():
                    if name not in texts:
                        message = f"names '{name}', which is no source of texts{nearest(name, texts)}"
                        self.problem(("dedup", kind, "sources"), message)
            self._check_preferences(sources, dedup.keep)
            if dedup.semantic is not None:
                self._check_semantic(dedup.semantic, [source.name for source in sources])
        self._check_mixture(sources, names, sections)
        classifier = sections["classifier"]
        for name in classifier.named() if classifier is not None else ():
            if name not in [source.name for source in sources]:
                self.problem(("classifier",), f"names '{name}', which is no source of texts{nearest(name, names)}")
        decontaminate = sections["decontaminate"]
        if decontaminate is not None and decontaminate.canaries is not None:
            place = ("decontaminate", "canaries")
            if "mixture" not in self.tree.value:
                message = "go into training, so they need `mixture`, such as mixture: {weights: {web: 1}, tokens: 1M}."
                self.problem(place, message)
            if STREAM in names:
                self.problem(place, f"need a stream named '{STREAM}', and a source has that name. Rename the source.")
        if mixture is not None and "tokenizer" not in self.tree.value:
            self.problem(
                ("mixture",),
                "counts tokens, so it needs `tokenizer`, such as tokenizer: {train: {vocab_size: 4096}}.",
            )
        if sections["train"] is not None and "mixture" not in self.tree.value:
            self.problem(
                ("train",),
                "trains on a mixture, so it needs `mixture`, such as mixture: {weights: {web: 1}, tokens: 1M}.",
            )
        train = sections["train"]
        if train is not None and mixture is not None and mixture.window is not None:
            context = train.overrides.get("context", PRESET_CONTEXT[train.preset])
            if not isinstance(context, int) or mixture.window % context:
                self.problem(
                    ("mixture", "window"),
                    f"is {mixture.window}; it must be a multiple of the trainer's context, {context}.",
                )
        for section, listed in (("decontaminate", "benchmarks"), ("evaluate", "tasks")):
            for number, benchmark in enumerate(sections[section].sources if sections[section] is not None else ()):
                try:
                    expand_variables(benchmark.path)
                except ValueError as error:
                    self.problem((section, listed, number), str(error))
        for needed, such in (
            ("tokenizer", "tokenizer: {train: {vocab_size: 4096}}"),
            ("train", "train: {preset: demo-1m}"),
        ):
            if sections["evaluate"] is not None and needed not in self.tree.value:
                message = (
                    f"judges models that are trained here, so it needs `{needed}`, such as {such}. Else leave it out."
                )
                self.problem(("evaluate",), message)

    def _check_preferences(self, sources: list[SourceRecipe], keep: Keep) -> None:
        """Refuse to keep copies by a column that no source's steps measure, or that holds no numbers."""
        kinds: dict[str, set[str]] = {}
        for source in sources:
            for block in source.steps:
                if block.step is not None and block.step.at == "here":
                    for column, kind in block.step.adds.items():
                        kinds.setdefault(column, set()).add(kind)
        numbers = [column for column, found in kinds.items() if found <= {"float64", "int64"}]
        for column in keep.columns:
            if column not in numbers:
                what = "holds no numbers" if column in kinds else "is measured by no step of any source"
                message = f"'{column}' {what}{nearest(column, numbers)} Numbers: {', '.join(numbers) or 'none'}."
                self.problem(("dedup", "keep", "then"), message)

    def _check_semantic(self, semantic: Semantic, texts: Sequence[str]) -> None:
        """Refuse sources without texts, and paths with variables that are not set."""
        for name in semantic.sources:
            if name not in texts:
                message = f"names '{name}', which is no source of texts{nearest(name, texts)}"
                self.problem(("dedup", "semantic", "sources"), message)
        for field, paths in (("model", (semantic.model,)), ("embeddings", semantic.embeddings)):
            for path in paths:
                try:
                    expand_variables(path or "")
                except ValueError as error:
                    self.problem(("dedup", "semantic", field), str(error))

    def _check_mixture(self, sources: list[SourceRecipe], names: tuple[str, ...], sections: Mapping[str, Any]) -> None:
        """Refuse what a mixture says of sources, columns and groups that are not there."""
        for key, message in name_problems(self.tree.value.get("mixture"), names):
            self.problem(key, message)
        if sections["mixture"] is not None and names:
            for key, message in mixture_problems(sections["mixture"], sources, names, sections["dedup"]):
                self.problem(key, message)
