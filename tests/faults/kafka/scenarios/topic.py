"""A topic that is not what it was: made anew, cut at one end, widened, or read by another ledger too."""

import signal
import time
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import connect
from tests.faults.kafka.oracle import Sent
from tests.faults.kafka.scene import Scene

# The broker answers the last question of a stopped worker within `fetch_max_wait_ms`, with whatever comes until then.
ANSWERED_S = 2.0


def recreated_running(scene: Scene) -> None:
    """The topic is deleted and made anew under the workers: refused until somebody accepts the loss."""
    scene.start()
    with scene.feeding():
        scene.until(lambda: sum(scene.cursors().values()), why="to begin")
    if scene.chance.random() < 0.5:
        scene.land()
    _recreate(scene)


def recreated_down(scene: Scene) -> None:
    """The same while no worker runs, and with events that none has taken."""
    scene.start()
    scene.feed()
    scene.land()
    scene.kill_workers()
    scene.feed(30)
    _recreate(scene)


def _recreate(scene: Scene) -> None:
    before = len(scene.book.sent)
    scene.recreate()
    scene.feed(scene.chance.choice((1, 100, 900)))
    if not any(worker.alive for worker in scene.workers):
        scene.start()
    scene.until(lambda: scene.heard("deleted and made anew"), why="until it is refused")
    new = {sent.event_id for sent in scene.book.sent[before:]}
    with scene.database.ledger() as log:
        assert not [event for event in log.read_all() if event.event_id in new], "read on silently"
    scene.accept()
    scene.land()


def begins_beyond(scene: Scene) -> None:
    """Retention deletes what no worker has taken, of one partition: the others go on meanwhile."""
    scene.start()
    scene.feed()
    scene.land()
    running = scene.chance.random() < 0.5
    if running:
        for worker in scene.workers:
            worker.send(signal.SIGSTOP)
        time.sleep(ANSWERED_S)
    else:
        scene.kill_workers()
    partition = scene.chance.randrange(scene.partitions)
    feeder = scene.feeder()
    feeder.send([feeder.event(scene.stream_in(partition)) for _ in range(20)])
    feeder.write(scene.plan.streams, 20, scene.chance)
    feeder.flush()
    end, cursor = scene.bounds()[partition].end, scene.cursors()[partition]
    start = scene.chance.randrange(cursor + 1, end + 1)
    scene.broker.delete_records(scene.topic, {partition: start})
    scene.gone |= {s for s in scene.book.sent if s.partition == partition and s.offset < start}
    if running:
        for worker in scene.workers:
            worker.send(signal.SIGCONT)
    else:
        scene.start()
    scene.until(lambda: scene.heard("offsets were deleted before they were taken"), why="until it is refused")
    scene.probe([p for p in range(scene.partitions) if p != partition])
    scene.accept()
    scene.land()


def truncated(scene: Scene) -> None:
    """The broker comes back with less than the ledger took of a partition, and mostly grows again."""
    scene.start()
    partition = scene.chance.randrange(scene.partitions)
    stream = scene.stream_in(partition)
    feeder = scene.feeder()
    for _ in range(scene.chance.choice((2, 5, 12))):  # a batch each, so that the file can be cut between them
        feeder.send([feeder.event(stream)])
        feeder.flush()
    scene.feed(60)
    scene.land()
    running = scene.chance.random() < 0.5
    if not running:
        scene.kill_workers()
        scene.feed(20)
    reached = scene.cursors()[partition]
    scene.broker.truncate(scene.topic, partition, scene.chance.randrange(reached))
    end = scene.bounds()[partition].end
    assert end < reached
    scene.gone |= {s for s in scene.book.sent if s.partition == partition and s.offset >= end}
    scene.book.next_era(scene.book.topic_id)
    feeder = scene.feeder()
    more = scene.chance.choice((0, 1, reached - end, reached - end + 10))
    feeder.send([feeder.event(stream) for _ in range(more)])
    feeder.flush()
    if not running:
        scene.start()
    words = f"partition {partition} "
    scene.until(lambda: scene.heard(f"refused: {words}"), 90, why="until it is refused")
    scene.accept()
    scene.land(90)


