"""Asks the broker, beside the worker's own work, what its topic is at this moment.

A topic that was deleted and made anew is read on silently by clients, which remember its name and
even the old id: so after a batch is fetched, and before it is committed, the broker is asked.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from eventlog.kafka.client import Admin, Client, Topic


class Seen(NamedTuple):
    """The topic, None if there is none, and how long the broker took to say so."""

    topic: Topic | None
    seconds: float


class TopicCheck:
    """One thread with a connection of its own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._admin: Admin | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="trajlog-topic")

    def ask(self) -> "Future[Seen]":
        """The topic as the broker has it after this call. `Unavailable`."""
        return self._executor.submit(self._ask)

    def _ask(self) -> Seen:
        began = time.monotonic()
        if self._admin is None:
            self._admin = self._client.admin()
        topic = self._admin.topic(self._client.address.topic)
        return Seen(topic, time.monotonic() - began)

    def close(self) -> None:
        """End the thread, once it has its last answer."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        if self._admin is not None:
            self._admin.close()
