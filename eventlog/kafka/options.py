"""The address's options as each client library takes them."""

from collections.abc import Mapping
from typing import Any

from core.errors import UsageError
from eventlog.kafka.address import KafkaAddress

# What may be changed, but is better so than as the libraries have it.
COMMON: dict[str, Any] = {
    "client_id": "trajlog",
    "bootstrap_timeout_ms": 5_000,  # until "no broker answers"
    "request_timeout_ms": 15_000,
    "metadata_max_age_ms": 5_000,  # a topic made again is found that soon
    "reconnect_backoff_max_ms": 1_000,  # a broker that came back is found that soon, as by Kafka's own client
}
CONSUMER: dict[str, Any] = {
    "session_timeout_ms": 10_000,  # until a dead worker's partitions go to another
    "heartbeat_interval_ms": 2_000,
    "fetch_max_wait_ms": 100,  # a seek or resume takes effect that soon
    "fetch_max_bytes": 16_000_000,
    "max_partition_fetch_bytes": 4_000_000,
}
PRODUCER: dict[str, Any] = {
    "linger_ms": 2,
    "batch_size": 262_144,
    "max_request_size": 2_097_152,
    "delivery_timeout_ms": 60_000,
    "max_block_ms": 60_000,
}
BUFFER_MEMORY = 33_554_432

_NO_TEXT = frozenset(
    {"default_offset_commit_callback", "kafka_client", "metric_reporters", "sasl_oauth_token_provider", "selector"}
    | {"socket_options", "ssl_context", "api_version"}
)
_NUMBERS = frozenset({"receive_buffer_bytes", "send_buffer_bytes", "buffer_memory"})
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def typed(address: KafkaAddress) -> dict[str, Any]:
    """The options with kafka-python's types; `UsageError` for one that it does not know."""
    known = _known()
    found: dict[str, Any] = {}
    for name, value in address.settings.items():
        if name == "buffer_memory":
            found[name] = _number(name, value, int)
        elif name not in known or name in _NO_TEXT:
            raise UsageError(f"kafka-python has no option {name!r} to be set here", where="kafka", mend="correct it")
        else:
            found[name] = _typed(name, value, known[name])
    return found


def of(kind: type, options: Mapping[str, Any], *ours: Mapping[str, Any]) -> dict[str, Any]:
    """What one of kafka-python's classes takes of `ours`, and above it of the options."""
    known = kind.DEFAULT_CONFIG  # type: ignore[attr-defined]
    merged: dict[str, Any] = {}
    for layer in (COMMON, *ours, options):
        merged |= layer
    return {name: value for name, value in merged.items() if name in known}


def _known() -> dict[str, Any]:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

    return {**KafkaAdminClient.DEFAULT_CONFIG, **KafkaProducer.DEFAULT_CONFIG, **KafkaConsumer.DEFAULT_CONFIG}


def _typed(name: str, value: str, default: Any) -> Any:
    if isinstance(default, bool):
        word = value.lower()
        if word not in _TRUE and word not in _FALSE:
            raise UsageError(f"{name} is true or false, not {value!r}", where="kafka")
        return word in _TRUE
    if isinstance(default, int) or name in _NUMBERS:
        return _number(name, value, int)
    if isinstance(default, float):
        return _number(name, value, float)
    return value


def _number(name: str, value: str, kind: type[int] | type[float]) -> int | float:
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"{name} is a number, not {value!r}", where="kafka") from None
