import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from curate.errors import UsageError
from curate.report.duplicates import likeness
from curate.report.trace import trace, trace_text
from curate.tokens.order import Plan
from curate.tokens.shard import TokenSource


def one(docs: list[Any], fits: Callable[[Any], bool]) -> Any:
    return next(doc for doc in docs if fits(doc))


@pytest.fixture
def kept(docs: list[Any]) -> Any:
    return one(docs, lambda doc: doc.source == "web" and doc.rule is None and doc.split == "train")


def test_a_kept_document_from_byte_to_step(run_folder: Path, kept: Any) -> None:
    life = trace(run_folder, kept.id)
    assert (life.source, life.path, life.offset, life.url) == ("web", kept.path, kept.offset, kept.url)
    assert life.input_file is not None
    assert life.input_file["path"] == kept.path
    assert life.text == kept.text
    assert life.decision is not None
    assert life.decision["kept"]
    assert life.document is not None
    assert life.document["split"] == "train"
    assert life.tokens is not None
    source = TokenSource.open(run_folder / "tokens" / "web", "train")
    index = source.document_ids.index(kept.id)
    assert life.tokens.end == source.document_ends[index]
    assert (
        life.tokens.end - life.tokens.start == len(kept.text.split()) + 1
    )  # its words in this run's tokenizer, and EOS
    shard = np.fromfile(run_folder / "tokens" / "web" / f"{life.tokens.shard}.bin", "<u2")
    own = shard[life.tokens.shard_start : life.tokens.shard_start + life.tokens.end - life.tokens.start]
    assert own[-1] == 2
    assert (own[:-1] == 7).all()


