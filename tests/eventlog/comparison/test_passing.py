"""Which passing episode a failed one is held against."""

from collections.abc import Sequence

import pytest

from core.errors import NotFound
from core.vocabulary import Payload
from core.vocabulary.episode import EpisodeRetracted, EpisodeStarted
from eventlog.comparison import passing
from eventlog.comparison.passing import closest
from eventlog.ledger import Ledger
from eventlog.views import reading
from tests.eventlog.samples import call, events, judged, ok


def record(
    log: Ledger, name: str, *tools: str, task: str | None = "t", verdict: str = "pass", environment: str | None = None
) -> None:
    payloads: list[Payload] = [EpisodeStarted(task=task, environment=environment)]
    for step, tool in enumerate(tools, 1):
        payloads += [call(step, tool), ok(step)]
    log.append_many(events(f"episode/{name}", [*payloads, judged(verdict)]))


def chosen(log: Ledger, name: str = "mine", masks: Sequence[str] = ()) -> str:
    with reading(log) as connection:
        return closest(connection, name, tuple(masks))


def test_it_is_the_one_that_shares_most(ledger: Ledger) -> None:
    record(ledger, "mine", *"abcd", verdict="fail")
    record(ledger, "close", *"abxd")
    record(ledger, "far", *"axyz")
    assert chosen(ledger) == "close"


def test_of_equals_it_is_the_newest_of_the_same_environment(ledger: Ledger) -> None:
    record(ledger, "mine", *"ab", verdict="fail", environment="phone")
    record(ledger, "old", *"ab", environment="phone")
    record(ledger, "new", *"ab", environment="phone")
    record(ledger, "elsewhere", *"ab", environment="tablet")
    assert chosen(ledger) == "new"


def test_it_never_is_itself_nor_retracted_nor_of_another_task_nor_failed(ledger: Ledger) -> None:
    record(ledger, "mine", *"ab")
    record(ledger, "gone", *"ab")
    ledger.append_many(events("episode/gone", [EpisodeRetracted("i")]))
    record(ledger, "other", *"ab", task="u")
    record(ledger, "failed", *"ab", verdict="fail")
    with pytest.raises(NotFound, match="mine: no other episode of task t has passed; name a second one"):
        chosen(ledger)


def test_without_a_task_there_is_nothing_to_choose_from(ledger: Ledger) -> None:
    record(ledger, "mine", "a", task=None, verdict="fail")
    with pytest.raises(NotFound, match="names no task"):
        chosen(ledger)


def test_of_many_the_newest_are_looked_at(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "CANDIDATES", 2)
    record(ledger, "mine", *"abc", verdict="fail")
    record(ledger, "best", *"abc")
    record(ledger, "newer", *"ab")
    record(ledger, "newest", "a")
    assert chosen(ledger) == "newer"
