"""What trajlog asks of a Kafka client, whichever library it is.

A `Consumer` is a member of a group on one topic. Where it reads from is the caller's to say, by
`seek`: the group's own offsets are never used, and nothing is reset on its own. A `Sender` is
idempotent, waits for every replica, and puts a key where Kafka's own murmur2 puts it. Errors of
the library leave as `core.errors`, one line each.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

import msgspec

from core.errors import TrajlogError, Unavailable, UsageError
from eventlog.kafka.address import KafkaAddress

Headers = tuple[tuple[str, bytes], ...]


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record as it lies in Kafka."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Topic(msgspec.Struct, frozen=True):
    """A topic as the broker has it now. `id` (16 bytes) changes when it is deleted and made again."""

    name: str
    id: bytes
    partitions: int
    replication: int


class Bounds(NamedTuple):
    """The offsets a partition holds: from `start`, up to but without `end` (the last stable one)."""

    start: int
    end: int


class Sent(NamedTuple):
    """Where an accepted record lies. `offset` -1: it is there, but the broker did not say where."""

    partition: int
    offset: int


class OutOfRange(TrajlogError):
    """The partition does not hold the offset that was asked for: truncated, or deleted by retention."""

    def __init__(self, partition: int, offset: int, where: str | None = None) -> None:
        super().__init__(f"partition {partition} does not hold offset {offset}", where=where)
        self.partition = partition
        self.offset = offset


class Refused(Unavailable):
    """The broker does not take this login, certificate or user; trying again does not help."""

    retryable = False


class RecordTooLarge(TrajlogError):
    """The broker takes no record of that size."""


class BufferFull(Unavailable):
    """The sender's buffer stayed full for its time limit: the broker takes nothing, or too slowly."""


class Undelivered(Unavailable):
    """No broker confirmed the record in time. It may be in Kafka nevertheless: send the same event again."""


Done = Callable[[Sent | TrajlogError], None]


class Consumer(Protocol):
    """A member of a consumer group on one topic. One thread uses it."""

    def assigned(self) -> tuple[int, frozenset[int]]:
        """(generation, partitions). The generation grows at every change and changes inside `poll` alone."""
        ...

    def poll(self, timeout_s: float, max_records: int) -> dict[int, list[Record]]:
        """Records by partition, in order, with holes where offsets hold none; at most `max_records`.

        Waits up to `timeout_s` for the first, and keeps the membership alive: call it even when all is
        paused. A partition yields nothing before its first `seek`. Raises `OutOfRange`, `Unavailable`;
        no broker, and a topic that is gone, are empty polls.
        """
        ...

    def seek(self, partition: int, offset: int) -> None:
        """Read an assigned partition from `offset` on; nothing fetched before is delivered any more."""
        ...

    def pause(self, partitions: Collection[int]) -> None:
        """Deliver nothing of these until `resume`; a new assignment begins unpaused."""
        ...

    def resume(self, partitions: Collection[int]) -> None: ...

    def bounds(self, partitions: Iterable[int]) -> dict[int, Bounds]:
        """The offsets each partition holds, asked of the broker. `Unavailable`."""
        ...

    def record(self, partition: int, offset: int, timeout_s: float = 5) -> Record | None:
        """Read one record again, None where the offset is a hole. `OutOfRange` beyond either end."""
        ...

    def topic(self) -> Topic | None:
        """The topic as the broker has it at this moment, None if there is none. `Unavailable`."""
        ...

    def report(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets for monitoring, under the group `<group>.progress`; failures are dropped."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class Sender(Protocol):
    """An idempotent producer on one topic; any threads may use it."""

    def send(
        self, key: bytes, value: bytes, headers: Iterable[tuple[str, bytes]] = (), done: Done | None = None
    ) -> None:
        """Hand over one record; `done` hears its fate, on another thread. Blocks while the buffer is full.

        `BufferFull` after the time limit; `RecordTooLarge` here or to `done`.
        """
        ...

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until every record handed over has had its fate. `Unavailable` after `timeout_s`."""
        ...

    def close(self, timeout_s: float = 5) -> None:
        """Flush for that long, then fail what is left as `Undelivered`."""
        ...


class Admin(Protocol):
    """Questions to the broker, and topics. `Unavailable` where it does not answer."""

    def topic(self, name: str) -> Topic | None: ...

    def bounds(self, name: str, partitions: Iterable[int]) -> dict[int, Bounds]:
        """The offsets that partitions of a topic hold, up to the last stable one."""
        ...

    def create(self, name: str, partitions: int, replication: int, settings: Mapping[str, str]) -> Topic:
        """Create a topic and wait until it is there. `replication` -1: the broker's default. `UsageError` if it
        exists or the broker refuses."""
        ...

    def delete(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        ...

    def settings(self, name: str) -> dict[str, str]:
        """A topic's settings as they apply, defaults included."""
        ...

    def broker_settings(self) -> dict[str, str]:
        """The settings of one broker."""
        ...

    def brokers(self) -> int:
        """How many brokers are up."""
        ...

    def replicas(self, name: str) -> list[tuple[int, int]]:
        """Of each partition, by number: how many replicas it has and how many of them are in sync."""
        ...

    def close(self) -> None: ...


class Client(Protocol):
    """One library's way to one log."""

    @property
    def address(self) -> KafkaAddress: ...

    @property
    def library(self) -> str:
        """The library and its version."""
        ...

    def consumer(self, group: str) -> Consumer:
        """Join `group` (the membership comes with the first polls). `Unavailable` if no broker answers."""
        ...

    def sender(self) -> Sender:
        """`Unavailable` if no broker answers, or there is no such topic."""
        ...

    def admin(self) -> Admin:
        """`Unavailable` if no broker answers."""
        ...


def connect(address: KafkaAddress, *, fast: bool | None = None) -> Client:
    """A client for the log at `address`; nothing is asked of the broker yet.

    `fast` True is confluent-kafka (extra `fast`), False kafka-python; None is the address's own
    `client` option, else confluent-kafka where it is installed and knows all options given.
    `UsageError` for an option that the library does not know.
    """
    if fast is None and address.client is not None:
        fast = address.client == "confluent-kafka"
    if fast is not False:
        try:
            from eventlog.kafka.fast_client import FastClient

            return FastClient(address)
        except ImportError:
            if fast:
                raise UsageError(
                    "confluent-kafka is not installed", where="kafka", mend="pip install 'trajlog[fast]'"
                ) from None
        except UsageError:
            if fast:
                raise
    from eventlog.kafka.python_client import PythonClient

    return PythonClient(address)
