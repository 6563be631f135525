"""What a worker asks and tells the broker beside reading in its group. Both clients do it with kafka-python."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError

from core.errors import Unavailable
from eventlog.kafka import mends, options
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.admin import KafkaAdmin
from eventlog.kafka.client import Bounds, Headers, OutOfRange, Record, Topic
from eventlog.kafka.faults import reach, translate

OURS: dict[str, Any] = {
    "allow_auto_create_topics": False,
    "auto_offset_reset": "none",
    "enable_auto_commit": False,
    "isolation_level": "read_committed",
    "metrics_enabled": False,
}
CLOSE_MS = 3_000


class BesideGroup:
    """Two connections: one for questions, one, made when it is needed, that re-reads records."""

    def __init__(self, address: KafkaAddress, given: Mapping[str, Any], group: str) -> None:
        self._address, self._given, self._group = address, given, group
        self._admin = KafkaAdmin(address, given)
        self._reader: KafkaConsumer | None = None

    def topic(self) -> Topic | None:
        return self._admin.topic(self._address.topic)

    def bounds(self, partitions: Iterable[int]) -> dict[int, Bounds]:
        return self._admin.bounds(self._address.topic, partitions)

    def record(self, partition: int, offset: int, timeout_s: float = 5) -> Record | None:
        start, end = self.bounds([partition])[partition]
        if not start <= offset < end:
            raise OutOfRange(partition, offset, self._address.place)
        place = self._place(partition)
        until = time.monotonic() + timeout_s
        with self._translated():
            reader = self._second()
            reader.assign([place])
            reader.seek(place, offset)
            while (left := until - time.monotonic()) > 0:
                found = reader.poll(int(min(left, 1) * 1000), 1).get(place)
                if found:
                    return records(partition, found)[0] if found[0].offset == offset else None
                if (reader.position(place, 0) or 0) > offset:
                    return None
        raise Unavailable(f"partition {partition} gave nothing at offset {offset} in time", where=self._address.place)

    def report(self, offsets: Mapping[int, int]) -> None:
        self._admin.report(f"{self._group}.progress", self._address.topic, offsets)

    def close(self) -> None:
        if self._reader is not None:
            with suppress(KafkaError, OSError):
                self._reader.close(autocommit=False, timeout_ms=CLOSE_MS)
        self._admin.close()

    def _second(self) -> KafkaConsumer:
        if self._reader is None:
            self._reader = self._connect(None)
        return self._reader

    def _connect(self, group: str | None) -> KafkaConsumer:
        found = options.of(KafkaConsumer, self._given, options.CONSUMER)
        given = {**found, **OURS, "group_id": group, "bootstrap_servers": list(self._address.hosts)}
        made = reach(lambda: KafkaConsumer(**given), self._address.place)
        mends.make_no_topics(made)
        return made

    def _place(self, partition: int) -> TopicPartition:
        return TopicPartition(self._address.topic, partition)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OffsetOutOfRangeError as error:
            raise out_of_range(error, self._address.place) from None
        except (KafkaError, OSError, AssertionError, ValueError) as error:
            raise translate(error, self._address.place) from error


def out_of_range(error: OffsetOutOfRangeError, where: str) -> OutOfRange:
    """kafka-python's error, which holds one place and offset, as ours."""
    ((place, offset),) = error.args[0].items()
    return OutOfRange(place.partition, offset, where)


def records(partition: int, found: list[Any]) -> list[Record]:
    """kafka-python's records of one partition as ours, unless they are."""
    if found and type(found[0]) is Record:
        return found
    return [Record(partition, r.offset, r.key, r.value, headers(r.headers) if r.headers else ()) for r in found]


def headers(found: Iterable[tuple[str, bytes | None]]) -> Headers:
    """A library's headers as ours; one without a value has an empty one."""
    return tuple((name, value or b"") for name, value in found)
