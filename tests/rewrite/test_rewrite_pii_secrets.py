"""Secrets in code. No real one is in here; prefixes are joined at run time, so that no scanner of repositories takes them for one."""

import gzip
import json
import os
import random
import string
import time
from pathlib import Path

import pyarrow as pa
import pytest

from curate.rewrite.pii import Pii
from curate.rewrite.pii_secrets import entropy

DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")
OTHERS_OFF = {"emails": "off", "ip_addresses": "off", "secrets": True}


def row(text, **settings):
    batch = pa.record_batch({"text": pa.array([text], pa.large_string())})
    (found,) = Pii(**(OTHERS_OFF | settings)).apply(batch).to_pylist()
    return found


def drawn(length, alphabet=string.ascii_letters + string.digits, seed=3):
    return "".join(random.Random(seed).choices(alphabet, k=length))


# Prefix, and the alphabet and length that its maker gives for what follows.
TOKENS = [
    ("AK" + "IA", string.ascii_uppercase + "234567", 16),
    ("AS" + "IA", string.ascii_uppercase + "234567", 16),
    ("AI" + "za", string.ascii_letters + string.digits, 35),
    ("GOC" + "SPX-", string.ascii_letters + string.digits, 28),
    ("gh" + "p_", string.ascii_letters + string.digits, 36),
    ("gh" + "s_", string.ascii_letters + string.digits, 36),
    ("gl" + "pat-", string.ascii_letters + string.digits, 20),
    ("xo" + "xb-", string.digits, 40),
    ("sk_" + "live_", string.ascii_letters + string.digits, 24),
    ("rk_" + "test_", string.ascii_letters + string.digits, 99),
    ("s" + "k-", string.ascii_letters + string.digits, 48),
    ("s" + "k-proj-", string.ascii_letters + string.digits, 120),
    ("s" + "k-ant-api03-", string.ascii_letters + string.digits, 95),
    ("h" + "f_", string.ascii_letters, 34),
    ("np" + "m_", string.ascii_letters + string.digits, 36),
]


@pytest.mark.parametrize(("prefix", "alphabet", "length"), TOKENS)
def test_tokens_by_their_published_prefix(prefix, alphabet, length):
    token = prefix + drawn(length, alphabet)
    instead = prefix + "X" * length
    for before, behind in (("", ""), ('key = "', '"\n'), ("Bearer ", " and"), ("(", ")")):
        found = row(before + token + behind)
        assert found["text"] == before + instead + behind
        assert (found["num_secrets"], found["num_pii"]) == (1, 1)
        assert row(found["text"])["num_secrets"] == 0
    assert row(prefix + "X" * length)["num_secrets"] == 0  # a placeholder
    assert row("a" + token)["num_secrets"] == 0  # part of a longer word
    if length < 40:
        assert row(prefix + drawn(length, alphabet)[: min(length, 19) - 4])["num_secrets"] == 0  # too short to be one


def test_other_tokens():
    github = "github_" + "pat_" + drawn(22) + "_" + drawn(59, seed=4)
    jwt = "ey" + "J" + drawn(20) + ".ey" + "J" + drawn(60, seed=4) + "." + drawn(43, seed=5)
    sendgrid = "S" + "G." + drawn(22) + "." + drawn(43, seed=6)
    hook = (
        "https://hooks.slack"
        + ".com/services/T"
        + drawn(9, string.ascii_uppercase)
        + "/B"
        + drawn(9, string.ascii_uppercase, 4)
    )
    hook += "/" + drawn(24)
    for token in (github, jwt, sendgrid, hook):
        found = row(f"t: {token};")
        assert found["num_secrets"] == 1
        assert len(found["text"]) == len(token) + 4
        assert token[-20:] not in found["text"]
        assert row(found["text"])["num_secrets"] == 0


def test_private_keys():
    body = "\n".join(drawn(64, string.ascii_letters + string.digits + "+/", seed) for seed in range(20))
    for kind in ("RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""):
        head, foot = f"-----BEGIN {kind}PRIVATE" + " KEY-----", f"-----END {kind}PRIVATE" + " KEY-----"
        found = row(f"KEY = '''{head}\n{body}\n{foot}'''")
        assert found["text"] == f"KEY = '''{head}\nREDACTED\n{foot}'''"
        assert found["num_secrets"] == 1
        assert row(found["text"])["num_secrets"] == 0
        public = f"-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----"
        assert row(public)["text"] == public
        talk = f"The block between {head} and {foot} is base64."
        assert row(talk)["text"] == talk


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('password = "{}"', "h7!kQz_p9"),
        ("PASSWORD: '{}'", "Tr0ub4dor&3"),
        ('db_password="{}"', "qW3$rT8+nope!"),
        ('"client_secret": "{}"', "aB3dE5gH7jK9mN1pQ2sT"),
        ("api_key => '{}'", "9f86d081884c7d659a2feaa0c55ad015"),
        ('const apiKey = "{}";', "Zk83hDlq0Px72mVbNc51"),
        ('config["auth_token"] = "{}"', "Zk83hDlq0Px72mVbNc51"),
        ('var accessKey := "{}"', "Zk83hDlq0Px72mVbNc51"),
    ],
)
def test_assignments(line, value):
    found = row(line.format(value))
    assert found["num_secrets"] == 1
    assert value not in found["text"]
    assert len(found["text"]) == len(line.format(value))
    assert row(found["text"]) == found | {"num_secrets": 0, "num_pii": 0}


