import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate.errors import InputError
from curate.report.collect import build_report
from curate.report.domains import domains, interval
from curate.report.page import render
from curate.report.run import RunFolder

# Source, id, domain, language, bytes; a.org is a domain of its own, the rest of web is `other`.
DOCUMENTS = [
    ("web", "1", "a.org", "en", 10), ("web", "2", "a.org", "en", 30), ("web", "3", "<b>b.org", "pt", 40),
    ("web", "4", None, None, 20), ("books", "5", None, None, 100),
]  # fmt: skip
BITS = {"0": [10.0, 60.0, 160.0, 20.0, 300.0], "1": [20.0, 60.0, 160.0, 40.0, 500.0]}
TABLES = {
    "web": {"by_domain": {"a.org": {}, "other": {}}, "by_language": {"not stated": {}, "other": {}}},
    "books": {"by_domain": {"not stated": {}}, "by_language": {"not stated": {}}},
}


def write_seed(run: Path, seed: str, macro: float) -> None:
    folder = run / "train" / seed
    folder.mkdir(parents=True, exist_ok=True)
    names = ("source", "id", "domain", "language", "bytes")
    rows = [dict(zip(names, row, strict=True)) | {"tokens": 3} for row in DOCUMENTS]
    for row, bits in zip(rows, BITS[seed], strict=True):
        row["nats"] = bits * math.log(2)
    pq.write_table(pa.Table.from_pylist(rows), folder / "validation.parquet")
    found = {source: {"macro_bits_per_byte": macro + place, **TABLES[source]} for place, source in enumerate(TABLES)}
    summary = {"macro_bits_per_byte": macro, "domains": found, "preset": "demo-1m"}
    (folder / "summary.json").write_text(json.dumps(summary))


def test_rows_by_hand(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").touch()
    for seed, macro in (("0", 1.5), ("1", 2.5)):
        write_seed(tmp_path, seed, macro)
    found = domains(RunFolder.open(tmp_path))
    assert found is not None
    assert (found["seeds"], found["macro"]) == (["0", "1"], {"0": 1.5, "1": 2.5})
    web = found["sources"]["web"]
    assert web["macro"] == {"0": 1.5, "1": 2.5}
    assert web["total"]["bits_per_byte"] == pytest.approx({"0": 2.5, "1": 2.8})
    assert list(web["by_domain"]) == ["a.org", "other"]
    first = web["by_domain"]["a.org"]
    assert (first["documents"], first["bytes"]) == (2, 40)
    assert first["bits_per_byte"] == pytest.approx({"0": 70 / 40, "1": 80 / 40})
    assert first["mean"] == pytest.approx(75 / 40)
    # Means over seeds 15 and 60 bits of 10 and 30 bytes; the ratio 1.875 gives 18.75 and 56.25: 3.75 below and above.
    # Variance 2 / 1 * (3.75^2 + 3.75^2) / 40^2; t of one degree of freedom at 0.975 is 12.706.
    half = 12.7062 * math.sqrt(2 * 2 * 3.75**2) / 40
    assert (first["low"], first["high"]) == pytest.approx((1.875 - half, 1.875 + half), rel=1e-5)
    other = web["by_domain"]["other"]
    assert (other["documents"], other["bytes"], other["mean"]) == (2, 60, pytest.approx((180 / 60 + 200 / 60) / 2))
    assert web["by_language"]["not stated"]["documents"] == 1
    assert web["by_language"]["other"]["documents"] == 3
    books = found["sources"]["books"]["total"]
    assert (books["mean"], books["low"], books["high"]) == (pytest.approx(4.0), None, None)


def test_the_interval_is_that_of_a_bootstrap_over_documents() -> None:
    random = np.random.default_rng(0)
    num_bytes = random.lognormal(6, 1, 300).astype(np.int64)
    bits = num_bytes * random.normal(1.5, 0.3, 300) + random.exponential(50, 300)
    draws = random.integers(0, 300, (10_000, 300))
    ratios = bits[draws].sum(axis=1) / num_bytes[draws].sum(axis=1)
    low, high = interval(bits, num_bytes)
    assert low is not None
    assert high is not None
    wanted = np.quantile(ratios, [0.025, 0.975])
    assert high - low == pytest.approx(wanted[1] - wanted[0], rel=0.06)
    assert (low, high) == pytest.approx(tuple(wanted), abs=0.06 * (high - low))


def test_runs_without_records_have_no_table(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").touch()
    write_seed(tmp_path, "0", 1.0)
    (tmp_path / "train" / "0" / "validation.parquet").unlink()
    assert domains(RunFolder.open(tmp_path)) is None
    write_seed(tmp_path, "0", 1.0)
    (tmp_path / "train" / "0" / "validation.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        domains(RunFolder.open(tmp_path))


def test_the_page_shows_what_report_json_says(run_copy: Path) -> None:
    for seed in ("0", "1"):
        write_seed(run_copy, seed, 1.5)
    report = build_report(run_copy)
    page = render(report)
    assert "Validation by domain" in page
    assert "Validation by language" in page
    assert page.count("<td><bdi>a.org</bdi></td>") == 1
    assert f"{report['domains']['sources']['web']['by_domain']['a.org']['high']:.4f}" in page
    assert "1.5000" in page
