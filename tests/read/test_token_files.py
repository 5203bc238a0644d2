"""Token files of other tools: their layouts written out by hand, what contradicts itself refused, and whole runs."""

import json
import struct

import numpy as np
import pyarrow.parquet as pq
import pytest

import curate
from curate.errors import InputError, RecipeError
from curate.read.token_files import TokenFiles, open_tokens
from curate.tokens.sentencepiece_training import train_tokenizer
from curate.tokens.settings import SentencePiece, TokenizerSettings
from curate.tokens.shard import TokenSource
from curate.tokens.tokenizer import load_tokenizer

EOS = 2
RUNS = [[5, 6, 7], [8], [9, 10]]


def row(runs=RUNS, *, ended=True, last=True):
    ids = [one for run in runs for one in [*run, *([EOS] if ended else [])]]
    return ids if last or not ended else ids[:-1]


def ends(runs, more=1):
    return np.cumsum([len(run) + more for run in runs]).astype("<u8")


def read(path, index=None, *, vocab_size=400, **settings):
    opened = open_tokens(path, path.name, index, TokenFiles(**settings), vocab_size)
    return [opened.run(*place, vocab_size, EOS).tolist() for place in opened.documents(EOS)]


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
def test_datatrove(tmp_path, dtype):
    """`.ds`: ids of 2 or 4 bytes; `.ds.index`: uint64 ends. The width follows from both, whatever the vocabulary."""
    (tmp_path / "a.ds").write_bytes(np.array(row(), dtype).tobytes())
    (tmp_path / "a.ds.index").write_bytes(ends(RUNS).tobytes())
    assert (tmp_path / "a.ds.index").read_bytes() == struct.pack("<3Q", 4, 6, 9)
    assert read(tmp_path / "a.ds", tmp_path / "a.ds.index") == RUNS
    if dtype == "<u2":
        assert read(tmp_path / "a.ds") == RUNS  # without the index


def test_an_index_serves_where_no_eos_was_written(tmp_path):
    runs = [*RUNS, [], [11]]
    (tmp_path / "a.ds").write_bytes(np.array(row(runs, ended=False), "<u2").tobytes())
    (tmp_path / "a.ds.index").write_bytes(ends(runs, more=0).tobytes())
    assert read(tmp_path / "a.ds", tmp_path / "a.ds.index") == runs


def test_raw_rows_as_olmo_and_nanogpt_write_them(tmp_path):
    for dtype, vocab_size in (("<u2", 65_536), ("<u4", 65_537)):
        (tmp_path / "a.npy").write_bytes(np.array(row(), dtype).tobytes())
        assert read(tmp_path / "a.npy", vocab_size=vocab_size) == RUNS
    (tmp_path / "a.bin").write_bytes(np.array(row(last=False), "<u2").tobytes())
    assert read(tmp_path / "a.bin") == RUNS  # the last document has no EOS
    (tmp_path / "a.bin").write_bytes(np.array([EOS, EOS, *row(), EOS], "<u2").tobytes())
    assert read(tmp_path / "a.bin") == RUNS  # nothing lies between two EOS
    (tmp_path / "a.bin").write_bytes(b"")
    assert read(tmp_path / "a.bin") == []


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "int32", "int64", ">u2"])
def test_rows_with_numpys_header(tmp_path, dtype):
    np.save(tmp_path / "a.npy", np.array(row(), dtype))
    assert read(tmp_path / "a.npy") == RUNS


@pytest.mark.parametrize(("magic", "version", "dtype"), [(20240520, 1, "<u2"), (20240801, 7, "<u4")])
def test_rows_with_the_header_of_llm_c(tmp_path, magic, version, dtype):
    """256 int32: magic, version, number of tokens; each document comes behind its EOS (dev/data/data_common.py)."""
    ids = np.array([EOS, *row(last=False)], dtype)
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, len(ids)
    (tmp_path / "a.bin").write_bytes(header.tobytes() + ids.tobytes())
    assert read(tmp_path / "a.bin") == RUNS


def test_a_long_row_is_split_across_chunks(tmp_path):
    rng = np.random.default_rng(7)
    ids = rng.integers(3, 400, 3 << 20).astype("<u2")
    places = np.sort(rng.choice(len(ids), 999, replace=False))
    ids[places] = EOS
    ids[-1] = 5
    (tmp_path / "a.bin").write_bytes(ids.tobytes())
    expected = [part[part != EOS] for part in np.split(ids, places + 1)]
    found = read(tmp_path / "a.bin")
    assert found == [part.tolist() for part in expected if len(part)]


