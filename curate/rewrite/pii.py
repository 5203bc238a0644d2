"""Mask personal data and secrets: by default e-mail and IP addresses, as FineWeb does.

Sources: Penedo et al. 2024, arXiv:2406.17557, section 4.1, and datatrove `pii.py` for addresses; `pii_ids`, `pii_phones` and
`pii_secrets` for the other kinds, which are off unless asked for.

What is left alone, on purpose:

- Addresses that belong to nobody: private, loopback, link-local, multicast, documentation (192.0.2.0/24, 198.51.100.0/24,
  203.0.113.0/24, 2001:db8::/32) and other special-purpose networks of the IANA registries, unless `ip_addresses: all`.
- Dotted numbers that are no address: three parts (1.2.3), five and more (OIDs), leading zeros (dates), and four parts right
  behind a word or sign for a version or section (`v1.2.3.4`, `version = "1.2.3.4"`, `lib-1.2.3.4`, `==1.2.3.4`, `§ 1.2.3.4`).
- E-mail addresses with letters of other scripts than Latin.
- Numbers with a wrong check digit, parts of longer numbers, and numbers whose form says little (eleven digits in a row) without a
  word before them that names them.

What stands in the place of a find is always the same text, or has the find's shape with 0 for digits and X for letters (no valid number
of any kind), so that masking twice masks nothing more.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from curate.rewrite import pii_ids, pii_phones, pii_secrets
from curate.stage import Rule, Step

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

# A local part and a domain with a dot, in Latin letters: in scripts without spaces an address stands right between words.
# Each part is bounded (RFC 5321: 64 and 255 characters), which keeps a megabyte of letters cheap. Two dots or more, and one behind a
# blank, are punctuation, and the address begins behind them; right before the @ some providers allowed them (docomo).
_LETTER = r"A-Za-z0-9\u00c0-\u024f"
_EMAIL = re.compile(
    rf"(?<![{_LETTER}_+%&@-])(?<![{_LETTER}_+%&@-]\.)"
    rf"[{_LETTER}_+%&-][{_LETTER}_+%&'-]{{0,63}}(?:\.[{_LETTER}_+%&'-]{{1,64}}){{0,10}}\.{{0,3}}"
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


_SPACE = re.compile(r"\s")
_REACH = 96  # characters before a number that are looked at


def _switch(value: Any) -> Any:
    return {"on": True, "off": False}.get(value, value) if isinstance(value, str) else False if value is None else value


def _listed(value: Any) -> Any:
    if value is None or value is False or value == "off":
        return ()
    if value == "all":
        return pii_ids.NATIONAL
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


_Switch = Annotated[bool, BeforeValidator(_switch)]


class Pii(Step):
    """Masks and counts personal data.

    Attributes:
        emails: Whether e-mail addresses are masked.
        ip_addresses: Which are masked: `public`, `all`, or `off`.
        phones: Whether telephone numbers are masked: in international form those of every country.
        phone_regions: ISO 3166-1 codes of the countries whose national form is looked for too, such as [BR, US].
        national_ids: Which numbers of persons, and CNPJ, are masked: names of `pii_ids.NATIONAL`, `all`, or `off`: of Brazil (cpf,
            cnpj), the United States (ssn), Spain (dni, nie), France (nir), Portugal (nif), the United Kingdom (nino), Italy
            (codice_fiscale), Germany (steuer_id), the Netherlands (bsn), Poland (pesel), India (aadhaar), China (resident_identity).
        ibans: Whether bank accounts are masked (IBAN).
        payment_cards: Whether card numbers are masked.
        secrets: Whether private keys, access tokens and assigned passwords are masked; meant for code.
        mask: off leaves the text as it is and only counts, for rules.
        max_spans: Most finds of all kinds that a document may have and stay (Dolma removes pages with more than 5 and masks the
            others: Soldaini et al. 2024, arXiv:2402.00159, section 3.1.3). off: no rule.
        email_replacement: Text put in the place of an e-mail address.
        ip_replacement: Text put in the place of an IP address; by default one that FineWeb uses.
    """

    version: ClassVar[int] = 4
    libraries: ClassVar[tuple[str, ...]] = ("phonenumbers",)
    rewrites: ClassVar[bool] = True
    adds: ClassVar[Mapping[str, str]] = {
        "num_emails": "int64",
        "num_ip_addresses": "int64",
        "num_phones": "int64",
        "num_national_ids": "int64",
        "num_ibans": "int64",
        "num_payment_cards": "int64",
        "num_secrets": "int64",
        "num_pii": "int64",
    }
    decides: ClassVar[tuple[str, ...]] = ("max_spans",)

    emails: _Switch = True
    ip_addresses: Literal["public", "all", "off"] = "public"
    phones: _Switch = False
    phone_regions: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    national_ids: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    ibans: _Switch = False
    payment_cards: _Switch = False
    secrets: _Switch = False
    mask: _Switch = True
    max_spans: Annotated[int | None, Field(ge=0)] = None
    email_replacement: str = Field(default="email@example.com", min_length=1)
    ip_replacement: str = Field(default="22.214.171.124", min_length=1)

    @field_validator("ip_addresses", mode="before")
    @classmethod
    def _off(cls, value: Any) -> Any:
        return "off" if value is None or value is False else value

    @field_validator("max_spans", mode="before")
    @classmethod
    def _no_bound(cls, value: Any) -> Any:
        return None if value is False or value == "off" else value

    @field_validator("national_ids")
    @classmethod
    def _known_ids(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        unknown = sorted(set(names) - set(pii_ids.NATIONAL))
        if unknown:
            raise ValueError(
                f"{', '.join(unknown)}: unknown; write some of {', '.join(pii_ids.NATIONAL)}, or all or off"
            )
        return names

    @field_validator("phone_regions")
    @classmethod
    def _codes_of_regions(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [code for code in codes if not re.fullmatch(r"[A-Z]{2}", code)]
        if wrong:
            raise ValueError(f"{', '.join(wrong)}: no ISO 3166-1 code; write two capital letters, such as BR")
        return codes

    @model_validator(mode="after")
    def _regions_are_used(self) -> Pii:
        if self.phone_regions and not self.phones:
            raise ValueError("phone_regions is set and phones is off; write phones: on, or leave phone_regions out")
        return self

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return the rule on the number of finds, if it is on."""
        if self.max_spans is None:
            return ()
        return (Rule(f"{block}.max_spans", "num_pii", at_most=float(self.max_spans)),)

    def prepare(self) -> None:
        """Load the kernels, and the numbering plans if they are needed."""
        import pyarrow as pa

        sample = "+44 20 7946 0958 a@b 1.2.3.4"
        self.apply(pa.record_batch({"text": pa.array([sample], pa.large_string())}))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return `text` with what was found masked, and how much of each kind."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = pc.fill_null(batch["text"], "")
        flags = _flags(texts, self.secrets)
        counts = np.zeros((len(texts), len(self.adds)), np.int64)
        changed, masked = np.zeros(len(texts), np.bool_), []
        for row in np.flatnonzero(flags):
            text = texts[int(row)].as_py()
            after, found = self._mask(text, int(flags[row]))
            counts[row, :-1] = [found.get(name, 0) for name in list(self.adds)[:-1]]
            if self.mask and after != text:
                changed[row] = True
                masked.append(after)
        counts[:, -1] = counts.sum(axis=1)
        if masked:
            texts = pc.replace_with_mask(texts, pa.array(changed), pa.array(masked, pa.large_string()))
        columns = {name: pa.array(counts[:, place]) for place, name in enumerate(self.adds)}
        return pa.record_batch({"text": texts} | columns)

    def _mask(self, text: str, flags: int) -> tuple[str, dict[str, int]]:
        from curate.rewrite import pii_scan

        counts: dict[str, int] = {}
        if self.emails and flags & pii_scan.HAS_AT:
            text, counts["num_emails"] = self._mask_emails(text)
        if self.ip_addresses != "off" and flags & (pii_scan.HAS_IPV4 | pii_scan.HAS_IPV6):
            text, counts["num_ip_addresses"] = self._mask_addresses(text, flags)
        if self.secrets and flags & (pii_scan.HAS_TOKEN | pii_scan.HAS_ASSIGNED | pii_scan.HAS_BARE):
            found = pii_secrets.find(
                text, bool(flags & pii_scan.HAS_TOKEN), bool(flags & (pii_scan.HAS_ASSIGNED | pii_scan.HAS_BARE))
            )
            counts["num_secrets"] = len(found)
            for one, instead in reversed(found):
                text = text[: one.start] + instead + text[one.end :]
        if flags & pii_scan.HAS_CODE and (self.phones or self._kinds):
            text = self._mask_numbers(text, counts)
        return text, counts

    @property
    def _kinds(self) -> frozenset[str]:
        others = (("iban", self.ibans), ("payment_card", self.payment_cards))
        return frozenset((*self.national_ids, *(kind for kind, is_on in others if is_on)))

    def _mask_emails(self, text: str) -> tuple[str, int]:
        num_emails = 0

        def email(match: re.Match[str]) -> str:
            nonlocal num_emails
            if match.group() == self.email_replacement:
                return match.group()
            num_emails += 1
            return self.email_replacement

        # No address has white space in it: only the runs without any that hold an @ are looked at.
        parts, done = [], 0
        at = text.find("@")
        while at >= 0:
            start = at
            while start > done and not text[start - 1].isspace():
                start -= 1
            space = _SPACE.search(text, at)
            end = space.start() if space is not None else len(text)
            parts += [text[done:start], _EMAIL.sub(email, text[start:end])]
            done, at = end, text.find("@", end)
        return "".join([*parts, text[done:]]), num_emails

    def _mask_addresses(self, text: str, flags: int) -> tuple[str, int]:
        from curate.rewrite import pii_scan

        num_addresses, everything = 0, self.ip_addresses == "all"

        def address(match: re.Match[str]) -> str:
            nonlocal num_addresses
            found = match.group()
            if found == self.ip_replacement or not _is_address(match, everything):
                return found
            num_addresses += 1
            return self.ip_replacement

        if flags & pii_scan.HAS_IPV4:
            text = _IPV4.sub(address, text)
        if flags & pii_scan.HAS_IPV6:
            text = _IPV6.sub(address, text)
        return text, num_addresses

    def _mask_numbers(self, text: str, counts: dict[str, int]) -> str:
        """Return the text with numbers of persons, accounts, cards and telephones masked; `counts` gains their columns."""
        import numpy as np

        from curate.rewrite import pii_scan

        data = text.encode("utf-8", "surrogatepass")
        parts, done, named_until = [], 0, -_REACH
        for start, end in pii_scan.codes_of(np.frombuffer(data, np.uint8)).tolist():
            before = data[max(0, start - _REACH) : start].decode("utf-8", "ignore")
            code = data[start:end].decode("utf-8", "ignore")
            window = before + code + data[end : end + 8].decode("utf-8", "ignore")
            place = len(before)
            found = pii_ids.find(window, place, place + len(code), self._kinds)
            if self.phones:
                near = start - named_until < _REACH
                until = place - len(data[named_until:start].decode("utf-8", "ignore")) if near else -1
                phones, until = pii_phones.find(window, place, place + len(code), self.phone_regions, found, until)
                found += phones
                if until >= 0:
                    named_until = start + len(window[place:until].encode())
            for one in sorted(found, key=lambda one: one.start):
                # What may stand before a code, + or a bracket, is ASCII.
                inside = window[place : one.start]
                first = start + len(inside.encode()) if one.start >= place else start - (place - one.start)
                if first < done:
                    continue
                name = _COLUMNS.get(one.kind, "num_national_ids")
                counts[name] = counts.get(name, 0) + 1
                parts += [data[done:first], pii_ids.masked(one.text).encode()]
                done = first + len(one.text.encode())
        return b"".join([*parts, data[done:]]).decode("utf-8", "surrogatepass")


_COLUMNS = {"phone": "num_phones", "iban": "num_ibans", "payment_card": "num_payment_cards"}


def _flags(texts: pa.LargeStringArray, secrets: bool) -> NDArray[np.uint8]:
    """Return what `pii_scan` sees in each text, shape (texts,)."""
    import numpy as np

    from curate.rewrite import pii_scan

    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return np.zeros(len(texts), np.uint8)
    places = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return pii_scan.flags_of(np.frombuffer(data, np.uint8), places, secrets)


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
