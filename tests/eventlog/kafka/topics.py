"""Topics of a test's own, gone after it."""

import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from kafka.errors import UnknownTopicOrPartitionError

from tests.broker import Cluster


class Topics:
    """Makes topics on a broker that others use too."""

    def __init__(self, broker: Cluster) -> None:
        self.broker = broker
        self._made: list[str] = []

    def fresh(self, partitions: int = 1, *, settings: Mapping[str, str] = {}, **options: str) -> str:
        """The address of a new topic, with the client's options."""
        address = self.name(**options)
        self.broker.create(self._made[-1], partitions, settings=settings)
        return address

    def name(self, **options: str) -> str:
        """The address of a topic that there is not yet."""
        self._made.append(f"test-{uuid.uuid4().hex[:12]}")
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return self.broker.address(self._made[-1]) + (f"?{query}" if query else "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for name in self._made:
            with suppress(UnknownTopicOrPartitionError):
                self.broker.admin.delete_topics([name])
