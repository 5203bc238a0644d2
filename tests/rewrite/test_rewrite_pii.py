import time

import pyarrow as pa
import pytest
from pydantic import ValidationError

from curate.rewrite.pii import Pii

MAIL, ADDRESS = "email@example.com", "22.214.171.124"


def mask(text, **settings):
    batch = pa.record_batch({"text": pa.array([text], pa.large_string())})
    (row,) = Pii(**settings).apply(batch).to_pylist()
    return row["text"], row["num_emails"], row["num_ip_addresses"]


@pytest.mark.parametrize(
    ("text", "masked", "count"),
    [
        ("Write to joe.bloggs+x@mail.site.co.uk.", f"Write to {MAIL}.", 1),
        ("<a@b.org>, 'joe@x.com' and o'brien@x.ie", f"<{MAIL}>, '{MAIL}' and {MAIL}", 3),
        ("mailto:joe@x.com?subject=a", f"mailto:{MAIL}?subject=a", 1),
        ("联系joe@site.cn谢谢", f"联系{MAIL}谢谢", 1),
        ("joão.silva@exemplo.pt", MAIL, 1),
        # A run of dots is punctuation: the address begins behind it, as datatrove has it.
        ("..me@site.org Contact...john@site.org a..b@x.org", f"..{MAIL} Contact...{MAIL} a..{MAIL}", 3),
        (".me@site.org x.y@z.org x.@z.org taro..@z.org", f".{MAIL} {MAIL} {MAIL} {MAIL}", 4),
        ("JOE_99@SITE.ORG\nnext", f"{MAIL}\nnext", 1),
        ("user@localhost, @handle, a@b, 3 @ 4, x@1.2, a@@b.com", None, 0),
        ("@decorator.method and array[i]@b.T", None, 0),
        ("", None, 0),
    ],
)
def test_emails(text, masked, count):
    assert mask(text) == (text if masked is None else masked, count, 0)


@pytest.mark.parametrize(
    ("text", "masked", "count"),
    [
        ("from 8.8.8.8.", f"from {ADDRESS}.", 1),
        ("8.8.8.8:53, (8.8.4.4/24), ip=1.1.1.1", f"{ADDRESS}:53, ({ADDRESS}/24), ip={ADDRESS}", 3),
        ("[2606:4700:4700::1111]:443", f"[{ADDRESS}]:443", 1),
        ("2a00:1450:4001:081b:0000:0000:0000:200e", ADDRESS, 1),
        # Nobody's: private, loopback, documentation, link-local, multicast.
        (
            "10.0.0.1 172.16.0.1 192.168.1.1 127.0.0.1 203.0.113.5 192.0.2.1 198.51.100.7 169.254.1.1 224.0.0.1 255.255.255.255",
            None,
            0,
        ),
        ("::1 fe80::1 2001:db8::1 fd00::1", None, 0),
        ("172.15.255.255 172.32.0.0", f"{ADDRESS} {ADDRESS}", 2),  # both sides of 172.16.0.0/12
        # No addresses.
        ("1.2.3 and 1.2.3.4.5 and 1.3.6.1.4.1.311", None, 0),
        ('v8.8.8.8 version 8.8.8.8 lib-8.8.8.8 lib==8.8.8.8 __version__ = "8.8.8.8" § 8.8.8.8', None, 0),
        ("256.1.1.1 08.08.08.08 8.8.8.8a 8.8.8.1000", None, 0),
        ("12:30:45 std::vector a::b Foo::Bar::baz ::", None, 0),
    ],
)
def test_ip_addresses(text, masked, count):
    assert mask(text) == (text if masked is None else masked, 0, count)


def test_all_addresses():
    assert mask("10.0.0.1 203.0.113.5 1.2.3", ip_addresses="all") == (f"{ADDRESS} {ADDRESS} 1.2.3", 0, 2)
    assert mask("2001:db8::8:1 a::b", ip_addresses="all") == (f"{ADDRESS} a::b", 0, 1)


def test_settings():
    assert mask("a@b.org 8.8.8.8", emails="off") == (f"a@b.org {ADDRESS}", 0, 1)
    assert mask("a@b.org 8.8.8.8", ip_addresses="off") == (f"{MAIL} 8.8.8.8", 1, 0)
    assert mask("a@b.org 8.8.8.8", email_replacement="<E>", ip_replacement="<I>") == ("<E> <I>", 1, 1)
    assert Pii(at="collect").at == "collect"
    assert Pii().rules("pii") == ()
    for bad in ({"ip_addresses": "some"}, {"emails": "maybe"}, {"email_replacement": ""}, {"phones": "maybe"}):
        with pytest.raises(ValidationError):
            Pii(**bad)


def test_masking_twice_changes_and_counts_nothing():
    once, *_ = mask("a@b.org at 8.8.8.8 and 2606:4700::1111")
    assert mask(once) == (once, 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 10**6,
        "a." * 500_000,
        "a@" * 300_000,
        "1." * 500_000,
        "a:" * 500_000,
        "a@a." * 200_000,
        "a.." * 300_000 + "@",
        "1:" * 500_000,
    ],
)
def test_takes_linear_time(text):
    start = time.process_time()
    mask(text)
    assert time.process_time() - start < 5
