"""Where a log is: `kafka://host:9092[,host…]/topic[?option=value]`, and its secrets apart from it.

An option is any setting of the client, named as kafka-python names it: TLS and SASL above all. The
URL goes before the environment (`TRAJLOG_KAFKA_<OPTION>`), that before the config file's `[kafka]`.
"""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from core.errors import UsageError

SCHEME = "kafka://"
PREFIX = "TRAJLOG_KAFKA_"
CLIENTS = ("confluent-kafka", "kafka-python")
# What the log's correctness rests on, or what the URL says already.
OURS = frozenset(
    {
        "acks",
        "allow_auto_create_topics",
        "auto_offset_reset",
        "bootstrap_servers",
        "enable_auto_commit",
        "enable_idempotence",
        "group_id",
        "isolation_level",
        "key_deserializer",
        "key_serializer",
        "partition_assignment_strategy",
        "partitioner",
        "transactional_id",
        "value_deserializer",
        "value_serializer",
    }
)
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_OPTION = re.compile(r"[a-z][a-z0-9_]*")
_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?")
_SECRET = re.compile(r"password|secret|token|jaas|(?<!ssl_)key(?!file)|oauth|credential|proxy")


class KafkaAddress(NamedTuple):
    """The brokers to begin with (host:port), the topic, and the client's options."""

    hosts: tuple[str, ...]
    topic: str
    options: Mapping[str, str] = {}

    @classmethod
    def parse(cls, text: str, options: Mapping[str, str] | None = None) -> "KafkaAddress":
        """The address in `text`, with the environment's options and, below them, `options`. `UsageError`."""
        if not text.startswith(SCHEME):
            raise _bad("not a Kafka address", text)
        place, _, query = text.removeprefix(SCHEME).partition("?")
        if "@" in place:
            raise UsageError(
                "a name and password in the address would be seen by all",
                where="--log",
                mend=f"set {PREFIX}SASL_PLAIN_USERNAME and {PREFIX}SASL_PLAIN_PASSWORD",
            )
        hosts, slash, topic = place.partition("/")
        topic = unquote(topic)
        if not slash or not topic:
            raise _bad("names no topic", text)
        if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
            raise UsageError(
                f"not a topic's name: {topic[:60]!r}", where="--log", mend="use up to 249 of a-z A-Z 0-9 . _ -"
            )
        try:
            given = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        except ValueError:
            raise _bad("its options are not name=value, joined by &", text) from None
        merged = {**(options or {}), **environment(), **{name.lower(): value for name, value in given.items()}}
        return cls(tuple(_host(host, text) for host in hosts.split(",")), topic, _checked(merged))

    @property
    def client(self) -> str | None:
        """The library that the option `client` asks for."""
        return self.options.get("client")

    @property
    def settings(self) -> dict[str, str]:
        """The options that are the library's."""
        return {name: value for name, value in self.options.items() if name != "client"}

    @property
    def place(self) -> str:
        """Hosts and topic alone, for messages."""
        return f"{SCHEME}{','.join(self.hosts)}/{self.topic}"

    def masked(self) -> str:
        """The address with its options, secrets as `***`."""
        shown = "&".join(f"{name}={'***' if secret(name) else quote(v)}" for name, v in sorted(self.options.items()))
        return f"{self.place}?{shown}" if shown else self.place


def environment() -> dict[str, str]:
    """The options that the environment gives."""
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in os.environ.items()
        if name.startswith(PREFIX) and value
    }


def secret(option: str) -> bool:
    """Whether an option's value is not for other eyes."""
    return _SECRET.search(option) is not None


def _checked(options: dict[str, str]) -> dict[str, str]:
    for name in options:
        if not _OPTION.fullmatch(name):
            raise UsageError(
                f"not an option: {name[:60]!r}", where="kafka", mend="use kafka-python's names, as ssl_cafile"
            )
        if name in OURS:
            raise UsageError(f"{name} is not to be set: the log rests on it", where="kafka", mend="leave it out")
    client = options.get("client")
    if client is not None and client not in CLIENTS:
        raise UsageError(f"no such client: {client!r}", where="kafka", mend=f"use {' or '.join(CLIENTS)}")
    return options


def _host(text: str, whole: str) -> str:
    found = _HOST.fullmatch(text)
    port = int(found["port"] or 9092) if found else 0
    if not found or not 0 < port < 65_536:
        raise _bad(f"{text!r} is not host:port" if text else "names no host", whole)
    return f"{found['host']}:{port}"


def _bad(what: str, text: str) -> UsageError:
    shown = text.partition("?")[0]
    if "@" in shown:
        shown = shown.partition("://")[0] + "://***@" + shown.rpartition("@")[2]
    return UsageError(
        f"{shown!r}: {what}", where="--log", mend="use kafka://host:9092/topic, or kafka://host,host/topic?option=value"
    )
