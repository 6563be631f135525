"""The blob store: large values by the digest of their bytes, `sha256:<64 hex>`.

A blob is durable when `put` returns, which is before the event that names it is sent. It is there
whole or not at all, is never changed, and is removed only by `gc`, which someone runs by hand.
"""

import io
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from core.errors import Corrupt, NotFound, UsageError
from eventlog.blobs.media_type import Sniffer

if TYPE_CHECKING:
    from core.vocabulary import BlobRef

CHUNK_BYTES = 1 << 20
MIN_AGE = timedelta(hours=1)

_ADDRESS = re.compile(r"sha256:([0-9a-f]{64})")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Source(Protocol):
    """Anything that bytes can be read from."""

    def read(self, size: int, /) -> bytes: ...


class Draft(Protocol):
    """A blob in the making, which leaves no trace unless kept."""

    def write(self, chunk: bytes) -> None: ...
    def keep(self, digest: str) -> None: ...
    def discard(self) -> None: ...


class Shelf(Protocol):
    """Where blobs lie: `Files` or `Objects`. Names are hex digests; times are seconds since 1970."""

    def where(self, digest: str) -> str: ...
    def draft(self) -> Draft: ...
    def renew(self, digest: str, size: int) -> bool: ...
    def keep_all(self, blobs: Mapping[str, bytes]) -> None: ...
    def size(self, digest: str) -> int | None: ...
    def open(self, digest: str) -> BinaryIO | None: ...
    def names(self) -> Iterator[tuple[str, int, float]]: ...
    def remove(self, digest: str, before: float) -> bool: ...
    def sweep(self, before: float) -> None: ...
    def close(self) -> None: ...


class Collected(NamedTuple):
    """What `gc` removed, or would remove: the addresses, and their bytes together."""

    addresses: list[str]
    size: int


class BlobStore:
    """Blobs in a local folder, or under an fsspec URL such as `s3://bucket/prefix`."""

    def __init__(self, place: str | Path) -> None:
        self._shelf = _shelf(place)

    def put(self, data: bytes, media_type: str | None = None) -> "BlobRef":
        """Store bytes. `media_type` is believed only as far as the bytes do not contradict it."""
        digest = sha256(data).hexdigest()
        if not self._shelf.renew(digest, len(data)):
            return self.put_stream(io.BytesIO(data), media_type)
        sniffer = Sniffer()
        sniffer.feed(data)
        return _reference(digest, len(data), sniffer.media_type(media_type))

    def put_all(self, blobs: Iterable[bytes]) -> list[str]:
        """Store many, which costs a disk far less than one by one. Returns their addresses, in order."""
        found = [(f"sha256:{sha256(data).hexdigest()}", data) for data in blobs]
        self.keep_all(dict(found))
        return [address for address, _ in found]

    def keep_all(self, blobs: Mapping[str, bytes]) -> None:
        """The same for bytes whose addresses the caller has made of them already."""
        if blobs:
            self._shelf.keep_all({_digest(address): data for address, data in blobs.items()})

    def put_stream(self, source: Source, media_type: str | None = None) -> "BlobRef":
        """Store all that `source` still holds, in constant memory."""
        digest, sniffer, size = sha256(), Sniffer(), 0
        draft = self._shelf.draft()
        try:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                sniffer.feed(chunk)
                draft.write(chunk)
                size += len(chunk)
            if not self._shelf.renew(digest.hexdigest(), size):
                draft.keep(digest.hexdigest())
        finally:
            draft.discard()
        return _reference(digest.hexdigest(), size, sniffer.media_type(media_type))

    def get(self, address: str) -> bytes:
        """The blob's bytes. Raises `NotFound`, or `Corrupt` if they are not those of the address."""
        digest = _digest(address)
        with self._source(digest) as file:
            data = file.read()
        if sha256(data).hexdigest() != digest:
            raise _corrupt(self._shelf.where(digest))
        return data

    def open(self, address: str) -> BinaryIO:
        """The blob as a stream that raises `Corrupt` at its end if the bytes were not those of the
        address. Raises `NotFound`."""
        digest = _digest(address)
        return io.BufferedReader(_Verified(self._source(digest), digest, self._shelf.where(digest)), CHUNK_BYTES)

    def has(self, address: str) -> bool:
        """Whether the blob is here; its bytes are not read."""
        return self._shelf.size(_digest(address)) is not None

    def check(self, address: str) -> None:
        """Read the whole blob; raises `NotFound` or `Corrupt`."""
        with self.open(address) as file:
            while file.read(CHUNK_BYTES):
                pass

    def addresses(self) -> Iterator[str]:
        """Every blob here, in the order of the addresses."""
        return (f"sha256:{name}" for name, _, _ in self._shelf.names() if _DIGEST.fullmatch(name))

    def gc(self, referenced: Iterable[str], older_than: timedelta = MIN_AGE, *, dry_run: bool = False) -> Collected:
        """Remove the blobs that are not `referenced` and were last stored longer ago than
        `older_than`. An event that names a blob may come that much later than the blob itself."""
        before = time.time() - older_than.total_seconds()
        wanted = {bytes.fromhex(_digest(address)) for address in referenced}
        collected, size = [], 0
        for name, bytes_, stored_at in self._shelf.names():
            if not _DIGEST.fullmatch(name) or stored_at >= before or bytes.fromhex(name) in wanted:
                continue
            if dry_run or self._shelf.remove(name, before):
                collected.append(f"sha256:{name}")
                size += bytes_
        if not dry_run:
            self._shelf.sweep(before)
        return Collected(collected, size)

    def close(self) -> None:
        """Let go of open files; the store stays usable."""
        self._shelf.close()

    def _source(self, digest: str) -> BinaryIO:
        source = self._shelf.open(digest)
        if source is None:
            raise NotFound("there is no such blob", where=self._shelf.where(digest))
        return source


class _Verified(io.RawIOBase):
    """Bytes that are digested as they go by."""

    def __init__(self, source: BinaryIO, digest: str, where: str) -> None:
        self._source = source
        self._expected = digest
        self._where = where
        self._digest = sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        chunk = self._source.read(len(buffer))
        if not chunk and self._digest.hexdigest() != self._expected:
            raise _corrupt(self._where)
        self._digest.update(chunk)
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self._source.close()
        super().close()


def _shelf(place: str | Path) -> Shelf:
    if isinstance(place, str) and "://" in place:
        if not place.startswith("file://"):
            from eventlog.blobs.objects import Objects

            return Objects(place)
        from urllib.parse import unquote, urlsplit

        place = unquote(urlsplit(place).path)
    from eventlog.blobs.files import Files

    return Files(Path(place).absolute())


def _digest(address: str) -> str:
    matched = _ADDRESS.fullmatch(address)
    if matched is None:
        raise UsageError(f"{address[:100]!r} is not a blob's address", mend="it looks like sha256:<64 hex digits>")
    return matched[1]


def _corrupt(where: str) -> Corrupt:
    return Corrupt(
        "the blob's bytes are not those its address names",
        where=where,
        mend="put it back from a copy, or remove it and import its source again",
    )


def _reference(digest: str, size: int, media_type: str) -> "BlobRef":
    from core.vocabulary import BlobRef

    return BlobRef(address=f"sha256:{digest}", size=size, media_type=media_type)
