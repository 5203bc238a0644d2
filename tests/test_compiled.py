"""Machine code that is kept is thrown away when a file that it was made from changes, also one that it only imports."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from curate.compiled import compiled, source_stamp

ROOT = Path(__file__).parents[1]
INNER = "from curate.compiled import compiled\n\nFACTOR = {factor}\n\n\n@compiled\ndef times(value):\n    return value * FACTOR\n"
OUTER = (
    "from curate.compiled import compiled\nfrom curate.inner import times\n\n\n"
    "@compiled\ndef twice(value):\n    return times(value) * 2\n"
)


def value(folder: Path) -> str:
    code = (
        "import sys; sys.path.insert(0, '.'); from curate.outer import twice; "
        "print(twice(5), sum(twice.stats.cache_hits.values()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_kernel_is_compiled_anew_when_one_that_it_calls_changes(tmp_path):
    package = tmp_path / "curate"
    package.mkdir()
    shutil.copy(ROOT / "curate" / "compiled.py", package)
    (package / "__init__.py").touch()
    (package / "outer.py").write_text(OUTER)
    (package / "inner.py").write_text(INNER.format(factor=2))
    assert value(tmp_path) == "20 0"  # compiled
    assert value(tmp_path) == "20 1"  # kept
    (package / "inner.py").write_text(INNER.format(factor=3))
    assert value(tmp_path) == "30 0"  # the file of `twice` is as it was


def test_a_module_that_is_imported_by_name_counts(tmp_path):
    package = tmp_path / "curate"
    package.mkdir()
    shutil.copy(ROOT / "curate" / "compiled.py", package)
    (package / "__init__.py").touch()
    outer = OUTER.replace("from curate.inner import times", "from curate import inner as made").replace(
        "times(", "made.times("
    )
    (package / "outer.py").write_text(outer)
    (package / "inner.py").write_text(INNER.format(factor=2))
    assert value(tmp_path) == "20 0"
    (package / "inner.py").write_text(INNER.format(factor=3))
    assert value(tmp_path) == "30 0"


def test_the_stamp_is_of_all_files_that_are_imported(tmp_path):
    own = ROOT / "curate" / "filter" / "junk" / "kernels.py"
    assert source_stamp(own) != source_stamp(ROOT / "curate" / "text" / "characters.py")
    assert source_stamp(own) == source_stamp(own)


def _one() -> int:
    return 1


def test_this_numba_keeps_machine_code():
    kernel = compiled(_one)
    assert kernel._cache._cache_file._source_stamp == source_stamp(Path(__file__))


def load_module(path: Path):
    spec = importlib.util.spec_from_file_location("made", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_table_is_kept_and_made_anew_when_its_file_changes_or_it_is_damaged(tmp_path):
    path = tmp_path / "made.py"
    text = "import numpy as np\nfrom curate.compiled import kept_table\nCALLS = []\n\n\n@kept_table\ndef table():\n"
    text += "    CALLS.append(1)\n    return np.arange({size})\n"

    def made(size: int) -> tuple[list[int], int]:
        path.write_text(text.format(size=size))
        source_stamp.cache_clear()
        module = load_module(path)
        assert module.table() is module.table()
        assert not module.table().flags.writeable
        return module.table().tolist(), len(module.CALLS)

    assert made(3) == ([0, 1, 2], 1)
    assert made(3) == ([0, 1, 2], 0)  # kept
    assert made(4) == ([0, 1, 2, 3], 1)
    (kept,) = (tmp_path / "__pycache__").glob("*.npy")  # the old one is gone
    kept.write_bytes(kept.read_bytes()[:90])
    assert made(4) == ([0, 1, 2, 3], 1)
    assert made(4) == ([0, 1, 2, 3], 0)


def test_a_table_is_made_where_nothing_can_be_kept(tmp_path):
    (tmp_path / "__pycache__").write_text("a file in the place of the folder")
    path = tmp_path / "made.py"
    path.write_text(
        "import numpy as np\nfrom curate.compiled import kept_table\n\n\n@kept_table\ndef table():\n    return np.ones(2)\n"
    )
    assert load_module(path).table().tolist() == [1, 1]
