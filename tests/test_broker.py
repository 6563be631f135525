"""The broker that tests run: it ends with whoever started it, and its faults are what they say."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import connect
from eventlog.kafka.testing import joined, read, send_all
from tests.broker import Cluster
from tests.broker_jars import NoKafka, jars, java
from tests.conftest import ALLOWED_SKIPS, kafka

ROOT = Path(__file__).parents[1]
_OWNER = """
import sys, time
from tests.broker import Cluster
cluster = Cluster()
print(cluster.folder, cluster.pids()[0], flush=True)
time.sleep(600)
"""


@pytest.fixture
def own() -> Iterator[Cluster]:
    with kafka(Cluster) as found:
        yield found


def test_a_broker_ends_with_a_process_that_is_killed(broker: Cluster) -> None:
    owner = subprocess.Popen([sys.executable, "-c", _OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        folder, pid = owner.stdout.readline().split()
        assert Path(folder).is_dir() and Path("/proc", pid).exists()
    finally:
        owner.kill()
        owner.communicate()
    until = time.monotonic() + 20
    while runs(pid) or Path(folder).exists():
        assert time.monotonic() < until, "something is left"
        time.sleep(0.05)


def runs(pid: str) -> bool:
    """Whether the process is there, and no mere entry that nobody has collected."""
    try:
        return ") Z " not in Path("/proc", pid, "stat").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.faults
def test_what_is_truncated_is_lost_and_its_offsets_are_given_again(own: Cluster) -> None:
    own.create("events", 2)
    client = connect(KafkaAddress.parse(own.address("events")), fast=False)
    for number in range(20):
        send_all(client, [(b"k", b"%d" % number)])
    partition = send_all(client, [(b"k", b"20")])[0].partition
    own.truncate("events", partition, 12)
    assert send_all(client, [(b"k", b"new")])[0].offset == 12
    with closing(joined(client, partitions=2)) as consumer:
        consumer.seek(partition, 0)
        assert [r.value for r in read(consumer, 13)] == [*(b"%d" % n for n in range(12)), b"new"]


def test_a_machine_without_java_or_maven_says_so_and_may_not_skip_in_ci(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("TRAJLOG_KAFKA_JARS", raising=False)
    reasons = []
    for look in (java, jars):
        with pytest.raises(NoKafka) as caught:
            look()
        reasons.append(str(caught.value))
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    with pytest.raises(NoKafka, match="too old") as caught:
        java()
    monkeypatch.setenv("TRAJLOG_KAFKA_JARS", str(tmp_path))
    with pytest.raises(NoKafka, match="TRAJLOG_KAFKA_JARS"):
        jars()
    reasons.append(str(caught.value))
    assert not [reason for reason in reasons if any(allowed in reason for allowed in ALLOWED_SKIPS)]
    assert "Maven" in reasons[1] and os.environ["PATH"] == str(tmp_path)
