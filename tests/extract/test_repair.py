import json
import pickle

import pyarrow as pa
import pyarrow.parquet as pq

import curate
from curate.extract.repair import Ftfy


def test_a_batch_is_repaired_row_by_row():
    batch = pa.RecordBatch.from_pylist([{"text": text} for text in ("cafÃ©", None, "fine", "a\x00\r\n", "")])
    result = Ftfy().repair(batch)
    assert result.schema == pa.schema({"text": pa.large_string(), "repairs": pa.map_(pa.string(), pa.int64())})
    assert result.to_pylist() == [
        {"text": "café", "repairs": [("mojibake", 1)]},
        {"text": None, "repairs": None},
        {"text": "fine", "repairs": []},
        {"text": "a\n", "repairs": [("line_ends", 1), ("controls", 1)]},
        {"text": "", "repairs": []},
    ]


def test_an_empty_batch_and_pickling():
    assert Ftfy().repair(pa.RecordBatch.from_pydict({"text": pa.array([], pa.large_string())})).num_rows == 0
    assert pickle.loads(pickle.dumps(Ftfy())) == Ftfy()


def test_what_was_repaired_is_counted_by_document_and_in_the_manifest(tmp_path):
    texts = ["cafÃ©\ncafÃ©\nfine", "It\x92s\x00\x07", "plain", "thÃ©\r\n"]
    lines = [json.dumps({"id": str(number), "text": text}) for number, text in enumerate(texts)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "name: repairs\nsources:\n  one:\n    read: {kind: jsonl, paths: in.jsonl}\n    repair: {kind: ftfy}\n"
    )
    manifest = curate.run(recipe, output=tmp_path / "run", cache=tmp_path / "cache", workers=1, quiet=True).manifest
    rows = pq.read_table(tmp_path / "run" / "extracted" / "one").sort_by("source_id").to_pylist()
    assert [row["text"].rstrip() for row in rows] == ["café\ncafé\nfine", "It’s", "plain", "thé"]
    assert [json.loads(row["metadata"] or "{}").get("repairs") for row in rows] == [
        {"mojibake": 2},
        {"mojibake": 1, "controls": 2},
        None,
        {"mojibake": 1, "line_ends": 1},
    ]
    assert manifest["repairs"] == {
        "one": {
            "controls": {"documents": 1, "made": 2},
            "line_ends": {"documents": 1, "made": 1},
            "mojibake": {"documents": 3, "made": 4},
        }
    }


def test_rows_of_a_slice_and_texts_that_are_right_stay_in_their_buffer():
    texts = pa.array(["x" * 9, "cafÃ©", None, "right é", "rÃ©sumÃ©", "end"], pa.large_string())
    batch = pa.record_batch({"text": texts})
    sliced = Ftfy().repair(batch.slice(1, 4))
    assert sliced["text"].to_pylist() == ["café", None, "right é", "résumé"]
    assert sliced["repairs"].to_pylist() == [[("mojibake", 1)], None, [], [("mojibake", 1)]]
    right = Ftfy().repair(batch.slice(2, 2))
    assert right["text"].buffers()[2].address == texts.buffers()[2].address
