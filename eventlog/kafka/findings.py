"""What is wrong with how a log stands in Kafka: pure judgements, each with its why and its mend."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from eventlog.kafka.standing import LedgerView, Standing
from eventlog.kafka.topic import LEAST_MESSAGE, MESSAGE
from eventlog.persister.doubts import Doubt, of_partition, of_topic

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Finding(NamedTuple):
    """`status` is ok, warn (it works, but not as well as it could) or fail (a promise of the log is broken)."""

    name: str
    status: str
    what: str
    why: str | None = None
    mend: str | None = None


class Rebuild(NamedTuple):
    """Whether the ledger could be made anew from Kafka alone, and what that would and would not bring back."""

    complete: bool
    what: str


def judge(standing: Standing) -> list[Finding]:
    """All findings, in the order in which to look at them."""
    return [*_topic(standing), *(_settings(standing) if standing.topic else ()), *_ledger(standing)]


def rebuild(standing: Standing) -> Rebuild:
    """What Kafka alone can give back, by how the topic is set and what it holds now."""
    if standing.topic is None:
        return Rebuild(False, "nothing: there is no topic")
    if standing.settings.get("cleanup.policy") != "delete":
        return Rebuild(False, "nothing to rely on: compaction removes all but the last event of each stream")
    known = standing.ledger
    if known is not None and known.source.topic_id.bytes != standing.topic.id:
        return Rebuild(False, "only what came since the topic was made again: keep backups of the database")
    cut = sorted(partition for partition, (start, _) in standing.bounds.items() if start)
    if cut:
        return Rebuild(False, f"only what came later: partitions {_list(cut)} have lost their beginning; keep backups")
    if _limited(standing.settings):
        return Rebuild(False, "everything today, and soon no more: retention removes it; keep backups or an archive")
    return Rebuild(
        True,
        "every event with the same digest; the same versions too, if nothing was retried, refused, "
        "appended past Kafka or re-partitioned; positions, roots and times need the segment list besides",
    )


def _topic(standing: Standing) -> Iterator[Finding]:
    topic = standing.topic
    yield Finding("broker", "ok", f"{standing.brokers} {'broker is' if standing.brokers == 1 else 'brokers are'} up")
    if standing.address.options.get("security_protocol") == "SASL_PLAINTEXT":
        yield Finding(
            "security_protocol",
            "warn",
            "SASL_PLAINTEXT",
            "whoever sees the network reads the events, and the password where sasl_mechanism is PLAIN",
            "use security_protocol=SASL_SSL",
        )
    if topic is None:
        yield Finding(
            "topic",
            "fail",
            f"there is no topic {standing.address.topic!r}",
            "nothing can be appended",
            "trajlog kafka init creates it, with the right settings",
        )
    else:
        yield Finding(
            "topic", "ok", f"{topic.partitions} partitions, {topic.replication} replicas, id {_uuid(topic.id)}"
        )
    if standing.broker.get("auto.create.topics.enable") == "true":
        yield Finding(
            "auto.create.topics.enable",
            "warn",
            "the broker creates any topic that is named",
            "a mistyped address would make a topic with the broker's settings, and events would go there",
            "set auto.create.topics.enable=false on the brokers",
        )
    kept = int(standing.broker.get("offsets.topic.replication.factor", 3))
    if standing.brokers > 1 and kept < min(3, standing.brokers):
        yield Finding(
            "offsets.topic.replication.factor",
            "warn",
            f"consumer groups are kept on {kept} of {standing.brokers} brokers",
            "with that broker away, no worker gets partitions and nothing reaches the ledger",
            "set it to 3 before the first consumer, or reassign __consumer_offsets",
        )


def _settings(standing: Standing) -> Iterator[Finding]:
    found = standing.settings
    yield _cleanup(standing)
    yield from _retention(standing)
    yield from _replication(standing)
    size = int(found.get("max.message.bytes", 0))
    yield (
        Finding("max.message.bytes", "ok", f"{size:,}")
        if size >= LEAST_MESSAGE
        else Finding(
            "max.message.bytes",
            "fail",
            f"{size:,}, less than {LEAST_MESSAGE:,}",
            "an event may be 1 MB, and its envelope comes on top: large ones are refused",
            _set(standing, f"max.message.bytes={MESSAGE}"),
        )
    )
    yield (
        Finding("unclean.leader.election.enable", "ok", "false")
        if found.get("unclean.leader.election.enable") != "true"
        else Finding(
            "unclean.leader.election.enable",
            "fail",
            "true",
            "a replica that is behind may become leader: accepted events vanish, and others get their offsets",
            _set(standing, "unclean.leader.election.enable=false"),
        )
    )
    yield _timestamps(standing)


def _cleanup(standing: Standing) -> Finding:
    policy = standing.settings.get("cleanup.policy", "")
    if policy == "delete":
        return Finding("cleanup.policy", "ok", policy)
    return Finding(
        "cleanup.policy",
        "fail",
        policy,
        "compaction keeps only the last event of each stream: all others vanish, taken or not",
        _set(standing, "cleanup.policy=delete"),
    )


def _retention(standing: Standing) -> Iterator[Finding]:
    for name in ("retention.ms", "retention.bytes"):
        value = int(standing.settings.get(name, -1))
        if value == -1:
            yield Finding(name, "ok", "for ever" if name.endswith("ms") else "without limit")
            continue
        amount = _duration(value) if name.endswith("ms") else f"{value:,} bytes a partition"
        yield Finding(
            name,
            "warn",
            amount,
            "what is older leaves Kafka: events are lost if no worker took them by then, and the ledger cannot be "
            "made anew from Kafka",
            _set(standing, f"{name}=-1") + "; or keep backups of the database",
        )


def _replication(standing: Standing) -> Iterator[Finding]:
    assert standing.topic is not None
    copies = standing.topic.replication
    least = int(standing.settings.get("min.insync.replicas", 1))
    short = [number for number, (_, synced) in enumerate(standing.replicas) if synced < least]
    behind = [number for number, (all_, synced) in enumerate(standing.replicas) if least <= synced < all_]
    if least > copies:
        yield Finding(
            "min.insync.replicas",
            "fail",
            f"{least} of {plural(copies, 'replica')}",
            "nothing can ever be accepted",
            _set(standing, f"min.insync.replicas={max(1, copies - 1)}"),
        )
    elif copies == 1:
        yield Finding(
            "replication",
            "warn",
            "1 replica",
            "an event that was accepted and not taken yet is lost with the broker's disk",
            "in production: 3 brokers and --replication 3 (a topic that is there can be reassigned)",
        )
    elif least == 1:
        yield Finding(
            "min.insync.replicas",
            "warn",
            f"1 of {copies} replicas",
            "an event is accepted as soon as one broker has it, and lost if that one is lost then",
            _set(standing, "min.insync.replicas=2") if copies > 2 else "have 3 replicas, of which 2 must have an event",
        )
    elif least == copies:
        yield Finding(
            "min.insync.replicas",
            "warn",
            f"{least} of {copies} replicas",
            "nothing is accepted while one broker is away",
            _set(standing, f"min.insync.replicas={copies - 1}"),
        )
    else:
        yield Finding("replication", "ok", f"{copies} replicas, of which {least} must have an event")
    if short:
        yield Finding(
            "replicas",
            "fail",
            f"partitions {_list(short)} have fewer than {least} replicas in sync",
            "nothing is accepted for the streams that lie there",
            "bring the brokers that are away back",
        )
    if behind:
        yield Finding(
            "replicas",
            "warn",
            f"partitions {_list(behind)} have replicas that are behind or away",
            "they bear fewer failures than they should",
            "see that all brokers run",
        )


def _timestamps(standing: Standing) -> Finding:
    name, found = "message.timestamp.type", standing.settings
    if found.get(name) == "LogAppendTime":
        return Finding(name, "ok", "LogAppendTime")
    ahead = int(found.get("message.timestamp.after.max.ms", HOUR_MS))
    return Finding(
        name,
        "warn",
        found.get(name, "CreateTime"),
        f"the clocks of clients count: one that is more than {_duration(ahead)} ahead is refused, and retention by "
        "time goes by them (an event has its own occurred_at)",
        _set(standing, f"{name}=LogAppendTime"),
    )


def _ledger(standing: Standing) -> Iterator[Finding]:
    known = standing.ledger
    if known is None:
        return
    doubts = list(
        filter(None, (of_topic(known.source, standing.address.topic, standing.topic), *_partitions(standing)))
    )
    for doubt in doubts:
        yield Finding("ledger", "fail", doubt.what, _WHY[doubt.cause], doubt.mend)
    if not doubts:
        yield Finding("ledger", "ok", f"{_waiting(known, standing):,} offsets wait to be taken")


def _partitions(standing: Standing) -> Iterator[Doubt | None]:
    known = standing.ledger
    if known is not None and standing.topic is not None and standing.topic.id == known.source.topic_id.bytes:
        for partition, cursor in sorted(known.cursors.items()):
            yield of_partition(cursor, standing.bounds[partition])


_GONE = "no worker takes from it until someone decides: what was lost is named in the log then"
_WHY: dict[str, str] = {
    "moved": "one log is fed by one topic",
    "missing": "nothing can be appended",
    "recreated": _GONE,
    "repartitioned": "no worker takes from it",
    "retention": _GONE,
    "truncated": "others would get the offsets of events that the ledger has; " + _GONE,
    "changed": _GONE,
}


def _waiting(known: LedgerView, standing: Standing) -> int:
    return sum(max(0, standing.bounds[p].end - cursor.next_offset) for p, cursor in known.cursors.items())


def _limited(settings: dict[str, str]) -> bool:
    return any(int(settings.get(name, -1)) != -1 for name in ("retention.ms", "retention.bytes"))


def _duration(ms: int) -> str:
    unit, name = next(((u, n) for u, n in ((DAY_MS, "day"), (HOUR_MS, "hour")) if ms >= u), (1000, "second"))
    return plural(ms / unit, name)


def plural(count: float, noun: str) -> str:
    """`1 replica`, `3 replicas`."""
    return f"{count:g} {noun}{'' if count == 1 else 's'}"


def _set(standing: Standing, setting: str) -> str:
    """The command of Kafka's own tools that changes a setting of the topic."""
    place = (
        f"--bootstrap-server {standing.address.hosts[0]} --entity-type topics --entity-name {standing.address.topic}"
    )
    return f"kafka-configs.sh {place} --alter --add-config {setting}"


def _list(numbers: Iterable[int]) -> str:
    found = list(numbers)
    return ", ".join(map(str, found[:10])) + (f" and {len(found) - 10} more" if len(found) > 10 else "")


def _uuid(topic_id: bytes) -> UUID:
    return UUID(bytes=topic_id)
