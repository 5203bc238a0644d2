"""Remote files: listed, downloaded whole, or read in ranges. What breaks off goes on where it broke; nothing short passes.

Every answer of a server is held against what the listing said: length, ETag or time of the last change. A file that
changed in between is refused, never mixed. Where a server states a checksum of a whole file, the download is checked.

HTTP goes through the standard library, which hands over bytes as stored (RFC 9110: Range, If-Range, Content-Range;
RFC 9530 and RFC 3230: digests); everything else through fsspec.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import http.client
import io
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import IO, Any

from curate.errors import InputError

# Seconds before each further attempt, after attempts that brought nothing: about a minute in all.
WAITS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
LONGEST_WAIT = 60.0  # what a server's Retry-After may ask for
PROGRESS_BYTES = 1 << 20  # an attempt that brought this much is no failure
SECONDS = 60.0  # without a sign of life
CHUNK_BYTES = 1 << 18

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no fault of the network
_BUSY = {408, 425, 429, 500, 502, 503, 504}  # worth another attempt
_REMEDIES = {
    401: "It wants a login: download it yourself and name the local copy.",
    403: "It wants another login or address: download it yourself and name the local copy.",
    404: "Check the address.",
    410: "Check the address.",
}
_AGAIN = "Run again: what is finished stays."
_CHANGED_REMEDY = "Let its writer finish, then run again."


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote file as it was listed.

    Attributes:
        url: An fsspec URL.
        bytes: Its size; 0 if the server does not say.
        etag, modified: What HTTP said of the version, or "".
        digest: sha256 of URL, size and version.
    """

    url: str
    bytes: int
    etag: str
    modified: str
    digest: str

    @property
    def is_http(self) -> bool:
        """Return whether it is read by HTTP."""
        return self.url.startswith(("http://", "https://"))

    @property
    def has_version(self) -> bool:
        """Return whether another version can be told from this one while it is read: else pieces might be mixed."""
        return not self.is_http or bool(self.etag or self.modified)


class NotInRanges(Exception):  # noqa: N818 (no failure: it tells a reader's plan that the file is read whole)
    """The server gives no ranges of the file, or no version of it to go by, or more was read than `most` bytes."""


class _AttemptError(Exception):
    """An attempt that failed and may succeed next time."""

    def __init__(self, problem: str, wait: float = 0.0) -> None:
        super().__init__(problem, wait)


# -- listing --


def list_remote(path: str) -> list[tuple[str, Remote]]:
    """Return the files that a remote path or pattern means, each with its name behind the pattern's fixed prefix.

    Raises:
        InputError: If nothing is there, or the server cannot be asked.
    """
    import fsspec

    try:
        filesystem, location = fsspec.core.url_to_fs(path)
        prefix = location[: min((location.find(sign) for sign in "*[" if sign in location), default=len(location))]
        prefix = prefix[: prefix.rfind("/") + 1]
        if any(sign in path for sign in "*["):
            names = sorted(filesystem.glob(location))
        elif "http" not in filesystem.protocol and filesystem.info(location).get("type") == "directory":
            prefix = location.rstrip("/") + "/"
            names = sorted(filesystem.find(location))  # every file below it, as of a local folder
        else:
            names = [location]
        found = []
        for name in names:
            facts = filesystem.info(name)
            if facts.get("type") == "directory":
                continue
            url = filesystem.unstrip_protocol(name)
            found.append((name.removeprefix(prefix), _remote(url, int(facts.get("size") or 0), facts)))
    except ImportError as error:
        hub = "Install it with `pip install 'curate[huggingface]'`."
        remedy = hub if path.startswith("hf://") else "Install what it names."
        raise InputError(path, f"cannot be listed: {error}.", remedy) from error
    except Exception as error:
        problem = f"cannot be listed: {type(error).__name__}: {str(error).rstrip('.')}."
        raise InputError(path, problem, "Check the address and the network.") from error
    if not found:
        raise InputError(path, "no file matches.", "Check the address.")
    return found


# What file systems call the time of the last change, in the order in which one is believed.
_CHANGED = ("Last-Modified", "LastModified", "last_modified", "updated", "mtime", "generation", "created")
_CHECKSUMS = ("ETag", "etag", "Content-MD5", "content_md5", "md5Hash", "Digest", "sha", "blob_id", "checksum")


