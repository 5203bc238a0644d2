"""The `demo://` corpus: a small web, code and books collection with a truth table, made on first use.

It is made from this Python installation: real prose and code of the standard library and of packages the project
requires, pages that we wrote, and planted faults. Nothing is downloaded. `truth.jsonl` has a line for each planted
document and says what a curation pipeline has to do with it (see `curate.read.demo_parts.faults`).

    <cache>/demo-v1-py3.11-<digest>/
      web/part-*.warc.gz      about 1,700 records: pages, and what else a crawl holds
      code/**                 source files
      books/*.jsonl.zst       long prose
      benchmarks/*.jsonl      test sets whose items were leaked into some pages
      truth.jsonl             the planted documents
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

DEMO_VERSION = 1  # of the layout and of the truth table's fields; the digest covers every other change


def ensure_demo(cache: Path) -> Path:
    """Return the folder of the demo corpus in `cache`, made there if it is not complete yet.

    The same Python version and the same versions of the required packages give the same bytes. Any number of processes
    may call this at once: each works in a folder of its own, and the first to finish publishes its folder whole.

    Raises:
        OSError: If the cache cannot be written.
        RuntimeError: If the prose program fails.
    """
    from curate.read.demo_parts.corpus import write_corpus
    from curate.read.demo_parts.ingredients import find_ingredients

    ingredients = find_ingredients()
    version = f"py{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache / f"demo-v{DEMO_VERSION}-{version}-{ingredients.digest}"
    if folder.is_dir():  # only ever appears whole, by the rename below
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=".partial", dir=cache))
    try:
        write_corpus(ingredients, work)
        _sync(work)
        work.chmod(0o755)  # mkdtemp gives 0o700
        try:
            work.rename(folder)
        except OSError:
            if not folder.is_dir():  # not another process that was faster: a real failure
                raise
        _sync_folder(cache)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _sync(folder: Path) -> None:
    """Flush every file and folder below `folder` to the disk, so that the rename never publishes empty files."""
    for root, _, names in os.walk(folder):
        for name in names:
            with Path(root, name).open("rb") as file:
                os.fsync(file.fileno())
        _sync_folder(Path(root))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
