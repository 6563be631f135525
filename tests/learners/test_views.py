"""What rows are made of: `sft_row`, `rollout` and `rollout_group`, now and as of any cut."""

import random
from typing import Any

import pytest

from core.vocabulary import Payload
from core.vocabulary.base import BlobRef
from core.vocabulary.contract import Finish, Finished, UserReply
from core.vocabulary.curation import EpisodeCurated
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeEnded,
    EpisodeRetracted,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    NoteAdded,
    Usage,
)
from core.vocabulary.training import CheckpointCommitted, TrainingStarted
from eventlog.database import connect
from eventlog.inmemory import InMemoryLog
from eventlog.ledger import Ledger
from eventlog.projection import Projection, fold, is_first
from eventlog.projection.runner import catch_up
from eventlog.projection.verify import verify
from eventlog.views import reading
from learners.rows import Facts
from learners.rows import Row as Logical
from learners.views.folds import PROJECTIONS
from learners.views.rollout import ROLLOUT
from learners.views.rollout_group import ROLLOUT_GROUP
from learners.views.sft_row import SFT_ROW
from tests.eventlog import samples
from tests.eventlog.projection.folds import read
from tests.eventlog.projection.test_as_of import fold_prefix, second_of
from tests.learners.logs import judged, marked, random_log

CUTS = 20
Cells = dict[str, Any]


def rows_of(projection: Projection, *payloads: Payload, stream: str = "episode/a") -> list[Cells]:
    names = [column.name for column in projection.columns]
    return [dict(zip(names, row, strict=True)) for row in fold(projection, samples.stored((stream, payloads)))]


def row(*payloads: Payload) -> Cells:
    (only,) = rows_of(SFT_ROW.projection, *payloads)
    return only


def parts(found: Cells) -> list[tuple[str, int, bool]]:
    return list(zip(found["part_kind"], found["part_version"], found["part_trains"], strict=True))


def started(**fields: Any) -> EpisodeStarted:
    return EpisodeStarted(task="alarm", **fields)


# -- one episode --------------------------------------------------------------------------------------


def test_a_passing_episode_is_a_row_whose_generated_turns_train() -> None:
    found = row(*samples.episode(verdict="pass"))
    assert parts(found) == [
        ("user", 2, False),
        ("assistant", 3, True),
        ("call", 4, True),
        ("tool", 5, False),
        ("assistant", 6, True),
        ("call", 7, True),
        ("tool", 8, False),
    ]
    assert (found["supervised"], found["marked"], found["steps"]) == (2, 0, 2)
    assert found["part_of"] == [0, 0, 0, 4, 0, 0, 7]
    assert (found["plan"], found["tokens"], found["completion_tokens"]) == (["tool_1", "tool_2"], 110, 20)


@pytest.mark.parametrize(
    "payloads",
    [
        samples.episode(verdict="fail"),
        samples.episode(verdict=None),
        samples.episode(verdict="pass", split="dev"),
        samples.episode(verdict="pass", split="audit"),
        samples.episode(verdict="pass", split="final"),
        [*samples.episode(verdict="pass"), EpisodeRetracted("i1")],
        [*samples.episode(verdict="pass"), judged("fail", "human")],
        samples.episode(verdict="pass")[1:],
    ],
    ids=["failed", "unverified", "dev", "audit", "final", "retracted", "overruled", "never started"],
)
def test_anything_else_is_no_row(payloads: list[Payload]) -> None:
    assert rows_of(SFT_ROW.projection, *payloads) == []


def test_a_persons_verdict_outranks_a_later_machines() -> None:
    found = row(*samples.episode(verdict="fail"), judged("pass", "human"), judged("fail"))
    assert (found["judged_by"], found["late"]) == ("human", [11])


def test_a_marked_turn_stays_but_does_not_train() -> None:
    found = row(*samples.episode(verdict="pass"), marked(2, rule="unknown_tool@1"))
    assert [part[2] for part in parts(found)] == [False, True, True, False, False, False, False]
    assert (found["supervised"], found["marked"], found["late"]) == (1, 1, [10, 11])


