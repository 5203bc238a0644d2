"""Imports go one way, start-up stays light, and a stage whose code changed says so by its version.

python tests/test_architecture.py --update                       after raising the versions of changed stages
python tests/test_architecture.py --update --same-results NAME   where a change leaves the results as they were
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ROOT / "tests" / "corpus" / "stage_versions.json"
HEAVY: tuple[str, ...] = (
    "pyarrow",
    "numpy",
    "polars",
    "torch",
    "fasttext",
    "trafilatura",
    "resiliparse",
    "fastwarc",
    "ftfy",
)
HEAVY += ("sentencepiece", "lxml", "scipy", "pandas", "jinja2", "tokenizers")


# ---- the house


@dataclass(frozen=True, slots=True)
class Room:
    """Modules that stand together.

    Attributes:
        name: What the room is called below.
        modules: Dotted names; `curate.read.*` is the folder and everything in it.
        sees: Rooms and single modules it may import, besides itself.
        ordered: A module sees only those named before it.
    """

    name: str
    modules: tuple[str, ...]
    sees: tuple[str, ...] = ()
    ordered: bool = False


CORE = (
    "curate.errors",
    "curate.document",
    "curate.stage",
    "curate.compiled",
    "curate.listed",
    "curate.arrow_files",
    "curate.words",
    "curate.tokens",
    "curate.tokens.shard",
    "curate.tokens.block_counts",
    "curate.tokens.order",
    "curate.tokens.answers",
    "curate.tokens.tasks",
)
SPLITTERS = ("curate.text.kinds", "curate.text.splitting", "curate.text.english.splitting", "curate.text.folding")
FAMILIES = ("read", "extract", "filter", "rewrite", "gate", "dedup", "decontaminate", "mix", "stated")
FAMILIES += ("tokenizer", "write", "classify", "evaluate")
BELOW_RECIPE = ("core", "text", "benchmarks", *FAMILIES, "machine")

# A module that stands in no room fails the test: say here where it belongs, and what it may know.
ROOMS = (
    Room("core", CORE, sees=SPLITTERS, ordered=True),  # what everything else speaks
    Room("text", ("curate.text.*",), sees=("curate.errors", "curate.compiled", "curate.words")),  # pure functions on str
    # the items of benchmarks, which two families look at
    Room("benchmarks", ("curate.benchmarks.*",), sees=("core", "text")),
    # families know core and text, never each other
    Room("read", ("curate.read.*",), sees=("core", "text")),
    Room("extract", ("curate.extract.*",), sees=("core", "text")),
    Room("filter", ("curate.filter.*",), sees=("core", "text")),
    Room("rewrite", ("curate.rewrite.*",), sees=("core", "text")),
    Room("gate", ("curate.gate", "curate.optout", "curate.removal"), sees=("core", "text")),
    Room("dedup", ("curate.dedup.*",), sees=("core", "text")),
    Room("decontaminate", ("curate.decontaminate.*",), sees=("core", "text", "benchmarks")),
    Room("evaluate", ("curate.evaluate.*",), sees=("core", "text", "benchmarks")),
    Room("stated", ("curate.stated",), sees=("core",)),
    Room("mix", ("curate.mix.*", "curate.groups"), sees=("core", "text")),
    Room("classify", ("curate.classify", "curate.classify.settings", "curate.classify.fit",
        "curate.classify.evaluate"), sees=("core", "text")),
    Room("tokenizer", ("curate.tokens.tokenizer", "curate.tokens.settings", "curate.tokens.sentencepiece_model",
        "curate.tokens.sentencepiece_training", "curate.tokens.sentencepiece_scores", "curate.tokens.tokenizer_json",
        "curate.tokens.fertility", "curate.tokens.fertility_kernels", "curate.tokens.losses",
        "curate.tokens.transformers_files", "curate.tokens.encoding.*", "curate.tokens.labels",
        "curate.tokens.arrange"), sees=("core", "text")),
    Room("write", ("curate.write.*",), sees=("core", "text")),
    # the machine runs any family and imports none
    Room(
        "machine",
        (
            *("curate.ledger", "curate.cache", "curate.plan", "curate.pipeline", "curate.inputs", "curate.manifest"),
            "curate.remote",
            *("curate.plugin", "curate.progress", "curate.execute.*"),
        ),
        sees=("core",),
    ),
    # the top joins everything
    Room("phases", ("curate.phases.*",), sees=BELOW_RECIPE),
    Room("recipe", ("curate.recipe", "curate.loading", "curate.mixture_checks", "curate.expression", "curate.implied",
        "curate.refusal", "curate.yamlfile"), sees=BELOW_RECIPE),
    Room("report", ("curate.report.*",), sees=("core", "text", "machine", "recipe", "curate.dedup.settings", "curate.dedup.minhash")),
    Room(
        "run",
        ("curate.sources", "curate.tasks", "curate.tasks.*",
        "curate.blocks", "curate.measured",
        "curate.tokenizer_inputs", "curate.tokenizer_command", "curate.mixture_plan", "curate.mixture_estimate",
        "curate.what_if", "curate.good", "curate.audit", "curate.curation", "curate.training", "curate.runner"),
        sees=(*BELOW_RECIPE, "phases", "recipe", "report", "package"),
    ),
    Room(
        "classifiers",
        ("curate.classify.inputs", "curate.classify.examples", "curate.classify.train", "curate.classify.score"),
        sees=(*BELOW_RECIPE, "recipe", "run"),
    ),
    Room("ablate", ("curate.ablate",), sees=("core", "text", "machine", "recipe", "report", "run")),
    # reads the published files of a run folder alone
    Room("export", ("curate.export.*",), sees=("core", "text", "machine", "report", "stated", "tokenizer", "package")),
    Room("cli", ("curate.cli", "curate.__main__"),
        sees=("core", "machine", "recipe", "report", "run", "classifiers", "ablate", "export", "package")),
    Room("package", ("curate",), sees=("recipe", "run")),  # re-exports, lazily
    # the trainer knows tokenizers and token shards and nothing else of curate, and curate never imports it
    Room("train", ("train", "train.*"), sees=("curate.errors", "curate.tokens.shard", "curate.tokens.order",
        "curate.tokens.answers", "curate.tokens.tasks", "curate.tokens.tokenizer", "curate.tokens.transformers_files")),
)  # fmt: skip
EMPTY_PACKAGES = re.compile(r"curate\..*|train(\..*)?")  # every `__init__.py` but that of curate


def matches(module: str, pattern: str) -> bool:
    return module == pattern or (pattern.endswith(".*") and (module + ".").startswith(pattern[:-1]))


def rooms_of(module: str) -> list[Room]:
    return [room for room in ROOMS if any(matches(module, pattern) for pattern in room.modules)]


@cache
def sources() -> Mapping[str, str]:
    """Return the text of every module by its dotted name; a package has its folder's name."""
    found = {}
    for package in ("curate", "train"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


parsed = cache(ast.parse)  # shared: not to be changed


def imports(module: str, text: str, known: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yield (line, module) of every import of ours, at whatever depth, also those for types only.

    A string that is the name of one of our modules is an import too: it ends in importlib.
    """
    package = module if any(name.startswith(module + ".") for name in known) else module.rpartition(".")[0]
    for node in ast.walk(parsed(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
                base = f"{parent}.{base}" if base else parent
            names = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            names = [name] if "." in name and name in known else []
        for name in dict.fromkeys(names):
            if name.partition(".")[0] in ("curate", "train"):
                yield getattr(node, "lineno", 0), name


def is_seen(module: str, target: str) -> bool:
    """Whether `module` may import `target`, by the rooms of both."""
    [room] = rooms_of(module)
    if target in room.sees:
        return True
    for other in rooms_of(target):
        if other is not room:
            return other.name in room.sees
        return not room.ordered or room.modules.index(target) < room.modules.index(module)
    return False


def trespasses(known: Mapping[str, str]) -> list[str]:
    """Return each import that goes the wrong way, in words."""
    wrong = []
    for module, text in known.items():
        if len(rooms_of(module)) != 1:
            continue  # another test says so
        for line, target in imports(module, text, known):
            if target != module and not is_seen(module, target):
                homes = ", ".join(room.name for room in rooms_of(target)) or "no room"
                wrong.append(f"{module}, line {line}: imports {target} ({homes}); {rooms_of(module)[0].name} may not")
    return wrong


def test_every_module_has_its_room() -> None:
    homeless = {module: [room.name for room in rooms_of(module)] for module in sources() if len(rooms_of(module)) != 1}
    assert not homeless, f"these modules stand in no room or in several; give each one in ROOMS: {homeless}"


def test_imports_go_one_way() -> None:
    wrong = trespasses(sources())
    assert not wrong, "imports against the order of style:\n" + "\n".join(wrong)


def test_no_two_modules_import_each_other() -> None:
    graph = {
        module: {target for _, target in imports(module, text, sources()) if target not in (module, "curate", "train")}
        for module, text in sources().items()
        if module != "curate"  # its lazy re-exports close a circle on purpose
    }
    while leaves := [module for module, targets in graph.items() if not targets & graph.keys()]:
        for module in leaves:
            del graph[module]
    assert not graph, f"import circles among: {sorted(graph)}"


def test_only_curate_re_exports() -> None:
    filled = []
    for path in (path for package in ("curate", "train") for path in (ROOT / package).rglob("__init__.py")):
        name = ".".join(path.parent.relative_to(ROOT).parts)
        if EMPTY_PACKAGES.fullmatch(name) and path.read_text(encoding="utf-8").strip():
            filled.append(str(path.relative_to(ROOT)))
    assert not filled, f"must be empty; import a thing from the file it lives in: {filled}"


def test_no_module_is_called_utils() -> None:
    assert not [module for module in sources() if re.search(r"\b(utils?|helpers?|misc)$", module)]


@pytest.mark.parametrize(
    ("module", "text", "is_allowed"),
    [
        ("curate.filter.gopher", "from curate.text import words", True),
        ("curate.filter.gopher", "from curate.filter.c4 import C4Lines", True),
        ("curate.filter.gopher", "from curate.dedup.exact import x", False),
        ("curate.filter.gopher", "def f():\n    import curate.plan", False),
        ("curate.filter.gopher", "if TYPE_CHECKING:\n    from curate.plan import PHASES", False),
        ("curate.filter.gopher", "from ..plan import PHASES", False),
        ("curate.filter.gopher", "from . import c4", True),
        ("curate.stage", "from curate.errors import CurateError", True),
        ("curate.stage", "from curate.words import split_words", False),  # later in the core
        ("curate.text.words", "from curate.errors import CurateError", True),
        ("curate.text.words", "import curate.stage", False),
        ("curate.plan", "import importlib\nimportlib.import_module('curate.dedup.exact')", False),
        ("curate.plan", "step('curate.dedup.exact:run')", False),
        ("curate.phases.cluster", "import curate.dedup.exact, curate.plan", True),
        ("curate.plan", "import train.loop", False),
        ("curate.cli", "import train.loop", False),
        ("train.loop", "from curate.tokens import order", True),
        ("train.tuning.job", "from curate.tokens.tokenizer import load_tokenizer", True),
        ("train.loop", "from curate.filter.gopher import x", False),
        ("train.loop", "import curate", False),
    ],
)
def test_the_checker_itself(module: str, text: str, is_allowed: bool) -> None:
    names = ["curate", "curate.errors", "curate.stage", "curate.words", "curate.tokens", "curate.tokens.order"]
    names += ["curate.text", "curate.text.words", "curate.filter", "curate.filter.gopher", "curate.filter.c4"]
    names += ["curate.dedup", "curate.dedup.exact", "curate.tokens.tokenizer", "curate.plan", "curate.phases"]
    names += ["curate.phases.cluster", "curate.cli", "train", "train.loop", "train.tuning"]
    assert bool(trespasses({**dict.fromkeys(names, ""), module: text})) != is_allowed


# ---- start-up

_SHOW = f"\nprint('HEAVY', sorted(set({HEAVY!r}) & sys.modules.keys()))"


def heavy_modules(code: str) -> list[str]:
    """Return which heavy libraries a fresh interpreter has loaded after running `code`."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys\n" + code + _SHOW], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    loaded = ast.literal_eval(done.stdout.rpartition("HEAVY")[2].strip())
    assert isinstance(loaded, list)
    return loaded


needs_cli = pytest.mark.skipif(not (ROOT / "curate" / "cli.py").exists(), reason="curate/cli.py is not written yet")


@needs_cli
@pytest.mark.parametrize(
    "code",
    [
        "import curate",
        "import curate.cli",
        "from curate.cli import main\nsys.argv = ['curate', '--help']\ntry:\n    main()\nexcept SystemExit:\n    pass",
        "from curate import load, check, run, Recipe",
    ],
    ids=["package", "cli", "help", "names"],
)
def test_start_up_is_light(code: str) -> None:
    assert heavy_modules(code) == []


EXAMPLES: dict[str, dict[str, object]] = {  # settings that cannot be made without values
    "BenchmarkSource": {"path": "questions.jsonl"},
    "Derived": {"pick": "answer"},
    "Fields": {"question": "question"},
    "Against": {"runs": ("runs/earlier",)},
    "Highest": {"highest": "quality_score"},
    "Semantic": {"model": "vectors.bin", "similarity": 0.95},
    "WordVectors": {"model": "vectors.bin", "digest": "0" * 64},
    "Lowest": {"lowest": "quality_score"},
    "Decontaminate": {"benchmarks": ("bench.jsonl",)},
    "Evaluate": {"tasks": ("bench.jsonl",)},
    "Classifier": {"label": "topic"},
    "Scores": {"field": "score"},
    "Quality": {"model": "model.bin"},
    "Topic": {"model": "model.bin"},
    "CCNet": {"model": "model.arpa"},
    "QualityBuckets": {"scores": ("quality_score",)},
    "ByLabel": {"by": "topic", "groups": {"law": {"weight": 1.0}}},
    "Mixture": {"weights": {"web": 1.0}, "tokens": 1000},
    "UpTo": {"up_to": 1000},
    "Temperature": {"temperature": 3.3},
    "Exponent": {"exponent": 0.3},
    "UniMax": {"unimax": {}},
    "Multiplier": {"factor": 2.0},
    "Multiply": {"by": "language", "factors": {"pt": 2.0}},
}
_BUILD_ALL = """
import curate.loading
import curate.recipe
from curate.stage import Settings
def below(kind):
    for one in kind.__subclasses__():
        yield one
        yield from below(one)
for kind in dict.fromkeys(below(Settings)):
    if getattr(kind, "__abstractmethods__", None):
        continue
    try:
        kind(**EXAMPLES.get(kind.__name__, {"paths": ("x",)} if "paths" in kind.model_fields else {}))
    except Exception as error:
        sys.exit(f"give {kind.__module__}.{kind.__name__} an entry in EXAMPLES of test_architecture.py: {error}")
"""


@needs_cli
def test_settings_load_nothing_heavy() -> None:
    assert heavy_modules(f"EXAMPLES = {EXAMPLES!r}{_BUILD_ALL}") == []


# ---- versions of stages


@dataclass(frozen=True, slots=True)
class StageSource:
    version: int
    digest: str


def canonical_ast(node: ast.AST) -> object:
    """Return an AST as nested lists: no positions, comments or docstrings, and the same in every Python we support."""
    body = getattr(node, "body", None)
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and body:
        first = body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            body = body[1:]
    parts: list[object] = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        value = body if name == "body" else value
        is_constant = isinstance(node, ast.Constant) and name == "value"  # here None is a value
        if not is_constant and (value is None or value == [] or name in ("ctx", "kind", "type_comment")):
            continue  # newer Pythons have further fields, empty where older syntax is used
        if isinstance(value, list):
            parts.append([name, [canonical_ast(one) if isinstance(one, ast.AST) else repr(one) for one in value]])
        else:
            parts.append([name, canonical_ast(value) if isinstance(value, ast.AST) else repr(value)])
    return parts


def without_versions(tree: ast.Module) -> ast.Module:
    """Take the `version` integers of classes out: raising one must not ask for raising the others in the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = [part for part in node.body if not is_version(part)]
    return tree


def is_version(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "version"


def made_of(module: str, known: Mapping[str, str]) -> list[str]:
    """Return the modules whose code shapes what the stages in `module` do.

    These are its imports, and theirs, within its own room, `curate.text`, `curate.benchmarks` and `curate.words`; a module
    named `settings` speaks for its whole folder.
    """
    home = rooms_of(module)[:1]
    todo = [module]
    if module.endswith(".settings"):
        todo += [name for name in known if name.startswith(module.removesuffix("settings"))]
    done: dict[str, None] = {}
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done[name] = None
        for _, target in imports(name, known[name], known):
            if target in known and (
                rooms_of(target) == home
                or any(matches(target, shared) for shared in ("curate.text.*", "curate.benchmarks.*", "curate.words"))
            ):
                todo.append(target)
    return sorted(done)


def stages(known: Mapping[str, str]) -> dict[str, StageSource]:
    """Return version and digest of every Stage class (`module.Class`), by reading the source alone."""
    kinds: dict[str, int] = {"Stage": 1}  # class name to version
    trees = {module: parsed(text) for module, text in known.items() if module.startswith("curate")}
    classes = [(module, node) for module, tree in trees.items() for node in tree.body if isinstance(node, ast.ClassDef)]
    found: dict[str, str] = {}
    grown = True
    while grown:  # a base may stand in a later file
        grown = False
        for module, node in classes:
            bases = [base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases]
            inherited = [kinds[base] for base in bases if base in kinds]
            if inherited and node.name not in kinds:
                own = [
                    ast.literal_eval(part.value)
                    for part in node.body
                    if isinstance(part, ast.AnnAssign) and is_version(part) and part.value
                ]
                kinds[node.name] = own[0] if own else inherited[0]
                found[f"{module}.{node.name}"] = module
                grown = True
    bodies: dict[str, str] = {}
    result = {}
    for name, module in sorted(found.items()):
        if module == "curate.stage":
            continue  # the protocols themselves
        digest = hashlib.sha256()
        for part in made_of(module, known):
            if part not in bodies:
                bodies[part] = json.dumps(canonical_ast(without_versions(ast.parse(known[part]))))
            digest.update(f"{part}\n{bodies[part]}\n".encode())
        result[name] = StageSource(kinds[name.rpartition(".")[2]], digest.hexdigest()[:32])
    return result


# Code of a phase that no stage speaks for: its results are keyed by the phase's integer in `curate.curation.VERSIONS`.
PHASE_CODE: dict[str, str | tuple[str, ...]] = {
    "extract": "curate.phases.extract",
    "measure": "curate.phases.measure",
    "decide": "curate.phases.decide",
    "cluster": (
        "curate.phases.components",
        "curate.phases.lines",
        "curate.phases.spans",
        "curate.phases.earlier",
    ),  # and curate.phases.cluster, which they import
    "decontaminate": "curate.phases.decontaminate",
    "choose": ("curate.phases.choose", "curate.phases.semantic"),
    "collect": ("curate.phases.collect", "curate.phases.signature_files"),
    # and, as they import it, curate.phases.tokens
    "encode": ("curate.phases.token_files", "curate.phases.canaries", "curate.phases.task_items"),
    "arrange": "curate.phases.tokens",
    "mix": ("curate.mix.plan", "curate.mix.weights", "curate.mix.shares", "curate.mix.planted"),
}
_SHAPES_RESULTS = (
    "phases",
    "text",
    "benchmarks",
    *FAMILIES,
)  # the machine moves bytes, but for pipeline.py, which applies the rules


def phases(known: Mapping[str, str], versions: Mapping[str, int], staged: Iterable[str]) -> dict[str, StageSource]:
    """Return version and digest of every phase (`phase <name>`); the code of `staged` classes is theirs."""
    spoken_for = {part for module in {name.rpartition(".")[0] for name in staged} for part in made_of(module, known)}
    result = {}
    for phase, starts in PHASE_CODE.items():
        done: set[str] = set()
        todo = [starts] if isinstance(starts, str) else list(starts)
        while todo:
            name = todo.pop()
            done.add(name)
            for _, target in imports(name, known[name], known):
                rooms = {room.name for room in rooms_of(target)}
                own = rooms & set(_SHAPES_RESULTS) or target in (
                    "curate.pipeline",
                    "curate.tokens.shard",
                    "curate.tokens.order",
                )
                if own and target in known and target not in done | spoken_for:
                    todo.append(target)
        digest = hashlib.sha256()
        for name in sorted(done):
            digest.update(f"{name}\n{json.dumps(canonical_ast(parsed(known[name])))}\n".encode())
        result[f"phase {phase}"] = StageSource(versions[phase], digest.hexdigest()[:32])
    return result


def everything() -> dict[str, StageSource]:
    """Return the state of all stages and phases as they stand."""
    from curate.curation import VERSIONS as PHASE_VERSIONS

    found = stages(sources())
    return {**found, **phases(sources(), PHASE_VERSIONS, found)}


def test_every_phase_with_stored_results_is_watched() -> None:
    from curate.plan import PHASES

    assert set(PHASES) - set(PHASE_CODE) == {"train", "report"}  # nothing of theirs is taken from the cache


UPDATE = "python tests/test_architecture.py --update"


def version_problems(recorded: Mapping[str, StageSource], current: Mapping[str, StageSource]) -> dict[str, str]:
    """Return for each stage what is wrong between the recorded and the current state."""
    problems = dict.fromkeys(recorded.keys() - current.keys(), f"is gone: run `{UPDATE}`")
    for name, now in current.items():
        before = recorded.get(name)
        if before is None:
            problems[name] = f"is new: run `{UPDATE}`"
        elif now.version < before.version:
            problems[name] = (
                f"version {now.version} is below the recorded {before.version}: old results would be taken for new"
            )
        elif now.version > before.version:
            problems[name] = f"has version {now.version}, recorded is {before.version}: run `{UPDATE}`"
        elif now.digest != before.digest:
            problems[name] = (
                f"changed, but its version is still {now.version}: cached results of the old code would be taken for new."
                " Raise `version` (of a phase: VERSIONS in curate/curation.py) by one"
                f" and run `{UPDATE}`; if results are the same, add `--same-results '{name}'`"
            )
    return dict(sorted(problems.items()))


def read_versions() -> dict[str, StageSource]:
    if not VERSIONS.exists():
        return {}
    return {name: StageSource(**entry) for name, entry in json.loads(VERSIONS.read_text(encoding="utf-8")).items()}


def test_a_changed_stage_has_a_new_version() -> None:
    problems = version_problems(read_versions(), everything())
    assert not problems, "\n".join(f"{name} {problem}" for name, problem in problems.items())


def updated(
    recorded: Mapping[str, StageSource], current: Mapping[str, StageSource], same_results: Sequence[str] | None
) -> tuple[dict[str, StageSource], list[str]]:
    """Return the new record and the stages that were refused.

    Args:
        recorded, current: By `module.Class`.
        same_results: Stages (`module.Class` or `Class`) whose results did not change; empty: all; None: nobody says so.
    """
    result, refused = {}, []
    for name, now in current.items():
        before = recorded.get(name)
        said = same_results is not None and (not same_results or {name, name.rpartition(".")[2]} & set(same_results))
        changed = before is not None and now.digest != before.digest
        if before is not None and (
            now.version < before.version or (changed and now.version == before.version and not said)
        ):
            result[name] = before
            refused.append(name)
        else:
            result[name] = now
    return dict(sorted(result.items())), refused


OLD = StageSource(2, "a")


@pytest.mark.parametrize(
    ("now", "problem", "same_results", "after"),
    [
        (OLD, None, None, OLD),
        (StageSource(2, "b"), "changed, but its version is still 2", None, OLD),
        (StageSource(2, "b"), "add `--same-results 'm.S'`", (), StageSource(2, "b")),
        (StageSource(2, "b"), "changed", ("S",), StageSource(2, "b")),
        (StageSource(2, "b"), "changed", ("m.S",), StageSource(2, "b")),
        (StageSource(2, "b"), "changed", ("T",), OLD),
        (StageSource(3, "b"), "recorded is 2", None, StageSource(3, "b")),
        (StageSource(3, "a"), "recorded is 2", None, StageSource(3, "a")),
        (StageSource(1, "b"), "below the recorded 2", (), OLD),
    ],
)
def test_the_version_check_itself(
    now: StageSource, problem: str | None, same_results: tuple[str, ...] | None, after: StageSource
) -> None:
    problems = version_problems({"m.S": OLD}, {"m.S": now})
    assert (problem is None and not problems) or (problem is not None and problem in problems["m.S"])
    result, refused = updated({"m.S": OLD}, {"m.S": now}, same_results)
    assert result == {"m.S": after}
    assert refused == ([] if after == now else ["m.S"])


def test_stages_that_come_and_go_are_noticed() -> None:
    assert version_problems({"m.S": OLD}, {"m.T": OLD}) == {
        "m.S": f"is gone: run `{UPDATE}`",
        "m.T": f"is new: run `{UPDATE}`",
    }
    assert updated({"m.S": OLD}, {"m.T": OLD}, None) == ({"m.T": OLD}, [])


def test_digest_sees_code_and_nothing_else() -> None:
    code = (
        'class S(Step):\n    """Doc."""\n\n    version: ClassVar[int] = 1\n    n: int = 3\n\n'
        '    def f(self):\n        return f"{self.n + 1:>{self.n}}" + "x"\n'
    )
    helper = "def g():\n    return 1\n"

    def digest(text: str, other: str = helper) -> str:
        known = {
            "curate.filter.s": "from curate.text.h import g\n" + text,
            "curate.text.h": other,
            "curate.dedup.d": helper,
        }
        found = stages({**known, "curate.stage": "class Stage: ...\nclass Step(Stage): ..."})
        assert list(found) == ["curate.filter.s.S"]
        return found["curate.filter.s.S"].digest

    same = [
        code.replace("Doc.", "Other words."),
        "# why\n" + code,
        code.replace("\n\n", "\n\n\n"),
        code.replace("] = 1", "] = 9"),
    ]
    other = [code.replace("n: int = 3", "n: int = 4"), code.replace('"x"', '"y"'), code.replace("+ 1", "+ 2")]
    assert {digest(text) for text in same} == {digest(code)}
    assert len({digest(text) for text in [code, *other]}) == 4
    assert digest(code, helper.replace("1", "2")) != digest(code)  # what it imports from curate.text is part of it


def test_every_stage_is_found_with_its_version() -> None:
    """Reading the source must agree with the classes themselves."""
    code = """
import importlib, json
from curate.stage import Stage
for module in MODULES:
    importlib.import_module(module)
def below(kind):
    for one in kind.__subclasses__():
        yield one
        yield from below(one)
print(json.dumps({f"{kind.__module__}.{kind.__name__}": kind.version for kind in below(Stage) if kind.__module__ != "curate.stage"}))
"""
    found = {name: source.version for name, source in stages(sources()).items()}
    modules = sorted({name.rpartition(".")[0] for name in found})
    done = subprocess.run(
        [sys.executable, "-c", f"MODULES = {modules!r}" + code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == found


def main() -> int:
    parser = argparse.ArgumentParser(description="Record versions and source digests of stages and phases.")
    parser.add_argument("--update", action="store_true", required=True)
    parser.add_argument(
        "--same-results", nargs="*", metavar="NAME", help="stages whose results are as before; none: all"
    )
    chosen = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    before, now = read_versions(), everything()
    result, refused = updated(before, now, chosen.same_results)
    VERSIONS.parent.mkdir(parents=True, exist_ok=True)
    entries = {name: {"version": one.version, "digest": one.digest} for name, one in result.items()}
    VERSIONS.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    problems = version_problems(result, now)
    for name in refused:
        print(f"refused: {name} {problems[name]}")
    print(f"{len(result)} stages and phases in {VERSIONS.relative_to(ROOT)}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
