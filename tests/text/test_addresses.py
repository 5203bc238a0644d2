import pytest

from curate.text.addresses import page_key

PAGE = "https://Example.org/news/Lock?id=7"


@pytest.mark.parametrize(
    "same",
    [
        "http://example.org/news/Lock?id=7",  # scheme
        "example.org/news/Lock?id=7",  # none
        "HTTPS://EXAMPLE.ORG:443/news/Lock?id=7",  # case of the host, default ports
        "http://example.org:80/news/Lock?id=7",
        "https://example.org./news/Lock?id=7",
        "https://user:pw@example.org/news/Lock?id=7",
        "https://www.example.org/news/Lock?id=7",
        "https://www2.example.org/news/Lock?id=7",
        " https://example.org/news/Lock?id=7#section-2 ",  # a fragment is never sent to the server
        "https://example.org/news/Lock/?id=7",  # slash at the end
        "https://example.org/old/../news/./Lock?id=7",
        "https://example.org/%6Eews/Lock?id=7",  # n, that needs no percent sign
        "https://example.org/news/Lock?id=7&",  # an empty parameter
        "https://example.org/news/Lock?utm_source=mail&utm_medium=x&id=7",
        "https://example.org/news/Lock?id=7&gclid=abc&fbclid=IwAR0&_ga=1.2&mc_eid=5f",
        "https://example.org/news/Lock?id=7&UTM_Campaign=x",
        "https://example.org/news/Lock?id=7&mtm_campaign=x&pk_kwd=y",
        "https://example.org/news/Lock?id=7&PHPSESSID=0123456789abcdef0123456789abcdef",
        "https://example.org/news/Lock;jsessionid=1A2B3C.node1?id=7",
        "https://example.org/news/Lock?id=7&ASPSESSIONIDQABCDEFG=ABCDEFGHIJKLMNOPQRSTUVWX",
        "https://example.org/news/Lock?CFID=12&CFTOKEN=34&id=7",
        "https://example.org/news/Lock?id=7&sid=0123456789abcdef0123456789abcdef",
    ],
)
def test_addresses_of_one_page(same):
    assert page_key(same) == page_key(PAGE) == "example.org/news/Lock?id=7"


@pytest.mark.parametrize(
    "other",
    [
        "https://example.org/news/lock?id=7",  # case of the path
        "https://example.org/news/Lock?ID=7",  # and of the query
        "https://example.org/news/Lock?id=8",
        "https://example.org/news/Lock",
        "https://example.org:8080/news/Lock?id=7",
        "https://m.example.org/news/Lock?id=7",
        "https://wwwexample.org/news/Lock?id=7",
        "https://example.com/news/Lock?id=7",
        "https://example.org/news/Lock?id=7&page=2",
        "https://example.org/news/Lock?id=7&utm=1",  # not a campaign's name
        "https://example.org/news/Lock?id=7&pk_id=1",
        "https://example.org/news/Lock?id=7&sid=12",  # the number of a section, say
        "https://example.org/news/Lock?id=7&cfid=12",  # without a token: the number of a category
        "https://example.org/news/Lock?id=7&source=mail",
        "https://example.org/news/Lock?id=7&ref=8",
        "https://example.org/news/Lock;v=2?id=7",
        "https://example.org/news/Lock%2F?id=7",  # an escaped slash is no slash
    ],
)
def test_addresses_of_other_pages(other):
    assert page_key(other) != page_key(PAGE)


def test_order_of_parameters_counts_only_within_a_name():
    assert page_key("http://a.org/?b=2&a=1&b=1") == page_key("http://a.org/?a=1&b=2&b=1") == "a.org?a=1&b=2&b=1"
    assert page_key("http://a.org/?b=1&b=2") != page_key("http://a.org/?b=2&b=1")


def test_fragments_count_where_scripts_read_them():
    assert page_key("http://a.org/#!/page1") == "a.org#!/page1"
    assert page_key("http://a.org/#!/page1") != page_key("http://a.org/#!/page2")
    assert page_key("http://a.org/#page1") == page_key("http://a.org/#page2") == "a.org"


def test_hosts():
    assert page_key("example.org:8080/a") == "example.org:8080/a"
    assert page_key("www.example.org") == page_key("example.org/") == "example.org"
    assert page_key("https://www.org/a") == "www.org/a"  # that is its name
    assert page_key("https://www.bücher.example/") == "xn--bcher-kva.example"
    assert page_key("http://[2001:db8::1]/a") == "[2001:db8::1]/a"
    assert page_key("http://localhost/a") == "localhost/a"


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "n/a", "unknown", "-", "https://", "a b"),
        *("about:blank", "data:,", "mailto:a@b.c", "javascript:void(0)", "file:///srv/books/emma.txt"),
        *("index.html", "doc.txt", "book.en"),
    ],
)
def test_what_is_no_address(text):
    assert page_key(text) is None


@pytest.mark.parametrize("text", ["urn:isbn:9780140449136", "doi:10.1000/182"])
def test_names_that_are_the_same_anywhere_are_their_own_form(text):
    assert page_key(f" {text}\n") == text
