from types import SimpleNamespace

import pytest

from curate.report import page
from curate.report.fertility import MAX_LANGUAGES, fertility

NAMES = ("documents", "bytes", "characters", "words", "tokens", "byte_tokens", "unknown_tokens")


def counts(*values):
    return dict(zip(NAMES, values, strict=True))


def found(**sources):
    return fertility(SimpleNamespace(manifest={"tokenizer": {"vocab_size": 300, "fertility": sources}}))


def test_ratios_of_each_source_and_language():
    answer = found(
        web={"en": counts(10, 4000, 4000, 800, 1000, 0, 0), "pt": counts(2, 420, 400, 80, 200, 20, 1)},
        code={"unknown": counts(1, 0, 0, 0, 0, 0, 0)},
    )
    english = answer["sources"]["web"]["languages"]["en"]
    assert (english["tokens_per_word"], english["bytes_per_token"], english["tokens_per_character"]) == (1.25, 4, 0.25)
    portuguese = answer["sources"]["web"]["languages"]["pt"]
    assert (portuguese["tokens_per_word"], portuguese["byte_share"], portuguese["unknown_share"]) == (2.5, 0.1, 0.005)
    total = answer["total"]
    assert (total["documents"], total["tokens"], total["words"]) == (13, 1200, 880)
    assert total["tokens_per_word"] == pytest.approx(1200 / 880)
    assert answer["sources"]["code"]["total"]["tokens_per_word"] is None  # nothing to divide by
    assert list(answer["languages"]) == ["en", "pt", "unknown"]


def test_many_languages_are_summed_up():
    languages = {
        f"l{number:02d}": counts(1, 10, 10, number + 1, 100 - number, 0, 0) for number in range(MAX_LANGUAGES + 3)
    }
    answer = found(web=languages)["languages"]
    assert list(answer) == [*(f"l{number:02d}" for number in range(MAX_LANGUAGES)), "3 more"]
    assert (answer["3 more"]["documents"], answer["3 more"]["tokens"]) == (3, 88 + 87 + 86)
    assert answer["3 more"]["tokens_per_word"] == (88 + 87 + 86) / (13 + 14 + 15)


def test_without_encoded_texts_there_is_none():
    assert fertility(SimpleNamespace(manifest={})) is None
    assert found() is None
    assert found(tokens_only={}) is None


def test_the_page_shows_each_row_and_escapes_what_is_not_ours():
    answer = found(
        web={"en": counts(10, 4000, 4000, 800, 1000, 0, 0), "<b>": counts(2, 420, 400, 80, 200, 20, 1)},
        code={"unknown": counts(1, 0, 0, 0, 0, 0, 0)},
    )
    template = page._environment().get_template("fertility.html")
    html = template.render(report={"fertility": answer}, source_colour=lambda source: f"colour-{source}")
    assert "<b>" not in html
    assert html.count("<tr") == 1 + 3 + 1 + 4  # head; web and its two; code; all and the three
    for value in ("1.25", "4.00", "2.50", "10.0%", "0.5%", "&lt;b&gt;"):
        assert value in html
    assert "Fertility" not in template.render(report={"fertility": None})
