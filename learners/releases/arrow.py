"""Arrow shards that come out the same, byte for byte, wherever and whenever they are written.

The schema is declared, its metadata empty; a record batch has `CHUNK` rows and a shard `SHARD` of them, but
for the last; a column is one run of memory with nothing between its values, nulls are zero, and nothing is
compressed. The files are Arrow streams: `datasets.Dataset.from_file` and `pyarrow.ipc.open_stream` read them.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.ipc

from learners.releases.manifest import File

CHUNK: Final = 256
SHARD: Final = 4096


def batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as a record batch: lists for lists, tuples for structs."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def joined(pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Pieces of batches as one batch, in memory of its own, as if its rows had been written at once."""
    schema = pieces[0].schema
    if len(pieces) == 1:
        pieces = [*pieces, pieces[0].slice(0, 0)]
    return pa.RecordBatch.from_arrays(
        [pa.concat_arrays([piece.column(i) for piece in pieces]) for i in range(len(schema))], schema=schema
    )


def by_shards(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows as batches of `SHARD`, but for the last."""
    pieces: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        while held + batch.num_rows >= SHARD:
            pieces.append(batch.slice(0, SHARD - held))
            yield joined(pieces)
            batch = batch.slice(SHARD - held)
            pieces, held = [], 0
        if batch.num_rows:
            pieces.append(batch)
            held += batch.num_rows
    if pieces:
        yield joined(pieces)


class Written:
    """A file being written: what went into it."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.rows = 0
        self.bytes = 0
        self._hash = sha256()
        self._file = path.open("wb")
        self._sink = pa.PythonFile(self, mode="w")
        self._writer = pa.ipc.new_stream(self._sink, schema, options=pa.ipc.IpcWriteOptions(allow_64bit=False))

    closed = False

    def write(self, data: Any) -> int:
        """What Arrow writes to."""
        self._hash.update(data)
        self._file.write(data)
        self.bytes += len(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def add(self, made: pa.RecordBatch) -> None:
        self._writer.write_batch(made)
        self.rows += made.num_rows

    def close(self) -> File:
        """End the file durably."""
        import os

        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return File(self._hash.hexdigest(), self.bytes, self.rows)


def batches(path: Path) -> Iterator[pa.RecordBatch]:
    """A file's batches, of memory that is mapped."""
    with pa.memory_map(str(path)) as source:
        yield from pa.ipc.open_stream(source)
