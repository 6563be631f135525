"""Making a log's topic on a real broker."""

from collections.abc import Iterator

import pytest

from core.errors import UsageError
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Admin, connect
from eventlog.kafka.findings import judge, rebuild
from eventlog.kafka.standing import look
from eventlog.kafka.topic import create
from tests.broker import Cluster
from tests.eventlog.kafka.topics import Topics


@pytest.fixture
def topics(broker: Cluster) -> Iterator[Topics]:
    with Topics(broker) as found:
        yield found


@pytest.fixture
def admin(topics: Topics) -> Iterator[Admin]:
    found = connect(KafkaAddress.parse(topics.broker.address("any"))).admin()
    yield found
    found.close()


def test_a_topic_is_made_as_it_must_be(topics: Topics, admin: Admin) -> None:
    address = KafkaAddress.parse(topics.name())
    made = create(admin, address, partitions=5)
    assert made.created and made.topic == admin.topic(address.topic)
    assert made.topic.partitions == 5
    assert admin.settings(address.topic).items() >= made.settings.items()
    standing = look(admin, address)
    assert [f.name for f in judge(standing) if f.status == "fail"] == []
    assert rebuild(standing).complete


def test_making_it_again_changes_nothing(topics: Topics, admin: Admin) -> None:
    address = KafkaAddress.parse(topics.name())
    first = create(admin, address, partitions=5)
    for again in (create(admin, address), create(admin, address, partitions=5, replication=1)):
        assert not again.created and again.topic == first.topic


@pytest.mark.parametrize(
    "settings",
    [{"cleanup.policy": "compact"}, {"retention.ms": "1000000"}, {"max.message.bytes": "1000"}],
    ids=lambda settings: next(iter(settings)),
)
def test_a_topic_of_other_settings_is_refused_and_left_alone(
    topics: Topics, admin: Admin, settings: dict[str, str]
) -> None:
    good = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "2000000"}
    address = KafkaAddress.parse(topics.fresh(2, settings=good | settings))
    before = admin.settings(address.topic)
    with pytest.raises(UsageError) as caught:
        create(admin, address)
    assert "\n" not in str(caught.value)
    (name,) = settings
    assert f"{name} is {settings[name]} and not" in str(caught.value)
    assert admin.settings(address.topic) == before


def test_a_topic_with_other_partitions_is_refused(topics: Topics, admin: Admin) -> None:
    address = KafkaAddress.parse(topics.name())
    create(admin, address, partitions=2)
    with pytest.raises(UsageError, match="partitions is 2 and not 3"):
        create(admin, address, partitions=3)


@pytest.mark.parametrize("given", [{"partitions": 0}, {"partitions": 10_001}, {"replication": 0}, {"replication": 9}])
def test_impossible_sizes_are_refused(topics: Topics, admin: Admin, given: dict[str, int]) -> None:
    address = KafkaAddress.parse(topics.name())
    with pytest.raises(UsageError):
        create(admin, address, **given)
    assert admin.topic(address.topic) is None


def test_what_retention_took_is_said(topics: Topics, admin: Admin) -> None:
    from eventlog.kafka.testing import send_all

    address = KafkaAddress.parse(topics.name())
    create(admin, address, partitions=1)
    send_all(connect(address), [(b"k", b"v")] * 10)
    topics.broker.delete_records(address.topic, {0: 4})
    can = rebuild(look(admin, address))
    assert not can.complete
    assert "partitions 0 have lost their beginning" in can.what
