"""A writer as a process of its own: `python -m tests.faults.writer URL NAME WORK SEED`.

It prints one line for each event that was acknowledged, and says where it is. WORK is a method of
`Writer`; those that stall wait for a line on stdin.
"""

import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import psycopg

from core.errors import BadEvent, EventIdTaken, Unavailable, WrongExpectedVersion
from core.event import Event
from core.identity import uuid7
from eventlog import commit as module
from eventlog import database
from eventlog.database import Connection
from eventlog.ledger import Ledger
from eventlog.log import Appended
from eventlog.testing import an_event

SHARED = ("shared/a", "shared/b", "shared/c")
ROUNDS = 40
LARGE = 200


def say(*words: object) -> None:
    print(*words, flush=True)


class Writer:
    """Writes under one name; every event of it carries a number of its own."""

    def __init__(self, url: str, name: str, seed: int) -> None:
        self.log = Ledger(url)
        self.name = name
        self.random = random.Random(seed)
        self.run = uuid7()
        self.seqs: dict[str, int] = {}

    def event(self, stream: str | None = None, **fields: Any) -> Event:
        stream = stream or self.random.choice([*SHARED, f"own/{self.name}"])
        self.seqs[stream] = seq = self.seqs.get(stream, 0) + 1
        return an_event(stream, writer=self.name, run=self.run, seq=seq, **fields)

    def acknowledge(self, answers: list[Appended]) -> None:
        for answer in answers:
            say("ack", answer.event_id.hex(), answer.position, answer.stream, answer.version)

    def batch(self, size: int) -> list[Event]:
        return [self.event() for _ in range(size)]

    # -- work ------------------------------------------------------------------------------------

    def everything(self) -> None:
        """Single events, batches, repeats, refusals, and connections that are lost in the middle."""
        sent = [self.event()]
        self.acknowledge([self.log.append(sent[0])])
        for _ in range(ROUNDS):
            work = self.random.choice([self.single, self.many, self.many, self.repeat, self.refused, self.torn])
            work(sent)

    def single(self, sent: list[Event]) -> None:
        sent.append(self.event())
        self.acknowledge([self.log.append(sent[-1])])

    def many(self, sent: list[Event]) -> None:
        batch = self.batch(self.random.choice([1, 3, 30]))
        sent += batch
        self.acknowledge(self.log.append_many(batch))

    def repeat(self, sent: list[Event]) -> None:
        old, new = self.random.choices(sent, k=3), self.batch(2)
        sent += new
        self.acknowledge(self.log.append_many([old[0], new[0], *old[1:], new[1], new[0]]))
        self.acknowledge([self.log.append(old[0])])

    def refused(self, sent: list[Event]) -> None:
        """Nothing of these is kept, and their numbers were never given to anything that was."""
        before = dict(self.seqs)
        batch = self.batch(3)
        wrong: list[tuple[type[Exception], Event]] = [
            (WrongExpectedVersion, self.event(expected_version=10**9)),
            (BadEvent, self.event(type="no type")),
            (EventIdTaken, self.event("own/elsewhere", event_id=sent[0].event_id)),
        ]
        for error, event in wrong:
            try:
                self.log.append_many([*batch, event])
            except error:
                continue
            raise AssertionError(f"{error.__name__} was not raised")
        self.seqs = before

    def torn(self, sent: list[Event]) -> None:
        """The connection is lost just before, or just after, the commit."""
        real = module.commit_batch
        after = self.random.random() < 0.5
        tries: list[int] = []

        def commit(connection: Connection, packed: Any, meanwhile: Any = None) -> list[Appended]:
            tries.append(1)
            if len(tries) > 1:
                return real(connection, packed, meanwhile)
            answers = real(connection, packed, meanwhile) if after else []
            with suppress(psycopg.Error, Unavailable), database.connect(self.log.url) as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
            connection.execute("SELECT 1")
            return answers

        module.commit_batch = commit
        try:
            self.many(sent)
        finally:
            module.commit_batch = real

    def steadily(self) -> None:
        """Events one by one and in batches, until a line comes."""
        import select

        while not select.select([sys.stdin], [], [], 0)[0]:
            self.acknowledge([self.log.append(self.event())])
            self.acknowledge(self.log.append_many(self.batch(20)))

    def stall_in_copy(self) -> None:
        """Stop inside COPY, with part of the rows sent."""
        real = psycopg.Copy.write
        self._stall_once(lambda stall: patch.object(psycopg.Copy, "write", _then(real, stall, calls=3)).start())
        self._large()

    def stall_before_copy(self) -> None:
        """Stop in the transaction, with the lock held and nothing sent."""
        real = module.versions_of
        self._stall_once(lambda stall: patch.object(module, "versions_of", _then(real, stall, calls=1)).start())
        self._large()

    def trickle(self) -> None:
        """Send the rows so slowly that it takes 13 seconds, and never stop."""
        real = psycopg.Copy.write
        began = time.monotonic()

        def slowly(copy: Any, rows: Any) -> None:
            if len(rows) < 100:
                real(copy, rows)
                return
            data, step = bytes(rows), 40
            pause = 13 / (len(data) / step)
            for start in range(0, len(data), step):
                real(copy, data[start : start + step])
                copy.connection.pgconn.flush()
                time.sleep(pause)

        patch.object(psycopg.Copy, "write", slowly).start()
        self._watch_tries()
        say("stalled")
        self.acknowledge(self.log.append_many(self.batch(20)))
        say("took", round(time.monotonic() - began, 1))

    def _large(self) -> None:
        self._watch_tries()
        body = b'{"text":"' + b"x" * 20_000 + b'"}'
        self.acknowledge(self.log.append_many([self.event(body=body) for _ in range(LARGE)]))

    def _watch_tries(self) -> None:
        real = module.commit_batch

        def commit(connection: Connection, packed: Any, meanwhile: Any = None) -> list[Appended]:
            say("try")
            return real(connection, packed, meanwhile)

        module.commit_batch = commit

    def _stall_once(self, install: Callable[[Callable[[], None]], object]) -> None:
        stalled: list[int] = []

        def stall() -> None:
            if not stalled:
                stalled.append(1)
                say("stalled")
                sys.stdin.readline()

        install(stall)


def _then(real: Callable[..., Any], stall: Callable[[], None], *, calls: int) -> Callable[..., Any]:
    """`real`, and a stall after that many calls."""
    left = [calls]

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        answer = real(*args, **kwargs)
        left[0] -= 1
        if left[0] == 0:
            stall()
        return answer

    return wrapped


if __name__ == "__main__":
    url, name, work, seed = sys.argv[1:]
    writer = Writer(url, name, int(seed))
    say("ready")
    getattr(writer, work)()
    writer.log.close()
    say("done")
