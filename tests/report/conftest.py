"""Fixtures over the run of `report_run`: shared to read, or copied to change."""

import shutil
from pathlib import Path

import pytest
from report_run import Doc, build_run


@pytest.fixture(scope="session")
def _built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Doc]]:
    run = tmp_path_factory.mktemp("report") / "run"
    return run, build_run(run)


@pytest.fixture(scope="session")
def run_folder(_built: tuple[Path, list[Doc]]) -> Path:
    """A complete run; read only."""
    return _built[0]


@pytest.fixture(scope="session")
def docs(_built: tuple[Path, list[Doc]]) -> list[Doc]:
    """The documents of `run_folder`."""
    return _built[1]


@pytest.fixture
def run_copy(run_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(run_folder, tmp_path / "run"))
