"""A planner in a process of its own: it appends events through Kafka and tells which were accepted, until killed."""

from collections import deque
from concurrent.futures import Future
from multiprocessing.connection import Connection as Pipe
from typing import Any

import eventlog
from core.codec import decode
from eventlog.answers import settled
from eventlog.kafka.log import KafkaLog
from eventlog.log import Accepted
from tests.faults.kafka.workers import end_with_parent


def plan_on(pipe: Pipe, url: str, address: str, values: list[bytes], batch: int, in_flight: int) -> None:
    """Append the encoded events in order, `batch` at a time, with at most so many batches in flight."""
    end_with_parent(pipe)
    waiting: deque[Future[list[Any]]] = deque()

    def tell() -> None:
        for answer in settled(waiting.popleft().result()):
            assert isinstance(answer, Accepted)
            pipe.send(("accepted", (answer.event_id, answer.partition, answer.offset)))

    with eventlog.open(url, address) as log:
        assert isinstance(log, KafkaLog)
        for start in range(0, len(values), batch):
            events = [decode(value) for value in values[start : start + batch]]
            waiting.append(log.begin(events, wait="accepted"))
            if len(waiting) >= in_flight:
                tell()
        while waiting:
            tell()
