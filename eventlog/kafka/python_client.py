"""The Kafka client with kafka-python, which every installation has."""

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

import kafka
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, LogTruncationError, NoOffsetForPartitionError, OffsetOutOfRangeError

from eventlog.kafka import lean, mends, options
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.admin import KafkaAdmin
from eventlog.kafka.beside import CLOSE_MS, BesideGroup, out_of_range, records
from eventlog.kafka.client import OutOfRange, Record
from eventlog.kafka.faults import translate
from eventlog.kafka.python_sender import PythonSender

# What goes wrong is raised or reported; the library would print it besides.
logging.getLogger("kafka").addHandler(logging.NullHandler())


class PythonClient:
    """`eventlog.kafka.client.Client` with kafka-python."""

    def __init__(self, address: KafkaAddress) -> None:
        self.address = address
        self.library = f"kafka-python {kafka.__version__}"
        self._given = options.typed(address)

    def consumer(self, group: str) -> "PythonConsumer":
        return PythonConsumer(self.address, self._given, group)

    def sender(self) -> PythonSender:
        return PythonSender(self.address, self._given)

    def admin(self) -> KafkaAdmin:
        return KafkaAdmin(self.address, self._given)


class PythonConsumer(BesideGroup):
    """`eventlog.kafka.client.Consumer` with kafka-python."""

    def __init__(self, address: KafkaAddress, given: Mapping[str, Any], group: str) -> None:
        super().__init__(address, given, group)
        self._consumer = self._connect(group)
        lean.install(self._consumer)
        self._members = _Membership(self._consumer)
        self._paused: set[int] = set()
        self._consumer.subscribe([address.topic], listener=self._members)

    def assigned(self) -> tuple[int, frozenset[int]]:
        return self._members.generation, self._members.partitions

    def poll(self, timeout_s: float, max_records: int) -> dict[int, list[Record]]:
        before = self._members.generation
        try:
            mends.unpark(self._consumer)
            mends.join(self._consumer)
            found = self._consumer.poll(int(timeout_s * 1000), max_records)
        except OffsetOutOfRangeError as error:
            raise out_of_range(error, self._address.place) from None
        except LogTruncationError as error:
            place = next(iter(error.divergent_offsets))
            raise OutOfRange(place.partition, self._consumer.position(place, 0) or 0, self._address.place) from None
        except NoOffsetForPartitionError:
            return {}
        except KafkaError as error:
            raise translate(error, self._address.place) from error
        finally:
            if self._members.generation != before:
                self._paused.clear()
        return {place.partition: records(place.partition, batch) for place, batch in found.items()}

    def seek(self, partition: int, offset: int) -> None:
        place = self._place(partition)
        self._consumer.seek(place, offset)
        self._members.unsought.discard(partition)
        if partition not in self._paused:
            self._consumer.resume(place)

    def pause(self, partitions: Collection[int]) -> None:
        self._paused.update(partitions)
        self._consumer.pause(*map(self._place, partitions))

    def resume(self, partitions: Collection[int]) -> None:
        self._paused.difference_update(partitions)
        self._consumer.resume(*(self._place(p) for p in partitions if p not in self._members.unsought))

    def close(self) -> None:
        with suppress(KafkaError, OSError):
            self._consumer.close(autocommit=False, timeout_ms=CLOSE_MS)
        super().close()


class _Membership(ConsumerRebalanceListener):  # type: ignore[misc]
    """What the group gave us. It runs on the library's loop, inside `poll`, so it only notes things."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self.generation = 0
        self.partitions: frozenset[int] = frozenset()
        self.unsought: set[int] = set()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        gone = {place.partition for place in revoked}
        if gone:
            self._now(self.partitions - gone)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self.on_partitions_revoked(lost)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        # A position, so that the group's own offsets are never asked for; paused until a seek says where.
        for place in assigned:
            self._consumer.seek(place, 0)
            self._consumer.pause(place)
        self.unsought = {place.partition for place in assigned}
        self._now(frozenset(self.unsought))

    def _now(self, partitions: frozenset[int]) -> None:
        self.partitions = partitions
        self.generation += 1
