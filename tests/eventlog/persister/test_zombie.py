"""A worker that stands still with its hands full holds nobody up for long, and changes nothing when it wakes."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import connect
from eventlog.testing import an_event
from tests.eventlog.persister.test_exactly_once import streams_of
from tests.eventlog.persister.workbench import Workbench

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("library", ["kafka-python"], indirect=True)
@pytest.mark.parametrize(
    "where", ["in_copy", *(pytest.param(where, marks=pytest.mark.faults) for where in ("before_copy", "before_commit"))]
)
def test_a_stopped_worker_is_replaced_and_fenced(bench: Workbench, where: str) -> None:
    events = [an_event(f"episode/{n % 9}") for n in range(300)]
    bench.send(events[:200])
    address = f"{bench.broker.address(bench.topic)}?session_timeout_ms=6000&heartbeat_interval_ms=1000"
    command = [sys.executable, "-m", "tests.eventlog.persister.zombie", bench.database.url, address, where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT) as zombie:
        try:
            assert zombie.stdout is not None
            said = zombie.stdout.readline()
            assert said == b"stopping\n", said
            began = time.monotonic()
            with bench.running(client=connect(KafkaAddress.parse(address))) as worker:
                bench.drained(worker, 60)
                assert time.monotonic() - began < 50
                zombie.send_signal(signal.SIGCONT)
                bench.send(events[200:])
                time.sleep(2)
                assert zombie.poll() is None
                zombie.terminate()
                assert zombie.wait(30) == 0
                bench.drained(worker, 60)
        finally:
            zombie.kill()
    assert streams_of(bench.events()) == streams_of(events)
    bench.whole()