@pytest.mark.parametrize(
    ("data", "index", "settings", "told"),
    [
        (b"\1\0\2", None, {}, "no whole number of 2-byte ids"),
        (np.array([5, 400, 2], "<u2").tobytes(), None, {}, "token 1 has the id 400, and the tokenizer 400 ids"),
        (np.array([5, 2] * 99, "<u4").tobytes(), None, {}, "every second id is 0"),
        (
            np.array(row(), "<u2").tobytes(),
            [4, 6, 8],
            {},
            "its index counts 8 tokens of 2 or 4 bytes, and the file has 18",
        ),
        (np.array(row(), "<u2").tobytes(), [4, 3, 9], {}, "does not ascend"),
        (np.array(row(), "<u2").tobytes(), [6, 9], {}, "EOS .2. stands inside the document of tokens 0 to 5"),
        (np.array(row(), "<u2").tobytes(), [4, 6, 9], {"dtype": "uint32"}, "tokens of 4 bytes, and the file has 18"),
        (np.array(row(), "<u2").tobytes(), [], {}, "it has 9 tokens and its index 0"),
        (np.array(row(), "<u2").tobytes(), b"123", {}, "no row of 64-bit numbers"),
        (np.array(row(), "<u2").tobytes(), b"MMIDIDX\0\0", {}, "Megatron"),
    ],
)
def test_files_that_contradict_themselves_are_refused(tmp_path, data, index, settings, told):
    (tmp_path / "a.bin").write_bytes(data)
    place = None
    if index is not None:
        place = tmp_path / "a.idx"
        place.write_bytes(index if isinstance(index, bytes) else np.array(index, "<u8").tobytes())
    with pytest.raises(InputError, match=told):
        read(tmp_path / "a.bin", place, **settings)


@pytest.mark.parametrize("array", [np.zeros((2, 2), np.int64), np.zeros(4), np.array([5, -1])])
def test_arrays_that_are_no_ids_are_refused(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(InputError, match=r"whole numbers in one row|has the id -1"):
        read(tmp_path / "a.npy")


# -- in a run ----------------------------------------------------------------------------------------------------------

TEXTS = [
    f"The lock keeper wrote toll number {number} in the green book, and the barge left before noon."
    for number in range(40)
]
RECIPE = """\
seed: 3
sources:
  given:
    read: {kind: tokens, paths: given}
    licence: MIT
  docs:
    read: {kind: jsonl, paths: docs.jsonl}
tokenizer: {load: tok.model}
mixture: {weights: {docs: 1, given: 3}, tokens: 512, window: 32}
"""


@pytest.fixture(scope="module")
def model():
    settings = TokenizerSettings(train=SentencePiece(vocab_size=320))
    return train_tokenizer(TEXTS, settings).model


def encoded(model):
    """Return the ids of each of the last ten texts, EOS included."""
    tokenizer = load_tokenizer(model)
    return [[*tokenizer.encode(text).tolist(), tokenizer.eos_id] for text in TEXTS[30:]]


@pytest.fixture
def project(tmp_path, model):
    (tmp_path / "tok.model").write_bytes(model)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS[:30]))
    (tmp_path / "given").mkdir()
    runs = encoded(model)
    for name, part in (("one", runs[:6]), ("two", runs[6:])):
        ids = np.array([one for run in part for one in run], "<u2")
        (tmp_path / "given" / f"{name}.ds").write_bytes(ids.tobytes())
        (tmp_path / "given" / f"{name}.ds.index").write_bytes(ends(part, more=0).tobytes())
        (tmp_path / "given" / f"{name}.ds.metadata").write_text(f"tok.model|2\n{len(ids)}\n")
    return tmp_path


def run(folder, *sets, output="run", **options):
    places = {"output": folder / output, "cache": folder / "cache"}
    return curate.run(folder / "recipe.yaml", sets=sets, quiet=True, **places, **options).manifest


