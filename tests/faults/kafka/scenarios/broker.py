"""A broker that is killed and started again: the only one, or one of three."""

import time

from tests.faults.kafka.scene import Scene


def broker_killed(scene: Scene) -> None:
    """The only broker is killed (-9) under load, and comes back."""
    scene.start()
    with scene.feeding():
        if scene.chance.random() < 0.7:
            scene.until(lambda: any(worker.commits for worker in scene.workers), why="until one works")
        scene.broker.kill()
        time.sleep(scene.chance.random() * 2)
        scene.broker.start()
    scene.land(120)


def one_of_three(scene: Scene) -> None:
    """One of three brokers is killed under load: all goes on without it, and with it again."""
    scene.start()
    node = scene.chance.choice(list(scene.broker.nodes))
    with scene.feeding():
        scene.until(lambda: any(worker.commits for worker in scene.workers), why="until one works")
        scene.broker.kill(node)
        time.sleep(scene.chance.random() * 3)
    scene.land(120)
    with scene.feeding(60):
        scene.broker.start(node)
    scene.land(120)
