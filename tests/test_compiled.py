"""Machine code that is kept is thrown away when a file that it was made from changes, also one that it only imports."""

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


def test_the_stamp_is_of_all_files_that_are_imported(tmp_path):
    own = ROOT / "curate" / "filter" / "junk" / "kernels.py"
    assert source_stamp(own) != source_stamp(ROOT / "curate" / "text" / "characters.py")
    assert source_stamp(own) == source_stamp(own)


def _one() -> int:
    return 1


def test_this_numba_keeps_machine_code():
    kernel = compiled(_one)
    assert kernel._cache._cache_file._source_stamp == source_stamp(Path(__file__))
