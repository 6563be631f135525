"""A record's short way to kafka-python's batches: the contract of the client runs over it; here is when it is left."""

from types import SimpleNamespace
from typing import Any

import pytest

from eventlog.kafka.lean_send import quick
from eventlog.kafka.partitioner import partition_of


class Producer:
    """As much of a `KafkaProducer` as is looked at, with notes of what it was asked."""

    def __init__(self, partitions: dict[str, dict[int, Any]] | None, *, full: bool = False) -> None:
        self.config = {"max_request_size": 1_000}
        self.sent: list[tuple[str, bytes, bytes]] = []
        self.appended: list[tuple[Any, ...]] = []
        self.woken = 0
        self.full = full
        self._metadata = SimpleNamespace(_partitions=partitions)
        self._accumulator = SimpleNamespace(append=self._append)
        self._sender = SimpleNamespace(wakeup=self._wake)

    def send(self, topic: str, value: bytes, key: bytes, headers: list[Any]) -> str:
        self.sent.append((topic, key, value))
        return "its own"

    def _append(self, *given: Any) -> tuple[str, bool, bool, bool]:
        self.appended.append(given)
        return "ours", self.full, False, False

    def _wake(self) -> None:
        self.woken += 1


def test_a_record_goes_to_the_partition_of_its_key() -> None:
    producer = Producer({"log": dict.fromkeys(range(5))})
    send = quick(producer, "log")
    for key in (b"a", b"b", b"c"):
        assert send(key, b"value") == "ours"
    assert [(*place, key, value) for place, _, key, value, _ in producer.appended] == [
        ("log", partition_of(key, 5), key, b"value") for key in (b"a", b"b", b"c")
    ]
    assert not producer.sent and not producer.woken


def test_a_full_batch_wakes_the_library() -> None:
    producer = Producer({"log": {0: None}}, full=True)
    quick(producer, "log")(b"k", b"v")
    assert producer.woken == 1


def test_partitions_that_are_added_are_seen() -> None:
    producer = Producer({"log": {0: None}})
    send = quick(producer, "log")
    send(b"key", b"v")
    producer._metadata._partitions = {"log": dict.fromkeys(range(64))}
    send(b"key", b"v")
    assert [place.partition for place, *_ in producer.appended] == [0, partition_of(b"key", 64)]
    assert partition_of(b"key", 64) != 0


@pytest.mark.parametrize("partitions", [{}, {"log": {}}, {"other": {0: None}}])
def test_what_is_not_known_goes_the_librarys_own_way(partitions: dict[str, dict[int, Any]]) -> None:
    producer = Producer(partitions)
    assert quick(producer, "log")(b"k", b"v") == "its own"
    assert producer.sent == [("log", b"k", b"v")] and not producer.appended


def test_what_may_be_too_large_goes_the_librarys_own_way() -> None:
    producer = Producer({"log": {0: None}})
    assert quick(producer, "log")(b"k", b"v" * 900) == "its own"
    assert quick(producer, "log")(b"k", b"v" * 899) == "ours"


@pytest.mark.parametrize("missing", ["_metadata", "_accumulator", "_sender"])
def test_a_library_that_looks_otherwise_is_used_as_it_is(missing: str) -> None:
    producer = Producer({"log": {0: None}})
    delattr(producer, missing)
    assert quick(producer, "log")(b"k", b"v") == "its own"
