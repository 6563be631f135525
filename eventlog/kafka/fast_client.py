"""The Kafka client with confluent-kafka (extra `fast`): the same, several times faster at reading."""

import logging
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from core.errors import TrajlogError
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.admin import KafkaAdmin
from eventlog.kafka.beside import BesideGroup, headers
from eventlog.kafka.client import OutOfRange, Record
from eventlog.kafka.fast_faults import refusal, translate
from eventlog.kafka.fast_options import FastOptions
from eventlog.kafka.fast_sender import FastSender

SILENT = logging.getLogger("trajlog.librdkafka")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False

SEEK_S = 1

_OURS: dict[str, Any] = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": False,
    "fetch.queue.backoff.ms": 5,  # once what is queued was taken; librdkafka's own second leaves the reader idle
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "range,roundrobin",  # what kafka-python knows too: they may share a group
    "queued.max.messages.kbytes": 16_384,
}


class FastClient:
    """`eventlog.kafka.client.Client` with confluent-kafka."""

    def __init__(self, address: KafkaAddress) -> None:
        self.address = address
        self.library = f"confluent-kafka {confluent_kafka.__version__}"
        self._options = FastOptions(address)

    def consumer(self, group: str) -> "FastConsumer":
        return FastConsumer(self.address, self._options, group)

    def sender(self) -> FastSender:
        return FastSender(self.address, self._options)

    def admin(self) -> KafkaAdmin:
        return KafkaAdmin(self.address, self._options.given)


class FastConsumer(BesideGroup):
    """`eventlog.kafka.client.Consumer` with confluent-kafka."""

    def __init__(self, address: KafkaAddress, found: FastOptions, group: str) -> None:
        super().__init__(address, found.given, group)
        self._generation = 0
        self._partitions: frozenset[int] = frozenset()
        self._unsought: set[int] = set()
        self._paused: set[int] = set()
        self._stopped: set[int] = set()
        self._fault: TrajlogError | None = None
        try:
            self._consumer = Consumer({**found.consumer(), **_OURS, "group.id": group}, logger=SILENT)
        except KafkaException as error:
            raise translate(error.args[0], address.place) from error
        self._consumer.subscribe(
            [address.topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    def assigned(self) -> tuple[int, frozenset[int]]:
        return self._generation, self._partitions

    def poll(self, timeout_s: float, max_records: int) -> dict[int, list[Record]]:
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        try:
            first = self._consumer.poll(timeout_s)
            messages: list[Any] = [] if first is None else [first]
            if messages and max_records > 1:
                messages += self._consumer.consume(max_records - 1, 0)
        except KafkaException as error:
            raise translate(error.args[0], self._address.place) from error
        found: dict[int, list[Record]] = {}
        for message in messages:
            if message.error() is not None:
                self._fault = self._fault or self._judge(message)
                continue
            partition = message.partition()
            given = message.headers()
            record = Record(
                partition, message.offset(), message.key(), message.value(), headers(given) if given else ()
            )
            try:
                found[partition].append(record)
            except KeyError:
                found[partition] = [record]
        # What came before a fault counts as read: it is given out first.
        return found or (self.poll(0, max_records) if self._fault else found)

    def seek(self, partition: int, offset: int) -> None:
        until = time.monotonic() + SEEK_S
        while True:
            try:
                self._consumer.seek(self._at(partition, offset))
                break
            except KafkaException as error:
                # An assignment takes effect a moment after it is given; reading that met an error has ended for good.
                if error.args[0].code() != KafkaError._STATE:
                    raise translate(error.args[0], self._address.place) from error
                if partition in self._stopped or time.monotonic() > until:
                    self._restart(partition, offset)
                    break
                time.sleep(0.002)
        self._stopped.discard(partition)
        if isinstance(self._fault, OutOfRange) and self._fault.partition == partition:
            self._fault = None
        self._unsought.discard(partition)
        if partition not in self._paused:
            self._consumer.resume([self._at(partition)])

    def pause(self, partitions: Collection[int]) -> None:
        self._paused.update(partitions)
        self._consumer.pause([self._at(p) for p in partitions])

    def resume(self, partitions: Collection[int]) -> None:
        self._paused.difference_update(partitions)
        self._consumer.resume([self._at(p) for p in partitions if p not in self._unsought])

    def close(self) -> None:
        with suppress(KafkaException, RuntimeError):
            self._consumer.close()
        super().close()

    def _restart(self, partition: int, offset: int) -> None:
        """Assign all anew, each where it was and this one at `offset`."""
        places = self._consumer.position([self._at(p) for p in self._partitions])
        for place in places:
            if place.partition == partition:
                place.offset = offset
            elif place.partition in self._unsought or place.offset < 0:
                place.offset = 0
        self._consumer.assign(places)
        self._consumer.pause([self._at(p) for p in (self._paused | self._unsought | {partition}) & self._partitions])

    def _judge(self, message: Any) -> TrajlogError | None:
        """What a message that is none says; None for what passes by itself, or is of a partition not sought yet."""
        error, partition = message.error(), message.partition()
        if partition is not None:
            self._stopped.add(partition)
            if partition in self._unsought:
                return None
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION):
            return OutOfRange(partition, message.offset(), self._address.place)
        return refusal(error, self._address.place)

    def _at(self, partition: int, offset: int = -1001) -> Any:
        return TopicPartition(self._address.topic, partition, offset)

    def _on_assign(self, consumer: Any, places: list[Any]) -> None:
        # Paused, at an offset of no meaning, until a seek says where.
        for place in places:
            place.offset = 0
        consumer.assign(places)
        consumer.pause(places)
        self._unsought = {place.partition for place in places}
        self._now(frozenset(self._unsought))

    def _on_revoke(self, consumer: Any, places: list[Any]) -> None:
        consumer.unassign()
        if places:
            self._now(self._partitions - {place.partition for place in places})

    def _now(self, partitions: frozenset[int]) -> None:
        self._partitions = partitions
        self._paused.clear()
        self._stopped.clear()
        self._fault = None
        self._generation += 1
