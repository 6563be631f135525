"""What `trajlog kafka check` says of each way in which a topic can stand."""

from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Bounds, Topic
from eventlog.kafka.findings import Finding, judge, rebuild
from eventlog.kafka.standing import LedgerView, Standing
from eventlog.kafka.topic import wanted
from eventlog.persister.source import Cursor, Source

ID, OTHER = bytes(range(16)), bytes(16)


def _cursor(partition: int, taken: int) -> Cursor:
    return Cursor(partition, taken, 1, None, None)


GOOD = Standing(
    KafkaAddress(("broker:9092",), "events"),
    Topic("events", ID, 3, 3),
    3,
    settings=wanted(3),
    broker={"auto.create.topics.enable": "false", "offsets.topic.replication.factor": "3"},
    replicas=[(3, 3)] * 3,
    bounds={p: Bounds(0, 100) for p in range(3)},
    ledger=LedgerView(Source(UUID(bytes=ID), "events", 3), {0: _cursor(0, 100), 1: _cursor(1, 90), 2: _cursor(2, 0)}),
)


def wrong(standing: Standing) -> dict[str, Finding]:
    return {finding.name: finding for finding in judge(standing) if finding.status != "ok"}


def with_settings(**settings: str) -> Standing:
    return replace(GOOD, settings=GOOD.settings | {name.replace("_", "."): value for name, value in settings.items()})


def test_a_topic_as_it_is_made_has_no_fault_and_can_be_rebuilt() -> None:
    assert not wrong(GOOD)
    assert rebuild(GOOD).complete
    assert next(f for f in judge(GOOD) if f.name == "ledger").what == "110 offsets wait to be taken"


@pytest.mark.parametrize(
    ("changed", "name", "status", "complete"),
    [
        ({"cleanup_policy": "compact"}, "cleanup.policy", "fail", False),
        ({"cleanup_policy": "compact,delete"}, "cleanup.policy", "fail", False),
        ({"retention_ms": "604800000"}, "retention.ms", "warn", False),
        ({"retention_bytes": "1000000000"}, "retention.bytes", "warn", False),
        ({"max_message_bytes": "1048588"}, "max.message.bytes", "fail", True),
        ({"message_timestamp_type": "CreateTime"}, "message.timestamp.type", "warn", True),
        ({"unclean_leader_election_enable": "true"}, "unclean.leader.election.enable", "fail", True),
        ({"min_insync_replicas": "1"}, "min.insync.replicas", "warn", True),
        ({"min_insync_replicas": "3"}, "min.insync.replicas", "warn", True),
        ({"min_insync_replicas": "4"}, "min.insync.replicas", "fail", True),
    ],
)
def test_each_wrong_setting_is_found_alone(changed: dict[str, str], name: str, status: str, complete: bool) -> None:
    standing = with_settings(**changed)
    found = wrong(standing)
    expected = {name, "replicas"} if changed.get("min_insync_replicas") == "4" else {name}
    assert set(found) == expected
    assert found[name].status == status
    assert found[name].why and found[name].mend
    assert rebuild(standing).complete is complete


@pytest.mark.parametrize(
    ("changed", "name", "status"),
    [
        ({"topic": None}, "topic", "fail"),
        (
            {"address": GOOD.address._replace(options={"security_protocol": "SASL_PLAINTEXT"})},
            "security_protocol",
            "warn",
        ),
        ({"broker": {"auto.create.topics.enable": "true"}}, "auto.create.topics.enable", "warn"),
        ({"broker": {"offsets.topic.replication.factor": "1"}}, "offsets.topic.replication.factor", "warn"),
        ({"replicas": [(3, 3), (3, 1), (3, 3)]}, "replicas", "fail"),
        ({"replicas": [(3, 3), (3, 2), (3, 3)]}, "replicas", "warn"),
        ({"topic": Topic("events", OTHER, 3, 3)}, "ledger", "fail"),
        ({"topic": Topic("events", ID, 6, 3)}, "ledger", "fail"),
        ({"address": GOOD.address._replace(topic="others")}, "ledger", "fail"),
        ({"bounds": {0: Bounds(0, 100), 1: Bounds(95, 100), 2: Bounds(0, 9)}}, "ledger", "fail"),
        ({"bounds": {0: Bounds(0, 99), 1: Bounds(0, 100), 2: Bounds(0, 9)}}, "ledger", "fail"),
    ],
)
def test_each_wrong_standing_is_found(changed: dict[str, Any], name: str, status: str) -> None:
    found = wrong(replace(GOOD, **changed))
    assert found[name].status == status
    assert found[name].why and found[name].mend


def test_one_replica_is_said() -> None:
    single = replace(
        GOOD, topic=Topic("events", ID, 3, 1), settings=wanted(1), brokers=1, replicas=[(1, 1)] * 3, broker={}
    )
    assert set(wrong(single)) == {"replication"}


def test_what_was_lost_is_named_by_its_offsets() -> None:
    lost = replace(GOOD, bounds={0: Bounds(0, 100), 1: Bounds(95, 100), 2: Bounds(0, 9)})
    assert "partition 1 begins at offset 95, but the log took it up to 90: 5 offsets" in wrong(lost)["ledger"].what
    assert not rebuild(lost).complete
    assert "partitions 1 have lost their beginning" in rebuild(lost).what


def test_another_topic_cannot_rebuild_the_ledger() -> None:
    assert not rebuild(replace(GOOD, topic=Topic("events", OTHER, 3, 3))).complete
    assert not rebuild(replace(GOOD, topic=None)).complete


def test_without_a_ledger_the_topic_alone_is_judged() -> None:
    assert "ledger" not in {finding.name for finding in judge(replace(GOOD, ledger=None))}
    assert rebuild(replace(GOOD, ledger=None)).complete
