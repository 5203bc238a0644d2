import gzip
import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import curate
from curate.errors import InputError, RecipeError
from curate.filter.url import RESERVED, Url
from curate.listed import Listed

REFERENCE = Path(__file__).parent / "reference"
sys.path.insert(0, str(REFERENCE))
from urls import LISTS, PLANTED, digest, real  # noqa: E402

DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")
LISTED = {name: Listed(entries=tuple(words)) for name, words in LISTS.items()}
RULES = {
    None: None,
    "domain": "domain",
    "subdomain": "domain",
    "url": "address",
    "hard_blacklisted": "hard_words",
    "soft_blacklisted": "soft_words",
    "blacklisted_subword": "substrings",
    **{name: name for name in ("reserved", "hard_words", "soft_words", "substrings")},
}


def measured(step, *urls):
    return step.apply(pa.record_batch({"url": pa.array(urls, pa.large_string())})).to_pylist()


def reasons(fired, step, *urls):
    named = (fired(step, row) for row in measured(step, *urls))
    return [names[0].removeprefix("block.") if names else None for names in named]


# -- recorded decisions ------------------------------------------------------------------------------------------------


def recorded(name):
    with gzip.open(REFERENCE / f"url_{name}.json.gz", "rt") as file:
        return json.load(file)


def replayed(variant):
    given = {name: LISTED[name] for name in LISTS if variant == "datatrove" or name != "addresses"}
    return Url(variant=variant, **given)


@pytest.mark.parametrize(("variant", "source"), [("datatrove", "datatrove"), ("dclm", "dclm"), ("refinedweb", "dclm")])
def test_planted_addresses_as_recorded(fired, variant, source):
    answers = recorded(source)
    place = answers["variants"].index(variant)
    wanted = [RULES[row[place]] for row in answers["planted"]]
    found = reasons(fired, replayed(variant), *PLANTED)
    assert len(found) == len(PLANTED) == len(wanted)
    assert dict(zip(PLANTED, found, strict=True)) == dict(zip(PLANTED, wanted, strict=True))


@pytest.mark.parametrize(("variant", "source"), [("datatrove", "datatrove"), ("dclm", "dclm"), ("refinedweb", "dclm")])
def test_real_addresses_as_recorded(fired, variant, source):
    if not (DATA / "02_gold").is_dir():
        pytest.skip(f"real addresses {DATA / '02_gold'} are absent: set CURATE_DATA to the folder that holds 02_gold")
    answers = recorded(source)
    place = 3 + answers["variants"].index(variant)
    rows = list(real(DATA))
    assert [(file, row, digest(url)) for file, row, url in rows] == [tuple(row[:3]) for row in answers["real"]]
    urls = [url for *_, url in rows]
    assert len(urls) >= 500
    wanted = [RULES[row[place]] for row in answers["real"]]
    found = reasons(fired, replayed(variant), *urls)
    wrong = [(url, mine, theirs) for url, mine, theirs in zip(urls, found, wanted, strict=True) if mine != theirs]
    assert wrong == []


def test_the_variants_are_told_apart_by_real_addresses():
    by_datatrove = [RULES[row[3]] is None for row in recorded("datatrove")["real"]]
    by_dclm = [RULES[row[4]] is None for row in recorded("dclm")["real"]]
    assert sum(one != other for one, other in zip(by_datatrove, by_dclm, strict=True)) >= 20


# -- values worked out by hand -----------------------------------------------------------------------------------------


def words(**lists):
    given = {name: tuple(lists.get(name, ())) or None for name in ("hard_words", "soft_words", "substrings")}
    return {name: entries if entries is None else Listed(entries=entries) for name, entries in given.items()}


