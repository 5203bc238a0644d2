"""How the whole suite is spread over the cores, and what a busy machine must not decide."""

import os

import hypothesis
import pytest

import curate.execute.local

# Before numpy is imported: a thread a core in each process makes them wait for one another, at ten times the seconds.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

LONGEST = (  # seconds each, most of them on starting runs and on compiling
    "test_runner.py",
    "test_stage_contract.py",
    "test_classify_train.py",
    "test_resume.py",
    "test_memory.py",
    "test_recipes.py",
    "test_repeated_lines.py",
    "test_auto_choose.py",
    "test_real_inputs.py",
    "test_earlier_corpora.py",
    "test_what_if.py",
    "test_audit.py",
)

curate.execute.local.spare_seconds = (
    300.0  # hundreds of small runs: their workers' imports would be half of the suite's time
)

# Hypothesis's deadline of an example is of the clock: other processes decide about it. What speed is asked for has its tests.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return a process a core for the whole suite, at most four (memory), and none for chosen tests: they start at once."""
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS or config.option.collectonly:
        return 0
    return min(os.cpu_count() or 1, 4)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the longest files begin, or one process would end with them while the others wait."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))  # stable: all others stay in their order


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Name bytes after the argument: what is compressed holds the time, and all processes must collect the same names."""
    del config
    return argname if isinstance(val, bytes) else None
