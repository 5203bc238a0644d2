from collections import Counter

import pytest
from pydantic import ValidationError

from curate.benchmarks.items import Item, Part
from curate.decontaminate.canaries import Canaries, candidates, drawn, rounds
from curate.text.hashing import choice_hash


def item(name: str, *parts: tuple[str, str]) -> Item:
    return Item(name, 1, tuple(Part(role, role, text) for role, text in parts))


ITEMS = [item(f"q{number}", ("question", f"What is {number}?"), ("answer", str(number))) for number in range(9)]


def test_items_come_in_the_order_of_their_hash() -> None:
    without: Counter[str] = Counter()
    found = list(candidates("quiz", ITEMS, 5, without))
    names = sorted((f"q{number}" for number in range(9)), key=lambda name: choice_hash(5, f"quiz\0{name}", "canary"))
    assert [name for name, _, _ in found] == names
    assert {name: (prompt, answer) for name, prompt, answer in found}["q3"] == ("What is 3?\n", "3")
    assert not without
    assert [name for name, _, _ in candidates("quiz", ITEMS[::-1], 5, without)] == names
    assert [name for name, _, _ in candidates("quiz", ITEMS, 6, without)] != names
    assert [name for name, _, _ in candidates("other", ITEMS, 5, without)] != names


def test_what_can_be_no_canary_is_counted() -> None:
    items = [
        item("both", ("context", "A passage. "), ("question", " Why?"), ("choice", "a"), ("choice", "b"), ("answer", "b")),
        item("again", ("context", "A passage."), ("question", "Why?"), ("answer", "c")),  # tells of `both`, or hears of it
        item("unknown", ("question", "Who?"), ("choice", "I")),
        item("blank", ("question", "Who?"), ("answer", " \n")),
        item("first", ("question", "Which?"), ("answer", "this"), ("answer", "that")),
        item("answered", ("answer", "nothing asked")),
    ]  # fmt: skip
    without: Counter[str] = Counter()
    found = {name: (prompt, answer) for name, prompt, answer in candidates("quiz", items, 1, without)}
    assert found.pop("first") == ("Which?\n", "this")
    ((name, (prompt, answer)),) = found.items()
    assert (name, answer) in {("both", "b"), ("again", "c")}
    assert prompt == "A passage.\nWhy?\n"
    assert without == {"question of another item": 1, "no gold answer": 2, "no question": 1}


def test_every_second_is_leaked_and_an_odd_one_left_out() -> None:
    found = [(f"q{number}", "?\n", "!") for number in range(5)]
    assert [(one.item, one.leaked) for one in drawn("quiz", found)] == [
        ("q0", True),
        ("q1", False),
        ("q2", True),
        ("q3", False),
    ]
    assert drawn("quiz", found[:1]) == []


@pytest.mark.parametrize(
    ("leaked", "copies", "window", "expected"),
    [
        # Two of 5 tokens, twice: 20 tokens are two windows of 10 if one token follows: one document more.
        ([5, 5], 2, 10, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]),
        # 6 tokens end in the second window of 4; 9 tokens are needed: two documents of a second round.
        ([2, 2, 2], 1, 4, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]),
        # One of 3 in windows of 8 needs 9 tokens.
        ([3], 1, 8, [(0, 0), (1, 0), (2, 0)]),
        ([3], 0, 8, []),
        ([], 4, 8, []),
    ],
)
def test_rounds_by_hand(leaked: list[int], copies: int, window: int, expected: list[tuple[int, int]]) -> None:
    assert rounds(leaked, copies, window) == expected


def test_the_wanted_copies_lie_in_whole_windows() -> None:
    for sizes in ([7, 3, 11], [1], [40, 2]):
        for copies in range(1, 6):
            for window in range(1, 50):
                shown = (sum(sizes[place] for _, place in rounds(sizes, copies, window)) - 1) // window * window
                whole, tokens = Counter[int](), 0
                for _, place in rounds(sizes, copies, window):
                    tokens += sizes[place]
                    whole[place] += tokens <= shown
                assert min(whole[place] for place in range(len(sizes))) >= copies


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"items": 3}, "is 3; half of them are leaked"), ({"items": 0}, "at least|greater"), ({"copies": -1}, "greater")],
)
def test_wrong_numbers_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Canaries(**settings)