@pytest.mark.parametrize(
    ("variant", "url", "hard", "soft", "substrings"),
    [
        ("curate", "http://a.org/bad-day", 1, 0, 0),
        ("curate", "http://a.org/BAD_day", 1, 0, 0),
        ("curate", "http://a.org/%62ad", 1, 0, 0),  # an escaped letter
        ("curate", "http://a.org/badge", 0, 0, 0),
        ("curate", "http://a.org/ação", 1, 0, 0),
        ("curate", "http://a.org/warm/hot/hot", 0, 2, 0),
        ("curate", "http://a.org/warm/warm", 0, 1, 0),
        ("curate", "http://a.org/overcastle", 0, 0, 1),
        ("curate", "http://a.org/cast-le", 0, 0, 0),  # not across words
        ("datatrove", "http://a.org/bad-day", 1, 0, 0),
        ("datatrove", "http://a.org/BAD-day", 0, 0, 0),  # with case
        ("datatrove", "http://a.org/bad_day", 1, 0, 0),
        ("datatrove", "http://a.org/warm/hot", 0, 2, 0),
        ("datatrove", "http://a.org/cast-le", 0, 0, 1),  # across signs
        ("datatrove", "http://a.org/CAST/LE", 0, 0, 1),
        ("dclm", "http://a.org/BAD-day", 1, 0, 0),
        ("dclm", "http://a.org/bad_day", 0, 0, 0),  # _ belongs to the word
        ("dclm", "http://a.org/Warm/hot", 0, 2, 0),
        ("dclm", "http://a.org/cast-le", 0, 0, 1),
        ("dclm", "http://a.org/cast/le", 0, 0, 0),
        ("dclm", "http://a.org/ca.st-le", 0, 0, 1),
    ],
)
def test_words_of_an_address(variant, url, hard, soft, substrings):
    step = Url(variant=variant, **words(hard_words=["bad", "ação"], soft_words=["warm", "hot"], substrings=["castle"]))
    (row,) = measured(step, url)
    found = (row["num_url_hard_words"], row["num_url_soft_words"], row["num_url_substrings"])
    assert found == (hard, soft, substrings)


@pytest.mark.parametrize("variant", ["curate", "datatrove", "dclm", "refinedweb"])
@pytest.mark.parametrize(
    ("path", "removed_by"),
    [("", None), ("hot", None), ("hot/warm", "soft_words"), ("bad", "hard_words"), ("castles", "substrings")],
)
def test_one_hard_word_or_two_soft_ones_remove(fired, variant, path, removed_by):
    step = Url(variant=variant, **words(hard_words=["bad"], soft_words=["warm", "hot"], substrings=["castle"]))
    assert reasons(fired, step, f"http://example.org/{path}") == [removed_by]


def test_bounds_are_on_counts(fired):
    step = Url(soft_words=Listed(entries=("a", "b", "c")), max_soft_words=2)
    assert reasons(fired, step, "http://x.org/a-b", "http://x.org/a-b-c") == [None, "soft_words"]
    assert reasons(fired, Url(max_soft_words="off", max_hard_words=1), "http://x.org/porn", "http://x.org/sex-xxx") == [
        None,
        None,
    ]


SITES = Listed(entries=("example.org", "*.sub.example.net", "www.site.com", "https://page.example.com/"))


@pytest.mark.parametrize(
    ("url", "listed"),
    [
        ("http://example.org/x", 1),
        ("https://WWW.Example.org:8080", 1),
        ("http://a.b.example.org/", 1),
        ("http://notexample.org/", 0),
        ("http://example.org.uk/", 0),
        ("http://example.net/", 0),
        ("http://sub.example.net/", 1),
        ("http://a.sub.example.net/", 1),
        ("http://site.com/", 1),
        ("http://page.example.com/x", 1),
        ("http://example.com/", 0),
        ("urn:isbn:123", 0),
        ("", 0),
        (None, 0),
    ],
)
def test_domains_and_what_is_below_them(url, listed):
    assert measured(Url(domains=SITES), url)[0]["url_domain_listed"] == listed


@pytest.mark.parametrize(
    ("url", "listed"),
    [
        ("http://example.org/~joe", 1),
        ("https://www.example.org/~joe/", 1),
        ("http://example.org/~joe/more?x=1", 1),
        ("http://example.org/~joey", 0),
        ("http://example.org/", 0),
        ("http://other.example.org/~joe", 0),
    ],
)
def test_addresses_as_ut1_writes_them_cover_what_is_below(url, listed):
    assert measured(Url(addresses=Listed(entries=("example.org/~joe",))), url)[0]["url_address_listed"] == listed


def test_reserved_sites(fired):
    step = Url(variant="refinedweb")
    assert len(RESERVED) == 16
    urls = [f"https://{site}/x" for site in RESERVED]
    assert reasons(fired, step, *urls) == ["reserved"] * 16
    # taking `www` out leaves a dot that no entry has; hosts below are others
    assert reasons(fired, step, "https://www.github.com/", "https://gist.github.com/") == [None, None]
    assert reasons(fired, Url(variant="refinedweb", reserved="off"), urls[0]) == [None]
    assert reasons(fired, Url(), *urls) == [None] * 16


