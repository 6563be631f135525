"""What a worker counts, and how Prometheus reads it.

A worker only adds up plain numbers; workers in other processes send theirs as a `Snapshot`, and the
one that answers Prometheus merges them.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from core.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Snapshot(msgspec.Struct):
    """The numbers of one worker, since it began. `lag`, `refused` and the flags are as they are now."""

    events: int = 0
    duplicates: int = 0
    quarantined: dict[str, int] = {}
    commits: int = 0
    commit_seconds: float = 0.0
    commit_buckets: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    fenced: int = 0
    lag: dict[int, int] = {}
    refused_partitions: list[int] = []
    topic_refused: bool = False
    paused: bool = False
    seal_lag: int = 0

    def committed(self, events: int, duplicates: int, quarantined: "Counter[str]", seconds: float) -> None:
        """A commit, and how long it took."""
        self.events += events
        self.duplicates += duplicates
        for reason, count in quarantined.items():
            self.quarantined[reason] = self.quarantined.get(reason, 0) + count
        self.commits += 1
        self.commit_seconds += seconds
        self.commit_buckets[bisect_left(BUCKETS_S, seconds)] += 1


def merged(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The numbers of all together: the seal's lag is that of the best informed."""
    total = Snapshot()
    quarantined: Counter[str] = Counter()
    for each in snapshots:
        total.events += each.events
        total.duplicates += each.duplicates
        quarantined.update(each.quarantined)
        total.commits += each.commits
        total.commit_seconds += each.commit_seconds
        total.commit_buckets = [a + b for a, b in zip(total.commit_buckets, each.commit_buckets, strict=True)]
        total.fenced += each.fenced
        total.lag |= each.lag
        total.refused_partitions += each.refused_partitions
        total.topic_refused |= each.topic_refused
        total.paused |= each.paused
        total.seal_lag = max(total.seal_lag, each.seal_lag)
    total.quarantined = dict(quarantined)
    return total


class Collector:
    """Gives Prometheus the numbers as they are when it asks."""

    def __init__(self, topic: str, now: Callable[[], Snapshot]) -> None:
        self._topic = topic
        self._now = now

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        found = self._now()
        for name, help, value in (
            ("events", "Events written to the ledger", found.events),
            ("duplicates", "Records left out: their event was there already", found.duplicates),
            ("refused", "Events refused for their expected version", found.quarantined.get("refused", 0)),
            ("commits", "Transactions", found.commits),
            ("fenced", "Batches dropped: another worker owns the partition now", found.fenced),
        ):
            yield CounterMetricFamily(f"trajlog_persister_{name}", help, value)
        quarantined = CounterMetricFamily(
            "trajlog_persister_quarantined", "Records put into quarantine", labels=["reason"]
        )
        for reason, count in sorted(found.quarantined.items()):
            quarantined.add_metric([reason], count)
        yield quarantined
        lag = GaugeMetricFamily(
            "trajlog_persister_lag", "Offsets accepted and not yet taken", labels=["topic", "partition"]
        )
        refused = GaugeMetricFamily(
            "trajlog_persister_partition_refused", "1: not taken until someone decides", labels=["topic", "partition"]
        )
        for partition in sorted(found.lag.keys() | set(found.refused_partitions)):
            if partition in found.lag:
                lag.add_metric([self._topic, str(partition)], found.lag[partition])
            refused.add_metric([self._topic, str(partition)], int(partition in found.refused_partitions))
        yield lag
        yield refused
        for name, help, value in (
            ("topic_refused", "1: the topic is not the one that fed the log", int(found.topic_refused)),
            ("paused", "1: waiting for the database", int(found.paused)),
            ("seal_lag", "Events not yet under a full tile of the tree", found.seal_lag),
        ):
            yield GaugeMetricFamily(f"trajlog_persister_{name}", help, value)
        total, buckets = 0, []
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), found.commit_buckets, strict=True):
            total += count
            buckets.append((bound, total))
        yield HistogramMetricFamily(
            "trajlog_persister_commit_seconds", "How long a transaction took", buckets, sum_value=found.commit_seconds
        )


def serve(place: str, collector: Collector) -> Callable[[], Any]:
    """Answer Prometheus at HOST:PORT (an empty host: this machine alone); returns what ends it. `UsageError`,
    `Unavailable`."""
    from prometheus_client import CollectorRegistry, start_http_server

    host, _, port = place.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or not 0 <= int(port) < 65_536:
        raise UsageError(f"{place!r} is not HOST:PORT", where="--metrics", mend="give it like 127.0.0.1:9464")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    try:
        server, thread = start_http_server(int(port), addr=host, registry=registry)
    except OSError as error:
        raise Unavailable(f"cannot listen there: {error.strerror or error}", where=f"--metrics {place}") from None

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return end
