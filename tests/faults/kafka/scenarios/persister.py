"""Workers that are killed, stopped, replaced and joined by others."""

import os
import signal
import tempfile
import time
from pathlib import Path

from eventlog.persister.transaction import Point
from tests.eventlog.persister.processes import Persist
from tests.faults.kafka.scene import Scene
from tests.faults.kafka.workers import Halt


def killed_before_copy(scene: Scene) -> None:
    _killed_at(scene, "before_copy")


def killed_after_copy(scene: Scene) -> None:
    _killed_at(scene, "after_copy")


def killed_before_commit(scene: Scene) -> None:
    _killed_at(scene, "before_commit")


def killed_after_commit(scene: Scene) -> None:
    _killed_at(scene, "after_commit")


def _killed_at(scene: Scene, point: Point) -> None:
    """A worker is killed at that point of one of its first transactions; another takes its place."""
    halt = Halt(point, nth=scene.chance.choice((1, 1, 2, 3)))
    doomed = scene.worker(halt)
    if scene.chance.random() < 0.5:  # its first transaction holds what had gathered
        scene.feed()
    scene.start(scene.plan.workers - 1)
    with scene.feeding():
        scene.until(lambda: doomed.halted and not doomed.alive, why="until it is killed")
        scene.worker()
    scene.land()


def killed_anywhere(scene: Scene) -> None:
    """Workers are killed at any moment, again and again; each is replaced."""
    scene.start()
    with scene.feeding():
        for _ in range(scene.chance.choice((1, 2, 3))):
            time.sleep(scene.chance.random())
            scene.chance.choice([worker for worker in scene.workers if worker.alive]).kill()
            scene.worker()
    scene.land()


def persist_killed(scene: Scene) -> None:
    """`trajlog persist` with two workers is killed itself, or one of its workers is, which it replaces."""
    with tempfile.TemporaryDirectory() as home:
        arguments = (scene.database.url, scene.address(), Path(home), "--workers", "2")
        with Persist(*arguments) as first, scene.feeding():
            scene.until(lambda: sum(scene.cursors().values()) > 10, why=f"to begin: {first.said}")
            children = _workers_of(first.process.pid)
            if children and scene.chance.random() < 0.5:
                os.kill(scene.chance.choice(children), signal.SIGKILL)
                scene.until(lambda: "another takes its place" in first.said, why=f"to replace it: {first.said}")
                second = first
            else:
                first.kill()
                second = Persist(*arguments)
            with second:
                scene.land()
                scene.until(lambda: "persisting " in second.said, why=f"to heed SIGTERM: {second.said}")
                assert second.end() == 0, second.said


def _workers_of(pid: int) -> list[int]:
    """The processes that a process started, but for the one that only cleans up after it; Linux alone knows."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
    except OSError:
        return []


def zombie(scene: Scene) -> None:
    """A worker is stopped with records in its hands; others take its partitions; then it wakes."""
    stopped = scene.worker(Halt("after_commit", scene.chance.choice((1, 2, 4)), "stop"))
    with scene.feeding():
        scene.until(lambda: stopped.halted, why="until it stops")
        scene.start()
        scene.until(lambda: any(worker.commits for worker in scene.workers[1:]), why="until another takes over")
    scene.land()
    with scene.feeding(50):
        stopped.send(signal.SIGCONT)
        time.sleep(scene.chance.random())
    scene.land()
    assert stopped.alive, stopped.said


def lock_holder(scene: Scene) -> None:
    """A worker is stopped inside its transaction, where it holds the lock; it is ended, the log goes on."""
    point = scene.chance.choice(("in_copy", "before_copy", "after_copy", "before_commit"))
    scene.feed()
    stopped = scene.worker(Halt(point, how="stop"))  # type: ignore[arg-type]
    scene.until(lambda: stopped.halted, why="until it stops")
    others = scene.start()
    scene.feed(30)
    scene.until(lambda: any(worker.commits for worker in others), 40, why="until another takes over")
    scene.land()
    stopped.send(signal.SIGCONT)
    scene.feed(50)
    scene.land()
    assert stopped.alive, stopped.said


def rebalance(scene: Scene) -> None:
    """One worker, then four, then two, under load: of the two that go one ends in order, one is killed."""
    (first,) = scene.start(1)
    with scene.feeding():
        scene.until(lambda: first.commits, why="until the first one works")
        four = [first, *scene.start(3)]
        before = {worker: worker.commits for worker in four}
        scene.until(lambda: all(worker.commits > before[worker] for worker in four), why="until all four work")
        scene.chance.shuffle(four)
        four[0].end()
        four[1].kill()
    scene.land()
