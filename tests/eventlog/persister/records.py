"""Records made up for tests that need no broker."""

from collections.abc import Sequence

from core.codec import encode
from core.event import Event
from eventlog.kafka.client import Record
from eventlog.kafka.partitioner import partition_of


def record_of(event: Event, offset: int = 0, *, partitions: int = 1) -> Record:
    """The record that a producer makes of an event."""
    key = event.stream.encode()
    return Record(partition_of(key, partitions), offset, key, encode(event))


def records_of(events: Sequence[Event], first: int = 0, step: int = 1) -> list[Record]:
    """Records of one partition, at offsets `first`, `first + step`, …"""
    return [record_of(event, first + step * i) for i, event in enumerate(events)]
