"""Both clients when brokers die, stop or are not there."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from core.errors import TrajlogError, Unavailable
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import BufferFull, Client, Consumer, Record, Sent, Topic, connect
from eventlog.kafka.testing import from_start, joined, joined_beside, read, send_all, until
from tests.broker import Cluster
from tests.conftest import kafka
from tests.eventlog.kafka.topics import Topics

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def fragile() -> Iterator[Cluster]:
    """A broker of this module's own, to be killed."""
    with kafka(Cluster) as found:
        yield found


@pytest.fixture
def topics(fragile: Cluster) -> Iterator[Topics]:
    """Whatever a test did to the broker, it runs afterwards."""
    with Topics(fragile) as found:
        yield found
        if fragile.running():
            fragile.signal(1, signal.SIGCONT)
        else:
            fragile.start()


@pytest.fixture(params=[False, True], ids=["kafka-python", "confluent-kafka"])
def fast(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def client(address: str, fast: bool) -> Client:
    return connect(KafkaAddress.parse(address), fast=fast)


class Sending:
    """A thread that sends numbered records of a few streams, as fast as it may, until it is told to stop."""

    def __init__(self, client: Client) -> None:
        self._sender = client.sender()
        self._stop = threading.Event()
        self.sent: list[tuple[bytes, bytes]] = []
        self.fates: list[Sent | TrajlogError] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            number = len(self.sent)
            self.sent.append((b"stream-%d" % (number % 5), b"%d" % number))
            self._sender.send(*self.sent[-1], done=self.fates.append)
            time.sleep(0.0005)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._sender.flush(60)
        self._sender.close()


def check_all_once_in_order(client: Client, sending: Sending) -> None:
    assert len(sending.fates) == len(sending.sent) > 500
    assert [fate for fate in sending.fates if not isinstance(fate, Sent)] == []
    with closing(from_start(client)) as consumer:
        found = read(consumer, len(sending.sent))
        assert not consumer.poll(0.5, 10)
    for key in {key for key, _ in sending.sent}:
        assert [r.value for r in found if r.key == key] == [value for k, value in sending.sent if k == key]


def test_a_broker_that_is_killed_costs_nothing_and_doubles_nothing(
    fragile: Cluster, topics: Topics, fast: bool
) -> None:
    user = client(topics.fresh(4), fast)
    sending = Sending(user)
    time.sleep(0.7)
    fragile.kill()
    time.sleep(0.3)
    fragile.start()
    time.sleep(0.5)
    sending.stop()
    check_all_once_in_order(user, sending)


def test_a_full_buffer_holds_the_sender_back_and_then_says_so(fragile: Cluster, topics: Topics, fast: bool) -> None:
    user = client(topics.fresh(1, buffer_memory="200000", max_block_ms="1500"), fast)
    fates: list[Any] = []
    with closing(user.sender()) as sender:
        fragile.signal(1, signal.SIGSTOP)
        started, count = time.monotonic(), 0
        with pytest.raises(BufferFull) as caught:
            while count < 100:
                sender.send(b"k", b"%d" % count + b"x" * 10_000, done=fates.append)
                count += 1
                started = time.monotonic()
        assert "\n" not in str(caught.value)
        assert 1.3 < time.monotonic() - started < 4
        assert 10 <= count <= 25
        with pytest.raises(Unavailable):
            sender.flush(0.3)
        fragile.signal(1, signal.SIGCONT)
        sender.flush(30)
    assert len(fates) == count
    assert all(isinstance(fate, Sent) for fate in fates)
    with closing(joined(user, partitions=1)) as consumer:
        consumer.seek(0, 0)
        assert [r.value[:3] for r in read(consumer, count) if r.value] == [(b"%dxxx" % n)[:3] for n in range(count)]


def test_a_consumer_outlives_its_broker(fragile: Cluster, topics: Topics, fast: bool) -> None:
    user = client(topics.fresh(4), fast)
    send_all(user, [(b"%d" % number, b"before") for number in range(50)])
    with closing(from_start(user)) as consumer:
        assert len(read(consumer, 50)) == 50
        fragile.kill()
        started = time.monotonic()
        while time.monotonic() - started < 3:
            assert consumer.poll(0.3, 10) == {}
        for ask in (consumer.topic, lambda: consumer.bounds([0]), lambda: consumer.record(0, 0)):
            with pytest.raises(Unavailable):
                ask()
        consumer.report({0: 1})
        fragile.start()
        send_all(user, [(b"%d" % number, b"after") for number in range(50)])
        assert {r.value for r in _whatever_the_assignment(consumer)} >= {b"after"}
        until(lambda: _topic(consumer) is not None)


def _topic(consumer: Consumer) -> Topic | None:
    """None also while the client waits before it connects again."""
    try:
        return consumer.topic()
    except Unavailable:
        return None


def _whatever_the_assignment(consumer: Consumer, count: int = 50) -> list[Record]:
    """Records until this many came; where the group gave the partitions out again, from the start."""
    found: list[Record] = []
    generation = consumer.assigned()[0]

    def enough() -> bool:
        nonlocal generation
        found.extend(r for batch in consumer.poll(0.2, 100).values() for r in batch)
        if consumer.assigned()[0] != generation:
            generation = consumer.assigned()[0]
            for partition in consumer.assigned()[1]:
                consumer.seek(partition, 0)
        return len([r for r in found if r.value == b"after"]) >= count

    until(enough, 40)
    return found


def test_closing_without_a_broker_is_quick(fragile: Cluster, topics: Topics, fast: bool) -> None:
    user = client(topics.fresh(4), fast)
    consumer, sender, admin = from_start(user), user.sender(), user.admin()
    fragile.kill()
    fates: list[Any] = []
    sender.send(b"k", b"v", done=fates.append)
    started = time.monotonic()
    consumer.close()
    admin.close()
    sender.close(0.5)
    assert time.monotonic() - started < 8
    assert [isinstance(fate, Unavailable) for fate in fates] == [True]


def test_without_a_broker_each_says_so_in_one_line(fast: bool) -> None:
    user = client("kafka://127.0.0.1:1/t?bootstrap_timeout_ms=400", fast)
    for make in (user.admin, user.sender, lambda: user.consumer("g")):
        started = time.monotonic()
        with pytest.raises(Unavailable, match="no broker answers") as caught:
            make()
        assert "\n" not in str(caught.value)
        assert time.monotonic() - started < 3


def test_sending_to_a_topic_that_is_not_there_names_the_mend(topics: Topics, fast: bool) -> None:
    user = client(topics.name(bootstrap_timeout_ms="1000"), fast)
    with pytest.raises(Unavailable, match="there is no such topic; create it with trajlog kafka init"):
        user.sender()


def test_a_consumer_waits_for_its_topic(fragile: Cluster, topics: Topics, fast: bool) -> None:
    user = client(topics.name(metadata_max_age_ms="500"), fast)
    with closing(user.consumer("g-waits")) as consumer:
        for _ in range(5):
            assert consumer.poll(0.2, 10) == {}
        assert consumer.topic() is None and not consumer.assigned()[1]
        fragile.create(user.address.topic, 4)
        until(lambda: consumer.poll(0.2, 10) or len(consumer.assigned()[1]) == 4)


def test_workers_of_both_libraries_share_a_group(topics: Topics, fast: bool) -> None:
    address = topics.fresh(4)
    one, other = client(address, fast), client(address, not fast)
    with closing(joined(one, "g-both")) as first, closing(joined_beside(other, "g-both", first)) as second:

        def shared() -> bool:
            for consumer in (first, second):
                consumer.poll(0.1, 10)
            mine, others = first.assigned()[1], second.assigned()[1]
            return bool(mine and others) and not mine & others and mine | others == set(range(4))

        until(shared, 40)  # on a busy machine one of them may be taken for dead and join again


def test_one_broker_of_three_may_die(cluster: Cluster, fast: bool) -> None:
    with Topics(cluster) as topics:
        user = client(topics.fresh(4), fast)
        with closing(from_start(user)) as consumer:
            sending = Sending(user)
            time.sleep(0.5)
            victim = 1 + int(fast)
            cluster.kill(victim)
            before = len(sending.fates)
            until(lambda: len(sending.fates) > before + 500, 40)
            until(lambda: sum(map(len, consumer.poll(0.2, 1_000).values())), 40)
            cluster.start(victim)
            sending.stop()
        check_all_once_in_order(user, sending)