def _remote(url: str, size: int, facts: Mapping[str, Any]) -> Remote:
    """Return what tells this version of a remote file from another without reading it.

    That is its address, its size, and its ETag or another checksum; where the server gives none, when it was last
    changed. A server that tells neither can change a file unseen, as long as its size stays.
    """
    if not _version(facts) and url.startswith(("http://", "https://")):
        facts = _headers(url)
    text = f"{url}\n{size}\n{_version(facts)}"
    etag, modified = str(facts.get("ETag") or ""), str(facts.get("Last-Modified") or "")
    return Remote(url, size, etag, modified, hashlib.sha256(text.encode()).hexdigest())


def _version(facts: Mapping[str, Any]) -> str:
    """Return what a file's facts say of its version; one service writes the same ETag with quotation marks and without."""
    found = next((str(facts[name]) for name in (*_CHECKSUMS, *_CHANGED) if facts.get(name)), "")
    return _tag(found)


def _tag(etag: str) -> str:
    """Return an ETag in the form in which two are compared."""
    return etag.removeprefix("W/").strip('"')


def _headers(url: str) -> Mapping[str, str]:
    """Return the headers of an HTTP address, for file systems that keep none of them; empty if it does not answer."""
    request = urllib.request.Request(url, method="HEAD", headers={"Accept-Encoding": "identity"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return dict(answer.headers.items())
    except (OSError, ValueError):
        return {}


# -- one answer --


@dataclass(slots=True)
class _Answer:
    """Bytes on their way.

    Attributes:
        body: Gives them.
        first: Where they begin in the file; 0 if the server ignored the range.
        partial: Whether the server gives ranges.
        total: Size of the file as this answer states it, or None.
        claims: Checksums of the whole file by their hashlib names.
    """

    body: IO[bytes]
    first: int
    partial: bool
    total: int | None
    claims: dict[str, bytes]


def _changed(remote: Remote, what: str) -> InputError:
    return InputError(remote.url, f"it changed since it was listed: {what}.", _CHANGED_REMEDY)


@contextmanager
def _answer(remote: Remote, first: int, last: int | None) -> Iterator[_Answer]:
    """Ask for the bytes [first, last) of a file, or all from `first` on."""
    if not remote.is_http:
        with _from_file_system(remote, first) as answer:
            yield answer
        return
    headers = {"Accept-Encoding": "identity", "User-Agent": "curate"}
    if first or last is not None:
        headers["Range"] = f"bytes={first}-{'' if last is None else last - 1}"
        if remote.etag and not remote.etag.startswith("W/"):
            headers["If-Range"] = remote.etag  # a weak one may not be used here (RFC 9110, 13.1.5)
    try:
        response = urllib.request.urlopen(urllib.request.Request(remote.url, headers=headers), timeout=SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:
                raise _changed(remote, f"its server says that there is no byte {first}") from error
            problem = f"HTTP status {error.code} {error.reason}".rstrip(". ")
            if error.code in _BUSY:
                raise _AttemptError(problem, _wait_asked_for(error.headers)) from error
            remedy = _REMEDIES.get(error.code, "Check the address and what its server allows.")
            raise InputError(remote.url, f"cannot be downloaded: {problem}.", remedy) from error
    with response:
        yield _checked(remote, response, first)


def _wait_asked_for(headers: Message) -> float:
    value = headers.get("Retry-After", "")
    return min(float(value), LONGEST_WAIT) if value.isascii() and value.isdigit() else 0.0


def _checked(remote: Remote, response: http.client.HTTPResponse, first: int) -> _Answer:
    """Hold an answer's headers against the listing.

    Raises:
        InputError: If it is another version of the file.
        _AttemptError: If the length is another than the listing's.
    """
    headers = response.headers
    etag, modified = headers.get("ETag", ""), headers.get("Last-Modified", "")
    if remote.etag and etag and _tag(remote.etag) != _tag(etag):
        raise _changed(remote, f"its ETag was {remote.etag} and is {etag}")
    if remote.modified and modified and remote.modified != modified:
        raise _changed(remote, f"its last change was {remote.modified} and is {modified}")
    if response.status == 206:
        place = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", ""))
        if place is None or int(place[1]) != first:
            raise _AttemptError(
                f"bytes from {first} on were asked for, the answer says '{headers.get('Content-Range', '')}'"
            )
        if not etag and not modified and (not remote.etag or remote.etag.startswith("W/")):
            raise _AttemptError("the answer does not say which version of the file it is of")
        total = None if place[2] == "*" else int(place[2])
        begins = first
    else:
        begins, total = 0, response.length  # None if chunked, or if the end of the connection is the end of the file
        if total is None and headers.get("Transfer-Encoding", "").lower() != "chunked" and not remote.bytes:
            raise InputError(
                remote.url,
                "its server states no length, so that a cut download could not be told from a whole one.",
                "Download it yourself and name the local copy.",
            )
    if remote.bytes and total is not None and total != remote.bytes:
        coded = headers.get("Content-Encoding", "identity")
        how = "" if coded == "identity" else f", {coded}-coded,"
        raise _AttemptError(f"the server sends {total} bytes{how} where its listing says {remote.bytes}")
    partial = response.status == 206
    return _Answer(response, begins, partial, total, {} if partial else _claims(headers))


_HASHES = {"md5": "md5", "sha": "sha1", "sha-1": "sha1", "sha-256": "sha256", "sha-512": "sha512"}


def _claims(headers: Message) -> dict[str, bytes]:
    """Return the checksums of the whole body that an answer states, by their hashlib names.

    `Digest` (RFC 3230), `Repr-Digest` and `Content-Digest` (RFC 9530), `Content-MD5` (RFC 1864), `x-goog-hash`,
    `x-amz-checksum-*` (not those of several parts, which end in their number). Kinds unknown here are passed over.
    """
    stated = [("md5", headers.get("Content-MD5", ""))]
    for name in ("Digest", "Repr-Digest", "Content-Digest", "x-goog-hash"):
        for value in headers.get_all(name, []):
            stated += [(kind.strip(), text) for kind, _, text in (item.partition("=") for item in value.split(","))]
    stated += [(kind, headers.get(f"x-amz-checksum-{kind.replace('-', '')}", "")) for kind in ("sha-1", "sha-256")]
    claims = {}
    for kind, text in stated:
        name = _HASHES.get(kind.lower(), "")
        with suppress(binascii.Error, ValueError):
            digest = base64.b64decode(text.strip().strip(":"), validate=True)
            if name and len(digest) == _hash(name).digest_size:
                claims[name] = digest
    return claims


def _hash(name: str) -> Any:
    return hashlib.new(name, usedforsecurity=False)


@contextmanager
def _from_file_system(remote: Remote, first: int) -> Iterator[_Answer]:
    import fsspec

    filesystem, location = fsspec.core.url_to_fs(remote.url)
    filesystem.invalidate_cache()
    facts = filesystem.info(location)
    if _remote(remote.url, int(facts.get("size") or 0), facts).digest != remote.digest:
        raise _changed(remote, "its size or version is another")
    with filesystem.open(location, "rb") as body:
        body.seek(first)
        yield _Answer(body, first, True, remote.bytes or None, {})


# -- transfer --


def download(remote: Remote, target: Path, waits: tuple[float, ...] = WAITS) -> None:
    """Download a file whole; go on from where it broke off, where the server allows it.

    Args:
        remote: The file.
        target: Where it goes.
        waits: Seconds before each further attempt; an attempt that brings `PROGRESS_BYTES` begins them anew.

    Raises:
        InputError: If it does not arrive whole and right, or has changed.
    """
    with target.open("wb") as local:
        _persist(remote, _Whole(remote, local), waits)


class _Whole:
    """A download of a whole file, as far as it has come."""

    def __init__(self, remote: Remote, local: IO[bytes]) -> None:
        self._remote = remote
        self._local = local
        self._claims: dict[str, bytes] = {}
        self._sums: dict[str, Any] = {}
        self.place = 0

    def attempt(self) -> None:
        """Go on until the file is whole, or raise."""
        if not self._remote.has_version:
            self.place = 0
        with _answer(self._remote, self.place, None) as answer:
            if answer.first == 0:  # the first attempt, or the server gives no ranges
                self.place, self._claims = 0, answer.claims
                self._sums = {name: _hash(name) for name in answer.claims}
                self._local.seek(0)
                self._local.truncate()
            end = self._remote.bytes or answer.total
            while data := answer.body.read(CHUNK_BYTES):
                self._local.write(data)
                for one in self._sums.values():
                    one.update(data)
                self.place += len(data)
        if end is not None and self.place != end:
            place, self.place = self.place, self.place if self.place < end else 0
            raise _AttemptError(f"{place} of {end} bytes arrived")
        for name, claim in self._claims.items():
            if (found := self._sums[name]).digest() != claim:
                self.place = 0
                raise _AttemptError(f"its {name} is {found.hexdigest()}, its server states {claim.hex()}")


class _Range:
    """The transfer of the bytes [place, last) of a file to the same place of a sparse local one."""

    def __init__(self, remote: Remote, local: IO[bytes], first: int, last: int) -> None:
        self._remote = remote
        self._local = local
        self._first = first
        self._last = last
        self.place = first

    def attempt(self) -> None:
        """Go on until the range is whole, or raise."""
        if not self._remote.has_version:
            raise NotInRanges(self._remote.url)
        with _answer(self._remote, self.place, self._last) as answer:
            if not answer.partial:
                raise NotInRanges(self._remote.url)
            self._local.seek(self.place)
            while data := answer.body.read(min(CHUNK_BYTES, self._last - self.place)):
                self._local.write(data)
                self.place += len(data)
        if self.place < self._last:
            arrived, size = self.place - self._first, self._last - self._first
            raise _AttemptError(f"{arrived} of {size} bytes from byte {self._first} on arrived")


def _persist(remote: Remote, transfer: _Whole | _Range, waits: tuple[float, ...]) -> None:
    """Attempt a transfer until it is through, or brought nothing for too often.

    Raises:
        InputError: Then; it says what the last attempt met.
    """
    best, failures = transfer.place, 0
    while True:
        try:
            transfer.attempt()
        except (InputError, NotInRanges, MemoryError):
            raise
        except Exception as error:  # each file system has its own kinds
            if isinstance(error, OSError) and error.errno in _FULL:
                raise
            ours = isinstance(error, _AttemptError)
            if transfer.place >= best + PROGRESS_BYTES:
                best, failures = transfer.place, 0
            if failures == len(waits):
                problem = str(error.args[0] if ours else f"{type(error).__name__}: {error}").rstrip(". ")
                raise InputError(
                    remote.url, f"cannot be downloaded, after {failures + 1} attempts: {problem}.", _AGAIN
                ) from error
            time.sleep(max(waits[failures], error.args[1] if ours else 0.0))
            failures += 1
        else:
            return


# -- ranges --

BLOCK_BYTES = 64 << 10
AHEAD_BYTES = (256 << 10, 16 << 20)  # fetched at once: at first, and at most while reading goes straight on


class RangeReader(io.RawIOBase):
    """A remote file of which only what is read is fetched; kept in a sparse local file, so nothing is fetched twice.

    Args:
        remote: The file; its size must be known.
        scratch: Where the local file goes. Removing it is the caller's.
        until: Where reading is expected to end: up to there it is fetched ahead.
        most: Bytes that may be fetched in all, or None.
        waits: As in `download`.

    Reading raises InputError as `download` does, and NotInRanges.
    """

    def __init__(
        self, remote: Remote, scratch: Path, until: int, most: int | None = None, waits: tuple[float, ...] = WAITS
    ) -> None:
        self._remote = remote
        self._local = scratch.open("w+b")
        self._until = until
        self._most = most
        self._waits = waits
        self._here = bytearray(-(-remote.bytes // BLOCK_BYTES))  # a flag for each block
        self._place = 0
        self._next = -1  # block behind the one fetched last
        self._ahead = AHEAD_BYTES[0]
        self.fetched = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position; nothing is fetched."""
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._remote.bytes}[whence]
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, but for the file's end."""
        size = min(len(buffer), self._remote.bytes - self._place)
        if size <= 0:
            return 0
        self._ensure(self._place, self._place + size)
        self._local.seek(self._place)
        self._place += size
        data = self._local.read(size)
        assert len(data) == size, "the local copy lacks what was fetched"
        buffer[:size] = data
        return size

    def close(self) -> None:
        """Close the local file."""
        self._local.close()
        super().close()

    def _ensure(self, first: int, last: int) -> None:
        """Fetch those blocks of [first, last) that are not here."""
        block, wanted = first // BLOCK_BYTES, -(-last // BLOCK_BYTES)
        while (block := self._here.find(0, block, wanted)) >= 0:
            expected = block * BLOCK_BYTES < self._until
            goes_on = expected and block == self._next
            self._ahead = min(2 * self._ahead, AHEAD_BYTES[1]) if goes_on else AHEAD_BYTES[0]
            goal = block + self._ahead // BLOCK_BYTES
            if expected:
                goal = min(goal, -(-self._until // BLOCK_BYTES))
            present = self._here.find(1, block)
            end = min(max(goal, wanted), present if present >= 0 else len(self._here))
            begin, finish = block * BLOCK_BYTES, min(end * BLOCK_BYTES, self._remote.bytes)
            self.fetched += finish - begin
            if self._most is not None and self.fetched > self._most:
                raise NotInRanges(self._remote.url)
            _persist(self._remote, _Range(self._remote, self._local, begin, finish), self._waits)
            self._here[block:end] = b"\1" * (end - block)
            self._next = block = end
