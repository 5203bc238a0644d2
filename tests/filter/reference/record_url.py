"""Run the URL filters of datatrove and of DCLM once, as they were published, and write down what they decided.

    python record_url.py datatrove          # in an environment that has it
    python record_url.py dclm CHECKOUT      # needs the package retrie

Each is imported from where it lies and given our lists (`urls.py`); the answers go to url_<name>.json.gz: for each address
the file, the row and the first 32 hex digits of its sha256, and the reason of the removal, or null.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import sys
import tempfile
import types
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from urls import LISTS, PLANTED, digest, real

HERE = Path(__file__).parent
DATA = Path(os.environ.get("CURATE_DATA") or HERE.parents[3] / "shared" / "data")
Decide = Callable[[str], str | None]


def datatrove() -> tuple[str, dict[str, Decide]]:
    from datatrove.data import Document
    from datatrove.pipeline.filters.url_filter import URLFilter
    from tldextract import TLDExtract

    step = URLFilter(
        extra_domains=LISTS["domains"],
        extra_urls=LISTS["addresses"],
        banned_words=LISTS["hard_words"],
        banned_subwords=LISTS["substrings"],
        soft_banned_words=LISTS["soft_words"],
        use_integrated_lists=False,
    )
    step.tldextractor = TLDExtract(suffix_list_urls=(), cache_dir=None)  # the list of suffixes that the package brings

    def decide(url: str) -> str | None:
        answer = step.filter(Document(text="", id="", metadata={"url": url}))
        return None if answer is True else answer[1]

    return f"datatrove {version('datatrove')}, tldextract {version('tldextract')}", {"datatrove": decide}


def without_packages(checkout: str) -> None:
    """Let single files of DCLM be imported: what its packages import besides is for clusters."""
    for name in ("core", "baselines", "baselines.core", "baselines.mappers", "baselines.mappers.filters"):
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__ = [str(Path(checkout, *name.split(".")))]
    factory = sys.modules["core.factory_utils"] = types.ModuleType("core.factory_utils")
    factory.factory_function = lambda function: function
    sys.modules["core.constants"] = importlib.import_module("baselines.core.constants")


def dclm(checkout: str) -> tuple[str, dict[str, Decide]]:
    without_packages(checkout)
    from baselines.mappers.filters.metadata_filters import url_substring_filter

    config = Path(checkout, "baselines/baselines_configs/refinedweb.yaml").read_text()
    sites = json.loads(config[config.index("banlist: [") + 9 : config.index("]", config.index("banlist: [")) + 1])
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder, name)) for name in LISTS}
        for name, path in paths.items():
            Path(path).write_text("\n".join(LISTS[name]), encoding="utf-8")
        # the settings of refinedweb.yaml; dclm_baseline_refinedweb.yaml lacks `reserved`
        filters = {
            "domain": url_substring_filter(
                banlist_from_fname=paths["domains"], exact_domain_match=True, ignore_chars=["www"]
            ),
            "reserved": url_substring_filter(banlist=sites, exact_domain_match=True, ignore_chars=["www"]),
            "substrings": url_substring_filter(banlist_from_fname=paths["substrings"], ignore_chars=["-", "."]),
            "hard_words": url_substring_filter(banlist_from_fname=paths["hard_words"], match_substrings=False),
            "soft_words": url_substring_filter(
                banlist_from_fname=paths["soft_words"], num_banned_substrs=2, match_substrings=False
            ),
        }

    def first(names: list[str]) -> Decide:
        return lambda url: next((name for name in names if not filters[name]({"url": url})), None)

    names = list(filters)
    return f"DCLM baselines, retrie {version('retrie')}", {
        "refinedweb": first(names),
        "dclm": first([name for name in names if name != "reserved"]),
    }


def main() -> None:
    implementation, decides = {"datatrove": datatrove, "dclm": dclm}[sys.argv[1]](*sys.argv[2:])
    rows = [[file, row, digest(url), *(one(url) for one in decides.values())] for file, row, url in real(DATA)]
    planted = [[one(url) for one in decides.values()] for url in PLANTED]
    answer = {"implementation": implementation, "variants": list(decides), "real": rows, "planted": planted}
    with gzip.GzipFile(HERE / f"url_{sys.argv[1]}.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(answer, separators=(",", ":")).encode())


if __name__ == "__main__":
    main()
