"""What waits to be committed: of each partition a stretch of its records, packed as they come."""

import time
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from core.digest import fields
from eventlog.kafka.client import Record
from eventlog.pack import Packed, Packer
from eventlog.persister.decode import Fault, take

if TYPE_CHECKING:
    from eventlog.native import Shortcut

LABEL = b"trajlog/record/1\0"
_RECORD_COST = 200


def record_digest(record: Record) -> bytes:
    """SHA-256 (32 bytes) of a record as Kafka keeps it. Tags: 1 key, 2 value, then 3 name and 4 value of
    each header in turn."""
    tagged: list[tuple[int, bytes | None]] = [(1, record.key), (2, record.value)]
    for name, value in record.headers:
        tagged += [(3, name.encode(errors="surrogatepass")), (4, value)]
    return sha256(LABEL + fields(tagged)).digest()


@cache
def shortcut(partitions: int) -> "Shortcut | None":
    """The compiled way for what our own writers send; None where it was not compiled."""
    try:
        from eventlog.native import Shortcut
    except ImportError:
        return None
    return Shortcut(partitions)


class Part:
    """A stretch of one partition, from offset `expected` up to but without `next_offset`.

    Offsets have holes: they ascend, by one or more. `records` are those of the packed events, in
    order; `faults` are the others.
    """

    def __init__(self, partition: int, epoch: int, expected: int, partitions: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.expected = self.next_offset = expected
        self.partitions = partitions
        self.last: Record | None = None
        self.records: list[Record] = []
        self.faults: list[tuple[Record, Fault]] = []
        self.size = 0
        self._packer = Packer()
        self._packed: Packed | None = None

    def __len__(self) -> int:
        return len(self.records) + len(self.faults)

    def add(self, records: list[Record]) -> None:
        """Take the records that lie at or after `next_offset`; earlier ones are there already."""
        packer, partitions, at = self._packer, self.partitions, 0
        quick = shortcut(partitions)
        while at < len(records):
            if quick is not None:
                first = at
                at, size = quick.take(records, at, self.next_offset, packer)
                if at > first:
                    self.records += records[first:at]
                    self._reached(records[at - 1], size + (at - first) * _RECORD_COST)
                    continue
            record = records[at]
            at += 1
            if record.offset < self.next_offset:
                continue
            fault = take(record, packer, partitions)
            if fault is None:
                self.records.append(record)
            else:
                self.faults.append((record, fault))
            self._reached(record, _RECORD_COST + len(record.value or b""))

    def _reached(self, last: Record, size: int) -> None:
        self.last, self.next_offset = last, last.offset + 1
        self.size += size

    @property
    def packed(self) -> Packed:
        """The events; nothing can be added any more."""
        if self._packed is None:
            self._packed = self._packer.packed()
        return self._packed

    @property
    def all(self) -> list[Record]:
        """Every record, in order."""
        return sorted([*self.records, *(record for record, _ in self.faults)], key=lambda record: record.offset)

    def halves(self) -> "tuple[Part, Part]":
        """The same records in two parts."""
        records = self.all
        middle = len(records) // 2
        first = Part(self.partition, self.epoch, self.expected, self.partitions)
        first.add(records[:middle])
        second = Part(self.partition, self.epoch, first.next_offset, self.partitions)
        second.add(records[middle:])
        second.next_offset = self.next_offset
        return first, second

    def without_events(self, fault: Fault) -> "Part":
        """The same records, none of them an event, for this fault."""
        part = Part(self.partition, self.epoch, self.expected, self.partitions)
        part.faults = [
            (record, fault._replace(event_id=event_id, stream=stream))
            for record, event_id, stream in zip(self.records, self.packed.ids, self.packed.streams, strict=True)
        ] + self.faults
        part.next_offset, part.last = self.next_offset, self.last
        return part


class Batch:
    """The parts of a transaction, in the making: how many records and bytes, and since when."""

    def __init__(self) -> None:
        self.parts: dict[int, Part] = {}
        self.count = 0
        self.size = 0
        self.since = 0.0

    def add(self, part: Part, records: list[Record]) -> None:
        """Add records of a partition; `part` is the one to begin if the batch has none of it."""
        part = self.parts.setdefault(part.partition, part)
        count, size = len(part), part.size
        part.add(records)
        if not self.count:
            self.since = time.monotonic()
        self.count += len(part) - count
        self.size += part.size - size

    def drop(self, partition: int) -> None:
        """Forget what a partition gave."""
        part = self.parts.pop(partition, None)
        if part is not None:
            self.count -= len(part)
            self.size -= part.size

    def ordered(self) -> list[Part]:
        """The parts in order of partition, as cursors are locked."""
        return [self.parts[partition] for partition in sorted(self.parts) if len(self.parts[partition])]
