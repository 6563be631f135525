"""The kinds of faults, a function each: it lets the fault happen, and waits until all is taken again."""

from collections.abc import Callable

from tests.faults.kafka.scenarios import broker, database, persister, producer, topic
from tests.faults.kafka.scene import Scene

KINDS: dict[str, Callable[[Scene], None]] = {
    scenario.__name__: scenario
    for scenario in (
        persister.killed_before_copy,
        persister.killed_after_copy,
        persister.killed_before_commit,
        persister.killed_after_commit,
        persister.killed_anywhere,
        persister.persist_killed,
        persister.zombie,
        persister.lock_holder,
        persister.rebalance,
        broker.broker_killed,
        broker.one_of_three,
        database.postgres_stopped,
        database.postgres_crashed,
        database.terminated,
        database.restored_down,
        database.restored_running,
        topic.recreated_running,
        topic.recreated_down,
        topic.begins_beyond,
        topic.truncated,
        topic.added_partitions,
        topic.second_ledger,
        producer.replayed,
        producer.two_clients,
        producer.planner_dies,
        producer.poison,
    )
}
