"""A log's address: what it says, what it refuses, and what it never shows."""

import pytest

from core.errors import UsageError
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import connect


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAJLOG_KAFKA_SASL_PLAIN_PASSWORD", raising=False)


def test_an_address_names_brokers_a_topic_and_options() -> None:
    found = KafkaAddress.parse("kafka://a:1,b,[::1]:3/events?ssl_cafile=/x%20y&Linger_Ms=7")
    assert found.hosts == ("a:1", "b:9092", "[::1]:3")
    assert found.topic == "events"
    assert found.options == {"ssl_cafile": "/x y", "linger_ms": "7"}
    assert found.place == "kafka://a:1,b:9092,[::1]:3/events"


def test_the_address_goes_before_the_environment_and_that_before_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAJLOG_KAFKA_LINGER_MS", "2")
    monkeypatch.setenv("TRAJLOG_KAFKA_BATCH_SIZE", "2")
    given = {"linger_ms": "3", "batch_size": "3", "client_id": "3"}
    found = KafkaAddress.parse("kafka://a/t?linger_ms=1", given)
    assert found.options == {"linger_ms": "1", "batch_size": "2", "client_id": "3"}


@pytest.mark.parametrize(
    "text",
    [
        *("", "kafka:/a/t", "http://a/t", "kafka://", "kafka:///t", "kafka://a", "kafka://a/", "kafka://a,/t"),
        *("kafka://a:0/t", "kafka://a:65536/t", "kafka://a:x/t", "kafka://a b/t", "kafka://a/t/u", "kafka://a/t u"),
        *("kafka://a/..", f"kafka://a/{'t' * 250}", "kafka://a/t?x", "kafka://a/t?x=1&&y=2", "kafka://a/t?a-b=1"),
        *("kafka://a/t?acks=1", "kafka://a/t?group_id=g", "kafka://a/t?partitioner=x", "kafka://a/t?client=librdkafka"),
        *("kafka://a/t?auto_offset_reset=latest", "kafka://a/t?isolation_level=read_uncommitted"),
    ],
)
def test_a_wrong_address_is_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        KafkaAddress.parse(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAJLOG_KAFKA_SASL_PLAIN_PASSWORD", "hush")
    found = KafkaAddress.parse("kafka://a/t?ssl_password=hush&sasl_plain_username=me&proxy_url=http://me:hush@p")
    assert found.options["sasl_plain_password"] == "hush"
    assert "hush" not in found.masked()
    assert "sasl_plain_username=me" in found.masked()
    for wrong in ("kafka://me:hush@a/t", "kafka://a/?ssl_password=hush", "kafka://me:hush@/", "kafka://a:x/t?k=hush"):
        with pytest.raises(UsageError) as caught:
            KafkaAddress.parse(wrong)
        assert "hush" not in str(caught.value)


def test_the_client_option_chooses_the_library() -> None:
    assert connect(KafkaAddress.parse("kafka://a/t?client=kafka-python")).library.startswith("kafka-python")
    assert connect(KafkaAddress.parse("kafka://a/t?client=confluent-kafka")).library.startswith("confluent-kafka")
    assert connect(KafkaAddress.parse("kafka://a/t")).library.startswith("confluent-kafka")
    assert connect(KafkaAddress.parse("kafka://a/t"), fast=False).library.startswith("kafka-python")


def test_an_option_that_only_kafka_python_has_chooses_it() -> None:
    address = KafkaAddress.parse("kafka://a/t?client_dns_lookup=use_all_dns_ips")
    assert connect(address).library.startswith("kafka-python")
    with pytest.raises(UsageError):
        connect(address, fast=True)
