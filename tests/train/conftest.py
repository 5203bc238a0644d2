"""Fixtures of the trainer's tests: folders to train in, one thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from token_folder import CONTEXT, Folder, documents, write_mixture, write_source

from curate.tokens.order import num_windows


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[..., Folder]:
    """Return a function that makes a folder whose mixture lasts `steps` steps of 4 windows of 8 tokens."""

    def make(*, steps: int, name: str = "run", window: int = CONTEXT, batch: int = 4) -> Folder:
        root = tmp_path / name
        root.mkdir()
        drawn = {"books": steps * batch // 4, "web": steps * batch - steps * batch // 4}
        sources = {}
        for seed, (source, count) in enumerate(drawn.items()):
            train = documents(seed, 40, 30)
            write_source(root / "tokens" / source, train, documents(seed + 10, 4, 25))
            sources[source] = (num_windows(sum(len(d) + 1 for d in train), window), count)
        write_mixture(root / "mixture.json", window, sources)
        return Folder(root)

    return make


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Keep torch to one thread, as the preset of the tests says."""
    import torch

    torch.set_num_threads(1)
