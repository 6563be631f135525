"""Helps to look at what importers make of records written in tests."""

import json
import zlib
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from core.event import StoredEvent
from core.vocabulary import BlobRef, Payload, payload
from eventlog.blobs import BlobStore
from eventlog.blobs.media_type import sniff
from eventlog.inmemory import InMemoryLog
from eventlog.interchange import Context, EpisodeDraft, Importer, Record, Source
from eventlog.interchange.importer import Report, run

REAL = Path(__file__).parents[4] / "shared/data"


def keep(data: bytes) -> BlobRef:
    """A reference to bytes that are not stored."""
    return BlobRef(f"sha256:{sha256(data).hexdigest()}", len(data), sniff(data))


def drafts(importer: Importer, value: Any) -> list[EpisodeDraft]:
    """What the importer makes of a record."""
    data = json.dumps(value).encode()
    shown = value if isinstance(value, dict) else {"messages": value}
    return list(importer.episodes(Record("r", data, shown, len(data)), Context("r", "train", keep)))


def draft(importer: Importer, value: Any) -> EpisodeDraft:
    """The one episode in a record."""
    (made,) = drafts(importer, value)
    return made


def told(made: EpisodeDraft) -> list[dict[str, Any]]:
    """The episode's events as plain JSON, each with its `type`."""
    return [_told(event.payload) for event in made.events]


def _told(said: Payload) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(msgspec.json.encode(said))
    return {"type": type(said).__name__} | fields


def of(made: EpisodeDraft, *types: str) -> list[dict[str, Any]]:
    """Those of its events that are of these types."""
    return [event for event in told(made) if event["type"] in types]


def real(importer: Importer, path: Path) -> Iterator[EpisodeDraft]:
    """What the importer makes of a real file."""
    source = Source(path.name, path)
    with source.open() as reader:
        for record in importer.records(source, reader):
            assert isinstance(record, Record), record
            yield from importer.episodes(record, Context(record.where, "train", keep))


class Imports:
    """A log in memory, and imports into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = InMemoryLog()
        self.blobs = BlobStore(folder / "blobs")

    def take(self, data: bytes | str | list[Any] | dict[str, Any], name: str = "a.json", **options: Any) -> Report:
        """Import a file that holds this: bytes, text, or a value as JSON."""
        if isinstance(data, list | dict):
            data = json.dumps(data)
        path = self.folder / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return self.take_file(path, **options)

    def take_file(self, path: Path, **options: Any) -> Report:
        return run(self.log, [Source(path.name, path)], self.blobs, **options)

    def events(self) -> list[StoredEvent]:
        return [event for event in self.log.read_all() if event.stream.startswith("episode/")]

    def payloads(self) -> list[Any]:
        return [payload(event) for event in self.events()]


def lines(*records: Any) -> str:
    """Records as JSON lines; a text stands as it is."""
    return "".join((record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records)


def png(width: int = 2, height: int = 3, shade: int = 0) -> bytes:
    """A small grey image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    head = width.to_bytes(4) + height.to_bytes(4) + bytes([8, 0, 0, 0, 0])
    rows = zlib.compress((b"\0" + bytes([shade]) * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{b64encode(data).decode()}"
