"""What is counted, merged and told to Prometheus."""

from collections import Counter

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from core.errors import Unavailable, UsageError
from eventlog.persister.metrics import BUCKETS_S, Collector, Snapshot, merged, serve


def snapshot() -> Snapshot:
    found = Snapshot()
    found.committed(10, 2, Counter(refused=1, not_json=2), 0.004)
    found.committed(5, 0, Counter(), 99.0)
    found.lag, found.seal_lag = {0: 7}, 300
    return found


def text(found: Snapshot) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector("events", lambda: found))
    return generate_latest(registry).decode()


def test_commits_add_up() -> None:
    found = snapshot()
    assert (found.events, found.duplicates, found.commits) == (15, 2, 2)
    assert found.quarantined == {"refused": 1, "not_json": 2}
    assert sum(found.commit_buckets) == 2
    assert found.commit_buckets[-1] == 1


def test_snapshots_of_several_workers_merge() -> None:
    one, other = snapshot(), snapshot()
    other.lag, other.seal_lag, other.paused, other.refused_partitions = {1: 3}, 100, True, [2]
    found = merged([one, other])
    assert (found.events, found.lag, found.seal_lag, found.paused) == (30, {0: 7, 1: 3}, 300, True)
    assert found.refused_partitions == [2]
    assert found.quarantined == {"refused": 2, "not_json": 4}
    assert one.events == 15


def test_prometheus_text() -> None:
    found = snapshot()
    found.refused_partitions, found.paused = [3], True
    lines = text(found).splitlines()
    for line in (
        "trajlog_persister_events_total 15.0",
        "trajlog_persister_refused_total 1.0",
        'trajlog_persister_quarantined_total{reason="not_json"} 2.0',
        'trajlog_persister_lag{partition="0",topic="events"} 7.0',
        'trajlog_persister_partition_refused{partition="3",topic="events"} 1.0',
        "trajlog_persister_paused 1.0",
        "trajlog_persister_seal_lag 300.0",
        f'trajlog_persister_commit_seconds_bucket{{le="{BUCKETS_S[2]}"}} 1.0',
        'trajlog_persister_commit_seconds_bucket{le="+Inf"} 2.0',
        "trajlog_persister_commit_seconds_count 2.0",
    ):
        assert line in lines, line


def test_nothing_counted_yet_is_text_too() -> None:
    assert "trajlog_persister_events_total 0.0" in text(Snapshot())


@pytest.mark.parametrize("place", ["", "9464x", "host", "host:", "host:70000", "[::1]"])
def test_a_place_that_is_none_is_said(place: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        serve(place, Collector("events", Snapshot))


def test_a_host_that_is_not_ours_is_said() -> None:
    with pytest.raises(Unavailable, match="cannot listen"):
        serve("203.0.113.1:9464", Collector("events", Snapshot))
