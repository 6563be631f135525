"""A topic of the test's own, in a real broker, and an empty ledger."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.broker import Cluster
from tests.databases import Database, Databases
from tests.eventlog.persister.workbench import Workbench

_numbers = count(1)


@pytest.fixture(scope="module")
def database(databases: Databases) -> Database:
    """A database of this module's own."""
    return databases.fresh("persister")


@pytest.fixture(params=["kafka-python", pytest.param("confluent-kafka", marks=pytest.mark.faults)])
def library(request: pytest.FixtureRequest) -> str:
    """Each client library in turn."""
    return str(request.param)


@pytest.fixture
def bench(broker: Cluster, database: Database, library: str) -> Iterator[Workbench]:
    """A topic, a ledger, and what a test does with them."""
    database.empty()
    with Workbench(broker, database, f"persister-{next(_numbers)}-{id(broker)}", library) as found:
        yield found
