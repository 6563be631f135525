"""What may never be trained on: held-out tasks, what is derived from them or forked, near-duplicates."""

from typing import Any

import pytest

from core.vocabulary.base import Split
from core.vocabulary.episode import EpisodeStarted, Parent
from core.vocabulary.task import PlanRecorded, Scenario, TaskDefined, TaskSpec
from eventlog.ledger import Ledger
from eventlog.views import reading
from learners.duplicates import MEASURED, THRESHOLD
from learners.heldout import HeldOut
from learners.recipe import Recipe
from learners.selection import select
from learners.views.sft_row import SFT_ROW
from tests.eventlog import samples
from tests.learners.logs import judged


def define(log: Ledger, id: str, goal: str, split: Split = "dev", parent: str | None = None) -> None:
    spec = TaskSpec(
        goal, "tool_routing", Scenario("phone", "alarm", "single turn"), "tool_use", split, [], parent=parent
    )
    log.append_many(samples.events(f"task/{id}", [TaskDefined("sha256:" + "0" * 64, spec)]))


def train(log: Ledger, name: str, verdict: str = "pass", **fields: Any) -> None:
    payloads = [EpisodeStarted(**fields), samples.turn(1), samples.call(1, "set_alarm"), judged(verdict)]
    log.append_many(samples.events(f"episode/{name}", payloads))


def refused(log: Ledger, as_of: int | None = None) -> dict[str, str]:
    """Row → why it was refused."""
    with reading(log, SFT_ROW.projections, as_of=as_of) as connection:
        held = HeldOut({log.log_id: connection})
        facts = list(SFT_ROW.facts(connection, log.log_id))
        chosen = select(facts, Recipe(dedup=[]), held.refuse)
    return {row.key.stream[8:]: chosen.reasons[code] for row, code in zip(facts, chosen.codes, strict=True) if code}


@pytest.mark.parametrize("split", ["dev", "audit", "final"])
def test_a_held_out_task_never_trains(ledger: Ledger, split: Split) -> None:
    define(ledger, "alarm", "Set an alarm", split)
    train(ledger, "a", task="alarm")
    train(ledger, "b", task="timer")
    assert refused(ledger) == {"a": f"held out: task of {split}"}


def test_a_task_is_held_out_by_its_episodes_too_also_failed_ones(ledger: Ledger) -> None:
    train(ledger, "a", task="alarm")
    train(ledger, "b", "fail", task="alarm", split="final")
    assert refused(ledger) == {"a": "held out: task of final"}


def test_tasks_derived_from_a_held_out_one_at_any_remove(ledger: Ledger) -> None:
    define(ledger, "alarm", "Set an alarm for 7", "audit")
    define(ledger, "easier", "Ring a bell", "train", parent="alarm")
    define(ledger, "easiest", "Make a noise", "train", parent="easier")
    define(ledger, "loop", "Go round", "train", parent="loop")
    train(ledger, "a", task="easiest")
    train(ledger, "b", task="loop")
    assert refused(ledger) == {"a": "held out: derived from a task of audit"}


def test_forks_of_a_held_out_episode_at_any_remove(ledger: Ledger) -> None:
    train(ledger, "a", "fail", split="dev")
    train(ledger, "b", "fail", parent=Parent("episode/a", 2))
    train(ledger, "c", parent=Parent("episode/b", 2))
    train(ledger, "d", parent=Parent("episode/gone", 2))
    train(ledger, "e", parent=Parent("episode/e", 1))
    assert refused(ledger) == {"c": "held out: forked from an episode of dev"}


def test_near_duplicates_by_goal_and_plan(ledger: Ledger) -> None:
    define(ledger, "alarm", "Set an alarm for 6:45 on weekdays and name it Gym")
    steps = samples.raw([{"tool": "list_alarms"}, {"say": "Now.", "calls": [{"tool": "set_alarm"}]}])
    ledger.append_many(samples.events("hidden/task/alarm", [PlanRecorded("sha256:0", "gold", steps)]))
    train(ledger, "a", goal="please set an alarm, 6:45 on weekdays, and name it gym!")
    train(ledger, "b", goal="Set an alarm for 8:30 on weekends and name it Market")
    train(ledger, "c", goal="Send my sister the photos of the lake")
    train(ledger, "d")
    assert refused(ledger) == {"a": "near-duplicate: task of dev"}


def test_what_is_held_out_is_as_of_the_cut(ledger: Ledger) -> None:
    train(ledger, "a", task="alarm", goal="Set an alarm for 7")
    cut = ledger.head().position
    define(ledger, "alarm", "Set an alarm for 7")
    train(ledger, "b", "fail", task="alarm", split="dev", goal="Set an alarm for 7")
    assert refused(ledger, as_of=cut) == {}
    assert refused(ledger) == {"a": "held out: task of dev"}


def test_the_manifest_is_told_what_was_held_out_and_what_is_missed(ledger: Ledger) -> None:
    define(ledger, "alarm", "Set an alarm for 7")
    train(ledger, "a", "fail", split="audit", goal="Stop the timer")
    train(ledger, "b", "fail", split="audit")
    train(ledger, "c", goal=None)
    with reading(ledger, SFT_ROW.projections) as connection:
        held = HeldOut({ledger.log_id: connection})
        select(SFT_ROW.facts(connection, ledger.log_id), Recipe(), held.refuse)
    report = held.report()
    assert (report["tasks"], report["episodes"], report["goals"]) == ({"dev": 1}, {"audit": 2}, 2)
    assert report["unread"] == 2
    assert report["near_duplicates"]["threshold"] == THRESHOLD
    assert report["near_duplicates"]["measured"] == MEASURED
