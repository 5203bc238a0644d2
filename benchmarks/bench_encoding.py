"""Bytes to text: which encodings are found, beside resiliparse and charset-normalizer, and what decoding costs.

    python benchmarks/bench_encoding.py > benchmarks/results/encoding.md

Real bytes of `$CURATE_DATA`: the pages of 02_gold and 03_raw_html that are not UTF-8, as they are and with their labels cut
out; the texts of 07_unicode in their original encodings. Besides, gold texts of 02_gold by language, encoded as pages of
that language were. Right means: every character outside ASCII comes out as by the right codec. Writes Markdown.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from curate.extract.encoding import declared_charset, decode_html
from curate.text.decoding import codec_of, decode

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
# What pages of a language came in before UTF-8: windows and ISO code pages, EUC, Shift_JIS, GB, Big5, KOI8.
LEGACY = {
    "ar": "cp1256 iso8859-6",
    "bg": "cp1251",
    "ca": "cp1252",
    "cs": "cp1250 iso8859-2",
    "da": "cp1252",
    "de": "cp1252 iso8859-15",
    "el": "cp1253 iso8859-7",
    "en": "cp1252",
    "es": "cp1252",
    "fi": "cp1252",
    "fr": "cp1252 iso8859-15",
    "he": "cp1255",
    "hr": "cp1250 iso8859-2",
    "hu": "cp1250 iso8859-2",
    "it": "cp1252",
    "ja": "cp932 euc_jp iso2022_jp",
    "ko": "cp949",
    "lt": "cp1257",
    "nb": "cp1252",
    "nl": "cp1252",
    "no": "cp1252",
    "pl": "cp1250 iso8859-2",
    "pt": "cp1252",
    "pt-br": "cp1252",
    "ro": "cp1250 iso8859-2",
    "ru": "cp1251 koi8-r",
    "sk": "cp1250 iso8859-2",
    "sv": "cp1252",
    "th": "cp874",
    "tr": "cp1254",
    "uk": "cp1251 koi8-u",
    "vi": "",
    "zh": "gb18030",
    "zh-cn": "gb18030",
    "zh-tw": "big5hkscs",
}
WINDOWS = {"iso8859-1": "cp1252", "iso8859-2": "cp1250", "iso8859-9": "cp1254"}
LABEL = re.compile(rb"(?i)charset\s*=\s*[\"']?[\w-]+|encoding\s*=\s*[\"'][\w-]+[\"']")
# Pages without a label, by language: checked by eye.
UNLABELLED = {"zh": "gb18030", "de": "cp1252"}


@dataclass(frozen=True, slots=True)
class Sample:
    """Bytes and what they say.

    Attributes:
        name: Of the page or text.
        data: The bytes.
        text: What they are by the right codec.
    """

    name: str
    data: bytes
    text: str


def gold() -> Iterator[tuple[dict[str, Any], bytes]]:
    for folder in sorted(path for path in (DATA / "02_gold").iterdir() if path.is_dir()):
        for line in (folder / "gold.jsonl").read_bytes().split(b"\n"):
            if line:
                entry = json.loads(line)
                path = folder / entry["html"]
                yield entry, gzip.decompress((path if path.exists() else folder.parent / entry["html"]).read_bytes())


def raw_html() -> Iterator[tuple[str, bytes]]:
    from fastwarc import ArchiveIterator, WarcRecordType

    with (DATA / "03_raw_html" / "raw.warc.gz").open("rb") as file:
        for record in ArchiveIterator(file, record_types=WarcRecordType.response, parse_http=True):
            yield str(record.headers.get("WARC-Target-URI")), record.reader.read()


def is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def sample_of(name: str, data: bytes, language: str) -> Sample:
    """Return a page with its text by its own label, which was checked to be right, or by its language's codec."""
    label = declared_charset(data)
    codec = codec_of(label) if label else UNLABELLED[language]
    assert codec is not None
    return Sample(name, data, data.decode(codec, "replace"))


def pages() -> list[Sample]:
    found = [
        sample_of(str(entry["id"]), data, "zh" if entry["lang"] == "zh" else "de")
        for entry, data in gold()
        if not is_utf8(data)
    ]
    return found + [sample_of(name, data, "") for name, data in raw_html() if not is_utf8(data)]


def declarations() -> Iterator[Sample]:
    for line in (DATA / "07_unicode" / "encodings.jsonl").read_text("utf-8").split("\n")[:-1]:
        entry = json.loads(line)
        if entry["python_codec"] not in (None, "utf-8"):
            data = gzip.decompress((DATA / "07_unicode" / entry["file"]).read_bytes())
            codec = codecs.lookup(entry["python_codec"]).name
            text = data.decode(codec)
            if re.search("[\x80-\x9f]", text):  # controls there, letters in the Windows page
                text = data.decode(WINDOWS[codec], "c1_controls")
            yield Sample(entry["language_name"], data, text)