def test_tokens_enter_at_arrange(project, model):
    manifest = run(project)
    source = TokenSource.open(project / "run" / "tokens" / "given")
    source.verify()
    tokenizer = load_tokenizer(model)
    assert sorted(tokenizer.decode(ids) for _, ids in source.documents()) == sorted(TEXTS[30:])
    assert TokenSource.open(project / "run" / "tokens" / "given", "validation").num_documents == 0
    ledger = manifest["ledger"]["given"]
    num_bytes = sum(len(text.encode()) for text in TEXTS[30:])
    assert (ledger["read"], ledger["kept"], ledger["bytes"]["read"], ledger["bytes"]["kept"]) == (
        10,
        10,
        num_bytes,
        num_bytes,
    )
    assert [file["path"] for file in manifest["inputs"]["given"]["files"]] == ["one.ds", "two.ds"]
    assert manifest["inputs"]["given"]["files"][0]["index"]["path"] == "one.ds.index"
    assert manifest["inputs"]["given"]["licence"] == "MIT"
    decisions = pq.read_table(project / "run" / "decisions" / "given")
    assert decisions["kept"].to_pylist() == [True] * 10
    assert set(decisions["id"].to_pylist()) == set(source.document_ids)
    mixture = json.loads((project / "run" / "mixture.json").read_text())["sources"]
    assert (mixture["given"]["windows_drawn"], mixture["docs"]["windows_drawn"]) == (12, 4)
    report = json.loads((project / "run" / "report.json").read_text())
    assert report["balanced"]
    assert report["result"]["documents_read"] == 40
    written, resolved = curate.load(project / "recipe.yaml"), curate.load(project / "run" / "recipe.yaml")
    assert (resolved.sources, resolved.token_sources) == (written.sources, written.token_sources)
    assert curate.check(project / "recipe.yaml").sources["given"] == (2, sum(2 * len(ids) for ids in encoded(model)))


def test_the_order_does_not_depend_on_workers_and_nothing_is_done_twice(project):
    run(project, workers=1)
    whole = (project / "run" / "tokens" / "given" / "train-00000.bin").read_bytes()
    assert whole != b""
    run(project, workers=2)
    assert json.loads((project / "run" / "timings.json").read_text())["phases"]["encode"]["tasks_run"] == 0
    curate.run(project / "recipe.yaml", output=project / "again", cache=project / "other", workers=2, quiet=True)
    assert (project / "again" / "tokens" / "given" / "train-00000.bin").read_bytes() == whole


def test_every_source_may_hold_tokens(project):
    recipe = RECIPE.replace("  docs:\n    read: {kind: jsonl, paths: docs.jsonl}\n", "").replace("docs: 1, ", "")
    (project / "recipe.yaml").write_text(recipe)
    assert run(project)["ledger"]["given"]["kept"] == 10
    with pytest.raises(RecipeError, match="every source holds tokens"):
        run(project, "validation={}")


def test_limit_and_sample_count_documents(project):
    assert run(project, limit=7)["ledger"]["given"]["read"] == 7
    few, more = (run(project, sample=share)["ledger"]["given"]["read"] for share in (0.3, 0.9))
    assert few < more <= 10


def test_our_own_shards_are_read_again_and_only_with_their_tokenizer(project, model):
    run(project)
    recipe = RECIPE.replace("paths: given", 'paths: "run/tokens/given/train-*.bin"')
    (project / "recipe.yaml").write_text(recipe)
    manifest = run(project, output="second")
    assert manifest["inputs"]["given"]["files"][0]["index"]["path"] == "train-00000.idx"
    assert manifest["ledger"]["given"]["kept"] == 10
    other = train_tokenizer(TEXTS[:9], TokenizerSettings(train=SentencePiece(vocab_size=310))).model
    assert other != model
    (project / "tok.model").write_bytes(other)
    with pytest.raises(InputError, match="another tokenizer made it"):
        run(project, output="third")


def test_a_damaged_file_stops_the_run_before_any_work(project):
    with (project / "given" / "two.ds").open("ab") as file:
        file.write(b"\0\0")
    with pytest.raises(InputError, match=r"two\.ds: its index counts"):
        run(project)
    assert not (project / "run" / "extracted").exists()


def test_what_has_no_part_in_it_is_told(project):
    warnings = run(project, "validation={tokens: 60, min_documents: 1}")["warnings"]
    assert "given holds tokens: it has no part in validation." in warnings


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        (["tokenizer={train: {vocab_size: 320}}"], "these files hold another one's ids"),
        (["sources.given.steps=[{gopher_quality: {}}]"], r"steps: does not apply"),
        (["sources.given.extract={kind: resiliparse}"], r"extract: does not apply"),
        (["sources.given.read.dtyp=uint16"], "did you mean 'dtype'"),
        (["sources.given.read.paths=[]"], "must be a path or a list of paths"),
        (["sources.given.read.paths=given/*.metadata"], "none of them is read: 2 beside token files"),
        (["dedup={keep: {order: [given]}}"], "no texts to compare"),
    ],
)
def test_what_cannot_work_is_refused(project, sets, told):
    with pytest.raises(RecipeError, match=told):
        run(project, *sets)


def test_a_tokenizer_is_needed(project):
    (project / "recipe.yaml").write_text(RECIPE[: RECIPE.index("tokenizer:")])
    with pytest.raises(RecipeError, match="token files need the tokenizer that made them"):
        run(project)
