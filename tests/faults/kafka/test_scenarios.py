"""Whatever happens to persister, broker, database and clients: nothing accepted is lost, doubled or out of order.

Each scenario follows from its kind and seed (`plan`), runs with real processes, a real broker and a real
Postgres, and is judged by `oracle`. To run one again: TRAJLOG_FAULT_SEED=<its seed> and -k <its kind>.
"""

from collections.abc import Iterable

import pytest

from eventlog.embedded import Embedded
from tests.broker import Cluster
from tests.databases import Databases
from tests.faults.kafka.plan import CLUSTER, SEEDS, plan
from tests.faults.kafka.scenarios import KINDS
from tests.faults.kafka.scene import Scene

OWN_BROKER = ("broker_killed", "truncated")
OWN_SERVER = ("postgres_stopped", "postgres_crashed")


def seeds(kinds: Iterable[str]) -> list[tuple[str, int]]:
    return [(kind, seed) for kind in kinds for seed in SEEDS[kind]]


def run(kind: str, seed: int, broker: Cluster, databases: Databases, server: Embedded | None = None) -> None:
    with Scene(plan(kind, seed), broker, databases, server) as scene:
        print(scene.plan)
        KINDS[kind](scene)
        if not any(worker.alive for worker in scene.workers):
            scene.start(1)
        scene.probe()
        scene.end_workers()
        scene.judge()


@pytest.mark.parametrize(("kind", "seed"), seeds(k for k in KINDS if k not in (*OWN_BROKER, *OWN_SERVER, *CLUSTER)))
def test_nothing_is_lost_doubled_or_out_of_order(kind: str, seed: int, broker: Cluster, databases: Databases) -> None:
    run(kind, seed, broker, databases)


@pytest.mark.parametrize(("kind", "seed"), seeds(OWN_BROKER))
def test_nothing_is_lost_by_a_broker_that_dies(kind: str, seed: int, own_broker: Cluster, databases: Databases) -> None:
    run(kind, seed, own_broker, databases)


@pytest.mark.parametrize(("kind", "seed"), seeds(OWN_SERVER))
def test_nothing_is_lost_by_a_postgres_that_dies(
    kind: str, seed: int, broker: Cluster, own_databases: Databases, own_server: Embedded
) -> None:
    run(kind, seed, broker, own_databases, own_server)


@pytest.mark.parametrize(("kind", "seed"), seeds(CLUSTER))
def test_nothing_is_lost_by_one_broker_of_three(kind: str, seed: int, cluster: Cluster, databases: Databases) -> None:
    run(kind, seed, cluster, databases)
