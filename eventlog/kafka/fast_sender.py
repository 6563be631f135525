"""Sending with confluent-kafka."""

import logging
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException, Producer

from core.errors import Unavailable
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.admin import KafkaAdmin
from eventlog.kafka.client import BufferFull, Done, Sent, Undelivered
from eventlog.kafka.fast_faults import translate, undelivered
from eventlog.kafka.fast_options import FastOptions
from eventlog.kafka.faults import CREATE, LOOK

_OURS: dict[str, Any] = {
    "acks": "all",
    "allow.auto.create.topics": False,
    "enable.idempotence": True,
    "partitioner": "murmur2",
    "queue.buffering.max.messages": 1_000_000,
}
_LOG = logging.getLogger(__name__)
_SILENT = logging.getLogger("trajlog.librdkafka")


class FastSender:
    """`eventlog.kafka.client.Sender` with confluent-kafka. A thread of its own serves the callbacks."""

    def __init__(self, address: KafkaAddress, found: FastOptions) -> None:
        self._topic, self._where = address.topic, address.place
        self._wait_s = found.max_block_s
        self._settings = {**found.producer(), **_OURS}
        admin = KafkaAdmin(address, found.given)
        try:
            if admin.topic(address.topic) is None:
                raise Unavailable("there is no such topic", where=self._where, mend=CREATE)
        finally:
            admin.close()
        self._renewing = threading.Lock()
        self._producer = self._new()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="trajlog-sender", daemon=True)
        self._thread.start()

    def send(
        self, key: bytes, value: bytes, headers: Iterable[tuple[str, bytes]] = (), done: Done | None = None
    ) -> None:
        def delivered(error: Any, message: Any) -> None:
            if done is None:
                return
            try:
                done(Sent(message.partition(), message.offset()) if error is None else undelivered(error, self._where))
            except Exception:  # as with kafka-python: the fates of others are still to be told
                _LOG.exception("what was to be told of a record's fate failed")

        if self._closed.is_set():
            raise Undelivered("this sender is closed", where=self._where)
        until: float | None = None
        while True:
            producer = self._producer
            try:
                producer.produce(self._topic, value, key, headers=list(headers), on_delivery=delivered)
                return
            except BufferError:
                until = until or time.monotonic() + self._wait_s
                if time.monotonic() > until:
                    raise BufferFull(
                        f"{len(producer):,} records wait to be sent and nothing was taken for {self._wait_s:g} s",
                        where=self._where,
                        mend=LOOK,
                    ) from None
                time.sleep(0.005)
            except KafkaException as error:
                if not error.args[0].fatal():
                    raise undelivered(error.args[0], self._where) from error
                self._renew(producer)

    def flush(self, timeout_s: float | None = None) -> None:
        left = self._producer.flush(-1 if timeout_s is None else timeout_s)
        if left:
            raise Unavailable(f"{left:,} records were not confirmed in {timeout_s} s", where=self._where, mend=LOOK)

    def close(self, timeout_s: float = 5) -> None:
        if self._closed.is_set():
            return
        if self._producer.flush(timeout_s):
            self._drop(self._producer)
        self._closed.set()
        self._thread.join()

    def _new(self) -> Producer:
        try:
            return Producer(self._settings, logger=_SILENT)
        except KafkaException as error:
            raise translate(error.args[0], self._where) from error

    def _renew(self, broken: Producer) -> None:
        """Begin anew where an idempotent producer cannot go on: what it held is undelivered."""
        with self._renewing:
            if self._producer is broken:
                self._producer = self._new()
                self._drop(broken)

    def _drop(self, producer: Producer) -> None:
        with suppress(KafkaException):
            producer.purge()
        producer.flush(1)

    def _serve(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(0.1)
