"""From rows of JSON Lines to batches; ids are bytes, so that everything is written down by hand."""

from __future__ import annotations

import gzip
import json

import pytest
from byte_tokenizer import END, write_tokenizer

from curate.errors import InputError
from curate.tokens.tokenizer import load_tokenizer
from train.config import TrainError
from train.tuning.batches import Batches, fill_up, parts
from train.tuning.examples import read_examples


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return load_tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer")), eos="<|end|>")


@pytest.fixture
def read(tmp_path, tokenizer):
    def read_rows(*rows, pairs=False, template="chat", context=200, seed=0, max_skipped=0.0):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return read_examples(
            {"rows.jsonl": path}, tokenizer, pairs=pairs, template=template, context=context, seed=seed,
            max_skipped=max_skipped,
        )  # fmt: skip

    return read_rows


def told(row):
    """The row in words: its tokens, with what is learned in the second string and dots elsewhere."""
    tokens = ["#" if token == END else chr(token) for token in row.tokens]
    learned = [letter if is_target else "." for letter, is_target in zip(tokens[1:], row.is_target, strict=True)]
    return "".join(tokens), "." + "".join(learned)


def test_a_prompt_and_its_response(read):
    [example] = read({"prompt": "Hi", "response": "Yo", "ignored": 3}).examples
    [row] = example.rows
    assert told(row) == (
        "#User: Hi\n\nAssistant: Yo#",
        "..................... Yo#",
    )
    assert (row.num_inputs, row.num_targets, row.num_bytes) == (24, 4, 3)  # the end mark has no byte
    assert example.place == ("rows.jsonl", 1)


def test_every_answer_of_a_conversation_is_learned(read):
    turns = [("system", "S"), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]
    [example] = read({"messages": [{"role": role, "content": text} for role, text in turns]}).examples
    whole, learned = told(example.rows[0])
    assert whole == "#System: S\n\nUser: a\n\nAssistant: b#User: c\n\nAssistant: d#"
    assert learned == "." * 31 + " b#" + "." * 19 + " d#"
    assert whole[31:34] == whole[-3:].replace("d", "b") == " b#"


def test_without_a_template_both_stand_as_they_are(read):
    [example] = read({"prompt": "2+2=", "response": "4"}, template="none").examples
    assert told(example.rows[0]) == ("#2+2=4#", ".....4#")


def test_a_pair_has_one_prompt_and_two_rows(read):
    [example] = read({"prompt": "p", "chosen": "yes", "rejected": "n"}, pairs=True, template="none").examples
    assert [told(row) for row in example.rows] == [("#pyes#", "..yes#"), ("#pn#", "..n#")]


def test_marks_in_a_text_are_text(read):
    [example] = read({"prompt": "<|end|>", "response": "a<|end|>b"}, template="none").examples
    assert [index for index, token in enumerate(example.rows[0].tokens) if token == END] == [0, 17]
    assert bytes(example.rows[0].tokens[1:17].tolist()) == b"<|end|>a<|end|>b"


def test_ids_are_bytes_of_utf8(read):
    [example] = read({"prompt": "é", "response": "ü{}"}, template="none").examples
    assert example.rows[0].tokens.tolist() == [END, 0xC3, 0xA9, 0xC3, 0xBC, ord("{"), ord("}"), END]
    assert example.rows[0].num_bytes == 4


def test_a_long_prompt_loses_its_beginning(read):
    found = read({"prompt": "0123456789", "response": "abc"}, template="none", context=6)
    assert told(found.examples[0].rows[0]) == ("789abc#", "...abc#")
    assert found.prompts_cut == 1
    fits = read({"prompt": "01", "response": "abc"}, template="none", context=6)
    assert (told(fits.examples[0].rows[0])[0], fits.prompts_cut) == ("#01abc#", 0)


def test_both_rows_of_a_pair_keep_the_same_prompt(read):
    row = {"prompt": "0123456789", "chosen": "abcd", "rejected": "x"}
    [example] = read(row, pairs=True, template="none", context=6).examples
    assert [told(row)[0] for row in example.rows] == ["89abcd#", "89x#"]


def test_an_earlier_answer_that_is_cut_is_learned_as_far_as_it_stands(read):
    turns = [("user", "a"), ("assistant", "bcd"), ("user", "e"), ("assistant", "f")]
    row = {"messages": [{"role": role, "content": text} for role, text in turns]}
    [example] = read(row, context=24).examples
    assert told(example.rows[0]) == ("cd#User: e\n\nAssistant: f#", "." + "d#" + "." * 19 + " f#")
    assert example.rows[0].num_bytes == 3


def test_what_cannot_be_learned_is_skipped_and_named(read):
    rows = [
        {"prompt": "p", "chosen": "a", "rejected": "b"},
        {"prompt": "p", "chosen": " ", "rejected": "b"},
        {"prompt": "p", "chosen": "a", "rejected": "a"},
        {"prompt": "p", "chosen": "a" * 9, "rejected": "b"},
        {"prompt": "p", "chosen": "a" * 8, "rejected": "b"},  # and the end: nine targets behind the last of the prompt
    ]
    found = read(*rows, pairs=True, template="none", context=9, max_skipped=0.6)
    assert [(one.row, one.reason) for one in found.skipped] == [
        (2, "a response is empty"),
        (3, "chosen and rejected are equal"),
        (4, "the response does not fit the context of 9"),
    ]
    assert [example.place[1] for example in found.examples] == [1, 5]
    with pytest.raises(TrainError, match=r"3 of 5 rows.*1 because a response is empty \(first: rows.jsonl, row 2\)"):
        read(*rows, pairs=True, template="none", context=9, max_skipped=0.59)


