"""The model that ships: its card, its file, and what it makes of pages."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from curate.extract.auto.extractor import Auto
from curate.extract.auto.model import CARD, FILE, feature_digest, open_model, save_model, shipped_digest, shipped_model
from curate.extract.auto.scan import Scanner

ROOT = Path(__file__).resolve().parents[2]
ARTICLE = (
    "<p>The river rose for three days, and on the fourth the people of the lower town carried their furniture upstairs. "
    "Nobody had seen such water since the flood of the mill, which only the oldest could remember.</p>"
    "<p>By noon the bridge was closed. The mayor, who lives beside it, said that the pillars would hold, as they had held "
    "before, but he moved his own car to the hill all the same.</p>"
    "<p>In the evening it stopped raining. The firemen counted eleven cellars under water and no one hurt.</p>"
)
PAGE = f"""<html lang=en><head><title>The flood - Valley Times</title></head><body>
<nav class=menu><ul><li><a href=/>Home</a><li><a href=/news>News</a><li><a href=/sport>Sport</a></ul></nav>
<article class=post><h1>The flood</h1>{ARTICLE}</article>
<div class="related sidebar"><h3>Related stories</h3><ul><li><a href=/a>Ten cats of the valley</a>
<li><a href=/b>A new bus</a></ul></div><footer>Copyright Valley Times. <a href=/imprint>Imprint</a></footer>"""


def main_text(html, url="", **settings):
    return Auto(**settings).main_text(html, url)


def test_the_card_is_that_of_the_model():
    card = json.loads(CARD.read_text())
    assert card["sha256"] == hashlib.sha256(FILE.read_bytes()).hexdigest() == shipped_digest() == Auto().model_digest()
    assert card["features"]["digest"] == feature_digest()
    assert FILE.stat().st_size < 1_500_000
    trained = {entry["set"]: entry for entry in card["sets"] if entry["trained_on"]}
    assert not {"daniel", "template_docs"} & set(trained)  # copyleft: only measured
    assert all(entry["licence"] and len(entry["sha256"]) == 64 for entry in card["sets"])


def test_the_arrays_are_small():
    with np.load(FILE, allow_pickle=False) as arrays:
        assert sum(array.nbytes for array in arrays.values()) < 1_500_000


def test_an_article_among_menus():
    text, facts = main_text(PAGE)
    assert "The river rose for three days" in text
    assert "no one hurt." in text
    assert "The flood" in text
    assert "Sport" not in text
    assert "Imprint" not in text
    assert "Ten cats" not in text
    assert 0.5 < facts["extract_confidence"] <= 1


def test_markdown_keeps_form():
    text, _ = main_text(PAGE.replace("<h1>The flood</h1>", "<h2>The flood</h2>"), format="markdown")
    assert "## The flood" in text


def test_precision_gives_no_more_and_recall_no_less():
    pages = [PAGE, PAGE.replace("<p>", "<div>").replace("</p>", "</div>"), PAGE.replace("class=post", "")]
    for page in pages:
        found = [set(main_text(page, mode=mode)[0].split()) for mode in ("precision", "default", "recall")]
        assert found[0] <= found[1] <= found[2]


@pytest.mark.parametrize("html", ["", "<p>", "<html><body><script>x</script>", "\x00\x01<title>t</title>"])
def test_a_page_without_text_has_none(html):
    assert main_text(html)[0] is None


def test_no_control_characters_come_through():
    text, _ = main_text(PAGE.replace("river", "ri&#1;ver\x02"))
    assert not set(text) & set(map(chr, [*range(9), 11, 12, *range(14, 32)]))


def test_a_model_comes_back_as_it_was(tmp_path):
    model = shipped_model()
    first, second = tmp_path / "a.npz", tmp_path / "b.npz"
    assert save_model(model, first) == save_model(open_model(first), second)
    scan = Scanner(model.stop_words)
    page = scan(PAGE)
    assert np.array_equal(model.judge(page, "").probabilities, open_model(second).judge(page, "").probabilities)


def cut_short(data):
    return data[: len(data) // 2]


def without(name):
    def change(data, tmp_path):
        path = tmp_path / "arrays.npz"
        path.write_bytes(data)
        with np.load(path) as archive:
            arrays = {key: archive[key] for key in archive.files if key != name}
        np.savez(path, **arrays)
        return path.read_bytes()

    return change


@pytest.mark.parametrize(
    "damage",
    [
        lambda data, _: cut_short(data),
        lambda data, _: b"",
        lambda data, _: b"\x80\x04N.",  # a pickle
        without("first_left"),
        without("kind_bias"),
    ],
)
def test_a_damaged_model_is_refused_with_the_remedy(tmp_path, damage):
    path = tmp_path / "model.npz"
    path.write_bytes(damage(FILE.read_bytes(), tmp_path))
    with pytest.raises(ValueError, match=r"model\.npz: this is no model of this version.*Install curate again"):
        open_model(path)


def test_the_same_in_every_process():
    script = "from curate.extract.auto.extractor import Auto; import sys; print(Auto().main_text(sys.stdin.read(), ''))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", script],
            input=PAGE,
            text=True,
            capture_output=True,
            check=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1")
    }
    assert seen == {f"{main_text(PAGE)}\n"}


def test_no_site_stands_in_the_code():
    """What the model knows of sites it has learned: no host name, and no string of one page, in the code of the extractor."""
    host = re.compile(r"\b[a-z0-9-]+\.(?:com|org|net|de|uk|ru|cn|gr|pl|io|edu|gov)\b")
    for path in [*(ROOT / "curate" / "extract" / "auto").rglob("*.py"), ROOT / "curate" / "extract" / "html.py"]:
        found = set(host.findall(path.read_text(encoding="utf-8"))) - {
            "schema.org",
            "example.org",
            "example.com",
            "w3.org",
            "doi.org",
        }
        assert not found, (path.name, found)


def test_preparing_leaves_nothing_to_compile():
    script = (
        "import numba.core.event as event\n"
        "from curate.extract.auto.extractor import Auto\n"
        "Auto().prepare()\n"
        "with event.install_recorder('numba:compile') as recorder:\n"
        "    Auto().main_text(open('README.md').read(), 'https://a.test/b')\n"
        f"    Auto().main_text({PAGE!r} + {ARTICLE!r}, '')\n"
        f"    Auto(format='markdown', mode='recall').main_text('<section>' + {ARTICLE!r} + '</section>' + {ARTICLE!r}, '')\n"
        "print(len(recorder.buffer))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.split() == ["0"]