@pytest.mark.parametrize(
    ("marks", "trains"),
    [
        ([marked(1)], False),
        ([marked(1), marked(1, False)], True),
        ([marked(1, rule="a@1"), marked(1, False, rule="b@1")], False),
        ([marked(1, rule="a@1"), marked(1, False, rule="a@2")], True),
        ([marked(1, False, "judge"), marked(1)], True),
        ([marked(1), marked(1, False, "human"), marked(1, source="judge")], True),
        ([marked(1, False, "human"), marked(1, source="human")], False),
        ([marked(1, recovery=True)], True),
        ([marked(1, False, "judge", recovery=True), marked(1, rule="a@1")], True),
        ([marked(7)], True),
    ],
)
def test_whose_word_on_a_turn_counts(marks: list[Payload], trains: bool) -> None:
    assert row(*samples.episode(verdict="pass"), *marks)["part_trains"][1] is trains


def test_recovery_turns_after_an_error_train() -> None:
    found = row(
        started(),
        MessageRecorded("user", samples.raw("please")),
        samples.turn(1),
        samples.call(1, "send", "c1"),
        samples.failed(1, "schema", action=4),
        samples.turn(2),
        samples.call(2, "send", "c2", to="Ann"),
        samples.ok(2, action=7),
        judged("pass"),
        marked(1, rule="schema_violation@1"),
        marked(2, False, "judge", recovery=True),
    )
    assert [part for part in parts(found) if part[2]] == [("assistant", 6, True), ("call", 7, True)]
    assert (found["errors"], found["recovered"]) == (1, 1)


def test_copied_context_never_trains() -> None:
    found = row(
        started(),
        ModelResponded(1, content="as the other did", copied=True),
        samples.call(1, "send"),
        samples.failed(1),
        samples.turn(2),
        judged("pass"),
    )
    assert [part for part in parts(found) if part[2]] == [("assistant", 5, True)]
    assert (found["copied"], found["supervised"], found["plan"], found["errors"], found["steps"]) == (1, 1, [], 0, 1)


def test_what_no_model_said_does_not_train() -> None:
    found = row(started(), MessageRecorded("assistant", samples.raw("hi")), samples.call(1, "send"), judged("pass"))
    assert parts(found) == [("assistant", 2, False), ("call", 3, False)]
    assert found["supervised"] == 0


def test_answers_follow_their_turn_and_other_feedback_is_the_users() -> None:
    found = row(
        started(),
        samples.turn(1),
        samples.call(1, "a", "c1"),
        samples.call(1, "b", "c1"),
        FeedbackRecorded(1, UserReply("hurry")),
        samples.ok(1, call_id="c1"),
        samples.ok(1, call_id="c1"),
        samples.ok(1, action=3),
        ActionSubmitted(1, Finish("done")),
        judged("pass"),
    )
    kinds = list(zip(found["part_kind"], found["part_version"], found["part_of"], strict=True))
    assert kinds == [
        ("assistant", 2, 0),
        ("call", 3, 0),
        ("call", 4, 0),
        ("call", 9, 0),
        ("tool", 8, 3),
        ("tool", 6, 4),
        ("user", 5, 0),
    ]
    assert found["plan"] == ["a", "b"]


def test_equal_conversations_have_equal_content_whatever_ids_and_notes_they_have() -> None:
    one = row(*samples.episode(verdict="pass"))
    other = samples.episode(verdict="pass")
    renamed = [
        samples.call(said.step, f"tool_{said.step}", "x", at="07:00") if isinstance(said, ActionSubmitted) else said
        for said in other
    ]
    assert row(*renamed[:4], NoteAdded("look"), *renamed[4:])["content"] == one["content"]
    said = [samples.turn(p.step, "I looked.") if isinstance(p, ModelResponded) else p for p in other]
    assert row(*said)["content"] != one["content"]


def test_a_row_holds_no_text() -> None:
    secret = "ZQ-SECRET"
    found = row(
        started(goal=secret),
        MessageRecorded("user", samples.raw(secret), name=secret),
        ModelResponded(1, content=secret, thought=secret),
        samples.call(1, "send", text=secret),
        samples.ok(1, secret),
        judged("pass"),
        marked(1, why=secret),
    )
    assert secret not in repr(found)


