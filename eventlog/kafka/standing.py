"""How a log's topic, its broker and its ledger stand, as the broker and the database say now."""

import msgspec

from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Admin, Bounds, Topic
from eventlog.persister.source import Cursor, Source


class LedgerView(msgspec.Struct, frozen=True):
    """The topic that feeds the ledger, as it was first seen, and how far each of its partitions was taken."""

    source: Source
    cursors: dict[int, Cursor]


class Standing(msgspec.Struct, frozen=True):
    """`settings` are the topic's, `broker` those of one broker; `replicas` is (all, in sync) of each partition."""

    address: KafkaAddress
    topic: Topic | None
    brokers: int
    settings: dict[str, str] = {}
    broker: dict[str, str] = {}
    replicas: list[tuple[int, int]] = []
    bounds: dict[int, Bounds] = {}
    ledger: LedgerView | None = None


def look(admin: Admin, address: KafkaAddress, ledger: LedgerView | None = None) -> Standing:
    """Ask the broker. `Unavailable`."""
    name = address.topic
    topic, brokers = admin.topic(name), admin.brokers()
    if topic is None:
        return Standing(address, None, brokers, broker=admin.broker_settings(), ledger=ledger)
    return Standing(
        address,
        topic,
        brokers,
        settings=admin.settings(name),
        broker=admin.broker_settings(),
        replicas=admin.replicas(name),
        bounds=admin.bounds(name, range(topic.partitions)),
        ledger=ledger,
    )
