"""TLS and SASL pass through; and a broker that makes any topic that is named makes none for us."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from core.errors import Unavailable
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Client, Refused, connect
from eventlog.kafka.testing import from_start, read, send_all
from tests.broker import Cluster
from tests.broker_settings import PASSWORD, USER
from tests.conftest import kafka
from tests.eventlog.kafka.topics import Topics

SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": USER}
QUICK = {"bootstrap_timeout_ms": "4000"}


@pytest.fixture(scope="module")
def secure() -> Iterator[Cluster]:
    with kafka(lambda: Cluster(secure=True, settings={"auto.create.topics.enable": "true"})) as found:
        yield found


@pytest.fixture
def topics(secure: Cluster) -> Iterator[Topics]:
    with Topics(secure) as found:
        yield found


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.faults)], ids=["kafka-python", "confluent-kafka"])
def fast(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def client(place: str, topic: str, fast: bool, **options: str) -> Client:
    return connect(KafkaAddress((place,), topic, QUICK | options), fast=fast)


def check_works(user: Client) -> None:
    send_all(user, [(b"%d" % number, b"x") for number in range(50)])
    with closing(from_start(user)) as consumer:
        assert len(read(consumer, 50)) == 50
        topic = consumer.topic()
        assert topic is not None and topic.partitions == 4
        assert consumer.record(0, 0) is not None


def refusals(user: Client, kind: type[Unavailable] = Refused) -> list[str]:
    """What each part says when it is refused."""
    said = []
    for make in (user.admin, user.sender, lambda: user.consumer("g")):
        with pytest.raises(kind) as caught:
            make()
        said.append(str(caught.value))
    assert not any("\n" in line for line in said)
    return said


def topic_of(topics: Topics) -> str:
    return KafkaAddress.parse(topics.fresh(4)).topic


def test_sasl_passes_through(secure: Cluster, topics: Topics, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAJLOG_KAFKA_SASL_PLAIN_PASSWORD", PASSWORD)
    query = "&".join(f"{name}={value}" for name, value in SASL.items())
    address = KafkaAddress.parse(f"kafka://{secure.sasl}/{topic_of(topics)}?{query}")
    assert PASSWORD not in address.masked() and USER in address.masked()
    check_works(connect(address, fast=fast))


def test_a_wrong_password_is_refused_and_not_told(secure: Cluster, topics: Topics, fast: bool) -> None:
    wrong = client(secure.sasl, topic_of(topics), fast, **SASL, sasl_plain_password="not-this-one")
    # The library does not always hear why the broker ended the connection.
    for line in refusals(wrong, Unavailable):
        assert "the broker refuses the login" in line or "the broker ends the connection" in line
        assert "TRAJLOG_KAFKA_SASL_PLAIN_PASSWORD" in line
        assert "not-this-one" not in line


def test_tls_passes_through(secure: Cluster, topics: Topics, fast: bool) -> None:
    trusting = {"security_protocol": "SSL", "ssl_cafile": str(secure.certificate)}
    check_works(client(secure.tls, topic_of(topics), fast, **trusting))


def test_a_certificate_that_nobody_trusts_is_refused(secure: Cluster, topics: Topics, fast: bool) -> None:
    for line in refusals(client(secure.tls, topic_of(topics), fast, security_protocol="SSL")):
        assert "no secure connection" in line and "ssl_" in line


def test_speaking_plainly_to_a_tls_port_ends(secure: Cluster, topics: Topics, fast: bool) -> None:
    with pytest.raises(Unavailable, match="security_protocol") as caught:
        client(secure.tls, topic_of(topics), fast).admin()
    assert "\n" not in str(caught.value)


def test_no_topic_is_made_by_using_it(secure: Cluster, topics: Topics, fast: bool) -> None:
    name = KafkaAddress.parse(topics.name()).topic
    user = client(secure.bootstrap[0], name, fast, metadata_max_age_ms="200")
    with pytest.raises(Unavailable, match="no such topic"):
        user.sender()
    with closing(user.consumer("g-none")) as consumer, closing(user.admin()) as admin:
        for _ in range(8):
            assert consumer.poll(0.2, 1) == {}
        assert admin.topic(name) is None
