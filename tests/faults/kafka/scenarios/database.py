"""A database that goes away, comes back, or comes back older than it was."""

import os
import signal
import time

from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from eventlog import database as postgres
from eventlog.persister.store import Identity
from eventlog.persister.worker import group_of
from tests.faults.kafka.scene import Scene


def postgres_stopped(scene: Scene) -> None:
    """The server is stopped and started under load, once or twice."""
    server = scene.server
    scene.start()
    with scene.feeding():
        for _ in range(scene.chance.choice((1, 2))):
            time.sleep(scene.chance.random())
            server.stop()
            time.sleep(scene.chance.random() * 2)
            server.start()
            scene.until(lambda: scene.cursors(), why="until the database is back")
    scene.land()


def postgres_crashed(scene: Scene) -> None:
    """A backend is killed (-9), upon which the server ends all others and recovers."""
    scene.start()
    with scene.feeding():
        scene.until(lambda: any(worker.commits for worker in scene.workers), why="until one works")
        for _ in range(scene.chance.choice((1, 2))):
            time.sleep(scene.chance.random() / 2)
            with postgres.connect(scene.database.owner, role=None) as connection:
                pids = connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE application_name = 'trajlog persist' AND datname = %s",
                    (scene.database.name,),
                ).fetchall()
            if pids:
                os.kill(scene.chance.choice(pids)[0], signal.SIGKILL)
            time.sleep(scene.chance.random() / 2)
            scene.until(lambda: scene.cursors(), why="until the database is back")
    scene.land()


def terminated(scene: Scene) -> None:
    """pg_terminate_backend for every worker, again and again."""
    scene.start()
    with scene.feeding():
        scene.until(lambda: any(worker.commits for worker in scene.workers), why="until one works")
        for _ in range(scene.chance.choice((3, 10, 30))):
            time.sleep(scene.chance.random() / 20)
            scene.cut_connections()
    scene.land()


def restored_down(scene: Scene) -> None:
    """The ledger is restored from an older copy: the group's offsets are ahead of its cursors."""
    _taken(scene)
    older = scene.copy_database()
    scene.start()
    scene.feed()
    scene.land()
    scene.end_workers()
    _commit_group_offsets(scene)
    scene.replace_database(older)
    scene.start()
    with scene.feeding(50):
        pass
    scene.land()


def restored_running(scene: Scene) -> None:
    """The ledger is replaced by an older copy while the workers hold what comes next."""
    _taken(scene)
    older = scene.copy_database()
    scene.start()
    with scene.feeding():
        scene.until(lambda: any(worker.commits for worker in scene.workers[-scene.plan.workers :]), why="to go on")
        scene.replace_database(older)
    scene.land()


def _taken(scene: Scene) -> None:
    """Some events, taken, and no worker any more."""
    scene.feed()
    scene.start(1)
    scene.land()
    scene.end_workers()


def _commit_group_offsets(scene: Scene) -> None:
    """The workers' group, as a client that commits its offsets would leave it."""
    with postgres.connect(scene.database.owner, role=None) as connection:
        row = connection.execute("SELECT log_id, instance_id FROM trajlog.log").fetchone()
    assert row is not None
    consumer = KafkaConsumer(bootstrap_servers=scene.broker.bootstrap, group_id=group_of(Identity(*row)))
    try:
        places = [TopicPartition(scene.topic, partition) for partition in range(scene.partitions)]
        consumer.assign(places)
        ends = {p: bounds.end for p, bounds in scene.bounds().items()}
        consumer.commit({place: OffsetAndMetadata(ends[place.partition], "", -1) for place in places})
    finally:
        consumer.close()
