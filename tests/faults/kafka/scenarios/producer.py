"""Producers that repeat themselves, meet in one stream, die, or send what is no event."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from kafka import KafkaProducer

from core.codec import encode
from core.event import Event
from eventlog import open as open_log
from eventlog.kafka.client import Sent as Place
from eventlog.kafka.log import KafkaLog
from tests.faults.kafka.clients import Feeder, other_content
from tests.faults.kafka.oracle import Sent
from tests.faults.kafka.planner import plan_on
from tests.faults.kafka.scene import Scene
from tests.faults.kafka.workers import Child

TAKEN, REFUSED = frozenset({"id_taken"}), frozenset({"refused", "id_taken"})


def replayed(scene: Scene) -> None:
    """Batches come twice, late, and all once more in the end; now and then an id comes with another content."""
    scene.start()
    chance = scene.chance
    everything: list[list[Event]] = []
    late: list[Event] = []
    feeders = [scene.feeder() for _ in range(scene.plan.clients)]
    for _ in range(chance.choice((6, 15))):
        feeder = chance.choice(feeders)
        batch = [feeder.event(chance.choice(scene.plan.streams)) for _ in range(chance.choice((1, 5, 30)))]
        everything.append(batch)
        match chance.randrange(5):
            case 0:
                late += batch
                continue
            case 1:
                feeder.send(batch)
                chance.choice(feeders).send(batch, again=True)
            case 2:
                feeder.send(batch)
                feeder.send([other_content(chance.choice(batch))], TAKEN, again=True)
            case 3:
                feeder.send(batch)
                again = chance.choice(everything)
                if again[0] not in late:
                    feeder.send(chance.sample(again, len(again)), again=True)
            case _:
                feeder.send(batch)
        feeder.flush()
    for event in late:  # in the order they come now
        feeders[0].send([event])
    feeders[0].flush()
    for batch in everything if chance.random() < 0.5 else reversed(everything):
        chance.choice(feeders).send(batch, again=True)
    for feeder in feeders:
        feeder.flush()
    scene.land()


def two_clients(scene: Scene) -> None:
    """One stream is fed by two clients that wait for the ledger; some of their events expect a version."""
    scene.start()
    chance = scene.chance
    shared = scene.plan.streams[0]
    with (
        open_log(scene.database.url, scene.address("kafka-python")) as one,
        open_log(scene.database.url, scene.address("confluent-kafka")) as other,
    ):
        feeders = [scene.feeder(), scene.feeder()]
        for turn in range(chance.choice((5, 12))):
            waiting = []
            for log, feeder in zip((one, other), feeders, strict=True):
                assert isinstance(log, KafkaLog)
                batch = [feeder.event(chance.choice((shared, shared, scene.plan.streams[1]))) for _ in range(5)]
                if chance.random() < 0.4:
                    batch.append(feeder.event(shared, expected_version=log.stream_head(shared) + chance.choice((0, 5))))
                for event in batch:
                    scene.book.hand_over(feeder.name, event)
                waiting.append((batch, log.begin(batch, wait="persisted")))
            for batch, future in waiting:
                _hear(scene, batch, future.result(60), turn)
    scene.land()


def _hear(scene: Scene, batch: list[Event], answers: list[Any], turn: int) -> None:
    """What the clients were told is what the ledger must hold: this is all that they know."""
    from core.errors import WrongExpectedVersion
    from eventlog.log import Appended

    for event, answer in zip(batch, answers, strict=True):
        if isinstance(answer, Appended):
            scene.answers.append(answer)
            scene.book.confirm(event, Place(scene.home(event.stream), -1))
        else:
            assert isinstance(answer, WrongExpectedVersion), (turn, answer)
            assert event.expected_version is not None
            scene.refused.add(event.event_id)


def planner_dies(scene: Scene) -> None:
    """A planner is killed with events in flight; the next one sends again what was not confirmed, and goes on."""
    scene.start()
    chance, book = scene.chance, scene.book
    me = scene.feeder()  # makes the events; the planner sends them
    stream = scene.plan.streams[0]
    work = [me.event(stream if chance.random() < 0.8 else scene.plan.streams[1]) for _ in range(400)]
    for event in work:
        book.hand_over(me.name, event)
        book.unconfirmed.add(event.event_id)
    with scene.feeding():
        while work:
            planner = Child(
                plan_on,
                scene.database.url,
                scene.address("kafka-python" if chance.random() < 0.5 else "confluent-kafka"),
                [encode(event) for event in work],
                chance.choice((1, 7, 40)),
                chance.choice((1, 4)),
            )
            try:
                enough = chance.choice((1, 20, 100, 1000))
                scene.until(
                    lambda p=planner, n=enough: len(p.told.get("accepted", ())) >= n or not p.alive,  # type: ignore[misc]
                    why="until the planner has sent some",
                )
                planner.kill()
                planner.join(10)
            finally:
                planner.close()
            work = _confirmed(scene, work, planner)
    scene.land()


def _confirmed(scene: Scene, work: list[Event], planner: Child) -> list[Event]:
    """Note what the planner was told is safe; what is left to send."""
    told = {event_id: Place(*place) for event_id, *place in planner.told.get("accepted", ())}
    assert told or planner.code is not None, planner.said
    for event in work:
        if event.event_id in told:
            scene.book.confirm(event, told[event.event_id])
    return [event for event in work if event.event_id not in told]


def poison(scene: Scene) -> None:
    """What is no event comes in between: it is quarantined with its reason, and nothing else waits."""
    scene.start()
    chance = scene.chance
    producer = KafkaProducer(bootstrap_servers=scene.broker.bootstrap, max_request_size=64 << 20)
    try:
        with scene.feeding():
            feeder = scene.feeder()
            kinds = list(_POISON.items())
            chance.shuffle(kinds)
            for name, (reason, make) in kinds:
                if name == "20 MB" and chance.random() < 0.6:
                    continue
                key, value, partition = make(scene, feeder)
                found = producer.send(scene.topic, value, key, partition=partition).get(60)
                scene.book.sent.append(
                    Sent(
                        scene.book.era,
                        scene.book.topic_id,
                        found.partition,
                        found.offset,
                        reasons=frozenset({reason}),
                        poison=True,
                    )
                )
    finally:
        producer.close()
    scene.land()


Made = tuple[bytes | None, bytes | None, int]


def _value(value: bytes | None, scene: Scene, feeder: Feeder) -> Made:
    key = scene.chance.choice(scene.plan.streams)
    return key.encode(), value, scene.home(key)


def _large(scene: Scene, feeder: Feeder) -> Made:
    return _value(b"x" * 20_000_000, scene, feeder)


def _wire(scene: Scene, feeder: Feeder, **changed: Any) -> Made:
    """An event with other fields."""
    event = feeder.event(scene.chance.choice(scene.plan.streams))
    value = json.loads(encode(event)) | changed
    key = value.get("stream", event.stream)
    return key.encode(), json.dumps(value).encode(), scene.home(key)


def _lacking(scene: Scene, feeder: Feeder) -> Made:
    """An event without one of the fields that every event has."""
    key, value, partition = _wire(scene, feeder)
    fields = json.loads(value or b"")
    del fields[scene.chance.choice(("stream", "event_id", "writer", "type", "payload"))]
    return key, json.dumps(fields).encode(), partition


def _wrong_key(scene: Scene, feeder: Feeder) -> Made:
    _, value, _ = _wire(scene, feeder)
    return b"episode/another", value, scene.home("episode/another")


def _no_key(scene: Scene, feeder: Feeder) -> Made:
    _, value, partition = _wire(scene, feeder)
    return None, value, partition


def _wrong_partition(scene: Scene, feeder: Feeder) -> Made:
    key, value, partition = _wire(scene, feeder)
    return key, value, (partition + 1) % scene.partitions


_POISON: dict[str, tuple[str, Callable[[Scene, Feeder], Made]]] = {
    "not JSON": ("not_json", partial(_value, b"not json")),
    "not UTF-8": ("not_json", partial(_value, b'{"stream":"\xff')),
    "missing fields": ("missing_fields", _lacking),
    "20 MB": ("too_large", _large),
    "null": ("bad_event", partial(_value, b"null")),
    "tombstone": ("null_value", partial(_value, None)),
    "wrong key": ("misrouted", _wrong_key),
    "no key": ("misrouted", _no_key),
    "wrong partition": ("misrouted", _wrong_partition),
    "NUL": ("bad_event", partial(_wire, stream="episode/\0")),
    "a stream of 4,000 bytes": ("bad_event", partial(_wire, stream="episode/" + "x" * 3_992)),
    "year 148000": ("bad_event", partial(_wire, occurred_at="148000-01-01T00:00:00Z")),
}
