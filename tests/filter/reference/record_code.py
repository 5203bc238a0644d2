"""Run bigcode's and OpenCoder's code rules once over real files and write down what they measured and decided.

    python record_code.py BIGCODE OPENCODER      # checkouts of bigcode-project/bigcode-dataset and OpenCoder-llm/opc_data_filtering

In an environment with pygments, nltk, jieba, zhconv, regex, numpy and beautifulsoup4; writes code.json.gz beside this file. Nothing of
theirs is copied: their modules are imported from the checkouts. Where bigcode's script cannot be imported without `datasets` and
`transformers`, which it only needs to load and store, empty modules stand for these. The line and letter columns, which The
Stack brings along, are worked out as its dataset card says. No text is kept: a file is named by place and digest.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import os
import sys
import types
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = Path(os.environ.get("CURATE_DATA") or HERE.parents[3] / "shared" / "data")
EVERY, HTML_EVERY = 7, 8
MOST_CHARS = 80_000


def documents(data: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield place (file, row, path, language) and text of each source file; HTML pages stand for HTML code."""
    path = data / "05_code" / "code.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row, line in enumerate(file):
            found = json.loads(line)
            if (row % EVERY == 0 or set(found["tags"]) & {"generated", "minified"}) and found["text"].strip():
                yield _place("05_code/code.jsonl.gz", row, found["path"], found["language"], found["text"])
    pages = sorted((data / "02_gold").glob("*/html/*.html.gz"))
    for row, page in enumerate(pages):
        if row % HTML_EVERY == 0:
            text = gzip.decompress(page.read_bytes()).decode("utf-8", "replace")
            if text.strip():
                yield _place(page.relative_to(data).as_posix(), 0, page.name.removesuffix(".gz"), "HTML", text)


def _place(file: str, row: int, path: str, language: str, text: str) -> tuple[dict[str, Any], str]:
    text = text[:MOST_CHARS]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return {"file": file, "row": row, "path": path, "language": language, "sha256": digest}, text


def bigcode(checkout: Path) -> Any:
    """Return a function from a file to what bigcode's filters decide of it."""
    for name, values in (
        ("datasets", ("load_dataset",)),
        ("datasets.utils", ()),
        ("transformers", ("AutoTokenizer", "HfArgumentParser")),
    ):
        module = types.ModuleType(name)
        for value in values:
            setattr(module, value, None)
        sys.modules[name] = module
    logging_module = types.ModuleType("datasets.utils.logging")
    logging_module.set_verbosity_info = lambda: None  # type: ignore[attr-defined]
    sys.modules["datasets.utils.logging"] = logging_module
    sharding = types.ModuleType("utils.manual_sharding")
    sharding.save_manual_shards = None  # type: ignore[attr-defined]
    sys.modules["utils.manual_sharding"] = sharding
    sys.path.insert(0, str(checkout / "preprocessing"))
    filtering = importlib.import_module("filtering")
    from arguments import FilteringArguments
    from bs4 import BeautifulSoup

    filtering.args = FilteringArguments()
    filtering.BeautifulSoup = BeautifulSoup  # the script imports it only where it is run
    table = filtering.load_filter_csv(str(checkout / "preprocessing" / "visual_inspection.csv"))

    def decide(place: dict[str, Any], text: str) -> dict[str, Any]:
        lines = [len(line) for line in text.splitlines()]
        extension = place["path"].rpartition("/")[2].rpartition(".")[2]
        example = {
            "content": text,
            "lang": place["language"],
            "ext": extension,
            "max_line_length": max(lines),
            "avg_line_length": sum(lines) / len(lines),
            "alphanum_fraction": sum(map(str.isalnum, text)) / len(text),
            "size": len(text),
        }
        found = {"basic": filtering.basic_filters(example), "xml": filtering.filter_xml(example)}
        found["extension"] = filtering.basic_filters_per_extension(example, table)
        if place["language"] == "HTML":
            found["html"] = filtering.filter_html(example)
        else:
            ratio = filtering.get_comments_ratio({"content": [text], "lang": [place["language"]]})["nl_ratio"][0]
            arguments = filtering.args
            found["comment_fraction"] = ratio
            found["comments"] = arguments.min_threshold_comments < ratio < arguments.max_threshold_comments
        return {key: value if isinstance(value, float) else bool(value) for key, value in found.items()}

    return decide


def opencoder(checkout: Path) -> Any:
    """Return a function from a file to OpenCoder's signals and the rules that they break."""
    for name in [name for name in sys.modules if name == "utils" or name.startswith("utils.")]:
        del sys.modules[name]
    sys.path.insert(0, str(checkout))
    signals = importlib.import_module("pipeline.compute_quality_signals").ComputeCodeQualitySignal()
    rules = importlib.import_module("pipeline.compute_filtering").CodeFilter()
    preprocessing = importlib.import_module("utils.preprocessing")

    def decide(place: dict[str, Any], text: str) -> dict[str, Any]:
        name = place["path"].rpartition("/")[2]
        extension = name.rpartition(".")[2]
        language = preprocessing.get_program_lang(name, extension)
        kind = preprocessing.get_doc_type(language)
        size = len(text.encode("utf-8", "surrogatepass"))
        measured = json.loads(signals.evaluate(text, name, "en", extension, size, language, kind))
        values = json.loads(measured["quality_signal"])
        decided = json.loads(rules.evaluate(kind, "en", language, measured["quality_signal"]))
        broken = sorted(key for key, hit in json.loads(decided["hit_map"]).items() if hit)
        kept = {key: round(float(value), 8) for key, value in values.items() if value is not None}
        return {"language": language, "kind": kind, "values": kept, "broken": broken}

    return decide


def main() -> None:
    """Write code.json.gz."""
    warnings.simplefilter("ignore")
    first, second = Path(sys.argv[1]), Path(sys.argv[2])
    found = list(documents(DATA))
    decide = bigcode(first)
    rows = [place | {"bigcode": decide(place, text)} for place, text in found]
    decide = opencoder(second)
    rows = [row | {"opencoder": decide(row, text)} for row, (_, text) in zip(rows, found, strict=True)]
    made_by = f"bigcode-dataset bebec929 and opc_data_filtering 44b857e8, pygments {version('pygments')}, nltk {version('nltk')}"
    data = json.dumps({"made_by": made_by, "documents": rows}, separators=(",", ":")).encode()
    (HERE / "code.json.gz").write_bytes(gzip.compress(data, mtime=0))
    print(made_by, len(rows), "files")


if __name__ == "__main__":
    main()
