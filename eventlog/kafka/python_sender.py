"""Sending with kafka-python."""

import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.partitioner.abc import Partitioner

from core.errors import Unavailable
from eventlog.kafka import mends, options
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import BufferFull, Done, Sent
from eventlog.kafka.faults import CREATE, LOOK, reach, translate, undelivered
from eventlog.kafka.lean_send import OVERHEAD, quick
from eventlog.kafka.partitioner import partition_of


class PythonSender:
    """`eventlog.kafka.client.Sender` with kafka-python."""

    def __init__(self, address: KafkaAddress, given: Mapping[str, Any]) -> None:
        self._topic, self._where = address.topic, address.place
        found = options.of(KafkaProducer, given, options.PRODUCER)
        self._limit: int = given.get("buffer_memory", options.BUFFER_MEMORY)
        self._wait_s = found["max_block_ms"] / 1000
        self._held = 0
        self._room = threading.Condition()
        ours = {
            "acks": "all",
            "enable_idempotence": True,
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            "partitioner": _Murmur2(),
            "max_block_ms": found["bootstrap_timeout_ms"],
        }
        given = {**found, **ours, "bootstrap_servers": list(address.hosts)}
        self._producer = reach(lambda: KafkaProducer(**given), self._where)
        mends.make_no_topics(self._producer)
        try:
            self._producer.partitions_for(self._topic)
        except KafkaError as error:
            self._producer.close(0)
            fault = translate(error, self._where)
            if "metadata" in fault.what:
                fault = Unavailable("there is no such topic", where=self._where, mend=CREATE)
            raise fault from error
        self._quick = quick(self._producer, self._topic)

    def send(
        self, key: bytes, value: bytes, headers: Iterable[tuple[str, bytes]] = (), done: Done | None = None
    ) -> None:
        size = len(key) + len(value) + OVERHEAD
        with self._room:
            if self._held + size > self._limit and self._held:
                self._wait_for_room(size)
            self._held += size
        try:
            given = list(headers)
            future = self._producer.send(self._topic, value, key, given) if given else self._quick(key, value)
        except Exception as error:
            self._give(size)
            if isinstance(error, KafkaError | OSError):
                raise undelivered(error, self._where) from error
            raise

        def accepted(found: Any) -> None:
            self._give(size)
            if done is not None:
                done(Sent(found.partition, found.offset))

        def failed(error: Exception) -> None:
            self._give(size)
            if done is not None:
                done(undelivered(error, self._where))

        future.add_callback(accepted).add_errback(failed)

    def flush(self, timeout_s: float | None = None) -> None:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        with suppress(KafkaError):
            self._producer.flush(timeout_s)
        with self._room:
            left = None if until is None else max(0, until - time.monotonic())
            if not self._room.wait_for(lambda: not self._held, left):
                raise Unavailable(f"not all was confirmed in {timeout_s} s", where=self._where, mend=LOOK)

    def close(self, timeout_s: float = 5) -> None:
        try:
            self._producer.flush(timeout_s)
        except KafkaError:
            mends.abandon(self._producer)
        with suppress(KafkaError):
            self._producer.close(timeout_s)

    def _wait_for_room(self, size: int) -> None:
        if not self._room.wait_for(lambda: not self._held or self._held + size <= self._limit, self._wait_s):
            raise BufferFull(
                f"{self._held:,} bytes wait to be sent and nothing was taken for {self._wait_s:g} s",
                where=self._where,
                mend=LOOK,
            )

    def _give(self, size: int) -> None:
        with self._room:
            self._held -= size
            self._room.notify_all()


class _Murmur2(Partitioner):  # type: ignore[misc]
    """The default partitioner with a memory for keys."""

    def partition(
        self, topic: str, key: bytes, serialized_key: bytes, value: bytes, serialized_value: bytes, cluster: Any
    ) -> int:
        return partition_of(serialized_key, len(cluster.partitions_for_topic(topic)))
