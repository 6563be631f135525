"""What becomes of the events of a batch, told one by one on other threads."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol, runtime_checkable

from core.errors import TrajlogError, Unavailable
from core.event import Event
from eventlog.log import Accepted, Appended, PartlyAppended, Wait

Answer = Appended | Accepted | TrajlogError


@runtime_checkable
class Pipelined(Protocol):
    """A log that takes the next events while those before are on their way."""

    def begin(self, events: Sequence[Event], *, wait: Wait) -> Future[list[Answer]]:
        """Send events; the future answers each, in order, and `settled` makes of that what `append_many`
        returns or raises. What the door refuses is raised here."""
        ...


class Answers:
    """The answers to `count` events; `future` has all of them, in order, once the last is told."""

    def __init__(self, count: int) -> None:
        self.future: Future[list[Answer]] = Future()
        self.future.set_running_or_notify_cancel()  # nobody takes back what is on its way
        self._found: list[Answer | None] = [None] * count
        self._left = count
        self._lock = threading.Lock()
        if not count:
            self.future.set_result([])

    def tell(self, index: int, answer: Answer) -> None:
        """The answer to one event; the first one counts."""
        with self._lock:
            if self._found[index] is not None:
                return
            self._found[index] = answer
            self._left -= 1
            if self._left:
                return
        self.future.set_result([found for found in self._found if found is not None])


def settled(answers: Sequence[Answer]) -> list[Appended | Accepted]:
    """The answers, where every event went well. Otherwise raises: `Unavailable` where what became of one
    is not known; the refusal, where no event of the batch was written; else `PartlyAppended`."""
    good = [answer for answer in answers if not isinstance(answer, TrajlogError)]
    if len(good) == len(answers):
        return good
    errors = [answer for answer in answers if isinstance(answer, TrajlogError)]
    unknown = next((error for error in errors if isinstance(error, Unavailable)), None)
    if unknown is not None:
        raise unknown if len(answers) == 1 else _unknown(unknown, len(errors), len(answers))
    if all(isinstance(answer, Appended) and answer.duplicate for answer in good):
        raise errors[0]
    raise PartlyAppended([answer for answer in answers if not isinstance(answer, Accepted)])


def _unknown(first: Unavailable, errors: int, events: int) -> Unavailable:
    return Unavailable(
        f"{events - errors:,} of {events:,} events are safe, of the others the first: {first.what}",
        where=first.where,
        mend=first.mend,
    )