def test_a_rollout_holds_what_was_recorded_and_null_where_nothing_was() -> None:
    (found,) = rows_of(
        ROLLOUT,
        started(group="g", rollout=0),
        ModelResponded(1, usage=Usage(100, 7, 2), cost=0.1, token_ids=[1], logprobs=[-0.5], latency_ms=2.5),
        ModelResponded(
            2, usage=Usage(completion_tokens=3), cost=0.2, token_ids=BlobRef("sha256:" + "0" * 64, 4, "x/y")
        ),
        ModelResponded(3, copied=True, usage=Usage(9, 9), token_ids=[5]),
        judged("fail", progress=0.5),
    )
    assert (found["prompt_tokens"], found["completion_tokens"], found["thinking_tokens"]) == (100, 10, 2)
    assert (found["success"], found["progress"], found["latency_ms"]) == (0, 0.5, 2.5)
    assert found["cost"] == pytest.approx(0.3)
    assert (found["sampled"], found["scored"]) == ([2, 3], 1)
    (bare,) = rows_of(ROLLOUT, started())
    assert [bare[name] for name in ("success", "reward", "progress", "cost", "prompt_tokens")] == [None] * 5


# -- the log ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_as_of_any_cut_they_are_the_fold_of_that_prefix(ledger: Ledger, seed: int) -> None:
    chance = random.Random(seed)
    some = 0
    with connect(ledger.url) as connection:
        for commit in random_log(seed):
            ledger.append_many(commit)
            if chance.random() < 0.15:
                catch_up(ledger, connection, PROJECTIONS)
        events = list(ledger.read_all())
        for cut in [0, 1, len(events), *chance.sample(range(2, len(events)), CUTS - 3)]:
            firsts = {p.name: (p, fold_prefix(p, events[:cut])) for p in PROJECTIONS if is_first(p)}
            with reading(ledger, PROJECTIONS, as_of=cut) as then:
                for projection in PROJECTIONS:
                    is_fold = is_first(projection)
                    wanted = firsts[projection.name][1] if is_fold else second_of(connection, projection, firsts)
                    assert read(then, projection) == wanted, (projection.name, cut)
                    some += len(wanted)
    assert some > CUTS * 10


def test_a_row_vanishes_with_its_verdict(ledger: Ledger) -> None:
    ledger.append_many(samples.events("episode/a", samples.episode(verdict="pass")))
    ledger.append_many(samples.events("episode/b", samples.episode(verdict="pass")))
    with reading(ledger, SFT_ROW.projections) as connection:
        assert [found.key.stream for found in SFT_ROW.rows(connection, ledger.log_id)] == ["episode/a", "episode/b"]
    cut = ledger.head().position
    ledger.append_many(samples.events("episode/a", [judged("fail", "human")]))
    with reading(ledger, SFT_ROW.projections) as connection:
        assert [found.key.stream for found in SFT_ROW.rows(connection, ledger.log_id)] == ["episode/b"]
        assert verify(connection, SFT_ROW.projection).ok
    with reading(ledger, SFT_ROW.projections, as_of=cut) as then:
        assert len(list(SFT_ROW.rows(then, ledger.log_id))) == 2


def all_of(log: Ledger, view: Any) -> tuple[list[Logical], list[Facts]]:
    with reading(log, view.projections) as connection:
        return list(view.rows(connection, log.log_id)), list(view.facts(connection, log.log_id))


def test_rows_fit_the_declared_schema_and_facts_go_with_them(ledger: Ledger) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not here")
    for commit in random_log(5, streams=60):
        ledger.append_many(commit)
    for view in (SFT_ROW, ROLLOUT_GROUP):
        rows, facts = all_of(ledger, view)
        assert rows
        assert [row.key for row in rows] == sorted(row.key for row in rows) == [one.key for one in facts]
        schema = view.schema()
        table = arrow.Table.from_pylist([dict(zip(schema.names, row.values, strict=True)) for row in rows], schema)
        table.validate(full=True)
        for field in schema:
            assert field.nullable or not table[field.name].null_count
        with reading(ledger, view.projections) as connection:
            some = [row.key for row in rows[1:3]]
            assert list(view.rows(connection, ledger.log_id, some)) == rows[1:3]


def test_what_a_row_rests_on_is_named(ledger: Ledger) -> None:
    ledger.append_many(samples.events("episode/a", [NoteAdded("x"), *samples.episode(verdict="pass"), marked(1)]))
    ((one,), (facts,)) = all_of(ledger, SFT_ROW)
    assert one.key.version == 2
    assert one.sources == (("episode/a", (2, 3, 4, 5, 6, 7, 8, 9, 11, 12)),)
    assert facts.goal == ("episode/a", 2)
    ledger.append_many(
        samples.events("episode/b", [started(group="g"), ModelResponded(1, token_ids=[1]), judged("fail")])
    )
    ((group,), _) = all_of(ledger, ROLLOUT_GROUP)
    assert group.key[1:] == ("group/g", 0, 0)
    assert group.sources == (("episode/b", (1, 2, 3)),)


