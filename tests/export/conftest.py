"""The run of `exported`: shared to read, or copied to change."""

import shutil
from pathlib import Path

import machine
import pytest
from exported import write_inputs


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; read only."""
    folder = tmp_path_factory.mktemp("exported")
    machine.run(write_inputs(folder), folder)
    return folder / "run"


@pytest.fixture
def run_copy(run_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may change, in another place than where it was made."""
    target = tmp_path / "elsewhere"
    shutil.copytree(run_folder, target)
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)  # what links into the cache is read-only
    return target