def test_a_page_about_health_keeps_its_place(fired):
    kept = (
        "https://en.wikipedia.org/wiki/Sussex",
        "https://www.nhs.uk/conditions/breast-cancer",
        "https://example.org/adult-education/literacy",
        "https://example.org/teen-vaping",
        "http://www.penistone.gov.uk/",
        "https://example.org/sex-differences-in-ageing",
        "https://example.org/hot-chocolate",
    )
    assert reasons(fired, Url(), *kept) == [None] * len(kept)
    gone = ("http://freeporn.example.com/", "http://example.com/hentai/1", "http://example.com/hot-teen-cams")
    assert reasons(fired, Url(), *gone) == ["substrings", "hard_words", "soft_words"]


# -- lists in files ----------------------------------------------------------------------------------------------------


def test_lists_in_files_in_the_formats_of_ut1_and_datatrove(tmp_path, fired):
    (tmp_path / "domains").write_text("# ours\nbad.example.com\r\nworse.example.com\n\n1.2.3.4\n", newline="")
    with gzip.open(tmp_path / "urls.gz", "wt") as file:
        file.write("example.org/bad/page\n")
    (tmp_path / "hard.txt").write_text("#comment\n\nfoul-word\n")
    step = Url(
        domains=str(tmp_path / "domains"), addresses=str(tmp_path / "urls.gz"), hard_words=str(tmp_path / "hard.txt")
    )
    urls = (
        "http://a.worse.example.com/",
        "http://1.2.3.4/x",
        "http://example.org/bad/page/1",
        "http://x.org/",
        "comment.org",
    )
    assert reasons(fired, step, *urls) == ["domain", "domain", "address", None, None]
    theirs = Url(variant="datatrove", hard_words=str(tmp_path / "hard.txt"))
    assert reasons(fired, theirs, "http://x.org/foulword", "http://x.org/comment", "http://x.org/") == [
        "hard_words",
        None,
        None,
    ]
    before = step.model_digest()
    assert before is not None
    (tmp_path / "hard.txt").write_text("another-word\n")
    assert step.model_digest() != before
    (tmp_path / "domains").write_text("good.example.com\n<no host>\n")
    with pytest.raises(InputError, match=r"domains.*'<no host>'.*it is no host"):
        step.prepare()
    (tmp_path / "domains").unlink()
    with pytest.raises(InputError, match=r"domains.*cannot be read.*Correct the path"):
        step.model_digest()


def test_a_list_written_in_the_recipe_needs_no_digest():
    assert Url(hard_words=Listed(entries=("bad",))).model_digest() is None


def test_a_recipe_finds_lists_beside_itself(tmp_path):
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "sites").write_text("example.org\n")
    text = (
        "name: r\nsources:\n  web:\n    read: {kind: jsonl, paths: a.jsonl}\n    steps:\n"
        "      - url: {domains: sites, hard_words: [bad, worse], soft_words: off}\n"
    )
    (folder / "r.yaml").write_text(text)
    recipe = curate.load(folder / "r.yaml")
    (block,) = recipe.source("web").steps
    assert block.step.domains.files == (str(folder / "sites"),)
    assert [rule.name for rule in block.rules()] == ["url.domain", "url.hard_words", "url.substrings"]
    (folder / "resolved.yaml").write_text(recipe.as_yaml())
    assert curate.load(folder / "resolved.yaml").source("web").steps == recipe.source("web").steps
    (folder / "r.yaml").write_text(text.replace("domains: sites", "domains: absent"))
    with pytest.raises(RecipeError, match=r"steps\.0\.url\.domains.*absent does not exist"):
        curate.load(folder / "r.yaml")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"variant": "fineweb"},
            "there is no variant 'fineweb' of url; there are: curate, datatrove, dclm, refinedweb",
        ),
        ({"variant": "datatrove"}, "the variant datatrove has no list to compare with"),
        (
            {"hard_words": "off", "soft_words": "off", "substrings": "off"},
            "the variant curate has no list to compare with",
        ),
        ({"variant": "dclm", "addresses": Listed(entries=("a.org/x",))}, "the variant dclm compares no addresses"),
    ],
)
def test_what_cannot_work_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Url(**settings)
