"""`rows.arrow`: every row's key and digest in canonical order, and how it was made."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from learners.releases import arrow
from learners.releases.manifest import File
from learners.rows import Key

SCHEMA: Final = pa.schema(
    [
        pa.field("log", pa.int32(), False),
        pa.field("stream", pa.string(), False),
        pa.field("version", pa.int64(), False),
        pa.field("row", pa.int64(), False),
        pa.field("reference", pa.binary(16), False),
        pa.field("digest", pa.binary(32), False),
        pa.field("plain", pa.bool_(), False),
    ]
)


class Entry(NamedTuple):
    """A row of a release: `reference` is of the view's values, None where only the log is known to hold it;
    `plain` as in `chat.Told`. `sources` are its streams where they are not its own, as the log has them."""

    key: Key
    digest: bytes
    reference: bytes | None = None
    plain: bool = False
    sources: tuple[str, ...] | None = None


def entries(path: Path, logs: list[bytes]) -> Iterator[Entry]:
    """The file's rows; `logs` are the ids behind its numbers."""
    for batch in arrow.batches(path):
        columns = [column.to_pylist() for column in batch.columns]
        for log, stream, version, row, reference, digest, plain in zip(*columns, strict=True):
            yield Entry(Key(logs[log], stream, version, row), digest, reference, plain)


class Writer:
    """Writes the file."""

    def __init__(self, path: Path) -> None:
        self._file = arrow.Written(path, SCHEMA)
        self._rows: list[tuple[object, ...]] = []

    def add(self, log: int, entry: Entry) -> None:
        _, stream, version, row = entry.key
        self._rows.append((log, stream, version, row, entry.reference, entry.digest, entry.plain))
        if len(self._rows) == arrow.SHARD:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._file.add(arrow.batch(self._rows, SCHEMA))
            self._rows = []

    def close(self) -> File:
        self._flush()
        return self._file.close()