def test_episodes_that_are_no_row_are_counted_by_reason(ledger: Ledger) -> None:
    for name, verdict, split in (
        ("a", "pass", "train"),
        ("b", "fail", "train"),
        ("c", "pass", "dev"),
        ("d", None, "train"),
    ):
        ledger.append_many(samples.events(f"episode/{name}", samples.episode(verdict=verdict, split=split)))
    ledger.append_many(samples.events("episode/e", [*samples.episode(verdict="pass"), EpisodeRetracted("i1")]))
    with reading(ledger, SFT_ROW.projections) as connection:
        assert SFT_ROW.left_out(connection) == {
            "verdict fail": 1,
            "verdict unverified": 1,
            "split dev": 1,
            "retracted": 1,
        }


def test_origins_and_generations(ledger: Ledger) -> None:
    def passed(name: str, **fields: Any) -> None:
        ledger.append_many(samples.events(f"episode/{name}", [started(**fields), samples.turn(1), judged("pass")]))

    passed("a", policy="base")
    passed("b", policy="script:gold.json")
    passed("c", policy="p1")
    passed("d", policy="p2")
    ledger.append_many(
        samples.events(
            "policy/p1", [TrainingStarted("sft", [], samples.raw({})), CheckpointCommitted("sha256:1", 1, 1)]
        )
    )
    ledger.append_many(samples.events("policy/p2", [TrainingStarted("care", [], samples.raw({}), base="sha256:1")]))
    _, facts = all_of(ledger, SFT_ROW)
    assert [(one.origin_label, one.generation) for one in facts] == [
        ("model", 0),
        ("scripted", None),
        ("model/1", 1),
        ("model/2", 2),
    ]
    ledger.append_many(samples.events("episode/a", [EpisodeCurated("drop", [])]))
    _, facts = all_of(ledger, SFT_ROW)
    assert facts[0].curated == "drop"


# -- groups -------------------------------------------------------------------------------------------


def group_of(*episodes: list[Payload]) -> list[Cells]:
    log = InMemoryLog()
    for number, payloads in enumerate(episodes):
        log.append_many(samples.events(f"episode/e{number}", payloads))
    names = [column.name for column in ROLLOUT.columns]
    at = [names.index(name) for name in ("group", *_reads())]
    found = [tuple(values[i] for i in at) for values in fold(ROLLOUT, log.read_all())]
    random.Random(3).shuffle(found)
    return [
        dict(zip([column.name for column in ROLLOUT_GROUP.projection.columns], made, strict=True))
        for made in ROLLOUT_GROUP.projection.rows(("g",), found)
    ]


def _reads() -> list[str]:
    from learners.views import rollout_group

    return list(rollout_group._READ)


def rollout(number: int, verdict: str | None, *, attempt: int = 1, **fields: Any) -> list[Payload]:
    begun = started(**{"group": "g", "rollout": number, "attempt": attempt, "policy": "p1", **fields})
    judgement = [] if verdict is None else [judged(verdict)]
    return [begun, ModelResponded(1, token_ids=[1]), EpisodeEnded(Finished()), *judgement]


def test_a_group_counts_the_latest_attempt_of_each_rollout() -> None:
    (found,) = group_of(
        rollout(1, "pass"),
        rollout(0, "fail"),
        rollout(0, "pass", attempt=2),
        rollout(2, "inconclusive"),
        rollout(3, None),
    )
    assert [found[name] for name in ("rollouts", "passed", "failed", "undecided")] == [4, 2, 0, 2]
    assert found["episode"] == ["e1", "e2", "e0", "e3", "e4"]
    assert found["counts"] == [False, True, True, True, True]
    assert found["success"] == [0, 1, 1, None, None]
    assert (found["sampled"], found["sampled_turns"]) == ([2] * 5, [1] * 5)


def test_what_differs_within_a_group_is_null() -> None:
    (found,) = group_of(rollout(0, "pass"), rollout(1, "fail", policy="p2", split="dev"))
    assert [found[name] for name in ("task", "policy", "split", "policies")] == ["alarm", None, None, 2]
