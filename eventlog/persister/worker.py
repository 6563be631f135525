"""A worker: one session after another on the topic that feeds the log, and never an end of its own.

It waits while topic and ledger do not agree, and says so; it begins anew when the topic was accepted
as another, or when the database turns out to be a restored copy.
"""

import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial

from core.errors import NotFound, TrajlogError, Unavailable, UsageError
from core.identity import uuid_text
from eventlog.kafka.client import Client, Topic
from eventlog.persister import doubts
from eventlog.persister.doubts import Doubt
from eventlog.persister.metrics import Snapshot
from eventlog.persister.ownership import OtherTopic
from eventlog.persister.sealing import Sealing
from eventlog.persister.session import Session
from eventlog.persister.source import Source, register, source
from eventlog.persister.store import Identity, Replaced, Stopped, Store
from eventlog.persister.topic_check import TopicCheck
from eventlog.persister.transaction import Hook
from eventlog.persister.voice import Voice

LOOK_AGAIN_S = 1.0


def group_of(identity: Identity) -> str:
    """The consumer group of one copy of a log: another copy must not take its partitions."""
    return f"trajlog.{uuid_text(identity.instance_id.bytes)}"


class Worker:
    """Writes what the client's topic holds into the ledger at `url` until `stop` is set; `run` it on one
    thread. `say` prints a line for people; `metrics` is added to; `hook`: see `transaction.Hook`."""

    def __init__(
        self,
        url: str,
        client: Client,
        *,
        stop: threading.Event,
        seal: bool = True,
        metrics: Snapshot | None = None,
        say: Callable[[str], None] | None = None,
        hook: Hook | None = None,
    ) -> None:
        self.metrics = metrics or Snapshot()
        self._client, self._stop, self._seal, self._hook = client, stop, seal, hook
        self._voice = Voice(say or (lambda line: None))
        self._session: Session | None = None
        self._store = Store(url, rest=self._rest, away=self._away)
        self._check = TopicCheck(client)

    def run(self) -> None:
        """`UsageError`, `NotFound`, `SchemaMismatch` for what no waiting mends."""
        began_with: Identity | None = None
        try:
            while not self._stop.is_set():
                try:
                    identity = self._store.identity()
                    if began_with is not None and identity.log_id != began_with.log_id:
                        raise TrajlogError("the database holds another log now", where="--db", mend="start anew")
                    began_with = began_with or identity
                    self._run_session(identity)
                except OtherTopic:
                    continue
                except Unavailable as error:
                    if not error.retryable:
                        raise
                    self._voice.tell("kafka", str(error))
                    self._stop.wait(LOOK_AGAIN_S)
                except Replaced:
                    self._voice.tell("database", "the database is another copy of the log now: beginning anew")
                    self._store.begin_anew()
                except Stopped:
                    return
        finally:
            self._check.close()
            self._store.close()

    def _run_session(self, identity: Identity) -> None:
        agreed = self._agree()
        session = Session(
            client=self._client,
            group=group_of(identity),
            source=agreed,
            store=self._store,
            check=self._check,
            stop=self._stop,
            sealing=Sealing(self._store) if self._seal else None,
            metrics=self.metrics,
            voice=self._voice,
            hook=self._hook,
        )
        with closing(session):
            self._session = session
            try:
                session.run()
            finally:
                self._session = None
                self.metrics.lag, self.metrics.refused_partitions = {}, []

    def _agree(self) -> Source:
        """Wait until the broker's topic is the one that feeds the log. `Stopped`."""
        name = self._client.address.topic
        while True:
            try:
                topic = self._check.ask().result().topic
            except Unavailable as error:
                if not error.retryable:
                    raise
                self._voice.tell("kafka", str(error))
            else:
                self._voice.over("kafka", "the broker answers again")
                found = self._source(name, topic)
                doubt = doubts.of_topic(found, name, topic)
                if doubt is None:
                    self.metrics.topic_refused = False
                    self._voice.over("topic", f"topic {name!r} is taken again")
                    return found
                self._refuse(doubt)
            if self._stop.wait(LOOK_AGAIN_S):
                raise Stopped

    def _source(self, name: str, topic: Topic | None) -> Source:
        found = self._store.run(source)
        if found is not None:
            return found
        if topic is None:
            raise NotFound(
                f"there is no topic {name!r}", where=self._client.address.place, mend="run: trajlog kafka init"
            )
        return self._store.run(partial(register, topic=topic))

    def _refuse(self, doubt: Doubt) -> None:
        if doubt.cause == "moved":
            raise UsageError(doubt.what, where=self._client.address.place, mend=doubt.mend)
        self.metrics.topic_refused = True
        self._voice.tell("topic", f"refused: {doubt}")

    def _rest(self, seconds: float) -> bool:
        if self._session is not None:
            return self._session.rest(seconds)
        return not self._stop.wait(seconds)

    def _away(self, error: TrajlogError | None) -> None:
        self.metrics.paused = error is not None
        if error is None:
            self._voice.over("database", "the database is back")
        else:
            self._voice.tell("database", f"paused, nothing is lost: {error}")
