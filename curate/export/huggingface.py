"""The head of a Hugging Face dataset's README.md: which files are which, what columns they have, under which licences."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from curate.export.facts import Facts
from curate.export.survey import NOT_STATED

_SIZES = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12)  # powers of ten
_UNITS = {3: "1K", 4: "10K", 5: "100K", 6: "1M", 7: "10M", 8: "100M", 9: "1B", 10: "10B", 11: "100B", 12: "1T"}
# SPDX to the Hub's names, where they are not the same in lower case; and those that it knows as they are.
_HUB_NAMES = {"gpl-3.0-only": "gpl-3.0", "gpl-3.0-or-later": "gpl-3.0", "gpl-2.0-only": "gpl-2.0"}
_HUB_NAMES |= {"gpl-2.0-or-later": "gpl-2.0", "lgpl-3.0-only": "lgpl-3.0", "lgpl-2.1-only": "lgpl-2.1"}
_HUB_NAMES |= {"lgpl-3.0-or-later": "lgpl-3.0", "lgpl-2.1-or-later": "lgpl-2.1", "agpl-3.0-only": "agpl-3.0"}
_HUB_NAMES |= {"agpl-3.0-or-later": "agpl-3.0", "odc-by-1.0": "odc-by", "odbl-1.0": "odbl", "pddl-1.0": "pddl"}
_KNOWN = (
    "apache-2.0 mit openrail bigscience-openrail-m afl-3.0 artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause "
    "bsd-3-clause-clear c-uda cc cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 "
    "cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 "
    "cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 wtfpl ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 "
    "eupl-1.1 eupl-1.2 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0 lgpl lgpl-2.1 lgpl-3.0 isc lppl-1.3c ms-pl mpl-2.0 odc-by odbl "
    "openmdw-1.0 openrail++ osl-3.0 postgresql ofl-1.1 ncsa unlicense zlib pddl unknown other"
)
_LANGUAGE = re.compile(r"[a-z]{2,3}")


def head(facts: Facts, schema: pa.Schema) -> str:
    """Return the YAML front matter: configurations, columns, counts, licences and languages.

    One configuration holds all sources (the default), and one each source; each has the splits that have documents.
    """
    every = _every(facts.selection.sources)
    parts: dict[str, dict[str, list[str]]] = {every: {}}
    numbers: dict[str, dict[str, list[int]]] = {every: {}}
    for path, one in facts.written.items():
        for name in (every, one["source"]):
            pattern = f"data/{one['source']}/{one['split']}-*.parquet"
            patterns = parts.setdefault(name, {}).setdefault(one["split"], [])
            if pattern not in patterns:
                patterns.append(pattern)
            count = numbers.setdefault(name, {}).setdefault(one["split"], [0, 0, 0])
            count[0] += one["memory"]
            count[1] += one["documents"]
            count[2] += one["file_bytes"]
        del path
    configs = [
        {
            "config_name": name,
            **({"default": True} if name == every else {}),
            "data_files": [{"split": split, "path": patterns} for split, patterns in found.items()],
        }
        for name, found in parts.items()
    ]
    features = [{"name": field.name, "dtype": _dtype(field.type)} for field in schema]
    info = [
        {
            "config_name": name,
            "features": features,
            "splits": [{"name": split, "num_bytes": one[0], "num_examples": one[1]} for split, one in found.items()],
            "download_size": sum(one[2] for one in found.values()),
            "dataset_size": sum(one[0] for one in found.values()),
        }
        for name, found in numbers.items()
    ]
    documents = sum(one["documents"] for one in facts.written.values())
    licences = _licences(facts)
    content = {
        "pretty_name": facts.name,
        **({"license": licences if len(licences) > 1 else licences[0]} if licences else {}),
        **({"language": languages} if (languages := _languages(facts)) else {}),
        "task_categories": ["text-generation"],
        "size_categories": [_size(documents)],
        "tags": ["pretraining", "curate"],
        "configs": configs,
        "dataset_info": info,
    }
    yaml = YAML()
    yaml.width = 1000
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    yaml.dump(_quoted(content), stream)
    return f"---\n{stream.getvalue()}---\n\n"


def _every(sources: tuple[str, ...]) -> str:
    return next(name for name in ("default", "all", "all_sources") if name not in sources)


def _licences(facts: Facts) -> list[str]:
    """Return the Hub's names of the documents' licences; `other` for what it has no name for, `unknown` for none."""
    found = set()
    for label in facts.labels("licences"):
        plain = label.strip('[]"').lower()
        name = _HUB_NAMES.get(plain, plain)
        found.add("unknown" if label == NOT_STATED else name if name in _KNOWN.split() else "other")
    return sorted(found)


def _languages(facts: Facts) -> list[str]:
    return sorted(label for label in facts.labels("languages") if _LANGUAGE.fullmatch(label))


def _size(documents: int) -> str:
    if documents < 1000:
        return "n<1K"
    below = max(power for power in _SIZES if 10**power <= documents)
    return f"n>{_UNITS[below]}" if below == _SIZES[-1] else f"{_UNITS[below]}<n<{_UNITS[below + 1]}"


def _dtype(kind: pa.DataType) -> str:
    return str(kind)  # Arrow's names are the Hub's: string, large_string, int32


def _quoted(value: Any) -> Any:
    """Return a value whose strings are written in quotes: the Hub reads YAML 1.1, where the language `no` is false."""
    if isinstance(value, Mapping):
        return {key: _quoted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_quoted(item) for item in value]
    return DoubleQuotedScalarString(value) if isinstance(value, str) else value