def test_windows_and_slots_are_those_of_the_plan(run_folder: Path, docs: list[Any]) -> None:
    plan = Plan.load(run_folder / "mixture.json")
    seen = 0
    for doc in docs:
        if doc.rule is not None or doc.split != "train":
            continue
        life = trace(run_folder, doc.id)
        assert life.tokens is not None
        wanted = sorted(
            g
            for g in range(plan.num_slots)
            for source, window in [plan.slot(g)]
            if source == doc.source
            and window * plan.window < life.tokens.end
            and (window + 1) * plan.window > life.tokens.start
        )
        assert [visit.slot for visit in life.visits] == wanted
        seen += len(wanted)
        for run in life.training:
            assert run.steps == tuple(g // 4 if g // 4 < 40 else None for g in wanted)  # batches of 4 windows, 40 steps
    assert seen >= plan.num_slots


def test_a_visit_names_its_stage(run_folder: Path, run_copy: Path, docs: list[Any]) -> None:
    mixture = json.loads((run_copy / "mixture.json").read_text())
    # Two stages: the smaller halves of all draws, then the rest.
    halves = {name: entry["windows_drawn"] // 2 for name, entry in mixture["sources"].items()}
    rest = {name: entry["windows_drawn"] - halves[name] for name, entry in mixture["sources"].items()}
    mixture["stages"] = [
        {"num_slots": sum(part.values()), "sources": {name: {"windows_drawn": n} for name, n in part.items()}}
        for part in (halves, rest)
    ]
    (run_copy / "mixture.json").write_text(json.dumps(mixture))
    first, seen = sum(halves.values()), set()
    for doc in docs[2:12]:
        life = trace(run_copy, doc.id)
        text = trace_text(run_copy, doc.id)
        for visit in life.visits:
            assert visit.stage == int(visit.slot >= first)
            assert f"  window {visit.window} in slot {visit.slot:,}, stage {visit.stage + 1} of 2: " in text
            seen.add(visit.stage)
        assert ", stage" not in trace_text(run_folder, doc.id)
    assert seen == {0, 1}


def test_measurements_stand_beside_their_bounds(run_folder: Path, kept: Any) -> None:
    life = trace(run_folder, kept.id)
    words = one(list(life.measurements), lambda measured: measured.column == "num_words")
    assert (words.block, words.rules[0].rule, words.rules[0].bound, words.rules[0].fired) == (
        "gopher_quality",
        "gopher_quality.num_words",
        "50 to 100000",
        False,
    )
    expression = one(list(life.other_rules), lambda rule: rule.rule == "where.expression")
    assert (expression.bound, expression.fired) == ("num_words >= 50", False)
    # measured by nobody in this run: not asked
    assert one(list(life.other_rules), lambda rule: rule.rule == "gopher_quality.hash_ratio").fired is None


def test_a_removed_document_tells_which_rules_fired(run_folder: Path, docs: list[Any]) -> None:
    doc = one(docs, lambda doc: doc.rule == "gopher_quality.num_words" and doc.source == "web")
    life = trace(run_folder, doc.id)
    fired = {rule.rule for measured in life.measurements for rule in measured.rules if rule.fired}
    fired |= {rule.rule for rule in life.other_rules if rule.fired}
    assert fired == {"gopher_quality.num_words", "where.expression", "gopher_quality.mean_word_length"}
    text = trace_text(run_folder, doc.id)
    assert "Decision: removed by gopher_quality.num_words (stage filter): 23, bound 50 to 100000" in text
    assert "✗ FIRED 50 to 100000 (gopher_quality.num_words)" in text
    assert "Tokens: none (not in the corpus)" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_copy_names_the_kept_one(run_folder: Path, docs: list[Any]) -> None:
    doc = one(docs, lambda doc: doc.rule == "dedup.minhash" and doc.source == "web")
    life = trace(run_folder, doc.id)
    assert life.cluster is not None
    assert (life.cluster.size, life.cluster.kept_id, life.cluster.similarity) == (6, doc.kept_id, 0.8125)
    assert len(life.cluster.members) == 5
    text = trace_text(run_folder, doc.id)
    assert f"in favour of {doc.kept_id}: similarity 0.8125, verified on the texts" in text
    kept = one(docs, lambda other: other.id == doc.kept_id)
    assert life.kept_copy is not None
    assert life.kept_copy["text"] == kept.text
    assert f"    web, {kept.url}, {kept.path} at {kept.offset:,}" in text
    assert f"    │ {kept.text[:60]}" in text
    assert "as extracted, only there: model" in text
    assert "as extracted, only here: <em>pattern</em>" in text


@pytest.mark.parametrize(
    ("rule", "similarity", "verified", "words"),
    [
        ("dedup.exact", 1.0, True, "the texts are equal"),
        ("dedup.minhash", 0.8125, True, "similarity 0.8125, verified on the texts"),
        ("dedup.minhash", 0.905724, False, "similarity 0.9057, estimated from bands"),
        ("dedup.minhash", 0.75, None, "similarity 0.75"),
        ("validation.near_copy", 0.75, True, "similarity 0.75, verified on the texts"),
        ("dedup.url", None, True, "the address is equal"),
        ("dedup.payload", None, None, "the payload is equal"),
        ("dedup.earlier_exact", 1.0, None, "the texts are equal"),
        ("dedup.earlier", 0.875, None, "similarity 0.875, estimated from signatures"),
        ("dedup.semantic", 0.9688, None, "similarity 0.9688, cosine of the embeddings"),
    ],
)
def test_how_a_copy_is_like_the_kept_one(
    rule: str, similarity: float | None, verified: bool | None, words: str
) -> None:
    assert likeness(rule, similarity, verified) == words


def test_a_leak_shows_the_span(run_folder: Path, docs: list[Any]) -> None:
    doc = one(docs, lambda doc: doc.rule == "decontaminate.overlap")
    text = trace_text(run_folder, doc.id)
    assert "Contamination: 1 benchmark items" in text
    assert "overlap 0.875, 9 words of prompt, bytes 10 to 60" in text


def test_edits_are_told(run_folder: Path, docs: list[Any]) -> None:
    assert "Edits: 1 spans cut out, 40 bytes" in trace_text(run_folder, docs[0].id)


def test_a_document_removed_at_the_gate_has_a_life_too(run_folder: Path, docs: list[Any]) -> None:
    doc = one(docs, lambda doc: doc.rule == "gate.status")
    life = trace(run_folder, doc.url)
    assert life.id == doc.id
    assert life.text is None
    assert life.measurements == ()
    assert not any(rule.fired is False for rule in life.other_rules)
    assert "Extracted: no text" in trace_text(run_folder, doc.id)


def test_a_validation_document_is_never_trained_on(run_folder: Path, docs: list[Any]) -> None:
    doc = one(docs, lambda doc: doc.split == "validation")
    life = trace(run_folder, doc.id)
    assert life.tokens is not None
    assert life.tokens.split == "validation"
    assert life.visits == ()
    assert "never trained on" in trace_text(run_folder, doc.id)


def test_found_by_prefix_url_and_input_id(run_folder: Path, kept: Any) -> None:
    assert trace(run_folder, kept.id[:12]).id == kept.id
    assert trace(run_folder, kept.url).id == kept.id
    own = trace(run_folder, "n68000")
    assert (own.source_id, own.offset) == ("n68000", 68000)


def test_several_fitting_documents_are_listed(run_folder: Path) -> None:
    with pytest.raises(UsageError, match="3 documents have the URL or input id n1000") as error:
        trace(run_folder, "n1000")  # one in each source
    assert all(f"  {source}  {source}/part-1" in str(error.value) for source in ("web", "code", "books"))


def test_not_found_says_what_can_be_asked(run_folder: Path) -> None:
    with pytest.raises(UsageError, match=r"none of this run's 99 documents") as error:
        trace(run_folder, "http://www.EXAMPLE.org/web/3/#top")
    assert "Close to it: https://example.org/web/3 (" in str(error.value)
    assert error.value.exit_code == 2
    for key in ("ffffffffffffffffffffffffffffffff", "zz", "javascript:\x1b[2J"):
        with pytest.raises(UsageError) as error:
            trace(run_folder, key)
        assert "\x1b" not in str(error.value)
    with pytest.raises(UsageError, match="Name a document"):
        trace(run_folder, " ")


@pytest.mark.parametrize(
    "part",
    [
        "manifest.json",
        "recipe.yaml",
        "measurements",
        "duplicates.parquet",
        "documents",
        "tokens",
        "mixture.json",
        "train",
        "edits",
    ],
)
def test_a_life_that_ended_early(run_copy: Path, kept: Any, part: str) -> None:
    path = run_copy / part
    path.rename(run_copy / "away")
    life = trace(run_copy, kept.id)
    assert life.id == kept.id
    assert kept.id in trace_text(run_copy, kept.id)


def test_a_cluster_in_which_nobody_stays(run_copy: Path, docs: list[Any]) -> None:
    path = run_copy / "duplicates.parquet"
    table = pq.read_table(path)
    rows = [{**row, "kept_id": None, "similarity": None} for row in table.to_pylist()]
    pq.write_table(table.from_pylist(rows, schema=table.schema), path)
    doc = one(docs, lambda doc: doc.rule == "dedup.exact")
    assert "the kept copy" not in trace_text(run_copy, doc.id)


def test_seeds_with_other_batches(run_copy: Path, docs: list[Any]) -> None:
    kept = min(
        (doc for doc in docs if doc.source == "web" and doc.rule is None and doc.split == "train"),
        key=lambda doc: doc.id,
    )
    (run_copy / "train" / "1" / "resolved.json").write_text(json.dumps({"identity": {"batch_windows": 2, "steps": 1}}))
    life = trace(run_copy, kept.id)
    assert [run.batch_windows for run in life.training] == [4, 2, 4]
    assert any(step is None for step in life.training[1].steps)
    assert "not reached of seed 1" in trace_text(run_copy, kept.id)
