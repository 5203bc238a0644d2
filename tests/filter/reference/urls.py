"""The addresses on which other implementations' decisions were recorded: real ones by file and row, planted ones in words.

The lists are ours, made so that every rule fires on real addresses; no block list of anyone else's is here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

FILES = ("02_gold/scrapinghub/gold.jsonl", "02_gold/trafilatura/gold.jsonl", "02_gold/wcxb/gold.jsonl")

LISTS = {
    # registered domains, hosts below them, hosts with www, with a port, in capitals, with a slash, a public suffix
    "domains": (
        "theguardian.com bbc.co.uk www.reuters.com blog.example.org Example.NET example.com:8080 user@example.com com.br "
        "de.wikipedia.org wordpress.com techcrunch.com/ sub.deep.example.info xn--bcher-kva.example.de bücher.de "
        "washingtonpost.com .nytimes.com dev.to github.com 192.0.2.7 blogspot.com cnn.com 大学.jp"
    ).split(),
    "addresses": (
        "http://example.org/page https://www.cnn.com/ example.org/other http://EXAMPLE.org/Capital https://dev.to/one?a=b"
    ).split(),
    "hard_words": "news article Blog opinion 2019 docs wiki_page héllo c++ story-line".split(),
    "soft_words": "html index the and for how what 11 12 2020 com co uk in of to business tech".split(),
    "substrings": "science health newyork climate-change U.S. 2019/11 recipe".split(),
}

PLANTED = (
    "http://example.org/page",
    "http://example.org/page/",
    "http://example.org/page?x=1",
    "http://example.org/capital",
    "http://EXAMPLE.org/Capital",
    "example.org/other",
    "http://example.org/other",
    "https://dev.to/one?a=b",
    "https://www.dev.to/one",
    "http://blog.example.org/x",
    "http://www.blog.example.org/x",
    "http://a.blog.example.org:80/x",
    "http://BLOG.example.org/x",
    "http://example.net/x",
    "http://Example.NET/x",
    "http://sub.Example.NET/x",
    "http://example.com:8080/x",
    "http://user@example.com/x",
    "http://example.com/x",
    "http://sub.deep.example.info/",
    "http://deeper.sub.deep.example.info/",
    "http://example.info/",
    "http://xn--bcher-kva.example.de/",
    "http://bücher.de/x",
    "http://www.bücher.de./x",
    "http://firma.com.br/x",
    "http://com.br/x",
    "http://mine.blogspot.com/2020/12/x",
    "http://192.0.2.7/x",
    "http://[2001:db8::1]/x",
    "http://localhost/x",
    "http://host.internal/x",
    "https://www.bbc.co.uk/sport/0/1",
    "https://bbc.co.uk",
    "//bbc.co.uk/sport",
    "bbc.co.uk/sport",
    "ftp://theguardian.com:21/a",
    "https://Theguardian.com/a",
    "http://medium.com/News/x",
    "http://medium.com/NEWS",
    "http://medium.com/newsletter",
    "http://medium.com/the-news.html",
    "http://medium.com/wiki_page/x",
    "http://medium.com/wiki-page/x",
    "http://medium.com/my_wiki_page_x",
    "http://medium.com/h%C3%A9llo",
    "http://medium.com/héllo",
    "http://medium.com/c++/x",
    "http://medium.com/story-line-two",
    "http://medium.com/storyline",
    "http://medium.com/html",
    "http://medium.com/html/html/html",
    "http://medium.com/html/index",
    "http://medium.com/HTML/Index",
    "http://medium.com/in_of_to",
    "http://medium.org/in/of",
    "http://medium.org/s-c-i-e-n-c-e",
    "http://medium.org/sci/ence",
    "http://medium.org/new-york",
    "http://medium.org/new/york",
    "http://medium.org/climate-change",
    "http://medium.org/climatechange",
    "http://medium.org/u-s/a",
    "http://medium.org/usa",
    "http://medium.org/2019/11/x",
    "http://medium.org/201911",
    "http://medium.org/a?q=Science%20x",
    "https://www.github.com/x",
    "https://github.com/x",
    "https://en.wikipedia.org/x",
    "https://arxiv.org/abs/1",
    "https://www.arxiv.org/abs/1",
    "https://old.reddit.com/r/x",
    "https://reddit.com/r/x",
    "http://大学.jp/",
    "http://www.大学.jp/",
)


def real(data: Path) -> Iterator[tuple[str, int, str]]:
    """Yield file, row and address."""
    for name in FILES:
        with (data / name).open(encoding="utf-8") as file:
            for row, line in enumerate(file):
                url = json.loads(line)["url"]
                if url:
                    yield name, row, url


def digest(url: str) -> str:
    """Return the first 32 hex digits of the sha256 of an address's UTF-8 bytes."""
    return hashlib.sha256(url.encode()).hexdigest()[:32]
