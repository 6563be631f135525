"""What a scenario is: a kind of fault, and a seed from which everything else follows. Pure.

`TRAJLOG_FAULTS` says how many scenarios to run, `TRAJLOG_FAULT_SEED` which seed the first of each kind
has. Without them one of each kind is run, and two of those that take a moment only.
"""

import itertools
import os
import random
from typing import Any, NamedTuple

from eventlog.kafka.partitioner import partition_of

COUNT, SEED = "TRAJLOG_FAULTS", "TRAJLOG_FAULT_SEED"

QUICK = (
    "killed_before_copy", "killed_after_copy", "killed_before_commit", "killed_after_commit", "killed_anywhere",
    "zombie", "rebalance", "terminated", "restored_down", "restored_running", "recreated_running", "recreated_down",
    "begins_beyond", "added_partitions", "second_ledger", "replayed", "two_clients", "planner_dies", "poison",
)  # fmt: skip
SLOW = ("lock_holder", "broker_killed", "truncated", "postgres_stopped", "postgres_crashed", "persist_killed")
CLUSTER = ("one_of_three",)
BRIEF = ("terminated", "begins_beyond", "replayed", "two_clients", "poison")
PARTITIONS = 4


class Plan(NamedTuple):
    """A scenario. `events`: about so many of each client until the fault; `chance` decides all that is left."""

    kind: str
    seed: int
    workers: int
    clients: int
    streams: tuple[str, ...]
    events: int
    library: str
    chance: random.Random

    def __str__(self) -> str:
        return (
            f"{self.kind}, seed {self.seed}: {self.workers} workers with {self.library}, {self.clients} clients, "
            f"{len(self.streams)} streams, {self.events} events each"
        )


def plan(kind: str, seed: int) -> Plan:
    """The scenario of this kind with this seed."""
    chance = random.Random(f"{kind} {seed}")
    return Plan(
        kind,
        seed,
        workers=chance.choice((1, 2, 4)),
        clients=chance.choice((1, 2, 3)),
        streams=_streams(seed, chance.choice((6, 12, 40))),
        events=chance.choice((40, 150, 600)),
        library=chance.choice(("kafka-python", "confluent-kafka")),
        chance=chance,
    )


def _streams(seed: int, count: int) -> tuple[str, ...]:
    """So many streams, among the first of which each partition has one."""
    names = (f"episode/{seed}-{n}" for n in itertools.count())
    by_partition: dict[int, str] = {}
    for name in names:
        by_partition.setdefault(partition_of(name.encode(), PARTITIONS), name)
        if len(by_partition) == PARTITIONS:
            break
    return (*by_partition.values(), *itertools.islice(names, count - PARTITIONS))


def first_seed(environment: Any = os.environ) -> int:
    """Given, or any: other ones every time many are run."""
    given = environment.get(SEED)
    if given is not None:
        return int(given)
    return random.SystemRandom().randrange(1_000_000) if COUNT in environment else 1


def share(seed: int, count: int | None) -> dict[str, list[int]]:
    """The seeds of each kind for about `count` scenarios: slow kinds have half as many."""
    kinds = (*QUICK, *SLOW, *CLUSTER)
    if count is None:
        return {kind: list(range(seed, seed + 1 + (kind in BRIEF))) for kind in kinds}
    rounds = max(1, -(-2 * count // (len(kinds) + len(QUICK))))
    return {kind: list(range(seed, seed + (rounds if kind in QUICK else -(-rounds // 2)))) for kind in kinds}


FIRST = first_seed()
SEEDS = share(FIRST, int(os.environ[COUNT]) if COUNT in os.environ else None)