def test_nothing_to_learn_from_is_refused(read):
    with pytest.raises(TrainError, match="1 of 1 rows"):
        read({"prompt": "p", "response": ""}, max_skipped=1.0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "row 2: Expecting property name"),
        ("[1]", "row 2: must be a JSON object, is a list"),
        ({"prompt": "p"}, r"row 2: has no response \(or messages\); its keys are prompt"),
        ({}, r"row 2: has no prompt and no response \(or messages\); its keys are none"),
        ({"prompt": 3, "response": "r"}, "row 2: prompt must be a string, is 3"),
        ({"prompt": "p", "response": ["r"]}, r'row 2: response must be a string, is \["r"\]'),
        ({"prompt": "p", "response": None}, "row 2: response must be a string, is null"),
        ({"messages": []}, "row 2: messages must be a list of messages"),
        ({"messages": ["Hi"]}, "row 2: message 1 must be an object"),
        ({"messages": [{"role": "user"}]}, "row 2: has no content; its keys are role"),
        ({"messages": [{"role": "user", "content": "a"}]}, "row 2: the last message must be the assistant's"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "row 2: message 1 has the role 'tool'"),
        (
            {"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]},
            "row 2: message 2 has the role 'system'",
        ),
        ('{"prompt": "p", "response": "\\ud800"}', "row 2: .*surrogates not allowed"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(read, row, message):
    with pytest.raises(InputError, match=r"rows\.jsonl: " + message) as caught:
        read({"prompt": "p", "response": "r"}, row)
    assert str(caught.value).endswith("Correct the row, or take it out.")


def test_a_preference_without_its_keys_is_named(read):
    with pytest.raises(InputError, match="row 1: has no chosen and no rejected; its keys are prompt, response"):
        read({"prompt": "p", "response": "r"}, pairs=True)


def test_messages_need_the_template(read):
    with pytest.raises(InputError, match="which the template 'none' cannot write"):
        read({"messages": [{"role": "assistant", "content": "a"}]}, template="none")


def test_files_that_cannot_be_read_are_named(tmp_path, tokenizer):
    def read_file(name, content=None):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        return read_examples(
            {name: path}, tokenizer, pairs=False, template="chat", context=64, seed=0, max_skipped=0.0
        ).examples

    good = b'{"prompt": "p", "response": "r"}\n'
    assert [one.place for one in read_file("a.jsonl.gz", gzip.compress(b"\n" + good + b"\n" + good))] == [
        ("a.jsonl.gz", 2),
        ("a.jsonl.gz", 4),
    ]
    for name, content, message in (
        ("empty.jsonl", b"", "is empty"),
        ("blank.jsonl", b"\n\n", "is empty"),
        ("latin.jsonl", good + b'{"prompt": "\xe9"}', "row 2 is not UTF-8"),
        ("cut.jsonl.gz", gzip.compress(good * 100)[:-20], "cannot be read"),
        ("plain.jsonl.gz", good, "cannot be read"),
        ("absent.jsonl", None, "cannot be read (No such file or directory)"),
    ):
        with pytest.raises(InputError) as caught:
            read_file(name, content)
        assert f"{tmp_path / name}: {message}" in str(caught.value)


def test_examples_with_one_prompt_are_drawn_together(read):
    rows = [{"prompt": str(number % 100), "response": str(number)} for number in range(300)]
    draws = [example.draw for example in read(*rows).examples]
    assert draws[:100] == draws[100:200] == draws[200:]
    assert len(set(draws)) == 100
    # 100 draws from [0, 1): the share below 0.3 has a standard deviation of 0.046; three of them.
    assert sum(draw < 0.3 for draw in draws[:100]) / 100 == pytest.approx(0.3, abs=0.14)
    assert draws != [example.draw for example in read(*rows, seed=1).examples]


def test_every_epoch_shows_every_example_once_in_an_order_of_its_own(read):
    examples = read(*({"prompt": "p" * (n % 7), "response": str(n)} for n in range(23))).examples
    batches = Batches(examples, 5, seed=3)
    assert batches.steps_per_epoch == 5
    shown = [[batches.at(step) for step in range(first, first + 5)] for first in (0, 5)]
    for epoch in shown:
        assert [len(batch) for batch in epoch] == [5, 5, 5, 5, 3]
        assert sorted(one.place for batch in epoch for one in batch) == [one.place for one in examples]
        for batch in epoch:
            lengths = [one.num_inputs for one in batch]
            assert lengths == sorted(lengths)
    assert shown[0] != shown[1]
    assert Batches(examples, 5, seed=3).at(7) == batches.at(7)  # no matter what was asked before
    assert Batches(examples, 5, seed=4).at(7) != batches.at(7)


def test_rows_are_filled_up_behind_their_end(read):
    examples = read({"prompt": "p", "response": "ab"}, {"prompt": "", "response": "c"}, template="none").examples
    inputs, targets = fill_up([row for one in examples for row in one.rows], filling=END, ignored=-100)
    a, b, c, p = b"abcp"
    assert inputs.tolist() == [[END, p, a, b], [END, c, END, END]]
    assert targets.tolist() == [[-100, a, b, END], [c, END, -100, -100]]
    assert [len(part) for part in parts(range(7), 3)] == [3, 3, 1]
