"""The address's options as librdkafka names them."""

from typing import Any

from core.errors import UsageError
from eventlog.kafka import options
from eventlog.kafka.address import KafkaAddress

# kafka-python's names where a dot for each underscore does not give librdkafka's.
_NAMES = {
    "buffer_memory": "queue.buffering.max.kbytes",
    "fetch_max_wait_ms": "fetch.wait.max.ms",
    "max_request_size": "message.max.bytes",
    "metadata_max_age_ms": "topic.metadata.refresh.interval.ms",
    "receive_buffer_bytes": "socket.receive.buffer.bytes",
    "request_timeout_ms": "socket.timeout.ms",
    "sasl_plain_password": "sasl.password",
    "sasl_plain_username": "sasl.username",
    "send_buffer_bytes": "socket.send.buffer.bytes",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_check_hostname": "ssl.endpoint.identification.algorithm",
    "ssl_ciphers": "ssl.cipher.suites",
    "ssl_crlfile": "ssl.crl.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
}
# Of the connection, so for producers and consumers alike.
_SHARED = frozenset(
    {"client_id", "client_rack", "connections_max_idle_ms", "metadata_max_age_ms", "receive_buffer_bytes"}
    | {"receive_message_max_bytes", "reconnect_backoff_max_ms", "reconnect_backoff_ms", "request_timeout_ms"}
    | {"retry_backoff_ms", "sasl_kerberos_service_name", "sasl_mechanism", "sasl_plain_password"}
    | {"sasl_plain_username", "security_protocol", "send_buffer_bytes"}
    | {name for name in _NAMES if name.startswith("ssl_")}
)
_CONSUMER = frozenset(
    {"check_crcs", "fetch_max_bytes", "fetch_max_wait_ms", "fetch_min_bytes", "group_instance_id"}
    | {"heartbeat_interval_ms", "max_partition_fetch_bytes", "max_poll_interval_ms", "session_timeout_ms"}
)
_PRODUCER = frozenset(
    {"batch_size", "buffer_memory", "compression_type", "delivery_timeout_ms", "linger_ms", "max_request_size"}
)
# kafka-python's alone: librdkafka has its own way, or none is needed.
_WITHOUT = frozenset({"bootstrap_timeout_ms", "max_block_ms", "max_poll_records"})


class FastOptions:
    """What librdkafka's consumers and producers take; `UsageError` for an option it does not know."""

    def __init__(self, address: KafkaAddress) -> None:
        self.given = options.typed(address)
        for name in self.given:
            if name not in _SHARED | _CONSUMER | _PRODUCER | _WITHOUT:
                raise UsageError(
                    f"confluent-kafka does not know {name!r}", where="kafka", mend="use it with client=kafka-python"
                )
        self._servers = {"bootstrap.servers": ",".join(address.hosts)}

    @property
    def max_block_s(self) -> float:
        """How long a sender waits for room."""
        return float(self.given.get("max_block_ms", options.PRODUCER["max_block_ms"])) / 1000

    def consumer(self) -> dict[str, Any]:
        return self._of(_SHARED | _CONSUMER, {**options.COMMON, **options.CONSUMER})

    def producer(self) -> dict[str, Any]:
        ours = {**options.COMMON, **options.PRODUCER, "buffer_memory": options.BUFFER_MEMORY}
        return self._of(_SHARED | _PRODUCER, ours)

    def _of(self, known: frozenset[str], ours: dict[str, Any]) -> dict[str, Any]:
        merged = {name: value for name, value in {**ours, **self.given}.items() if name in known}
        return {**self._servers, **{_name(name): _value(name, value) for name, value in merged.items()}}


def _name(name: str) -> str:
    return _NAMES.get(name, name.replace("_", "."))


def _value(name: str, value: Any) -> Any:
    if name == "ssl_check_hostname":
        return "https" if value else "none"
    if name == "buffer_memory":
        return max(1, value // 1024)
    return value
