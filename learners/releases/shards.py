"""The shards being written."""

from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pyarrow as pa

from learners.releases import arrow
from learners.releases.base import Base
from learners.releases.manifest import File


class Shards:
    """Rows made anew, and rows taken from the release before, in the order that they are given. `writer` writes
    a batch while the next is made."""

    def __init__(self, folder: Path, schema: pa.Schema, base: Base, writer: Executor) -> None:
        self._folder = folder
        self._schema = schema
        self._base = base
        self._writer = writer
        self._doing: Future[None] | None = None
        self._files: dict[str, File] = {}
        self._file: arrow.Written | None = None
        self._pieces: list[pa.RecordBatch] = []
        self._rows: list[tuple[Any, ...]] = []
        self._taken: tuple[int, int, int] | None = None
        self._count = 0

    def add(self, row: tuple[Any, ...]) -> None:
        """A row made anew."""
        self._take()
        self._rows.append(row)
        self._counted()

    def take(self, log: int, place: int) -> None:
        """The row at a place of the release before."""
        self._make()
        if self._taken is not None and self._taken[0] == log and sum(self._taken[1:]) == place:
            self._taken = (log, self._taken[1], self._taken[2] + 1)
        else:
            self._take()
            self._taken = (log, place, 1)
        self._counted()

    def close(self) -> dict[str, File]:
        self._flush()
        self._meanwhile(None)
        self._end()
        return self._files

    def _counted(self) -> None:
        self._count += 1
        if self._count == arrow.CHUNK:
            self._flush()

    def _make(self) -> None:
        if self._rows:
            self._pieces.append(arrow.batch(self._rows, self._schema))
            self._rows = []

    def _take(self) -> None:
        if self._taken is not None:
            log, place, count = self._taken
            for piece in self._base.piece(place, count):
                numbers = pa.array([log] * piece.num_rows, pa.int32())
                arrays = [numbers, *piece.columns[1:]]
                self._pieces.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
            self._taken = None

    def _flush(self) -> None:
        self._take()
        self._make()
        if self._pieces:
            self._meanwhile(self._pieces)
        self._pieces = []
        self._count = 0

    def _meanwhile(self, pieces: list[pa.RecordBatch] | None) -> None:
        """Have these written, once the last ones are."""
        if self._doing is not None:
            self._doing.result()
        self._doing = None if pieces is None else self._writer.submit(self._write, pieces)

    def _write(self, pieces: list[pa.RecordBatch]) -> None:
        if self._file is None:
            self._file = arrow.Written(self._folder / f"data-{len(self._files):05}.arrow", self._schema)
        self._file.add(arrow.joined(pieces))
        if self._file.rows == arrow.SHARD:
            self._end()

    def _end(self) -> None:
        if self._file is not None:
            self._files[self._file.path.name] = self._file.close()
            self._file = None
