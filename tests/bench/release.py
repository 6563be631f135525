"""Releases: the second after a few more events, the build against Arrow alone, memory at a million rows."""

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from eventlog.database import Connection
from eventlog.ledger import Ledger
from eventlog.projection import relation
from eventlog.projection.runner import catch_up
from learners.recipe import Recipe
from learners.releases import arrow, writing
from learners.releases.base import Nothing
from learners.releases.build import Built, build
from learners.releases.register import Spool
from learners.releases.sources import at, opened
from learners.rows import Facts, Key, Row
from learners.views import find, sft_row
from learners.views.folds import PROJECTIONS
from learners.views.reading import stream
from learners.views.sft_fold import SFT_FOLD
from tests.bench.harness import EVENTS_PER_EPISODE, episodes, fresh, row, seconds, server
from tests.bench.harness import Row as Result

EPISODES = 10_000
ROWS = 1_000_000
RECIPE = Recipe(dedup=[])
_REPEATS = 3
_EVENTS = f"""
SELECT stream, version, body FROM trajlog.event
WHERE stream IN (SELECT 'episode/' || episode FROM {relation(SFT_FOLD)})
"""


def run() -> list[Result]:
    found = []
    with server() as embedded, tempfile.TemporaryDirectory() as folder:
        url, _ = fresh(embedded, "releases")
        with Ledger(url) as log:
            found.append(_again(log, Path(folder) / "again"))
            found += _bare(log, Path(folder) / "bare")
    found.append(_memory())
    return found


def _again(log: Ledger, place: Path) -> Result:
    """The first release of a log that was just filled, its fold included, and the second after 1 % more."""
    for _ in log.append_all(episodes(EPISODES * EVENTS_PER_EPISODE)):
        pass
    log.seal()
    first = seconds(_build, log, place)
    more = EPISODES // 100
    for _ in log.append_all(
        islice(episodes((EPISODES + more) * EVENTS_PER_EPISODE), EPISODES * EVENTS_PER_EPISODE, None)
    ):
        pass
    log.seal()
    second = seconds(_build, log, place)
    return row("release again", [second], [first], "s")


def _nothing(address: str) -> bytes | None:
    return None


def _build(log: Ledger, place: Path) -> Built:
    return build(log, "sft", find("sft_row"), RECIPE, [at(log, None)], place, _nothing)


def _bare(log: Ledger, place: Path) -> list[Result]:
    """MB/s of rows into shards, from their events in the ledger; against the same rows, as Python holds them,
    made a table and written by Arrow alone, against the finished table written by Arrow alone, and against that
    with the events it is made of read by psycopg alone before it: the same shards to the byte, each made durable.
    `read/table`: that reading alone, which no build can be faster than."""
    place.mkdir()
    with log.reader.borrow() as connection:
        catch_up(log, connection, PROJECTIONS)
    view = find("sft_row")
    ours, rows_alone, table_alone, read_alone, both_alone = [], [], [], [], []
    for i in range(_REPEATS):
        folder = place / str(i)
        folder.mkdir()
        with opened([at(log, None)], view) as sources, tempfile.TemporaryFile() as file:
            made = writing.Writing(view, RECIPE, folder, Nothing(), _nothing, Spool(file))
            taken = seconds(made.run, sources)
        shards = sorted(folder.glob("data-*.arrow"))
        size = sum(shard.stat().st_size for shard in shards) / 1e6
        ours.append(size / taken)
        table = pa.Table.from_batches([batch for shard in shards for batch in arrow.batches(shard)])
        bare = folder / "bare"
        bare.mkdir()
        written = seconds(_write, table, bare)
        with log.reader.borrow() as connection:
            read = seconds(_read, connection)
        table_alone.append(size / written)
        read_alone.append(size / read)
        both_alone.append(size / (read + written))
        assert all((bare / shard.name).read_bytes() == shard.read_bytes() for shard in shards)
        rows = table.to_pylist()
        gc.collect()
        rows_alone.append(size / seconds(_write_rows, rows, table.schema, bare))
        del rows, table
    return [
        row("release build", ours, rows_alone, "MB/s"),
        row("release build/table", ours, table_alone, "MB/s"),
        row("release build/read+table", ours, both_alone, "MB/s"),
        row("release read/table", read_alone, table_alone, "MB/s"),
    ]


def _read(connection: Connection) -> None:
    """The passing episodes' events, a few thousand at a time."""
    for _ in stream(connection, _EVENTS):
        pass


def _write_rows(rows: list[dict[str, object]], schema: pa.Schema, folder: Path) -> None:
    _write(pa.Table.from_pylist(rows, schema=schema), folder)


def _write(table: pa.Table, folder: Path) -> None:
    for number, first in enumerate(range(0, table.num_rows, arrow.SHARD)):
        with (folder / f"data-{number:05}.arrow").open("wb") as file:
            with pa.ipc.new_stream(file, table.schema) as writer:
                for batch in table.slice(first, arrow.SHARD).to_batches(max_chunksize=arrow.CHUNK):
                    writer.write_batch(batch)
            file.flush()
            os.fsync(file.fileno())


def _memory() -> Result:
    """Peak memory, in MB, of writing a million rows, against a tenth of them."""
    peaks = [
        float(
            subprocess.run(
                [sys.executable, "-m", "tests.bench.release", str(n)], check=True, stdout=subprocess.PIPE
            ).stdout
        )
        for n in (ROWS, ROWS // 10)
    ]
    return row("release memory", [peaks[0]], [peaks[1]], "MB")


class _Many(sft_row.SftRow):
    """A view of made-up rows that are nowhere stored."""

    def __init__(self, count: int) -> None:
        self._count = count

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("task", pa.string(), False), pa.field("text", pa.string(), False)])

    def rows(self, connection: object, log_id: bytes, keys: object = None) -> Iterator[Row]:
        for i in range(self._count):
            stream = f"episode/{i:016x}"
            yield Row(Key(log_id, stream, 1, 0), (f"task-{i % 50}", "x" * 400), ((stream, (1,)),))

    def facts(self, connection: object, log_id: bytes) -> Iterator[Facts]:
        for i in range(self._count):
            stream = f"episode/{i:016x}"
            yield Facts(
                key=Key(log_id, stream, 1, 0),
                split="train",
                task=f"task-{i % 50}",
                source="live",
                origin="model",
                generation=0,
                policy="planner",
                environment=None,
                judged_by="machine",
                reward=1.0,
                steps=3,
                tokens=10,
                supervised=3,
                content=i.to_bytes(16, "big"),
                plan=(),
                parent=None,
                curated=None,
                goal=(stream, 1),
            )

    def left_out(self, connection: object) -> dict[str, int]:
        return {}


def peak(count: int) -> float:
    """MB of this process after writing so many rows, exact duplicates looked for."""
    from typing import Any

    from eventlog.versions.cut import Cut
    from learners.releases.sources import Open

    nowhere: Any = None
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as file:
        source = Open(nowhere, Cut(bytes(16), 1, bytes(32), None), nowhere)
        made = writing.Writing(_Many(count), Recipe(), Path(folder), Nothing(), _nothing, Spool(file))
        assert made.run([source]).total == count
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024  # ru_maxrss would be the parent's where that was larger


if __name__ == "__main__":
    print(peak(int(sys.argv[1])))
