"""Puts events into Kafka. The key is the stream: one stream lies in one partition and keeps its order.

Nothing is asked of the broker before the first event. `accepted` means that every in-sync replica has
it; an event without an answer may be in Kafka all the same, and is sent again under the same id.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from core.errors import TrajlogError, Unavailable
from eventlog import forks
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Client, Sender, Sent, Topic, connect

CLOSE_S = 10.0

T = TypeVar("T")


class Producer:
    """Sends to one topic. Any threads may share it; a forked process gets a connection of its own."""

    def __init__(self, address: KafkaAddress, client: Client | None = None) -> None:
        self.address = address
        self._client = client
        self._lock = threading.Lock()
        self._sender: Sender | None = None
        self._connecting: Future[Sender] | None = None
        self._topic: Topic | None = None
        forks.begin_anew(self)

    def send(self, key: bytes, value: bytes, done: Callable[[Sent | TrajlogError], None]) -> None:
        """Hand over one encoded event; `done` hears on another thread where it lies. Blocks while the
        buffer is full. `Unavailable` when that lasts, or for a topic that is not there."""
        try:
            (self._sender or self._begin()).send(key, value, (), done)
        except KeyboardInterrupt:  # kafka-python may have got half of a record into its batch
            self.renew()
            raise

    def topic(self, *, anew: bool = False) -> Topic:
        """The topic as the broker had it when first asked, or has it now. `Unavailable`."""
        topic = self._topic
        if topic is None or anew:
            topic = self._topic = _aside(self._ask).result()
        return topic

    def renew(self) -> None:
        """Give the connection up, with what it never sent; the next event begins another."""
        with self._lock:
            sender, self._sender = self._sender, None
        if sender is not None:
            threading.Thread(target=sender.close, args=(0,), name="trajlog-renew", daemon=True).start()

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Wait for the answers to what was sent, at most so long, and disconnect."""
        with self._lock:
            sender, self._sender = self._sender, None
            connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.add_done_callback(_drop)
        if sender is not None:
            sender.close(timeout_s)

    def forked(self) -> None:
        forks.leave((self._client, self._sender))
        self._lock = threading.Lock()
        self._client = self._sender = self._connecting = None

    def _begin(self) -> Sender:
        with self._lock:
            if self._sender is None:
                self._connecting = self._connecting or _aside(lambda: self._connected().sender())
                try:
                    self._sender = self._connecting.result()
                finally:  # interrupted while it waits, it may be asked again
                    if self._connecting.done():
                        self._connecting = None
            return self._sender

    def _connected(self) -> Client:
        if self._client is None:
            self._client = connect(self.address)
        return self._client

    def _ask(self) -> Topic:
        admin = self._connected().admin()
        try:
            topic = admin.topic(self.address.topic)
        finally:
            admin.close()
        if topic is None:
            raise Unavailable(
                "there is no such topic", where=self.address.place, mend="create it with trajlog kafka init"
            )
        return topic


def _aside(work: Callable[[], T]) -> Future[T]:
    """Do it on a thread of its own: an interrupt that meets kafka-python while it connects is swallowed there, and
    the connection never comes about."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="trajlog-connect", daemon=True).start()
    return future


def _drop(connecting: Future[Sender]) -> None:
    if connecting.exception() is None:
        connecting.result().close(0)
