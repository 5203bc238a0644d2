"""The page in a real browser: no error on its console, no request to anywhere, and its controls work."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from curate.report.collect import build_report
from curate.report.page import render

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --disable-default-apps --disable-extensions --hide-scrollbars --enable-logging=stderr --v=0"
)


class Visit:
    """What a browser did with a page: the document afterwards, its console, and the page's own requests."""

    def __init__(self, page: Path, profile: Path, *flags: str) -> None:
        if CHROMIUM is None:
            pytest.skip(
                "Chromium is not installed: the report was NOT opened in a browser (Debian: apt install chromium)"
            )
        log = profile / "net.json"
        command = [
            CHROMIUM,
            *FLAGS.split(),
            *flags,
            f"--user-data-dir={profile}",
            f"--log-net-log={log}",
            "--dump-dom",
            page.as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        self.dom = done.stdout
        self.console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        self.requests = page_requests(log.read_text())


def page_requests(text: str) -> list[str]:
    """Return URLs that the page asked for; what the browser asks for itself has no origin."""
    try:
        events = json.loads(text)["events"]
    except ValueError:  # a log that the browser left open
        events = json.loads(text.rstrip().rstrip(",") + "]}")["events"]
    parameters = [event.get("params") or {} for event in events]
    return [
        one["url"] for one in parameters if "url" in one and one.get("initiator", "not an origin") != "not an origin"
    ]


@pytest.fixture(scope="module")
def html(run_folder: Path) -> str:
    return render(build_report(run_folder))


def test_the_instrument_sees_requests_and_errors(tmp_path: Path) -> None:
    page = tmp_path / "control.html"
    page.write_text('<p>x<img src="http://127.0.0.1:9/x.png"><script>console.error("boom")</script>')
    visit = Visit(page, tmp_path)
    assert visit.requests == ["http://127.0.0.1:9/x.png"]
    assert any("boom" in line for line in visit.console)


def test_the_page_loads_in_silence(html: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(html)
    visit = Visit(page, tmp_path / "profile-1")
    assert visit.console == []
    assert visit.requests == []
    assert '<form class="filter">' in visit.dom  # the script ran: it takes `hidden` away
    assert re.search(r"<output[^>]*>43 documents</output>", visit.dom)


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("form.elements.rule.value = 'language.keep'; tell(form)", "4 documents"),  # five were removed, four are shown
        ("form.elements.source.value = 'books'; tell(form)", "1 document"),
        ("form.elements.text.value = 'EXAMPLE.org/web/3'; tell(form)", "\\d documents"),
        ("form.elements.text.value = 'nowhere to be found'; tell(form)", "0 documents"),
        (
            "form.elements.toggle.click(); output = document.querySelectorAll('details.group[data-rule][open]').length",
            "16",
        ),
        ("document.querySelector('.theme').click(); output = document.documentElement.dataset.theme", "dark|light"),
        (
            "const chart = document.querySelector('[data-chart]'); chart.dispatchEvent(new KeyboardEvent('keydown', {key: 'Home'}));"
            "output = chart.closest('figure').querySelector('.readout').textContent",
            r"step 1: seed 0 \d\.\d{3} · seed 1 \d\.\d{3} · seed 2 \d\.\d{3} · mean \d\.\d{3}",
        ),
    ],
)
def test_the_controls_work(html: str, tmp_path: Path, script: str, answer: str) -> None:
    page = tmp_path / "page.html"
    # The policy forbids this test's script, as it should; here it is taken out.
    probe = (
        "<script>const form = document.querySelector('.filter'); let output = '';"
        "const tell = (form) => { form.dispatchEvent(new Event('input')); output = form.querySelector('output').textContent; };"
        f"{script}; document.title = 'answer: ' + output;</script>"
    )
    page.write_text(re.sub(r"<meta http-equiv[^>]*>", "", html).replace("</body>", probe + "</body>"))
    visit = Visit(page, tmp_path / "profile-2")
    assert visit.console == []
    assert re.search(rf"<title>answer: (?:{answer})</title>", visit.dom), re.findall("<title>.*?</title>", visit.dom)[
        :1
    ]


def test_the_funnel_fits_a_small_laptop(html: str, tmp_path: Path) -> None:
    longest = "gopher_<wbr>repetition.<wbr>repeated_<wbr>10gram_<wbr>char_<wbr>fraction"
    wide = html.replace("gopher_<wbr>repetition.<wbr>duplicate_<wbr>lines", longest)
    assert wide != html
    page = tmp_path / "narrow.html"
    probe = (
        "<script>document.title = 'over: ' + [...document.querySelectorAll('.scroll:has(> table.funnel)')]"
        ".map((one) => one.scrollWidth - one.clientWidth).join()</script>"
    )
    page.write_text(re.sub(r"<meta http-equiv[^>]*>", "", wide).replace("</body>", probe + "</body>"))
    visit = Visit(page, tmp_path / "profile-4", "--window-size=1280,900")
    assert "<title>over: 0,0,0</title>" in visit.dom, re.findall("<title>.*?</title>", visit.dom)[:1]


def test_who_was_removed_fits_a_small_laptop(html: str, tmp_path: Path) -> None:
    page = tmp_path / "slices.html"
    probe = (
        "<script>const tables = [...document.querySelectorAll('#slices table')].filter((one) => one.checkVisibility());"
        "const over = tables.map((one) => one.parentElement.scrollWidth - one.parentElement.clientWidth);"
        "const bars = tables.map((one) => Math.min(...[...one.querySelectorAll('.mix svg')].map((svg) => svg.clientWidth)) > 60);"
        "document.title = 'over: ' + Math.max(...over) + ', bars: ' + bars.every((one) => one) + ', open: ' + tables.length"
        "</script>"
    )
    page.write_text(re.sub(r"<meta http-equiv[^>]*>", "", html).replace("</body>", probe + "</body>"))
    visit = Visit(page, tmp_path / "profile-5", "--window-size=1280,900")
    assert visit.console == []
    # open stand the first two tables of each source: language and domain of web, length of code
    assert "<title>over: 0, bars: true, open: 3</title>" in visit.dom, re.findall("<title>.*?</title>", visit.dom)[:1]


def test_the_policy_stops_what_is_injected(html: str, tmp_path: Path) -> None:
    page = tmp_path / "injected.html"
    evil = '<script>document.title = "owned"</script><img src="http://127.0.0.1:9/x.png" onerror="document.title = \'owned\'">'
    page.write_text(html.replace("</main>", evil + "</main>"))
    visit = Visit(page, tmp_path / "profile-3")
    assert "owned</title>" not in visit.dom
    assert visit.requests == []
    assert len(visit.console) >= 2  # refused, and said so
