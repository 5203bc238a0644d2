import pickle

import pyarrow as pa

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
