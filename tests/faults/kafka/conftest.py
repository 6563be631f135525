"""Brokers and servers for scenarios: those that stay whole are shared, others may be killed."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.embedded import Embedded
from tests.broker import Cluster
from tests.conftest import kafka
from tests.databases import Databases
from tests.faults.kafka.plan import FIRST


def pytest_report_header() -> str:
    return f"Kafka faults: the first seed of each kind is {FIRST}"


@pytest.fixture(scope="session")
def own_broker() -> Iterator[Cluster]:
    """One node, to be killed and cut."""
    with kafka(Cluster) as found:
        yield found


@pytest.fixture(scope="session")
def own_server(template: Path) -> Iterator[Embedded]:
    """A Postgres to be stopped and crashed."""
    with tempfile.TemporaryDirectory(prefix="trajlog-test-", dir=template.parent.parent) as folder:
        Path(folder).chmod(0o711)
        home = Path(folder, "home")
        subprocess.run(["cp", "-a", template, home], check=True)
        server = Embedded(home)
        server.start()
        try:
            yield server
        finally:
            server.start()  # it may be in the middle of anything
            server.stop()


@pytest.fixture(scope="session")
def own_databases(own_server: Embedded) -> Databases:
    return Databases(own_server)
