"""`curate tokenizer train` and `export`, on files and on what they wrote."""

import gzip
import json
import shutil
from pathlib import Path

import pytest
import tokenizers
from typer.testing import CliRunner

from curate.cache import Cache
from curate.cli import app
from curate.errors import InputError, UsageError
from curate.loading import load
from curate.tokenizer_command import export_tokenizer, fertility_lines, train_by_itself
from curate.tokenizer_inputs import find_tokenizer
from curate.tokens.tokenizer import load_tokenizer

BOOKS = ["The lock keeper wrote the toll of the barge in the book.", "O guarda anotou a portagem no livro."] * 5
CODE = "def f(x):\n    if x:\n\treturn  1\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    with gzip.open(folder / "books.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"content": text}) + "\n" for text in BOOKS)
    (folder / "code.py").write_text(CODE)
    options = ["--vocab-size", "400", "--model", "unigram", "--eos", "<|end|>", "--text", "content", "--workers", "1"]
    files = [str(folder / "books.jsonl.gz"), str(folder / "code.py")]
    arguments = ["tokenizer", "train", *files, "--output", str(folder / "made"), "--cache", str(folder / "cache")]
    done = CliRunner().invoke(app, [*arguments, *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (folder / "output.txt").write_text(done.output)
    return folder


def test_the_folder_holds_the_tokenizer_in_both_forms(trained: Path) -> None:
    made = trained / "made"
    assert sorted(path.name for path in made.iterdir()) == ["card.json", "hf", "tokenizer.model"]
    assert sorted(path.name for path in trained.iterdir()) == [
        *("books.jsonl.gz", "cache", "code.py", "made", "output.txt")
    ]  # nothing else is left
    tokenizer = load_tokenizer(made / "tokenizer.model", eos="<|end|>")
    theirs = tokenizers.Tokenizer.from_file(str(made / "hf" / "tokenizer.json"))
    for text in [*BOOKS, CODE]:
        assert theirs.encode(text).ids == tokenizer.encode(text).tolist()
    assert json.loads((made / "hf" / "special_tokens_map.json").read_text())["eos_token"] == "<|end|>"


def test_the_card_and_the_table_count_every_document(trained: Path) -> None:
    card = json.loads((trained / "made" / "card.json").read_text())
    tokenizer = load_tokenizer(trained / "made" / "tokenizer.model", eos="<|end|>")
    assert card["settings"]["model"] == "unigram"
    assert card["fertility"]["jsonl"]["unknown"] == {
        "documents": 10,
        "bytes": 5 * (56 + 36),
        "characters": 5 * (56 + 36),
        "words": 5 * (12 + 7),
        "tokens": sum(tokenizer.encode(text).size for text in BOOKS),
        "byte_tokens": 0,
        "unknown_tokens": 0,
    }
    assert card["fertility"]["files"]["unknown"]["words"] == 6
    printed = (trained / "output.txt").read_text()
    for line in fertility_lines(card["fertility"]):
        assert line in printed


def test_the_table_is_aligned() -> None:
    counts = {
        "documents": 1,
        "bytes": 0,
        "characters": 0,
        "words": 0,
        "tokens": 0,
        "byte_tokens": 0,
        "unknown_tokens": 0,
    }
    full = counts | {"bytes": 3000, "characters": 2000, "words": 500, "tokens": 1000, "byte_tokens": 15}
    assert list(fertility_lines({"web": {"en": full, "unknown": counts}})) == [
        "source  language  documents  words  tokens  tokens/word  bytes/token  tokens/char  byte tokens  unknown",
        "web     en                1    500   1,000        2.000        3.000        0.500        1.50%    0.00%",
        "web     unknown           1      0       0            -            -            -            -        -",
    ]


def test_export_of_what_was_trained(trained: Path, tmp_path: Path) -> None:
    arguments = ["tokenizer", "export", str(trained / "made"), "--output", str(tmp_path / "hf")]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    for path in (trained / "made" / "hf").iterdir():
        assert (tmp_path / "hf" / path.name).read_bytes() == path.read_bytes()
    with pytest.raises(UsageError, match="not a new or empty folder"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    # What was exported opens again, alone and beside the model with its card.
    both = tmp_path / "both"
    shutil.copytree(tmp_path / "hf", both)
    for name in ("tokenizer.model", "card.json"):
        shutil.copyfile(trained / "made" / name, both / name)
    (tmp_path / "none.jsonl").write_text("")
    for source, name in [(tmp_path / "hf", "tokenizer.json"), (both, "tokenizer.model")]:
        export_tokenizer(source, tmp_path / f"again-{name}", None)
        for path in (tmp_path / "hf").iterdir():
            known, made = (
                json.loads((folder / path.name).read_bytes()) for folder in (path.parent, tmp_path / f"again-{name}")
            )
            known.pop("unk_token", None)
            made.pop("unk_token", None)
            assert made == known
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text(
            f"name: t\nsources: {{a: {{read: {{kind: jsonl, paths: none.jsonl}}}}}}\ntokenizer: {{load: {source}}}\n"
        )
        found = find_tokenizer(load(recipe), Cache(trained / "cache"))
        assert (found.path, found.settings.eos) == (source / name, "<|end|>")
    (both / "card.json").unlink()
    with pytest.raises(InputError, match=r"holds both .* Name the file: .*tokenizer\.model or .*tokenizer\.json"):
        export_tokenizer(both, tmp_path / "other", None)


def test_a_command_line_that_cannot_work(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    with pytest.raises(UsageError, match="not a new or empty folder"):
        train_by_itself(["a.jsonl"], tmp_path / "full", settings={})
    with pytest.raises(UsageError, match="one recipe, or files"):
        train_by_itself(["r.yaml", "a.jsonl"], tmp_path / "new", settings={})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "The lock keeper."}\n', "has no field 'txt'; its fields are 'text'. Name the field"),
        (
            "a.jsonl.gz",
            gzip.compress(b'\n{"id": 1, "body": "x"}\n'),
            "has no field 'txt'; its fields are 'id', 'body'.",
        ),
        ("a.jsonl", b"", "holds no record"),
        ("a.parquet", b"junk", "cannot be read"),
        ("a.txt", b"", "holds no text to train a tokenizer on"),
    ],
)
def test_files_without_text_are_told(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        train_by_itself(
            [str(path)], tmp_path / "new", settings={}, text="txt", cache=tmp_path / "cache", workers=1, quiet=True
        )
    assert (error.value.file, message in str(error.value)) == (str(path), True), str(error.value)
    assert not (tmp_path / "new").exists()


def test_messages_name_what_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("The lock keeper wrote the toll.")
    for inputs, settings, eos, message in [
        (["no.jsonl"], {}, None, f"no.jsonl: no file matches: there is nothing of this name in {tmp_path}."),
        (["a.txt"], {"vocab_size": 10}, None, "--vocab-size: must be at least 300; got 10."),
        (["a.txt"], {}, "bad", "--eos: eos is 'bad'; the end mark of a tokenizer to be trained is written <...> or"),
    ]:
        with pytest.raises(UsageError) as error:
            train_by_itself(inputs, Path("new"), settings=settings, eos=eos, cache=tmp_path / "cache", quiet=True)
        assert str(error.value).startswith(message)
        assert "recipe" not in str(error.value)