@pytest.mark.parametrize(
    "line",
    [
        'password = "password"',
        'password = "changeme1"',
        'password = "your-password-1"',
        'password = "test1234!"',
        'password = os.environ["DB_PASSWORD_1"]',
        'password = "${DB_PASSWORD1}"',
        'password = "{{ password1 }}"',
        'token = "access_token"',
        'token_url = "https://site.org/oauth2/token"',
        'secret = "AKIAIOSFODNN7EXAMPLE"',
        'key = "Zk83hDlq0Px72mVbNc51"',  # of a dictionary
        'primary_key = "Zk83hDlq0Px72mVbNc51"',
        'password_validators = ["django.contrib.auth.password_validation.MinimumLengthValidator1"]',
        'token == "Zk83hDlq0Px72mVbNc51x"',
        'message = "The password must have 8 letters and 1 digit!"',
        'tokenizer = "bert-base-uncased-v2"',
        'secret = ""',
        "the secret: 'It was the butler'",
        "sk-learn-compatible-estimators-of-several-kinds",
        "disk-encryption-with-a-very-long-name-of-40-signs",
        "AKIAIOSFODNN7EXAMPLE",
        "sha512-" + "Zk83hDlq0Px72mVbNc51" * 4,
    ],
)
def test_what_is_no_secret(line):
    assert row(line) == row("") | {"text": line}


@pytest.mark.parametrize(
    "line",
    [
        "AWS_SECRET={}",
        "AWS_SECRET_ACCESS_KEY={}",
        "export AWS_SECRET_ACCESS_KEY={}; ls",
        "[default]\naws_secret_access_key = {}\n",
        "AWS_SECRET: {}",
        "API_KEY={}",
    ],
)
def test_assignments_without_quotes(line):
    secret = "wJalrXUtnFEMI/K7MDENG/bPx" + "RfiCYzQ7w9KpLmN"
    found = row(line.format(secret))
    assert found["text"] == line.format("XXXXXXXXXXXXX/XXXXXXX/" + "X" * 18)
    assert found["num_secrets"] == 1
    assert row(found["text"])["num_secrets"] == 0
    for other in (
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "$(cat secret)",
        secret[:19],
        "getSecretFromTheStoreOfKeys",
    ):
        assert row(line.format(other))["num_secrets"] == 0


@pytest.mark.parametrize(
    "line",
    [
        "KEY=Zk83hDlq0Px72mVbNc51",
        "SECRET_FILE=Zk83hDlq0Px72mVbNc51",
        "secret = Zk83hDlq0Px72mVbNc51",  # in code, a name
        "SECRET=Zk83hDlq0Px72mVbNc51()",
        'password = "hunter2hunter2"',
    ],
)
def test_assignments_that_are_no_secret(line):
    assert row(line)["num_secrets"] == 0


def test_entropy_by_hand():
    assert entropy("") == 0.0
    assert entropy("aaaa") == 0.0
    assert entropy("abab") == 1.0
    assert entropy("abcdefgh") == 3.0
    assert entropy("aaab") == pytest.approx(0.811278, abs=1e-6)  # 3/4 log2(4/3) + 1/4 log2 4


def test_off_by_default():
    token = "gh" + "p_" + drawn(36)
    assert row(token, secrets="off")["text"] == token


@pytest.mark.parametrize(
    "text",
    [
        "key='" * 60_000,
        "-----BEGIN PRIVATE KEY-----" * 12_000,
        "eyJ" * 100_000,
        "sk-" * 100_000,
        "token=" * 50_000,
        '"a1!' * 80_000,
        "SECRET_" * 50_000,
    ],
)
def test_takes_linear_time(text):
    start = time.process_time()
    row(text)
    assert time.process_time() - start < 5


def test_real_code():
    """Released packages hold no live secret; what is found among 3,601 files are keys of test suites, or nothing."""
    path = DATA / "05_code" / "code.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"real input {path} is absent: set CURATE_DATA to the folder that holds 05_code")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    batch = pa.record_batch({"text": pa.array(texts, pa.large_string())})
    found = Pii(**OTHERS_OFF).apply(batch)["num_secrets"].to_pylist()
    print(f"secrets in {len(texts)} files of released packages: {sum(found)}")
    assert sum(found) <= 4
