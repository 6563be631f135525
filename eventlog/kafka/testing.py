"""The contract of a Kafka client: what every implementation must hold, as tests that pytest can run.

    class TestMyClient(ClientContract):
        @pytest.fixture
        def client(self) -> Client: ...     # for a topic of its own, with 4 partitions and nothing in it

Nothing here is imported by the library itself.
"""

import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from threading import Lock
from typing import Any, cast

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from core.errors import TrajlogError, UsageError
from eventlog.kafka.client import Bounds, Client, Consumer, OutOfRange, Record, RecordTooLarge, Sent, Undelivered
from eventlog.kafka.partitioner import partition_of

PARTITIONS = 4
# From the tests of Kafka's own client (org.apache.kafka.common.utils.UtilsTest).
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@contextmanager
def raises(kind: type[TrajlogError]) -> Iterator[list[TrajlogError]]:
    """The block must raise `kind`, with one line to say; the list holds it afterwards."""
    caught: list[TrajlogError] = []
    try:
        yield caught
    except kind as error:
        assert "\n" not in str(error)
        caught.append(error)
    else:
        raise AssertionError(f"no {kind.__name__} was raised")


def until(done: Callable[[], Any], seconds: float = 20) -> None:
    """Call `done` until it says so."""
    limit = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < limit, "it took too long"


def send_all(client: Client, records: list[tuple[bytes, bytes]]) -> list[Sent]:
    """Send them all; where each lies."""
    fates: list[Any] = [None] * len(records)
    with closing(client.sender()) as sender:
        for number, (key, value) in enumerate(records):
            sender.send(key, value, done=lambda fate, number=number: fates.__setitem__(number, fate))  # type: ignore[misc]
        sender.flush(30)
    assert all(isinstance(fate, Sent) for fate in fates), next(fate for fate in fates if not isinstance(fate, Sent))
    return cast(list[Sent], fates)


def joined(client: Client, group: str = "", partitions: int = PARTITIONS) -> Consumer:
    """A consumer that has this many partitions."""
    consumer = client.consumer(group or f"contract-{uuid.uuid4()}")
    until(lambda: consumer.poll(0.1, 10) or len(consumer.assigned()[1]) == partitions)
    return consumer


def read(consumer: Consumer, count: int, seconds: float = 20, size: int = 1_000) -> list[Record]:
    """This many records, in the order in which they came."""
    found: list[Record] = []

    def enough() -> bool:
        for batch in consumer.poll(0.2, size).values():
            found.extend(batch)
        return len(found) >= count

    until(enough, seconds)
    return found


def from_start(client: Client) -> Consumer:
    """A consumer of all, at the start of each partition."""
    consumer = joined(client)
    for partition in consumer.assigned()[1]:
        consumer.seek(partition, 0)
    return consumer


def keys(partition: int, count: int) -> list[bytes]:
    """Keys that lie in one partition."""
    found = (b"key-%d" % number for number in range(1_000_000))
    return [key for key, _ in zip((k for k in found if partition_of(k, PARTITIONS) == partition), range(count))]  # noqa: B905


def library_settings(client: Client) -> dict[str, Any]:
    """How kafka-python itself reaches the same broker."""
    from eventlog.kafka import options

    return {"bootstrap_servers": list(client.address.hosts), **options.typed(client.address)}


