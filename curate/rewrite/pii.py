"""Mask e-mail and IP addresses, as FineWeb does (Penedo et al. 2024, arXiv:2406.17557, section 4.1; datatrove `pii.py`).

What is left alone, on purpose:

- Addresses that belong to nobody: private, loopback, link-local, multicast, documentation (192.0.2.0/24, 198.51.100.0/24,
  203.0.113.0/24, 2001:db8::/32) and other special-purpose networks of the IANA registries, unless `ip_addresses: all`.
- Dotted numbers that are no address: three parts (1.2.3), five and more (OIDs), leading zeros (dates), and four parts right
  behind a word or sign for a version or section (`v1.2.3.4`, `version = "1.2.3.4"`, `lib-1.2.3.4`, `==1.2.3.4`, `§ 1.2.3.4`).
- E-mail addresses with letters of other scripts than Latin.

The replacement is always the same text, so that masking twice masks nothing more.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from curate.stage import Step

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    import pyarrow as pa

# A local part and a domain with a dot, in Latin letters: in scripts without spaces an address stands right between words.
# Each part is bounded (RFC 5321: 64 and 255 characters), which keeps a megabyte of letters cheap.
_LETTER = r"A-Za-z0-9\u00c0-\u024f"
_EMAIL = re.compile(
    rf"(?<![{_LETTER}_.+%&@-])"
    rf"[{_LETTER}_+%&-](?:[{_LETTER}_+%&'-]{{0,63}}\.){{0,10}}[{_LETTER}_+%&'-]{{0,63}}"
    rf"@(?:[{_LETTER}](?:[{_LETTER}-]{{0,61}}[{_LETTER}])?\.){{1,10}}[A-Za-z\u00c0-\u024f](?:[{_LETTER}-]{{0,61}}[{_LETTER}])"
    rf"(?![{_LETTER}_@-])"
)
_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = re.compile(rf"(?<![\w.])(?:{_BYTE}\.){{3}}{_BYTE}(?!\w|\.\d)", re.ASCII)
_IPV6 = re.compile(r"(?<![\w:.])(?=[\dA-Fa-f]*:[\dA-Fa-f]*:)[\dA-Fa-f:]{3,39}(?!\w|:|\.\d)", re.ASCII)
_NO_ADDRESS_BEFORE = re.compile(
    r"(?:\b(?:version|vers?|v|release|rel|build|rev|revision|versão|versión|firmware|sections?|clause|chapter)(?:__)?[\"'.:=\s]*"
    r"|version__[\"'=:\s]*|§+\s*|[A-Za-z]-|[=~^]=\s*|[~^])\Z",
    re.IGNORECASE,
)

# IANA IPv4 and IPv6 Special-Purpose Address Registries, written out: the answer may not depend on Python's version.
_SPECIAL_IPV4 = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 "
    "198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
)
_GLOBAL_IPV6 = "2000::/3"
_SPECIAL_IPV6 = "2001::/23 2001:db8::/32 2002::/16 3fff::/20"


class Pii(Step):
    """Masks e-mail addresses and IP addresses (IPv4 and IPv6).

    Attributes:
        emails: Whether e-mail addresses are masked.
        ip_addresses: Which are masked: `public`, `all`, or `off`.
        email_replacement: Text put in the place of an e-mail address.
        ip_replacement: Text put in the place of an IP address; by default one that FineWeb uses.
    """

    version: ClassVar[int] = 1
    rewrites: ClassVar[bool] = True
    adds: ClassVar[Mapping[str, str]] = {"num_emails": "int64", "num_ip_addresses": "int64"}

    emails: bool = True
    ip_addresses: Literal["public", "all", "off"] = "public"
    email_replacement: str = Field(default="email@example.com", min_length=1)
    ip_replacement: str = Field(default="22.214.171.124", min_length=1)

    @field_validator("emails", mode="before")
    @classmethod
    def _on_off(cls, value: Any) -> Any:
        return {"on": True, "off": False}.get(value, value) if isinstance(value, str) else value

    @field_validator("ip_addresses", mode="before")
    @classmethod
    def _off(cls, value: Any) -> Any:
        return "off" if value is None or value is False else value

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return `text` with addresses masked, and how many of each."""
        import pyarrow as pa

        rows = [self._mask(text or "") for text in batch["text"].to_pylist()]
        texts, emails, addresses = zip(*rows, strict=True) if rows else ((), (), ())
        return pa.record_batch(
            {
                "text": pa.array(texts, pa.large_string()),
                "num_emails": pa.array(emails, pa.int64()),
                "num_ip_addresses": pa.array(addresses, pa.int64()),
            }
        )

    def _mask(self, text: str) -> tuple[str, int, int]:
        num_emails = num_addresses = 0
        if self.emails and "@" in text:

            def email(match: re.Match[str]) -> str:
                nonlocal num_emails
                if match.group() == self.email_replacement:
                    return match.group()
                num_emails += 1
                return self.email_replacement

            text = _EMAIL.sub(email, text)
        if self.ip_addresses != "off":
            everything = self.ip_addresses == "all"

            def address(match: re.Match[str]) -> str:
                nonlocal num_addresses
                found = match.group()
                if found == self.ip_replacement or not _is_address(match, everything):
                    return found
                num_addresses += 1
                return self.ip_replacement

            text = _IPV4.sub(address, text)
            if "::" in text or text.count(":") >= 7:
                text = _IPV6.sub(address, text)
        return text, num_emails, num_addresses


def _is_address(match: re.Match[str], everything: bool) -> bool:
    """Whether a match is an IP address to mask: all that are one, or those that are public."""
    import ipaddress

    try:
        address = ipaddress.ip_address(match.group())
    except ValueError:
        return False
    if address.version == 4:
        if _NO_ADDRESS_BEFORE.search(match.string, max(0, match.start() - 16), match.start()):
            return False
        return everything or not any(address in network for network in _networks(_SPECIAL_IPV4))
    if not any(address in network for network in _networks(_GLOBAL_IPV6)):
        # `a::b` is also a name in many languages, so that outside of the public range only long forms count.
        return everything and match.group().count(":") >= 3
    return everything or not any(address in network for network in _networks(_SPECIAL_IPV6))


@functools.cache
def _networks(names: str) -> tuple[IPv4Network | IPv6Network, ...]:
    import ipaddress

    return tuple(map(ipaddress.ip_network, names.split()))