def encoded() -> Iterator[Sample]:
    """Gold texts with at least 20 characters outside ASCII, all but one in a hundred of which the codec has."""
    for entry, _ in gold():
        text = entry["text"]
        for codec in LEGACY.get(entry["lang"].lower(), "").split():
            data = text.encode(codec, "ignore")
            back = data.decode(codec)
            num_high, num_left = (len(re.sub("[\x00-\x7f]", "", one)) for one in (text, back))
            if num_left >= 20 and num_left >= 0.99 * num_high:
                yield Sample(f"{entry['lang']} {codec} {entry['id']}", data, back)


# ---- contestants


def by_us(data: bytes) -> str:
    return decode(data).text


def page_by_us(data: bytes) -> str:
    return decode_html(data).text


def by_resiliparse(data: bytes) -> str:
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    return str(bytes_to_str(data, detect_encoding(data), errors="replace"))


def page_by_resiliparse(data: bytes) -> str:
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    return str(bytes_to_str(data, detect_encoding(data, from_html_meta=True), errors="replace"))


def by_charset_normalizer(data: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(data).best()
    return "" if best is None else data.decode(best.encoding, "replace")


def outside_ascii(text: str) -> str:
    return re.sub("[\x00-\x7f\ufffd]", "", text)


def race(function: Callable[[bytes], str], samples: list[Sample]) -> tuple[list[str], float]:
    """Return the names of what comes out wrong, and CPU milliseconds a sample."""
    wrong = []
    start = time.process_time()
    results = [function(sample.data) for sample in samples]
    took = time.process_time() - start
    for sample, text in zip(samples, results, strict=True):
        if outside_ascii(text) != outside_ascii(sample.text):
            wrong.append(sample.name)
    return wrong, took / len(samples) * 1000


def main() -> None:
    labelled = pages()
    bare = [Sample(page.name, LABEL.sub(b"", page.data), page.text) for page in labelled]
    sets: list[tuple[str, list[Sample], Callable[[bytes], str], Callable[[bytes], str]]] = [
        ("pages as they are", labelled, page_by_us, page_by_resiliparse),
        ("pages without their labels", bare, page_by_us, by_resiliparse),
        ("declarations of human rights", list(declarations()), by_us, by_resiliparse),
        ("gold texts, encoded", list(encoded()), by_us, by_resiliparse),
    ]
    digest = hashlib.sha256()
    print("# Encodings\n\n`python benchmarks/bench_encoding.py`: decoded right, of how many; CPU milliseconds each.\n")
    print(
        "| bytes | number | KB | ours | resiliparse | charset-normalizer | ours, ms | resiliparse | charset-normalizer |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    missed = {}
    for name, samples, ours, theirs in sets:
        for sample in samples:
            digest.update(sample.data)
        scores = [race(function, samples) for function in (ours, theirs, by_charset_normalizer)]
        kilobytes = sum(len(sample.data) for sample in samples) / len(samples) / 1000
        right = " | ".join(f"{len(samples) - len(wrong)}" for wrong, _ in scores)
        times = " | ".join(f"{took:.2f}" for _, took in scores)
        print(f"| {name} | {len(samples)} | {kilobytes:.0f} | {right} | {times} |")
        missed[name] = scores[0][0]
    print("\nWrong by us:\n")
    for name, wrong in missed.items():
        print(f"- {name}: {', '.join(wrong) or 'none'}")
    utf8(digest)
    versions = ", ".join(f"{name} {version(name)}" for name in ("resiliparse", "charset-normalizer"))
    print(
        f"\nInput sha256 {digest.hexdigest()[:16]}; Python {platform.python_version()}, {versions}; one core,", end=" "
    )
    print(f"{platform.machine()}, {processor()}.")


def utf8(digest: Any) -> None:
    contents = [data for _, data in gold() if is_utf8(data)]
    for data in contents:
        digest.update(data)
    rounds = []
    for _ in range(3):
        times = []
        for function in (page_by_us, bytes.decode):
            start = time.process_time()
            for data in contents:
                function(data)
            times.append((time.process_time() - start) / len(contents) * 1000)
        rounds.append(times)
    ours, alone = (min(column) for column in zip(*rounds, strict=True))
    size = sum(map(len, contents)) / len(contents) / 1000
    print(f"\nA page that is UTF-8 ({len(contents)} of 02_gold, {size:.0f} KB in the mean): {ours:.4f} ms,", end=" ")
    print(f"of which `bytes.decode` alone is {alone:.4f} ms (best of three rounds).")


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


if __name__ == "__main__":
    main()
