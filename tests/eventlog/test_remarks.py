"""Notes and verdicts that people add to an episode."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import NotFound, UsageError
from core.vocabulary import payload
from core.vocabulary.episode import EpisodeStarted, NoteAdded, VerificationRecorded
from eventlog import remarks
from eventlog.inmemory import InMemoryLog
from eventlog.projection import fold
from eventlog.remarks import history
from eventlog.views.episode import EPISODE
from eventlog.views.named import Named
from eventlog.writer import Writer
from tests.eventlog.samples import episode, events, judged, stored

EP = Named("a")


@pytest.fixture
def log() -> InMemoryLog:
    log = InMemoryLog()
    log.append_many(events("episode/a", episode(steps=1)))
    return log


def test_a_note_is_an_event_about_an_episode_or_an_event(log: InMemoryLog) -> None:
    whole = remarks.note(log, EP, "odd")
    one = remarks.note(log, Named("a", 4), "here\n\0 漢字")
    notes = [payload(event) for event in log.read("episode/a", after=whole.version - 1)]
    assert notes == [NoteAdded("odd"), NoteAdded("here\n\0 漢字", 4)]
    (event,) = log.read("episode/a", after=one.version - 1)
    assert (event.actor, event.writer, event.seq) == ("reviewer", "review", 1)
    assert event.occurred_at is not None


def test_a_note_says_something_about_something_that_is_there(log: InMemoryLog) -> None:
    with pytest.raises(UsageError, match="a: the note is empty"):
        remarks.note(log, EP, " \n")
    with pytest.raises(NotFound, match="a: there is no event 9: the episode has 7"):
        remarks.note(log, Named("a", 9), "x")


def test_a_verdict_is_a_humans_and_names_the_one_it_replaces(log: InMemoryLog) -> None:
    first = remarks.judge(log, EP, "pass", "it was done")
    second = remarks.judge(log, EP, "inconclusive")
    said = [payload(event) for event in log.read("episode/a", after=first.version - 1)]
    assert [(one.source, one.verification.verdict, one.why, one.supersedes) for one in said] == [  # type: ignore[union-attr]
        ("human", "pass", "it was done", 7),
        ("human", "inconclusive", None, first.version),
    ]
    assert second.version == first.version + 1
    with pytest.raises(UsageError, match="leave the @N out"):
        remarks.judge(log, Named("a", 3), "fail")


def test_history_has_every_verdict_and_says_which_rules() -> None:
    found = history(stored(("episode/a", [judged("fail"), judged("pass", source="human"), judged("fail", reward=0.5)])))
    assert [(one.version, one.source, one.verdict, one.reward, one.rules) for one in found] == [
        (1, "machine", "fail", None, False),
        (2, "human", "pass", None, True),
        (3, "machine", "fail", 0.5, False),
    ]


def test_what_cannot_be_read_is_no_verdict(log: InMemoryLog) -> None:
    log.append(Writer("w").raw("episode/a", "VerificationRecorded", b'{"verdict":"pass"}'))
    assert [one.version for one in history(log.read("episode/a"))] == [7]
    assert history([]) == []


verdicts = st.tuples(st.sampled_from(["machine", "human", "import"]), st.sampled_from(["pass", "fail", "inconclusive"]))


@given(st.lists(verdicts, max_size=6))
def test_the_verdict_that_rules_is_the_one_in_the_list_of_episodes(given: list[tuple[str, str]]) -> None:
    judgements = [judged(verdict, source=source) for source, verdict in given]
    recorded = stored(("episode/a", [EpisodeStarted(), *judgements]))
    ruling = [one.verdict for one in history(recorded) if one.rules]
    rows = [dict(zip([column.name for column in EPISODE.columns], row, strict=True)) for row in fold(EPISODE, recorded)]
    assert ruling == [row["verdict"] for row in rows if row["verdict"] != "unverified"]
    assert all(isinstance(payload(event), VerificationRecorded) for event in recorded[1:])
