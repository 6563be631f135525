"""Given judgements of an episode, when `verdict` folds them, then what was known of it when."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.vocabulary import Payload
from core.vocabulary.contract import Verification
from core.vocabulary.episode import EpisodeStarted, VerificationRecorded
from eventlog.database import Connection
from eventlog.ledger import Ledger
from eventlog.projection import fold
from eventlog.views import EPISODES, VERDICTS, listing, reading
from eventlog.views.verdict import VERDICT, ruling
from eventlog.writer import Writer
from tests.eventlog.samples import START, judged, stored
from tests.eventlog.views.test_episode import payloads

START_ONLY = EpisodeStarted(task="alarm")


def rows(*given: Payload) -> list[dict[str, Any]]:
    names = [column.name for column in VERDICT.columns]
    return [dict(zip(names, values, strict=True)) for values in fold(VERDICT, stored(("episode/e1", given)))]


def spans(*given: Payload) -> list[tuple[int | None, int | None, int | None]]:
    return [(row["ruled_from"], row["ruled_until"], row["superseded_by"]) for row in rows(*given)]


def test_a_verdict_says_what_it_is_and_when_it_was_made_and_learned() -> None:
    (row,) = rows(START_ONLY, judged("pass", reward=1.0))
    assert row.pop("committed_at") > 0
    assert row == {
        "episode": "e1",
        "version": 2,
        "position": 2,
        "occurred_at": START + 1_000_000,
        "source": "machine",
        "verdict": "pass",
        "reward": 1.0,
        "progress": None,
        "verifier": None,
        "supersedes": None,
        "ruled_from": 2,
        "ruled_until": None,
        "superseded_by": None,
    }


def test_a_later_one_of_the_same_rank_counts_from_then_on() -> None:
    assert spans(judged("pass"), judged("fail"), judged("pass")) == [(1, 2, 2), (2, 3, 3), (3, None, None)]


def test_a_humans_outranks_any_machines() -> None:
    human = judged("fail", source="human")
    assert spans(judged("pass"), human, judged("pass")) == [(1, 2, 2), (2, None, None), (None, None, None)]
    assert spans(human, human) == [(1, 2, 2), (2, None, None)]


def test_what_is_named_as_superseded_is_so_though_it_did_not_count() -> None:
    human = judged("fail", source="human")
    again = VerificationRecorded(Verification("fail"), "machine", None, 2)
    assert spans(human, judged("pass"), again) == [(1, None, None), (None, None, 3), (None, None, None)]
    odd = VerificationRecorded(Verification("fail"), "machine", None, 1)
    assert spans(odd) == [(1, None, None)]


def test_only_changed_verdicts_are_written_again() -> None:
    state = VERDICT.initial("episode/e1")
    for event in stored(("episode/e1", [judged("pass"), judged("fail"), judged("pass")])):
        state = VERDICT.apply(state, event)
    assert [row[1] for row in VERDICT.rows(state, 2)] == [2, 3]


@given(payloads, st.integers(0, 30))
def test_a_state_put_away_and_taken_up_again_folds_to_the_same_rows(chosen: list[Payload], at: int) -> None:
    whole, parts = VERDICT.initial("episode/e1"), VERDICT.initial("episode/e1")
    for event in stored(("episode/e1", [START_ONLY, *chosen])):
        whole = VERDICT.apply(whole, event)
        parts = VERDICT.apply(parts, event)
        if event.version == at:
            parts = VERDICT.load(VERDICT.dump(parts))
    assert list(VERDICT.rows(parts, 0)) == list(VERDICT.rows(whole, 0))


@pytest.fixture
def connection(ledger: Ledger) -> Iterator[Connection]:
    """Judged by a machine, by a human who looked earlier than that, and by a machine again."""
    writer = Writer("test")
    minute = 60_000_000
    for payload, at in (
        (START_ONLY, START),
        (judged("pass", reward=1.0), START + 10 * minute),
        (judged("fail", source="human"), START + 5 * minute),
        (judged("pass"), None),
    ):
        ledger.append(writer.event("episode/e1", payload, occurred_at=at))
    with reading(ledger, (EPISODES, VERDICTS)) as connection:
        yield connection


def test_what_was_known_when_and_of_when(connection: Connection) -> None:
    minute = 60_000_000
    assert ruling(connection, "e1", known=1) is None
    known = [ruling(connection, "e1", known=position) for position in (2, 3, 4, None)]
    assert [row and (row["version"], row["verdict"]) for row in known] == [
        (2, "pass"), (3, "fail"), (3, "fail"), (3, "fail")
    ]  # fmt: skip
    assert ruling(connection, "e1", at=START) is None
    assert ruling(connection, "e1", at=START + 6 * minute, known=2) is None
    early = ruling(connection, "e1", at=START + 6 * minute)
    assert early is not None and early["verdict"] == "fail"
    late = ruling(connection, "e1", at=START + 11 * minute, known=2)
    assert late is not None and (late["verdict"], late["reward"]) == ("pass", 1.0)


def test_what_counts_at_a_position_is_the_list_as_of_it(ledger: Ledger, connection: Connection) -> None:
    for position in (1, 2, 3, 4):
        with reading(ledger, as_of=position) as then:
            row = listing.episode(then, "e1")
        known = ruling(connection, "e1", known=position)
        assert row is not None and row["verdict"] == (known["verdict"] if known else "unverified")
        found = connection.execute(
            "SELECT verdict FROM trajlog_view.verdict WHERE ruled_from <= %s AND coalesce(ruled_until > %s, true)",
            (position, position),
        ).fetchone()
        assert (found[0] if found else "unverified") == row["verdict"]
