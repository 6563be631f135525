"""Topics and settings of the broker, asked over a connection of its own. Both clients use this one."""

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code
from kafka.protocol.consumer import IsolationLevel, OffsetSpec
from kafka.structs import OffsetAndMetadata

from core.errors import UsageError
from eventlog.kafka import options
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Bounds, Topic
from eventlog.kafka.faults import line, reach, translate

WAIT_S = 20
_NO_TOPIC = UnknownTopicOrPartitionError.errno


class KafkaAdmin:
    """`eventlog.kafka.client.Admin` with kafka-python. Any thread may use it."""

    def __init__(self, address: KafkaAddress, given: Mapping[str, Any]) -> None:
        self._address = address
        found = options.of(KafkaAdminClient, given)
        self._client = reach(
            lambda: KafkaAdminClient(**found, bootstrap_servers=list(address.hosts)), self._address.place
        )

    def topic(self, name: str) -> Topic | None:
        found = self._describe(name)
        if found is None:
            return None
        replication = max((len(p["replica_nodes"]) for p in found["partitions"]), default=0)
        return Topic(name, _bytes(found["topic_id"]), len(found["partitions"]), replication)

    def create(self, name: str, partitions: int, replication: int, settings: Mapping[str, str]) -> Topic:
        wanted = {"num_partitions": partitions, "replication_factor": replication, "configs": dict(settings)}
        with self._translated():
            try:
                self._client.create_topics({name: wanted}, wait_for_metadata=True)
            except TopicAlreadyExistsError:
                raise UsageError("the topic exists already", where=self._address.place) from None
            except KafkaError as error:
                if getattr(error, "errno", None) in _REFUSALS:
                    raise UsageError(f"the broker refuses: {line(error)}", where=self._address.place) from None
                raise
        found = self.topic(name)
        assert found is not None
        return found

    def delete(self, name: str) -> None:
        with self._translated():
            self._client.delete_topics([name])
        until = time.monotonic() + WAIT_S
        while self.topic(name) is not None and time.monotonic() < until:
            time.sleep(0.05)

    def settings(self, name: str) -> dict[str, str]:
        return self._settings(ConfigResourceType.TOPIC, name)

    def broker_settings(self) -> dict[str, str]:
        with self._translated():
            brokers = self._client.describe_cluster()["brokers"]
        return self._settings(ConfigResourceType.BROKER, str(brokers[0]["broker_id"])) if brokers else {}

    def brokers(self) -> int:
        with self._translated():
            return sum(not broker.get("is_fenced") for broker in self._client.describe_cluster()["brokers"])

    def replicas(self, name: str) -> list[tuple[int, int]]:
        found = self._describe(name)
        parts = sorted(found["partitions"], key=lambda p: p["partition_index"]) if found else []
        return [(len(part["replica_nodes"]), len(part["isr_nodes"])) for part in parts]

    def bounds(self, name: str, partitions: Iterable[int]) -> dict[int, Bounds]:
        """The offsets that partitions of a topic hold, up to the last stable one."""
        places = [TopicPartition(name, partition) for partition in partitions]
        with self._translated():
            starts, ends = (
                self._client.list_partition_offsets(dict.fromkeys(places, spec), IsolationLevel.READ_COMMITTED)
                for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
            )
        return {place.partition: Bounds(starts[place].offset, ends[place].offset) for place in places}

    def report(self, group: str, name: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of a topic under a group that has no members, if it can be done."""
        with suppress(KafkaError, OSError):
            places = {TopicPartition(name, part): OffsetAndMetadata(offset, "", -1) for part, offset in offsets.items()}
            self._client.alter_group_offsets(group, places)

    def close(self) -> None:
        self._client.close()

    def _describe(self, name: str) -> dict[str, Any] | None:
        with self._translated():
            found: dict[str, Any] = self._client.describe_topics([name])[0]
            if found["error_code"] == _NO_TOPIC:
                return None
            if found["error_code"]:
                raise for_code(found["error_code"])(name)
        return found

    def _settings(self, kind: ConfigResourceType, name: str) -> dict[str, str]:
        with self._translated():
            found = self._client.describe_configs([ConfigResource(kind, name)], config_filter="all")
        values = found[kind.name.lower()].get(name, {})
        return {key: entry["value"] for key, entry in values.items() if entry["value"] is not None}

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (KafkaError, OSError, AssertionError, ValueError) as error:
            raise translate(error, self._address.place) from error


# What the broker will say again, however often it is asked.
_REFUSALS = (17, 37, 38, 39, 40, 42, 44)


def _bytes(topic_id: Any) -> bytes:
    """The id's 16 bytes, in whatever form the library has it."""
    return topic_id.bytes if isinstance(topic_id, uuid.UUID) else uuid.UUID(str(topic_id)).bytes
