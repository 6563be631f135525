"""The 100 real episodes: 25 groups of four, rows, marks and guards over them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.main import run
from core.vocabulary import payload
from core.vocabulary.curation import TurnMarked
from core.vocabulary.episode import EpisodeStarted
from eventlog.ledger import Ledger
from eventlog.views import reading
from learners.groups import Filters, Order, groups
from learners.heldout import HeldOut
from learners.marking import mark
from learners.recipe import Caps, Recipe
from learners.rows import Facts, Row
from learners.selection import select
from learners.views.rollout_group import ROLLOUT_GROUP
from learners.views.sft_row import SFT_ROW
from tests.databases import Database
from tests.eventlog import samples

REAL = Path(__file__).parents[3] / "shared/data/tau-bench/gpt-4o-airline-even.json"

PASSED = 49
"""How many of the file's rewards are 1."""

pytestmark = pytest.mark.skipif(not REAL.exists(), reason="the tau-bench results are not here")


@pytest.fixture
def log(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Ledger]:
    """A log with the episodes imported."""
    database.empty()
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    assert run(["import", str(REAL), "--quiet"]) == 0
    with database.ledger() as log:
        yield log


def rows(log: Ledger, as_of: int | None = None) -> list[tuple[Row, Facts]]:
    with reading(log, SFT_ROW.projections, as_of=as_of) as connection:
        found = SFT_ROW.rows(connection, log.log_id), SFT_ROW.facts(connection, log.log_id)
        return list(zip(*found, strict=True))


def test_they_are_25_groups_of_four(log: Ledger) -> None:
    with reading(log, ROLLOUT_GROUP.projections) as connection:
        found = list(groups(connection, Filters(), Order()))
        mixed = list(groups(connection, Filters(mixed=True), Order()))
    assert len(found) == 25
    assert all(group["rollouts"] == 4 for group in found)
    assert sum(group["passed"] for group in found) == PASSED
    assert [group for group in found if 0 < group["passed"] < 4] == mixed
    assert all([one["rollout"] for one in group["episodes"]] == [0, 1, 2, 3] for group in found)


def test_each_passing_episode_is_a_row_that_trains_on_what_the_model_said(log: Ledger) -> None:
    found = rows(log)
    assert len(found) == PASSED
    for row, facts in found:
        values = dict(zip(SFT_ROW.schema().names, row.values, strict=True))
        events = {event.version: event for event in log.read(row.key.stream)}
        turns = [version for version, event in events.items() if event.type == "ModelResponded"]
        trains = zip(values["part_version"], values["part_kind"], values["part_trains"], strict=True)
        assert [version for version, kind, trained in trains if trained and kind == "assistant"] == turns
        said = {version for version, event in events.items() if event.type in _SAID}
        assert sorted(values["part_version"]) == sorted(said)
        assert facts.supervised == len(turns)


_SAID = frozenset({"MessageRecorded", "ModelResponded", "ActionSubmitted", "FeedbackRecorded"})


def test_marks_take_turns_out_once_and_before_them_rows_are_as_they_were(log: Ledger) -> None:
    streams = sorted({event.stream for event in log.read_all() if event.stream.startswith("episode/")})
    for stream in {one.stream for one in mark(log, streams, dry_run=True)}:  # none of them passed
        log.append_many(samples.events(stream, [samples.judged("pass", source="human")]))
    before, cut = rows(log), log.head().position
    found = list(mark(log, streams))
    assert found
    assert {one.rule.partition("@")[0] for one in found} <= {
        "repeated_failing_call",
        "schema_violation",
        "unknown_tool",
    }
    assert not any(one.known for one in found)
    again = list(mark(log, streams))
    assert all(one.known for one in again)
    assert [one[:6] for one in again] == [one[:6] for one in found]
    appended = [event for event in log.read_all(after=cut) if event.type == "TurnMarked"]
    assert {event.event_id for event in appended} == {one.event_id for one in found}
    marked = Counter(event.stream for event in appended if isinstance(payload(event), TurnMarked))
    after = rows(log)
    assert sum(now.supervised for _, now in after) < sum(was.supervised for _, was in before)
    for (_, was), (_, now) in zip(before, after, strict=True):
        assert was.supervised - now.supervised == len({one.step for one in found if one.stream == now.key.stream})
    assert sum(marked.values()) == len(found)
    assert rows(log, as_of=cut) == before


def test_a_task_held_out_takes_its_near_duplicates_with_it_and_no_other(log: Ledger, database: Database) -> None:
    with reading(log, SFT_ROW.projections) as connection:
        held = HeldOut({log.log_id: connection})
        assert held.nothing
        facts = list(SFT_ROW.facts(connection, log.log_id))
    tasks = sorted({one.task or "" for one in facts})
    goals = {}
    for one in facts:
        event = next(log.read(one.goal[0], after=one.goal[1] - 1))
        goals[one.task] = payload(event).goal  # type: ignore[union-attr]
    for task in tasks[:5]:
        said = f"Hello! {goals[task]} Thank you."
        log.append_many(
            samples.events(f"episode/dev-{task[10:]}", [EpisodeStarted(task="renamed", goal=said, split="dev")])
        )
    with reading(log, SFT_ROW.projections) as connection:
        held = HeldOut({log.log_id: connection})
        chosen = select(SFT_ROW.facts(connection, log.log_id), Recipe(), held.refuse)
    refused = {one.task for one, code in zip(facts, chosen.codes, strict=True) if code}
    assert refused == set(tasks[:5])
    assert list(chosen.excluded) == ["near-duplicate: task of dev"]
    assert held.report()["episodes"] == {"dev": 5}


def test_a_cap_on_each_task_keeps_so_many_of_it(log: Ledger) -> None:
    facts = [one for _, one in rows(log)]
    chosen = select(facts, Recipe(caps=Caps(task=2)))
    kept = Counter(one.task for one, code in zip(facts, chosen.codes, strict=True) if not code)
    assert kept == {task: min(count, 2) for task, count in Counter(one.task for one in facts).items()}
