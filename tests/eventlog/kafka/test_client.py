"""Both clients hold the shipped contract, and what only a broker that is broken can show."""

from collections.abc import Iterator

import pytest

from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Client, connect
from eventlog.kafka.testing import PARTITIONS, ClientContract
from tests.broker import Cluster
from tests.eventlog.kafka.topics import Topics


@pytest.fixture
def topics(broker: Cluster) -> Iterator[Topics]:
    with Topics(broker) as found:
        yield found


class TestPythonClient(ClientContract):
    @pytest.fixture
    def client(self, topics: Topics) -> Client:
        return connect(KafkaAddress.parse(topics.fresh(PARTITIONS)), fast=False)


class TestFastClient(ClientContract):
    @pytest.fixture
    def client(self, topics: Topics) -> Client:
        return connect(KafkaAddress.parse(topics.fresh(PARTITIONS)), fast=True)