def added_partitions(scene: Scene) -> None:
    """The topic gets more partitions: keys lie elsewhere. It is refused; the log moves to another topic, into which
    what was not taken is copied, or it is given up."""
    scene.start()
    scene.feed()
    scene.land()
    if scene.chance.random() < 0.5:
        scene.kill_workers()
        scene.feed(30)
        scene.broker.add_partitions(scene.topic, scene.partitions + 2)
        scene.start()
    else:
        scene.broker.add_partitions(scene.topic, scene.partitions + 2)
    scene.feed(60)
    scene.until(lambda: scene.heard(f"has {scene.partitions + 2} partitions, the log was fed from"), why="to refuse")
    assert all(worker.alive for worker in scene.workers if not worker.ended_by_us)
    scene.end_workers()
    taken = scene.cursors()
    scene.gone |= {sent for sent in scene.book.sent if sent.offset >= taken.get(sent.partition, 0)}
    records = _records(scene) if scene.chance.random() < 0.5 else []
    scene.partitions += 2
    scene.topic += "-wide"
    scene.create()
    scene.client = connect(KafkaAddress.parse(scene.address()))
    by_place = {(sent.partition, sent.offset): sent for sent in scene.book.sent}
    scene.book.next_era(scene.topic_id())
    _copy(scene, [(by_place[record.partition, record.offset], record) for record in records])
    scene.accept()
    scene.start()
    scene.land()


def _records(scene: Scene) -> list[Any]:
    """All that the topic holds, the old partitions first: so streams keep their order."""
    records = []
    with closing(KafkaConsumer(bootstrap_servers=scene.broker.bootstrap, consumer_timeout_ms=5000)) as consumer:
        for partition in range(scene.partitions + 2):
            place = TopicPartition(scene.topic, partition)
            consumer.assign([place])
            consumer.seek_to_beginning(place)
            end = consumer.end_offsets([place])[place]
            while consumer.position(place) < end:
                records += consumer.poll(1000).get(place, [])
    return records


def _copy(scene: Scene, records: list[tuple[Sent, Any]]) -> None:
    with closing(KafkaProducer(bootstrap_servers=scene.broker.bootstrap, acks="all")) as producer:
        answers = [(sent, producer.send(scene.topic, record.value, record.key)) for sent, record in records]
        producer.flush()
    for sent, future in answers:
        found = future.get(10)
        place = {"partition": found.partition, "offset": found.offset}
        scene.book.sent.append(sent._replace(era=scene.book.era, topic_id=scene.book.topic_id, **place))


def second_ledger(scene: Scene) -> None:
    """Two ledgers take the same topic, each with workers of its own; one of the workers is killed."""
    second = scene.databases.fresh("second")
    with second.tampering() as connection:  # databases of these tests are copies of one
        connection.execute("UPDATE trajlog.log SET log_id = gen_random_uuid(), instance_id = gen_random_uuid()")
    scene.start(max(1, scene.plan.workers // 2))
    others = [scene.worker(url=second.url) for _ in range(max(1, scene.plan.workers // 2))]
    with scene.feeding():
        scene.until(lambda: others[0].commits and scene.workers[0].commits, why="until both ledgers are fed")
        scene.chance.choice((others[0], scene.workers[0])).kill()
        scene.worker(url=second.url)
        scene.worker()
    scene.land()
    first, scene.database = scene.database, second
    try:
        scene.look_anew()
        scene.land()
        scene.end_workers()
        scene.judge()
    finally:
        scene.database = first
        scene.look_anew()
        scene.databases.execute(f"DROP DATABASE {second.name} WITH (FORCE)")
