"""How test brokers are set up: ports, keys and server.properties."""

import random
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

USER, PASSWORD = "tester", "pa%ss&word"
LOG4J = """
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss.SSS} %p %c{1} %m%n
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
"""


class Ports:
    """Ports of each node, by listener; `sasl` and `tls` are empty unless `secure`."""

    def __init__(self, nodes: int, secure: bool) -> None:
        found = _ports(nodes * (4 if secure else 2))
        self.plain, self.controllers = found[:nodes], found[nodes : 2 * nodes]
        self.sasl, self.tls = found[2 * nodes : 3 * nodes], found[3 * nodes :]


def properties(place: Path, node: int, ports: Ports, settings: Mapping[str, object]) -> dict[str, object]:
    """server.properties of a node in `place`: clients that die and nodes that are gone are noticed within seconds."""
    at = node - 1
    listeners = {"PLAINTEXT": ports.plain[at]}
    if ports.tls:
        listeners |= {"SASL_PLAINTEXT": ports.sasl[at], "SSL": ports.tls[at]}
    shown = ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items())
    replicas = min(3, len(ports.plain))
    found: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(ports.controllers, 1)),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{shown},CONTROLLER://127.0.0.1:{ports.controllers[at]}",
        "advertised.listeners": shown,
        "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in listeners) + ",CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": place / "data",
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": max(1, replicas - 1),
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": max(1, replicas - 1),
        "transaction.state.log.num.partitions": 3,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": max(1, replicas - 1),
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 500,
        "group.consumer.min.session.timeout.ms": 1000,
        "group.consumer.session.timeout.ms": 2000,
        "group.consumer.min.heartbeat.interval.ms": 300,
        "group.consumer.heartbeat.interval.ms": 300,
        "broker.session.timeout.ms": 2000,
        "broker.heartbeat.interval.ms": 300,
        "controller.quorum.election.timeout.ms": 500,
        "controller.quorum.fetch.timeout.ms": 1000,
        "replica.lag.time.max.ms": 3000,
        "log.cleaner.dedupe.buffer.size": 2_000_000,
        "log.index.size.max.bytes": 262_144,
        "log.initial.task.delay.ms": 500,
        "num.recovery.threads.per.data.dir": 2,
    }
    if ports.tls:
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        found |= {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
            "ssl.keystore.location": place.parent / "keys.p12",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.password": "secret",
            "ssl.key.password": "secret",
        }
    return found | dict(settings)


def make_keys(java: str, folder: Path) -> None:
    """A self-signed certificate for 127.0.0.1: keys.p12 for the broker, ca.pem for clients."""
    tool = shutil.which("keytool", path=str(Path(java).resolve().parent)) or "keytool"
    store: list[str | Path] = ["-alias", "broker", "-keystore", folder / "keys.p12", "-storepass", "secret"]
    subject = ["-dname", "CN=127.0.0.1", "-ext", "SAN=ip:127.0.0.1", "-validity", "10"]
    for command in (
        ["-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-storetype", "PKCS12", *store, *subject],
        ["-exportcert", "-rfc", "-file", folder / "ca.pem", *store],
    ):
        subprocess.run([tool, *command], check=True, capture_output=True)


def _ports(count: int) -> list[int]:
    """Free ports below those that the system hands out to clients, so that nobody takes one meanwhile."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found
