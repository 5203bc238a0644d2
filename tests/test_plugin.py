"""A user's own steps: what decides their key, what they may import, and how a bad one is refused."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import curate
from curate.errors import RecipeError
from curate.plugin import load_module, module_name
from curate.stage import MEASURED_TYPES

RECIPE = """\
name: r
sources:
  web:
    read: {kind: jsonl, paths: a.jsonl}
    steps:
      - mine:Shout: {}
      - where: "num_shouts <= 1"
"""
STEP = """\
import pyarrow as pa
from curate.stage import Step
from typing import ClassVar
from helper import shouts

class Shout(Step):
    adds: ClassVar = {"num_shouts": "float64"}

    def apply(self, batch):
        return pa.record_batch({"num_shouts": pa.array([float(shouts(t)) for t in batch["text"].to_pylist()], pa.float64())})
"""
HELPER = "def shouts(text):\n    return text.count('!')\n"


def write(folder: Path, step: str = STEP, helper: str = HELPER) -> Path:
    (folder / "mine.py").write_text(step)
    (folder / "helper.py").write_text(helper)
    (folder / "r.yaml").write_text(RECIPE)
    return folder / "r.yaml"


def problem(path: Path) -> str:
    with pytest.raises(RecipeError) as failure:
        curate.load(path, allow_code=True)
    (only,) = failure.value.problems
    return str(only).replace(f"{path.parent}/", "")


def test_every_python_file_of_the_folder_decides_the_name(tmp_path: Path) -> None:
    write(tmp_path)
    first = module_name(tmp_path / "mine.py")
    assert module_name(tmp_path / "mine.py") == first
    (tmp_path / "notes.txt").write_text("x")
    assert module_name(tmp_path / "mine.py") == first
    (tmp_path / "helper.py").write_text(HELPER.replace("'!'", "'?'"))
    changed = module_name(tmp_path / "mine.py")
    (tmp_path / "helper.py").rename(tmp_path / "other.py")
    assert len({first, changed, module_name(tmp_path / "mine.py")}) == 3


def test_a_changed_helper_is_seen_in_the_same_process(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "mine.py"
    counts = []
    for sign in "!?":
        write(tmp_path, "from helper import shouts\n", HELPER.replace("!", sign))
        counts.append(load_module(module_name(path), path).shouts("a!b??"))
    assert counts == [1, 2]


def test_a_helper_cannot_stand_in_for_a_library(tmp_path: Path) -> None:
    write(tmp_path, "import xxhash\nfound = xxhash.xxh64_hexdigest\n")
    (tmp_path / "xxhash.py").write_text("")
    path = tmp_path.resolve() / "mine.py"
    for name in [name for name in sys.modules if name.partition(".")[0] == "xxhash"]:
        sys.modules.pop(name)
    assert load_module(module_name(path), path).found


def test_a_run_with_a_helper_redoes_what_its_change_concerns(tmp_path: Path) -> None:
    path = write(tmp_path)
    texts = ["Plain words stand here.", "Buy! Now!", "What? Why? Who?"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))

    def kept() -> set[str]:
        arguments = ["run", str(path), "--allow-code", "--workers", "2", "--until", "collect"]
        arguments += ["--output", str(tmp_path / "run"), "--cache", str(tmp_path / "cache")]
        code = "import sys; from curate.cli import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env={**os.environ}, check=False
        )
        assert done.returncode == 0, done.stderr
        import pyarrow.dataset as ds

        return set(ds.dataset(tmp_path / "run" / "documents").to_table()["text"].to_pylist())

    assert kept() == {texts[0], texts[2]}
    (tmp_path / "helper.py").write_text(HELPER.replace("!", "?"))
    assert kept() == {texts[0], texts[1]}


def test_recipes_of_two_folders_do_not_share_helpers(tmp_path: Path) -> None:
    paths = []
    for number in (1, 2):
        folder = tmp_path.resolve() / str(number)
        folder.mkdir()
        write(folder, "from helper import shouts\n", f"def shouts():\n    return {number}\n")
        paths.append(folder / "mine.py")
    before = list(sys.path)
    assert [load_module(module_name(path), path).shouts() for path in paths] == [1, 2]
    assert sys.path == before


def test_two_plugins_of_a_folder_share_a_helper(tmp_path: Path) -> None:
    write(tmp_path, "from helper import shouts\n")
    (tmp_path / "second.py").write_text("from helper import shouts\n")
    files = [tmp_path.resolve() / name for name in ("mine.py", "second.py")]
    one, other = (load_module(module_name(file), file) for file in files)
    assert one.shouts is other.shouts


def test_a_step_pickles_by_reference(tmp_path: Path) -> None:
    recipe = curate.load(write(tmp_path), allow_code=True)
    step = recipe.sources[0].steps[0].step
    assert pickle.loads(pickle.dumps(step)) == step


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ('"float64"}', '"float65"}', f"column 'num_shouts' must be one of {', '.join(MEASURED_TYPES)}; got 'float65'."),
        ('"float64"}', "float}", "Shout.adds: the type of column 'num_shouts' must be one of"),
        ('{"num_shouts": "float64"}', '("num_shouts",)', "Shout.adds must be a mapping from column to type (float64,"),
        ('{"num_shouts": "float64"}', '{1: "float64"}', "a column's name must be text; got 1."),
        ("adds: ClassVar =", "reads: ClassVar = 'words'\n    adds: ClassVar =", "Shout.reads must be a tuple of column names; got"),
        ("def apply", "def aply", "Shout has no method apply."),
        ("class Shout", "class Shoot", "has no class Shout that derives from curate.stage.Step; it has Shoot."),
        ("class Shout(Step)", "class Shout", "has no class Shout that derives from curate.stage.Step; it has none."),
        ("from helper", "from nowhere", "mine.py:4: importing it failed: ModuleNotFoundError: No module named 'nowhere'."),
        ("class Shout", "class Shout:::", "mine.py:6: importing it failed: SyntaxError: "),
        ("class Shout", "raise SystemExit(3)\nclass Shout", "mine.py:6: importing it failed: SystemExit: 3."),
        ("def apply", "bad: 5 = 3\n\n    def apply", "importing it failed: "),
        ("def apply", "pattern: object = __import__('re').compile('(')\n\n    def apply", "mine.py:9: importing it failed: "),
        ("class Shout", "class In(Step):\n    n: int\n\nIn.model_validate({'n': 'x'})\n\nclass Shout", "mine.py:9: importing"),
    ],
)  # fmt: skip
def test_a_bad_step_is_refused_when_the_recipe_is_read(tmp_path: Path, was: str, now: str, message: str) -> None:
    assert was in STEP
    found = problem(write(tmp_path, STEP.replace(was, now)))
    assert found.startswith("r.yaml:6: sources.web.steps.0.mine:Shout: ")
    assert message in found
    assert "\n" not in found
    assert "errors.pydantic.dev" not in found
    assert found.endswith(".")
    assert not found.endswith("..")


def test_an_error_in_a_helper_names_the_helper(tmp_path: Path) -> None:
    found = problem(write(tmp_path, helper="x = 1\ny = 1 / 0\n"))
    assert "helper.py:2: importing it failed: ZeroDivisionError: division by zero." in found
    assert "helper.py:1: importing it failed: SyntaxError" in problem(write(tmp_path, helper="def\n"))


def test_the_types_are_those_that_the_pipeline_knows() -> None:
    from curate.pipeline import TYPES

    assert tuple(TYPES) == MEASURED_TYPES
