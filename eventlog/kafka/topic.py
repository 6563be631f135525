"""The topic of a log: made with the settings that the log's promises rest on."""

from typing import NamedTuple

from core.errors import UsageError
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Admin, Topic

PARTITIONS = 12
REPLICATION = 3
# An event of 1 MB with its envelope; and what topics are made with, to leave room for batches.
LEAST_MESSAGE = 1_100_000
MESSAGE = 2_097_152
MOST_PARTITIONS = 10_000


class Made(NamedTuple):
    """The topic; whether it was made now; the settings it was, or would have been, made with."""

    topic: Topic
    created: bool
    settings: dict[str, str]


def wanted(replication: int) -> dict[str, str]:
    """The settings of a topic with so many replicas. One broker may be away where there are two or more."""
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "max.message.bytes": str(MESSAGE),
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": str(max(1, replication - 1)),
        "unclean.leader.election.enable": "false",
    }


def create(
    admin: Admin, address: KafkaAddress, *, partitions: int | None = None, replication: int | None = None
) -> Made:
    """Make the log's topic, or find it as it should be. `UsageError` if it is there and is another.

    By default 12 partitions, which can never be changed, and as many replicas as there are brokers, up to 3.
    """
    if partitions is not None and not 1 <= partitions <= MOST_PARTITIONS:
        raise UsageError(f"a topic has 1 to {MOST_PARTITIONS:,} partitions, not {partitions}", where="--partitions")
    if replication is not None and replication < 1:
        raise UsageError(f"a partition has 1 replica or more, not {replication}", where="--replication")
    there = admin.topic(address.topic)
    if there is not None:
        settings = wanted(there.replication)
        _same(address, there, admin.settings(address.topic), settings, partitions, replication)
        return Made(there, False, settings)
    brokers = admin.brokers()
    if replication is not None and replication > brokers:
        raise UsageError(f"{replication} replicas need as many brokers, and {brokers} are up", where="--replication")
    replicas = replication or min(REPLICATION, brokers)
    settings = wanted(replicas)
    return Made(admin.create(address.topic, partitions or PARTITIONS, replicas, settings), True, settings)


def _same(
    address: KafkaAddress,
    there: Topic,
    found: dict[str, str],
    settings: dict[str, str],
    partitions: int | None,
    replication: int | None,
) -> None:
    differ = [
        f"{name} is {is_} and not {not_}"
        for name, is_, not_ in (
            ("partitions", there.partitions, partitions),
            ("replication", there.replication, replication),
            *((name, found.get(name), value) for name, value in settings.items() if name != "max.message.bytes"),
        )
        if not_ is not None and is_ != not_
    ]
    if int(found.get("max.message.bytes", 0)) < LEAST_MESSAGE:
        differ.append(f"max.message.bytes is {found.get('max.message.bytes')} and not {LEAST_MESSAGE} or more")
    if differ:
        raise UsageError(
            f"the topic is there already, and differs: {', '.join(differ)}",
            where=address.place,
            mend="trajlog kafka check says what that means; set it with kafka-configs, or name another topic",
        )
