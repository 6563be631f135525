"""Unpacking what kafka-python fetched, in about a third of its own time per record.

Its consumer, membership and fetching stay as they are; only the inner loop, from the bytes of a batch
to records, is this one, and gives our `Record`. Where the library no longer looks as expected, its own
loop is used. The contract (`testing`) holds for both.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.protocol.consumer import IsolationLevel
from kafka.record.default_records import DefaultRecordBatch

from eventlog.kafka.client import Record

_EXPECTED = ("_consume_aborted_transactions_up_to", "_contains_abort_marker", "_is_batch_aborted", "_unpack_records")


def install(consumer: Any) -> bool:
    """Make a `KafkaConsumer` unpack so; False, and nothing done, if it cannot."""
    fetcher = getattr(consumer, "_fetcher", None)
    own = getattr(fetcher, "PartitionRecords", None)
    if fetcher is None or own is None or not all(hasattr(own, name) for name in _EXPECTED):
        return False
    if not hasattr(DefaultRecordBatch, "_maybe_uncompress"):
        return False
    fetcher.PartitionRecords = _Lean
    return True


class _Lean(Fetcher.PartitionRecords):  # type: ignore[misc]
    """The records of one partition in one answer of the broker."""

    def _unpack_records(self, place: Any, records: Any, *deserializers: Any) -> Iterator[Record]:
        while (batch := records.next_batch()) is not None:
            if batch.magic != 2:
                raise CorruptRecordError(f"batch at offset {batch.base_offset} is of a format from before Kafka 0.11")
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"batch at offset {batch.base_offset} fails its checksum")
            self.leader_epoch = batch.leader_epoch
            if not self._leaves_a_hole(batch):
                for record in decode(batch, place.partition):
                    self.next_fetch_offset = record.offset + 1
                    yield record
                self.bytes_read += batch.size_in_bytes
                self.records_read += batch.records_count
            self.next_fetch_offset = batch.next_offset
        self.drain()

    def _leaves_a_hole(self, batch: Any) -> bool:
        """Whether it is of an aborted transaction, or a transaction's marker."""
        if self.isolation_level == IsolationLevel.READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return True
        return bool(batch.is_control_batch)


def decode(batch: Any, partition: int) -> list[Record]:
    """The records of a batch of format 2 (KIP-98). `CorruptRecordError`."""
    batch._maybe_uncompress()
    data, at, base = bytes(batch._buffer), batch._pos, batch.base_offset
    if (quick := compiled()) and (whole := quick(data, at, batch.records_count, base, partition)) is not None:
        return whole
    found = []
    try:
        for _ in range(batch.records_count):
            length, at = _varint(data, at)
            end = at + length
            at += 1  # attributes
            while data[at] & 0x80:  # timestamp
                at += 1
            at += 1
            # The rest is `_varint` written out: small numbers take one or two bytes.
            delta = data[at]
            at += 1
            if delta & 0x80:
                delta, at = _more(data, at, delta)
            size = data[at]
            at += 1
            if size & 0x80:
                size, at = _more(data, at, size)
            key = None
            if not size & 1:
                size >>= 1
                key = data[at : at + size]
                at += size
            size = data[at]
            at += 1
            if size & 0x80:
                size, at = _more(data, at, size)
            value = None
            if not size & 1:
                size >>= 1
                value = data[at : at + size]
                at += size
            if data[at]:
                headers, at = _headers(data, at)
                found.append(Record(partition, base + (delta >> 1), key, value, headers))
            else:
                at += 1
                found.append(Record(partition, base + (delta >> 1), key, value))
            if at != end:
                raise CorruptRecordError(f"record at offset {base + (delta >> 1)} is not as long as it says")
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptRecordError(f"batch at offset {base} cannot be read: {error}") from None
    if at != len(data):
        raise CorruptRecordError(f"batch at offset {base} has {len(data) - at} bytes too many")
    return found


@cache
def compiled() -> "Callable[[bytes, int, int, int, int], list[Record] | None] | None":
    """The same compiled, for a batch with nothing special in it; None where it was not compiled."""
    try:
        from eventlog.native import unpack
    except ImportError:
        return None
    return unpack


def _headers(data: bytes, at: int) -> tuple[tuple[tuple[str, bytes], ...], int]:
    count, at = _varint(data, at)
    found = []
    for _ in range(count):
        size, at = _varint(data, at)
        name, at = data[at : at + size].decode(), at + size
        size, at = _varint(data, at)
        found.append((name, data[at : at + size] if size >= 0 else b""))
        at += max(size, 0)
    return tuple(found), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number, and where the next thing begins."""
    number = data[at]
    at += 1
    if number & 0x80:
        number, at = _more(data, at, number)
    return (number >> 1) ^ -(number & 1), at


def _more(data: bytes, at: int, first: int) -> tuple[int, int]:
    """The rest of a number of several bytes, zigzag and all, as one."""
    number, shift = first & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
