"""Secrets in code: private keys, tokens by the prefixes that their makers publish, and passwords written into assignments.

A token is believed if what follows its prefix is as long as its maker says and looks drawn at random (Shannon entropy); so a
placeholder (`sk_live_xxxx`, `<your token>`) stays, and so does what masking puts in a secret's place. An assignment is believed if
its name says password, secret, token or key, its value stands in quotes, and the value looks random or mixes letters, digits and signs.
Without quotes, as in `.env` and `~/.aws/credentials`, the name is in capitals or AWS's, and the value random and 20 signs or more.
A password of small letters and digits (`hunter2hunter2`) stays: so look placeholders, names and versions, and nothing tells them apart.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from curate.rewrite.pii_ids import Found

_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"(?P<aws>(?:AKIA|ASIA)[A-Z2-7]{16})"  # AWS access key id, permanent and temporary
    r"|(?P<google>AIza[\w-]{35}|GOCSPX-[\w-]{28})"  # Google API key, OAuth client secret
    r"|(?P<github>gh[pousr]_[A-Za-z0-9]{36,251}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})"
    r"|(?P<gitlab>glpat-[\w-]{20,64})"
    r"|(?P<slack>xox[abposr]-[0-9A-Za-z-]{20,200})"
    r"|(?P<stripe>(?:sk|rk)_(?:live|test)_[0-9A-Za-z]{24,247}|whsec_[0-9A-Za-z]{32,64})"
    r"|(?P<openai>sk-(?:proj-|svcacct-|admin-|or-v1-|ant-[a-z0-9]+-)?[\w-]{32,200})"  # OpenAI, and others after its fashion
    r"|(?P<jwt>eyJ[\w-]{10,4000}\.eyJ[\w-]{10,16000}\.[\w-]{20,2000})"  # RFC 7519: base64url of {" in header and claims
    r"|(?P<huggingface>hf_[A-Za-z]{34})"
    r"|(?P<npm>npm_[A-Za-z0-9]{36})"
    r"|(?P<pypi>pypi-AgEIcHlwaS5vcmc[\w-]{50,1000})"
    r"|(?P<sendgrid>SG\.[\w-]{22}\.[\w-]{43})"
    r")(?![A-Za-z0-9_])"
)
_PREFIX = re.compile(
    r"AKIA|ASIA|AIza|GOCSPX-|gh[pousr]_|github_pat_|glpat-|xox[abposr]-|[sr]k_(?:live|test)_|whsec_"
    r"|sk-(?:proj-|svcacct-|admin-|or-v1-|ant-[a-z0-9]+-)?|eyJ|hf_|npm_|pypi-AgEIcHlwaS5vcmc|SG\."
)
_PREFIXES = (
    *("AKIA", "ASIA", "AIza", "GOCSPX-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "whsec_"),
    *(
        "xoxa-",
        "xoxb-",
        "xoxp-",
        "xoxo-",
        "xoxs-",
        "xoxr-",
        "sk_live_",
        "rk_live_",
        "sk_test_",
        "rk_test_",
        "sk-",
        "eyJ",
    ),
    *("hf_", "npm_", "pypi-AgEIcHlwaS5vcmc", "SG."),
)
_SLACK_HOOK = re.compile(
    r"(hooks\.slack\.com/services/)(T[A-Z0-9]{8,12}/B[A-Z0-9]{8,12}/[A-Za-z0-9]{20,28})(?![A-Za-z0-9])"
)
_PRIVATE_KEY = re.compile(
    r"(-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)((?:(?!-----)[\s\S]){64,20000}?)(-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY)"
)
_NAMES = ("password", "passwd", "passwort", "pwd", "secret", "token", "credential", "key")
_KEY_BEFORE = re.compile(r"(?:api|access|auth|private|encryption)[_-]?\Z", re.IGNORECASE)  # `key` alone says nothing
_ASSIGNED = re.compile(
    r"[A-Za-z0-9_]{0,16}[\"']?\]?[ \t]{0,4}(?::=|=>|=|:)[ \t]{0,4}[bru]?([\"'])((?:(?!\1)[^\s\\]){8,200})\1"
)
_BARE = re.compile(
    r"(?:_(?!(?:[A-Z0-9]+_)*(?:FILE|PATH|URL|URI|DIR|NAME|ID|ARN|ENDPOINT)\b)[A-Z0-9_]{0,24}|S)?(?:=|:[ \t]{1,4})"
    r"([A-Za-z0-9+/_-]{20,200}={0,2})(?![^\s\"'`<;,&\\])"
)
_AWS_BEFORE = re.compile(r"aws[_.-]?\Z", re.IGNORECASE)
_AWS_BARE = re.compile(r"[\w.-]{0,24}[ \t]{0,4}[=:][ \t]{0,4}([A-Za-z0-9/+]{40})(?![^\s\"'`<;,&\\])")
_PLACEHOLDER = re.compile(
    r"[<>{}*]|^\$|\$(?:[_(]|(?-i:[A-Z]{2}))|%[sd(]|x{4}|\.\.\.|0{6}|1234|abcd|env|://"
    r"|\b(?:your|my|example|sample|test|dummy|fake|change|placeholder|todo|insert|none|null|undefined)",
    re.IGNORECASE,
)
_MIN_TOKEN_BITS = (
    3.0  # of Shannon entropy a character: sixteen letters drawn from 32 have 3.6 on average, `xxxxxxxx` has 0
)
_MIN_RANDOM_BITS = 3.5  # in an assignment, for values of letters and digits
_MIN_RANDOM_CHARS = 16
BODY = "\nREDACTED\n"  # of a private key


def entropy(text: str) -> float:
    """Return the Shannon entropy of the characters of `text`, in bits a character."""
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts) if text else 0.0


def find(text: str, has_token: bool, has_assigned: bool) -> list[tuple[Found, str]]:
    """Return the secrets of a text in order, each with the text of the same shape that may stand in its place.

    Args:
        text: The text.
        has_token: Whether it has a run of letters and digits as long as a token.
        has_assigned: Whether it has a quotation mark or a run as long as a token behind a sign that assigns.
    """
    found: list[tuple[Found, str]] = []

    def add(start: int, end: int, instead: str) -> None:
        if text[start:end] != instead and not any(start < one.end and one.start < end for one, _ in found):
            found.append((Found(start, end, "secret", text[start:end]), instead))

    if has_token and "PRIVATE KEY" in text:
        for match in _PRIVATE_KEY.finditer(text):
            if _is_key_body(match[2]):
                add(match.start(2), match.end(2), BODY)
    for _, start in _occurrences(text, _PREFIXES) if has_token else ():
        token, prefix = _TOKEN.match(text, start), _PREFIX.match(text, start)
        if token is None or prefix is None:
            continue
        body = text[prefix.end() : token.end()]
        if entropy(body) >= _MIN_TOKEN_BITS and _looks_drawn(token.lastgroup or "", body):
            add(start, token.end(), prefix.group() + _crossed(body))
    for match in _SLACK_HOOK.finditer(text) if has_token and "hooks.slack.com" in text else ():
        if entropy(match[2]) >= _MIN_TOKEN_BITS:
            add(match.start(2), match.end(2), _crossed(match[2]))
    lowered = text.lower() if has_assigned else ""
    # A few letters grow when they are made small (U+0130): then the places in both texts differ, and only names in small letters are known.
    for name, start in _occurrences(lowered if len(lowered) == len(text) else text, _NAMES) if has_assigned else ():
        end = start + len(name)
        if (bare := _bare(text, start, end)) is not None:
            if name != "key" or _KEY_BEFORE.search(text, max(0, start - 12), start) is not None:
                add(bare.start(1), bare.end(1), _crossed(bare[1]))
            continue
        value = _ASSIGNED.match(text, end)
        if value is None or (name == "key" and _KEY_BEFORE.search(text, max(0, start - 12), start) is None):
            continue
        if _is_secret_value(value[2]):
            add(value.start(2), value.end(2), _crossed(value[2]))
    return sorted(found, key=lambda one: one[0].start)


def _bare(text: str, start: int, end: int) -> re.Match[str] | None:
    """Return a secret without quotes that is assigned to the name in which text[start:end] stands."""
    match = _BARE.match(text, end) if text[start:end].isupper() else None
    if match is None and _AWS_BEFORE.search(text, max(0, start - 4), start) is not None:
        match = _AWS_BARE.match(text, end)
    if match is None or "EXAMPLE" in match[1].upper() or sum(map(str.isdigit, match[1])) < 2:
        return None
    return match if _is_secret_value(match[1]) else None


def _occurrences(text: str, wanted: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for name in wanted:
        start = text.find(name)
        while start >= 0:
            yield name, start
            start = text.find(name, start + len(name))


def _crossed(body: str) -> str:
    return re.sub(r"[^.\-/]", "X", body)


def _is_key_body(body: str) -> bool:
    signs = re.sub(r"[^A-Za-z0-9+/=]", "", body.replace("\\n", ""))
    return len(signs) >= 64 and entropy(signs) >= 4.0


def _looks_drawn(kind: str, body: str) -> bool:
    if kind == "openai":  # `sk-` also begins names of style sheets: words with hyphens
        return bool(re.search(r"\d", body)) and bool(re.search(r"[A-Z]", body)) and bool(re.search(r"[a-z]", body))
    if kind == "aws":
        return not body.endswith("EXAMPLE")  # of Amazon's own documentation
    return "EXAMPLE" not in body.upper()


def _is_secret_value(value: str) -> bool:
    if _PLACEHOLDER.search(value):
        return False
    has_digit, has_letter = re.search(r"\d", value) is not None, re.search(r"[A-Za-z]", value) is not None
    if not (has_digit and has_letter):
        return False
    if re.fullmatch(r"[A-Za-z0-9+/=_-]+", value):
        mixed = re.search(r"[a-z]", value) is not None and re.search(r"[A-Z]", value) is not None
        hexadecimal = re.fullmatch(r"[0-9a-f]{32,}|[0-9A-F]{32,}", value) is not None
        if len(value) >= _MIN_RANDOM_CHARS:
            return (mixed or hexadecimal) and entropy(value) >= (3.0 if hexadecimal else _MIN_RANDOM_BITS)
        return False
    signs = re.search(r"[^A-Za-z0-9 _.,:;/-]", value) is not None  # a password of words and punctuation is a sentence
    return signs and not re.search(r"[()\[\]\"'`]", value)