class ClientContract:
    """What every client promises."""

    def test_records_of_a_key_come_in_the_order_they_were_sent(self, client: Client) -> None:
        sent = [(b"stream-%d" % (number % 7), b"%d" % number) for number in range(3_000)]
        send_all(client, sent)
        with closing(from_start(client)) as consumer:
            found = read(consumer, len(sent))
        assert len(found) == len(sent)
        for key in {key for key, _ in sent}:
            assert [r.value for r in found if r.key == key] == [value for k, value in sent if k == key]

    def test_offsets_of_a_partition_only_grow(self, client: Client) -> None:
        send_all(client, [(b"%d" % number, b"x") for number in range(500)])
        with closing(from_start(client)) as consumer:
            found = read(consumer, 500, size=37)
        for partition in range(PARTITIONS):
            offsets = [r.offset for r in found if r.partition == partition]
            assert all(a < b for a, b in pairwise(offsets))

    def test_a_record_comes_back_byte_for_byte_from_where_it_was_said_to_lie(self, client: Client) -> None:
        cases: list[tuple[bytes, bytes, tuple[tuple[str, bytes], ...]]] = [
            (b"k", b"", ()),
            (b"k", bytes(range(256)), (("name", b"a\0b"), ("name", b""), ("\u00fc", b"\xff"))),
            (b"\xff\xfe", b"x" * 900_000, (("h", b"y" * 1_000),)),
        ]
        fates: list[Any] = []
        with closing(client.sender()) as sender, closing(from_start(client)) as consumer:
            for key, value, headers in cases:
                sender.send(key, value, headers, fates.append)
                sender.flush(10)
            found = {(r.partition, r.offset): r for r in read(consumer, len(cases))}
            for (key, value, headers), fate in zip(cases, fates, strict=True):
                record = found[fate]
                assert (record.key, record.value, record.headers) == (key, value, headers)
                assert consumer.record(*fate) == record

    def test_records_of_every_size_come_back(self, client: Client) -> None:
        sizes = [0, 1, 62, 63, 64, 65, 8_190, 8_191, 8_192, 8_193, 900_000]
        sent = [(bytes([n % 251]) * max(1, min(n, 70_000)), bytes([n % 249]) * n) for n in sizes] * 2
        send_all(client, sent + [(b"small", b"%d" % number) for number in range(300)])
        with closing(from_start(client)) as consumer:
            found = read(consumer, len(sent) + 300)
        assert sorted((r.key or b"", r.value or b"") for r in found if r.key != b"small") == sorted(sent)

    def test_nulls_and_compression_come_back(self, client: Client) -> None:
        for kind in (None, "gzip", "zstd"):
            with closing(KafkaProducer(**_known(KafkaProducer, client), compression_type=kind, linger_ms=50)) as plain:
                for number in range(200):
                    value = None if number % 5 == 0 else b"%d" % number * 50
                    plain.send(client.address.topic, value, b"k", [("n", b"%d" % number)] * (number % 3), partition=2)
        with closing(joined(client)) as consumer:
            consumer.seek(2, 0)
            found = read(consumer, 600)
        assert [r.offset for r in found] == list(range(600))
        for number, record in enumerate(found):
            number %= 200
            assert record.value == (None if number % 5 == 0 else b"%d" % number * 50)
            assert record.headers == (("n", b"%d" % number),) * (number % 3)

    def test_a_key_lies_where_kafkas_murmur2_puts_it(self, client: Client) -> None:
        for key, number in MURMUR2.items():
            assert partition_of(key, 1 << 31) == number & 0x7FFFFFFF
        given = [b"episode/%032x" % number for number in range(300)]
        sent = send_all(client, [(key, b"x") for key in given])
        assert [fate.partition for fate in sent] == [partition_of(key, PARTITIONS) for key in given]

    def test_nothing_is_delivered_before_a_seek(self, client: Client) -> None:
        send_all(client, [(b"%d" % number, b"x") for number in range(100)])
        with closing(joined(client)) as consumer:
            assert not consumer.poll(0.5, 100)
            consumer.seek(2, 0)
            assert {r.partition for r in read(consumer, 1)} == {2}

    def test_a_seek_rules_out_what_was_fetched_before(self, client: Client) -> None:
        key = keys(1, 1)[0]
        send_all(client, [(key, b"%d" % number) for number in range(2_000)])
        chance = random.Random(4)
        with closing(joined(client)) as consumer:
            for _ in range(40):
                to = chance.randrange(2_000)
                consumer.seek(1, to)
                found = read(consumer, 1, size=chance.choice((1, 3, 500)))
                assert [r.offset for r in found] == list(range(to, to + len(found)))

    def test_a_paused_partition_gives_nothing_and_then_goes_on(self, client: Client) -> None:
        first, second = keys(0, 1)[0], keys(3, 1)[0]
        send_all(client, [(key, b"%d" % number) for number in range(500) for key in (first, second)])
        with closing(from_start(client)) as consumer:
            found = read(consumer, 10, size=10)
            generation = consumer.assigned()
            one = found[-1].partition  # of which more was fetched than was given out
            other = 3 - one
            before = [r for r in found if r.partition == one]
            consumer.pause([one])
            for _ in range(10):
                found += [r for batch in consumer.poll(0.1, 200).values() for r in batch]
            assert [r for r in found if r.partition == one] == before
            assert len([r for r in found if r.partition == other]) == 500
            consumer.resume([one])
            found += read(consumer, 500 - len(before))
            assert consumer.assigned() == generation
        for partition in (one, other):
            assert [r.value for r in found if r.partition == partition] == [b"%d" % number for number in range(500)]

    def test_pausing_all_keeps_the_membership(self, client: Client) -> None:
        with closing(joined(client)) as consumer:
            consumer.pause(range(PARTITIONS))
            before = consumer.assigned()
            for _ in range(20):
                assert not consumer.poll(0.2, 1)
            assert consumer.assigned() == before

    def test_an_offset_beyond_the_end_is_out_of_range(self, client: Client) -> None:
        key = keys(1, 1)[0]
        send_all(client, [(key, b"x")] * 5)
        with closing(joined(client)) as consumer:
            consumer.seek(1, 50)
            with raises(OutOfRange) as caught:
                until(lambda: consumer.poll(0.2, 10))
            assert isinstance(caught[0], OutOfRange)
            assert (caught[0].partition, caught[0].offset) == (1, 50)
            consumer.seek(1, 3)
            assert [r.offset for r in read(consumer, 2)] == [3, 4]

    def test_an_offset_that_was_deleted_is_out_of_range(self, client: Client) -> None:
        key = keys(1, 1)[0]
        send_all(client, [(key, b"x")] * 5)
        with closing(KafkaAdminClient(**_known(KafkaAdminClient, client))) as admin:
            admin.delete_records({TopicPartition(client.address.topic, 1): 3})
        with closing(joined(client)) as consumer:
            assert consumer.bounds([1, 2]) == {1: Bounds(3, 5), 2: Bounds(0, 0)}
            with raises(OutOfRange):
                consumer.record(1, 2)
            consumer.seek(1, 2)
            with raises(OutOfRange) as caught:
                until(lambda: consumer.poll(0.2, 10))
            assert isinstance(caught[0], OutOfRange)
            assert (caught[0].partition, caught[0].offset) == (1, 2)

    def test_a_fault_in_one_partition_loses_nothing_of_another(self, client: Client) -> None:
        send_all(client, [(keys(2, 1)[0], b"%d" % number) for number in range(3_000)])
        for size in (1, 7, 29):
            with closing(joined(client)) as consumer:
                consumer.seek(2, 0)
                consumer.seek(1, 77)
                found: list[Record] = []
                faults = 0
                started = time.monotonic()
                while (len(found) < 100 * size or not faults) and time.monotonic() < started + 20:
                    try:
                        found.extend(r for batch in consumer.poll(0.1, size).values() for r in batch)
                    except OutOfRange as fault:
                        assert (fault.partition, fault.offset) == (1, 77)
                        faults += 1
                        consumer.seek(1, 77) if faults < 5 else consumer.pause([1])
                assert [r.offset for r in found] == list(range(len(found)))
                assert faults
                assert len(found) >= 100 * size

    def test_transactions_leave_holes_and_nothing_of_what_was_aborted(self, client: Client) -> None:
        with closing(KafkaProducer(**_known(KafkaProducer, client), transactional_id=f"contract-{uuid.uuid4()}")) as tx:
            tx.init_transactions()
            for number, keep in enumerate((True, False, True, False)):
                tx.begin_transaction()
                for part in range(3):
                    tx.send(client.address.topic, b"%d.%d" % (number, part), partition=1, key=b"k")
                tx.flush()
                tx.commit_transaction() if keep else tx.abort_transaction()
            tx.begin_transaction()
            tx.send(client.address.topic, b"open", partition=1, key=b"k").get(10)
            with closing(joined(client)) as consumer:
                assert consumer.bounds([1]) == {1: Bounds(0, 16)}
                consumer.seek(1, 0)
                found = read(consumer, 6)
                assert not consumer.poll(0.5, 10)
                assert [r.offset for r in found] == [0, 1, 2, 8, 9, 10]
                assert [r.value for r in found] == [b"0.0", b"0.1", b"0.2", b"2.0", b"2.1", b"2.2"]
                assert [consumer.record(1, hole) for hole in (3, 4, 5, 7, 11, 13, 15)] == [None] * 7
                assert consumer.record(1, 9) == found[4]
                with raises(OutOfRange):
                    consumer.record(1, 16)
            tx.abort_transaction()

    def test_reading_one_record_again_moves_nothing(self, client: Client) -> None:
        key = keys(1, 1)[0]
        send_all(client, [(key, b"%d" % number) for number in range(100)])
        with closing(joined(client)) as consumer:
            consumer.seek(1, 0)
            found = read(consumer, 10, size=10)
            again = consumer.record(1, 3)
            assert again == found[3]
            assert consumer.record(1, 99) is not None
            for beyond in (100, 5_000):
                with raises(OutOfRange):
                    consumer.record(1, beyond)
            assert [r.offset for r in read(consumer, 90)] == list(range(10, 100))

    def test_a_topic_made_again_has_another_id_at_once(self, client: Client) -> None:
        with closing(client.admin()) as admin, closing(joined(client)) as consumer:
            before = consumer.topic()
            assert before is not None and before == admin.topic(client.address.topic)
            assert (before.name, before.partitions, len(before.id)) == (client.address.topic, PARTITIONS, 16)
            admin.delete(client.address.topic)
            assert consumer.topic() is None
            admin.create(client.address.topic, 2, -1, {})
            after = consumer.topic()
            assert after is not None and after.id != before.id and after.partitions == 2

    def test_sending_goes_on_in_a_topic_made_again(self, client: Client) -> None:
        with closing(client.sender()) as sender, closing(client.admin()) as admin:
            fates: list[Any] = []
            for number in range(20):
                sender.send(b"%d" % number, b"old", done=fates.append)
            sender.flush(10)
            admin.delete(client.address.topic)
            admin.create(client.address.topic, PARTITIONS, -1, {})

            def accepted() -> bool:
                fates.clear()
                for number in range(20):
                    sender.send(b"%d" % number, b"new", done=fates.append)
                sender.flush(30)
                return all(isinstance(fate, Sent) for fate in fates)

            until(accepted, 60)
        with closing(from_start(client)) as consumer:
            assert {r.value for r in read(consumer, 20)} == {b"new"}

    def test_reading_goes_on_in_a_topic_made_again(self, client: Client) -> None:
        send_all(client, [(b"%d" % number, b"old") for number in range(20)])
        with closing(from_start(client)) as consumer, closing(client.admin()) as admin:
            read(consumer, 20)
            admin.delete(client.address.topic)
            consumer.poll(0.5, 10)
            admin.create(client.address.topic, PARTITIONS, -1, {})
            send_all(client, [(b"%d" % number, b"new") for number in range(20)])
            found: list[Record] = []

            def read_anew() -> bool:
                partitions = consumer.assigned()[1]
                for partition in partitions:
                    consumer.seek(partition, 0)
                for _ in range(5):
                    with suppress(OutOfRange):
                        found.extend(r for batch in consumer.poll(0.2, 100).values() for r in batch)
                return {r.key for r in found if r.value == b"new"} == {b"%d" % number for number in range(20)}

            until(read_anew, 60)

    def test_members_share_the_partitions_and_say_so_by_generation(self, client: Client) -> None:
        group = f"contract-{uuid.uuid4()}"
        with closing(joined(client, group)) as first:
            alone = first.assigned()
            with closing(client.consumer(group)) as second:

                def shared() -> bool:
                    first.poll(0.05, 1)
                    second.poll(0.05, 1)
                    return len(first.assigned()[1]) == len(second.assigned()[1]) == 2

                until(shared)
                both = first.assigned()
                assert both[0] > alone[0]
                assert both[1] | second.assigned()[1] == alone[1]
                time.sleep(0.5)
                assert first.assigned() == both
            until(lambda: first.poll(0.1, 1) or len(first.assigned()[1]) == PARTITIONS)
            assert first.assigned()[0] > both[0]

    def test_polls_that_do_not_wait_join_a_group_too(self, client: Client) -> None:
        for _ in range(6):
            group = f"contract-{uuid.uuid4()}"
            with closing(client.consumer(group)) as first, closing(client.consumer(group)) as second:

                def shared(first: Consumer = first, second: Consumer = second) -> bool:
                    first.poll(0, 1)
                    second.poll(0, 1)
                    time.sleep(0.001)
                    return len(first.assigned()[1]) == len(second.assigned()[1]) == 2

                until(shared)

    def test_a_new_assignment_waits_for_a_seek_again(self, client: Client) -> None:
        send_all(client, [(b"%d" % number, b"x") for number in range(200)])
        group = f"contract-{uuid.uuid4()}"
        with closing(joined(client, group)) as first:
            for partition in range(PARTITIONS):
                first.seek(partition, 0)
            assert len(read(first, 200)) == 200
            first.pause([0])
            second = joined_beside(client, group, first)
            second.close()
            until(lambda: first.poll(0.1, 1) or len(first.assigned()[1]) == PARTITIONS)
            assert not first.poll(0.5, 10)
            for partition in range(PARTITIONS):
                first.seek(partition, 0)
            assert len(read(first, 200)) == 200

    def test_the_groups_own_offsets_are_never_used(self, client: Client) -> None:
        send_all(client, [(key, b"x") for key in keys(1, 1) * 50])
        group = f"contract-{uuid.uuid4()}"
        place = TopicPartition(client.address.topic, 1)
        with closing(KafkaAdminClient(**_known(KafkaAdminClient, client))) as admin:
            admin.alter_group_offsets(group, {place: OffsetAndMetadata(40, "", -1)})
            with closing(joined(client, group)) as consumer:
                assert not consumer.poll(0.5, 10)
                consumer.seek(1, 5)
                assert read(consumer, 45)[0].offset == 5

                def reported() -> bool:
                    consumer.report({1: 50})
                    return _offsets(admin, f"{group}.progress").get(place) == 50

                until(reported)
            assert _offsets(admin, group) == {place: 40}

    def test_what_waits_to_be_sent_is_bounded(self, client: Client) -> None:
        small = client.address._replace(options={**client.address.options, "buffer_memory": "300000"})
        waiting, most, lock = 0, 0, Lock()

        def gone(fate: Sent | TrajlogError) -> None:
            nonlocal waiting
            assert isinstance(fate, Sent)
            with lock:
                waiting -= 10_000

        with closing(type(client)(small).sender()) as sender:  # type: ignore[call-arg]
            for number in range(1_000):
                with lock:
                    waiting += 10_000
                    most = max(most, waiting)
                sender.send(b"%d" % number, b"x" * 10_000, done=gone)
            sender.flush(30)
        assert waiting == 0
        assert 20_000 < most < 450_000

    def test_a_record_that_is_too_large_fails_alone(self, client: Client) -> None:
        fates: list[Any] = []
        with closing(client.sender()) as sender:
            sender.send(b"a", b"1", done=fates.append)
            with raises(RecordTooLarge):
                sender.send(b"a", b"x" * 5_000_000, done=fates.append)
            sender.send(b"a", b"2", done=fates.append)
            sender.flush(10)
        assert [isinstance(fate, Sent) for fate in fates] == [True, True]

    def test_closing_is_quick_and_may_be_repeated(self, client: Client) -> None:
        consumer, sender, admin = joined(client), client.sender(), client.admin()
        sender.send(b"k", b"v")
        sender.flush(10)
        started = time.monotonic()
        for _ in range(2):
            consumer.close()
            sender.close()
            admin.close()
        assert time.monotonic() - started < 3
        with raises(Undelivered):
            sender.send(b"k", b"v")

    def test_a_listener_that_fails_keeps_nothing_from_others(self, client: Client) -> None:
        fates: list[Any] = []

        def fail(fate: Sent | TrajlogError) -> None:
            fates.append(fate)
            raise ValueError("a fault of the caller's own")

        with closing(client.sender()) as sender:
            for number in range(50):
                sender.send(b"%d" % number, b"x", done=fail)
                sender.send(b"%d" % number, b"x", done=fates.append)
            sender.flush(20)
        assert len(fates) == 100
        assert all(isinstance(fate, Sent) for fate in fates)

    def test_an_option_that_the_library_does_not_know_is_refused(self, client: Client) -> None:
        for name, value in (("no_such_option", "1"), ("linger_ms", "soon"), ("check_crcs", "maybe")):
            wrong = client.address._replace(options={**client.address.options, name: value})
            with raises(UsageError) as caught:
                type(client)(wrong)  # type: ignore[call-arg]
            assert name in str(caught[0])


def joined_beside(client: Client, group: str, other: Consumer) -> Consumer:
    """A second member that has its share."""
    consumer = client.consumer(group)

    def shared() -> bool:
        other.poll(0.05, 1)
        consumer.poll(0.05, 1)
        return len(consumer.assigned()[1]) == PARTITIONS // 2

    until(shared)
    return consumer


def _known(kind: type, client: Client) -> dict[str, Any]:
    known = kind.DEFAULT_CONFIG  # type: ignore[attr-defined]
    return {name: value for name, value in library_settings(client).items() if name in known}


def _offsets(admin: KafkaAdminClient, group: str) -> dict[TopicPartition, int]:
    return {place: found.offset for place, found in admin.list_group_offsets(group)[group].items()}
