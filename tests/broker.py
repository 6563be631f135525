"""Real Kafka for tests: one node or three on ports, in a folder and a process group of its own.

    with Cluster(nodes=3) as cluster:
        cluster.create("events", partitions=4)
        cluster.kill(1); cluster.start(1)

All of it ends with the test process, however that ends: a guard waits at a pipe for its end.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError, UnknownTopicOrPartitionError

from tests.broker_jars import class_path, classes, jars, java
from tests.broker_settings import LOG4J, Ports, make_keys, properties

_GUARD = """
cat > /dev/null
setsid sh -c 'kill -9 -- "-$2"; sleep 0.2; rm -rf "$1"' guard "$1" $$ &
wait
"""


class Cluster:
    """Brokers that are controllers too; numbered from 1. `secure` adds a SASL/PLAIN and a TLS listener. Java
    notes in the folder `training` which classes it loads."""

    def __init__(
        self,
        nodes: int = 1,
        *,
        secure: bool = False,
        settings: Mapping[str, object] | None = None,
        training: Path | None = None,
    ) -> None:
        self.nodes = range(1, nodes + 1)
        self.folder = Path(tempfile.mkdtemp(prefix="trajlog-kafka-"))
        self._secure = secure
        self._settings = dict(settings or {})
        self._java = java()
        self._jars = jars()
        self._training = training
        self._classes = training or classes(self._java, _train)
        self._ports = Ports(nodes, secure)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", self.folder], stdin=subprocess.PIPE, process_group=0
        )
        self._admin: KafkaAdminClient | None = None
        try:
            self._format()
            for node in self.nodes:
                self.start(node, wait=False)
            self.wait()
        except BaseException:
            self.stop()
            raise

    @property
    def bootstrap(self) -> list[str]:
        """host:port of each node."""
        return [f"127.0.0.1:{port}" for port in self._ports.plain]

    @property
    def sasl(self) -> str:
        """host:port of the first node's SASL/PLAIN listener, for `USER` and `PASSWORD`."""
        return f"127.0.0.1:{self._ports.sasl[0]}"

    @property
    def tls(self) -> str:
        """host:port of the first node's TLS listener; `certificate` is who it trusts."""
        return f"127.0.0.1:{self._ports.tls[0]}"

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.pem"

    def address(self, topic: str) -> str:
        """The log's address, as --log takes it."""
        return f"kafka://{','.join(self.bootstrap)}/{topic}"

    # --- nodes ---

    def start(self, node: int = 1, *, wait: bool = True) -> None:
        """Start a node that is down."""
        assert not self.running(node)
        log = (self._place(node) / "out.log").open("ab")
        self._processes[node] = self._run(log, "kafka.Kafka", self._place(node) / "server.properties", heap="512m")
        log.close()
        if wait:
            self.wait()

    def kill(self, node: int = 1) -> None:
        """kill -9."""
        self.signal(node, signal.SIGKILL)
        self._processes[node].wait()
        self._forget()

    def terminate(self, node: int = 1) -> None:
        """An orderly end."""
        self.signal(node, signal.SIGTERM)
        self._processes[node].wait(60)
        self._forget()

    def signal(self, node: int, number: signal.Signals) -> None:
        """SIGSTOP, SIGCONT, …"""
        self._processes[node].send_signal(number)

    def running(self, node: int = 1) -> bool:
        process = self._processes.get(node)
        return process is not None and process.poll() is None

    def pids(self) -> list[int]:
        """Of the nodes' processes, in order."""
        return [process.pid for _, process in sorted(self._processes.items())]

    def wait(self, timeout: float = 60) -> None:
        """Until every running node serves clients and knows of the others."""
        until = time.monotonic() + timeout
        up = sum(map(self.running, self.nodes))
        while True:
            try:
                for node in self.nodes:
                    process = self._processes.get(node)
                    if process is not None and process.poll() not in (None, -signal.SIGKILL, 143):
                        raise AssertionError(f"Kafka ended: {self.log(node)}")
                    if self.running(node) and _brokers(self.bootstrap[node - 1]) < up:
                        raise KafkaError("not all there yet")
                return
            except (KafkaError, OSError) as error:
                if time.monotonic() > until:
                    raise AssertionError(f"Kafka not ready: {error}; {self.log(1)}") from error
                time.sleep(0.1)

    def log(self, node: int = 1) -> str:
        """The end of what a node has said."""
        return (self._place(node) / "out.log").read_text(errors="replace")[-3_000:]

    def stop(self) -> None:
        """End all and remove the folder."""
        self._forget()
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
        for process in self._processes.values():
            process.wait()
        if self._guard.poll() is None:
            os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.wait()
            assert self._guard.stdin is not None
            self._guard.stdin.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # --- topics ---

    def create(
        self, topic: str, partitions: int = 1, *, replication: int | None = None, settings: Mapping[str, str] = {}
    ) -> None:
        """Create a topic and wait until each partition has a leader."""
        given = {
            "num_partitions": partitions,
            "replication_factor": replication or min(3, len(self.nodes)),
            "configs": {"retention.ms": "-1", **settings},
        }
        self.admin.create_topics({topic: given}, wait_for_metadata=True)

    def delete(self, topic: str) -> None:
        """Delete a topic and wait until no node knows it."""
        self.admin.delete_topics([topic])
        until = time.monotonic() + 20
        while self.admin.describe_topics([topic])[0]["error_code"] != UnknownTopicOrPartitionError.errno:
            assert time.monotonic() < until, f"{topic} is still there"
            time.sleep(0.05)

    def add_partitions(self, topic: str, total: int) -> None:
        """More partitions."""
        self.admin.create_partitions({topic: total})
        self.admin.wait_for_topics([topic])

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Move the start of partitions: offsets below these are gone, as by retention."""
        self.admin.delete_records({TopicPartition(topic, partition): offset for partition, offset in before.items()})

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """Lose what a partition holds from offset `end` on, as a disk that comes back too old does.

        Kills the node, cuts its files at the batch that holds `end`, and starts it. One node only.
        """
        assert len(self.nodes) == 1
        self.kill()
        place = self._place(1) / "data" / f"{topic}-{partition}"
        for file in place.iterdir():
            if file.suffix == ".log":
                _cut(file, end)
            elif file.suffix in (".index", ".timeindex", ".snapshot", ".txnindex"):
                file.unlink()
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (place.parent / name).unlink(missing_ok=True)
        self.start()
        self.admin.wait_for_topics([topic])

    @property
    def admin(self) -> KafkaAdminClient:
        """kafka-python's own, for whatever else a test does to a broker."""
        if self._admin is None:
            self._admin = KafkaAdminClient(bootstrap_servers=self.bootstrap, client_id="tests")
        return self._admin

    def _forget(self) -> None:
        """No client that remembers how the brokers were."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    # --- making one ---

    def _place(self, node: int) -> Path:
        return self.folder / str(node)

    def _run(self, out: Any, main: str, *arguments: object, heap: str = "128m") -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                *(self._java, f"-Xmx{heap}", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *self._sharing(main),
                f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
                *("-cp", class_path(self._jars), main, *map(str, arguments)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            process_group=self._guard.pid,
            cwd=self.folder,
        )

    def _sharing(self, main: str) -> list[str]:
        if self._classes is None:
            return []
        option = "SharedArchiveFile" if self._training is None else "ArchiveClassesAtExit"
        return [f"-XX:{option}={self._classes / main}.jsa", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]

    def _format(self) -> None:
        (self.folder / "log4j2.properties").write_text(LOG4J)
        if self._secure:
            make_keys(self._java, self.folder)
        identity = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "a", 1)
        done = []
        for node in self.nodes:
            self._place(node).mkdir()
            (self._place(node) / "server.properties").write_text(
                "".join(
                    f"{name}={value}\n"
                    for name, value in properties(self._place(node), node, self._ports, self._settings).items()
                )
            )
            arguments = ("format", "--cluster-id", identity, "--config", self._place(node) / "server.properties")
            done.append(self._run(subprocess.PIPE, "kafka.tools.StorageTool", *arguments))
        for process in done:
            said, _ = process.communicate(timeout=120)
            assert process.returncode == 0, said.decode()


class Elsewhere(Cluster):
    """A broker that `TRAJLOG_TEST_KAFKA` names: topics may be made there, but nothing be done to it."""

    def __init__(self, places: str) -> None:
        self.nodes = range(1, 2)
        self._places = places.split(",")
        self._admin = None

    @property
    def bootstrap(self) -> list[str]:
        return self._places

    def start(self, node: int = 1, *, wait: bool = True) -> None:
        pytest.skip("TRAJLOG_TEST_KAFKA names a broker that is not this test's to start")

    def signal(self, node: int, number: signal.Signals) -> None:
        pytest.skip("TRAJLOG_TEST_KAFKA names a broker that is not this test's to stop")

    def stop(self) -> None:
        self._forget()


def _train(folder: Path) -> None:
    with Cluster(training=folder) as cluster:
        cluster.create("events", partitions=4)
        cluster.terminate()


def _brokers(place: str) -> int:
    """How many brokers the node at `place` knows; gives up soon."""
    host, _, port = place.partition(":")
    socket.create_connection((host, int(port)), 1).close()
    with KafkaAdminClient(
        bootstrap_servers=place, bootstrap_timeout_ms=3000, request_timeout_ms=3000, client_id="tests"
    ) as admin:
        return len(admin.describe_cluster()["brokers"])


def _cut(file: Path, end: int) -> None:
    """Cut a segment file at the batch that holds offset `end`."""
    data = file.read_bytes()
    at = 0
    while at + 61 <= len(data):
        base = int.from_bytes(data[at : at + 8], "big")
        last = base + int.from_bytes(data[at + 23 : at + 27], "big")
        if last >= end:
            break
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    os.truncate(file, at)
