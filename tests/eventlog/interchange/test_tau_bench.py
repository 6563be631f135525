import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.errors import BadRecord
from core.vocabulary import Payload
from core.vocabulary.contract import ExecError, ToolCall, ToolResult
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeEnded,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    VerificationRecorded,
)
from eventlog.interchange import Context, EpisodeDraft, Record, Source
from eventlog.interchange.tau_bench import TauBench
from tests.eventlog.interchange.results import result

REAL = Path(__file__).parents[4] / "shared/data/tau-bench/gpt-4o-airline-even.json"


def no_blobs(data: bytes) -> Any:
    raise AssertionError("tau-bench holds no blobs")


def draft(record: dict[str, Any]) -> EpisodeDraft:
    data = json.dumps(record).encode()
    (made,) = TauBench().episodes(Record("r", data, record, len(data)), Context("r", "train", no_blobs))
    return made


def payloads(record: dict[str, Any]) -> list[Payload]:
    return [event.payload for event in draft(record).events]


def call(id_: str, arguments: Any = "{}", name: str = "f") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def asked(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def answer(id_: str, content: Any, name: str = "f") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "name": name, "content": content}


def feedback(*traj: dict[str, Any]) -> list[tuple[int, int | None, Any]]:
    made = payloads(result(traj=list(traj)))
    return [(p.step, p.action, p.feedback) for p in made if isinstance(p, FeedbackRecorded)]


def test_a_result_becomes_an_episode() -> None:
    made = payloads(result(trial=3))
    assert [type(payload).__name__ for payload in made] == [
        "EpisodeStarted",
        "MessageRecorded",
        "MessageRecorded",
        "ModelResponded",
        "ActionSubmitted",
        "FeedbackRecorded",
        "ModelResponded",
        "MessageRecorded",
        "EpisodeEnded",
        "VerificationRecorded",
    ]
    started = made[0]
    assert isinstance(started, EpisodeStarted)
    assert (started.task, started.goal, started.rollout) == ("tau-bench/1", "Find x", 3)
    turns = [payload.step for payload in made if isinstance(payload, ModelResponded | ActionSubmitted)]
    assert turns == [1, 1, 2]


def test_argument_and_result_texts_are_kept_verbatim() -> None:
    made = payloads(result())
    action = next(payload.action for payload in made if isinstance(payload, ActionSubmitted))
    assert isinstance(action, ToolCall)
    assert bytes(action.args) == b'{"q":  "x"}'
    (fed,) = (payload.feedback for payload in made if isinstance(payload, FeedbackRecorded))
    assert isinstance(fed, ToolResult)
    assert bytes(fed.value) == b'{"x":   1}'


@pytest.mark.parametrize(
    ("arguments", "args", "text"),
    [
        ('{"a": 1.50}', b'{"a": 1.50}', None),
        ("{'a': 1}", b"null", "{'a': 1}"),
        ("", b"null", ""),
        ('1,"b":2', b"null", '1,"b":2'),
        ('{"a": NaN}', b"null", '{"a": NaN}'),
        ("[" * 200 + "]" * 200, b"null", "[" * 200 + "]" * 200),
        ({"a": [1]}, b'{"a": [1]}', None),
        (None, b"null", None),
    ],
)
def test_arguments_that_are_no_json_are_kept_as_text(arguments: Any, args: bytes, text: str | None) -> None:
    made = payloads(result(traj=[asked(call("c", arguments))]))
    (action,) = (payload.action for payload in made if isinstance(payload, ActionSubmitted))
    assert isinstance(action, ToolCall)
    assert (bytes(action.args), action.args_text) == (args, text)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("done", b'"done"'),
        ("12.5", b'"12.5"'),
        ("[1,  2]", b"[1,  2]"),
        ("{broken", b'"{broken"'),
        (None, b"null"),
        ([{"type": "text", "text": "x"}], b'[{"type": "text", "text": "x"}]'),
    ],
)
def test_a_result_is_the_json_it_holds_else_its_text(content: Any, value: bytes) -> None:
    ((_, _, fed),) = feedback(asked(call("c")), answer("c", content))
    assert isinstance(fed, ToolResult)
    assert bytes(fed.value) == value


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("Error: not enough seats", "precondition"),
        ("Error: user not found", "not_found"),
        ("Unknown action fly", "unknown_tool"),
        ("Error: F.invoke() got an unexpected keyword argument 'x'", "schema"),
    ],
)
def test_an_error_text_is_a_failed_action(content: str, kind: str) -> None:
    ((_, _, fed),) = feedback(asked(call("c")), answer("c", content))
    assert fed == ExecError(kind, retryable=False, effect="none", message=content)  # type: ignore[arg-type]


def test_a_result_answers_the_nearest_unanswered_call_of_its_id() -> None:
    reused = feedback(
        asked(call("c")),
        asked(call("c")),
        answer("c", "second"),
        answer("c", "first"),
        asked(call("c"), call("c")),
        answer("c", "third"),
        answer("c", "fourth"),
    )
    assert [(step, bytes(fed.value)) for step, _, fed in reused] == [
        (2, b'"second"'),
        (1, b'"first"'),
        (3, b'"third"'),
        (3, b'"fourth"'),
    ]
    assert [action for _, action, _ in reused] == [5, 3, 9, 10]


def test_a_result_that_answers_nothing_is_kept_as_a_message() -> None:
    made = draft(result(traj=[answer("zzz", "lost"), asked(call("c")), answer("c", "x", name="g")]))
    message = made.events[1].payload
    assert isinstance(message, MessageRecorded)
    assert (message.role, bytes(message.content), message.name) == ("tool", b'"lost"', "f")
    assert message.extra == msgspec.Raw(b'{"tool_call_id":"zzz"}')
    assert made.unmapped["traj[].tool_call_id: kept in extra"] == 1
    assert made.unmapped["traj[].name: kept in extra"] == 1


def test_what_is_not_mapped_is_counted_and_kept() -> None:
    record = result(
        model="gpt-4o",
        traj=[{"role": "assistant", "content": "x", "refusal": None, "tool_calls": [{**call("c"), "index": 0}]}],
    )
    made = draft(record)
    turn, ended = made.events[1].payload, made.events[-2].payload
    assert isinstance(turn, ModelResponded) and isinstance(ended, EpisodeEnded)
    assert turn.extra == msgspec.Raw(b'{"refusal":null,"tool_calls[0]":{"index":0}}')
    assert msgspec.json.decode(bytes(ended.extra)) == {  # type: ignore[arg-type]
        "model": "gpt-4o",
        "info": {"source": "user", "task": {"actions": []}},
    }
    assert made.unmapped == {
        f"{path}: kept in extra": 1
        for path in ("traj[].refusal", "traj[].tool_calls[].index", "model", "info.source", "info.task.actions")
    }


@pytest.mark.parametrize(("reward", "verdict"), [(1.0, "pass"), (1, "pass"), (0.0, "fail"), (0.5, "fail")])
@pytest.mark.parametrize("reward_info", [None, {"reward": 9}])
def test_the_reward_decides_and_is_quoted(reward: float, verdict: str, reward_info: Any) -> None:
    judged = payloads(result(reward=reward, info={"reward_info": reward_info}))[-1]
    assert isinstance(judged, VerificationRecorded)
    assert (judged.source, judged.verification.verdict, judged.verification.reward) == ("import", verdict, reward)
    (check,) = judged.verification.checks
    assert (check.policy, check.verdict) == ("external", verdict)
    assert json.loads(bytes(check.detail)) == {"reward": reward, "reward_info": reward_info}  # type: ignore[arg-type]


def test_without_a_reward_it_is_unverified() -> None:
    assert isinstance(payloads(result(reward=None))[-1], EpisodeEnded)


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({}, {"kind": "finished"}),
        ({"info": {"reward_info": None}}, {"kind": "finished"}),
        (
            {"info": {"reward_info": None}, "traj": [{"role": "user", "content": "and?"}]},
            {"kind": "budget", "dimension": "steps"},
        ),
        ({"info": {"error": "boom", "traceback": "…"}, "traj": []}, {"kind": "agent_error", "message": "boom"}),
    ],
)
def test_how_it_ended(fields: dict[str, Any], end: dict[str, Any]) -> None:
    (ended,) = (payload for payload in payloads(result(**fields)) if isinstance(payload, EpisodeEnded))
    assert msgspec.to_builtins(ended.end) == end


def test_the_trials_of_a_task_are_one_group() -> None:
    same = {draft(result(trial=trial)).started.group for trial in range(4)}
    other = draft(result(info={"task": {"instruction": "Find y"}})).started.group
    assert len(same) == 1
    assert other not in same


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"reward": "high"}, "reward: expected a number"),
        ({"reward": True}, "reward: expected a number"),
        ({"task_id": None}, "task_id is null"),
        ({"traj": {}}, "traj: expected `array"),
        ({"traj": [{"role": "alien"}]}, r"traj\[0\]: role 'alien' is none of the known"),
        ({"traj": [{"content": ""}]}, r"traj\[0\]: role is missing"),
        ({"traj": [asked({"id": "x"})]}, r"traj\[0\]\.tool_calls\[0\]\.function: name is missing"),
        ({"traj": [asked({**call("x"), "type": "web"})]}, "no tool call that can be read"),
        ({"info": 5}, "info: .*xpected `object"),
    ],
)
def test_wrong_types_are_refused_with_their_place(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRecord, match=why):
        draft(result(**fields))


@pytest.mark.parametrize("name", ["task_id", "reward", "info", "traj"])
def test_a_record_without_a_field_is_no_result(name: str) -> None:
    record = result()
    del record[name]
    with pytest.raises(BadRecord, match=f"{name} is missing"):
        draft(record)


@pytest.mark.skipif(not REAL.exists(), reason="the real tau-bench file is not here")
def test_a_hundred_real_episodes_come_whole() -> None:
    source = Source(REAL.name, REAL)
    verdicts: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    with source.open() as reader:
        for record in TauBench().records(source, reader):
            assert isinstance(record, Record)
            (made,) = TauBench().episodes(record, Context(record.where, "train", no_blobs))
            ids = Counter(call["id"] for message in record.value["traj"] for call in message.get("tool_calls") or [])
            seen["reused"] += max(ids.values(), default=0) > 1
            answered = [p.payload.action for p in made.events if isinstance(p.payload, FeedbackRecorded)]
            assert len(set(answered)) == len(answered) == ids.total()
            judged = made.events[-1].payload
            assert isinstance(judged, VerificationRecorded)
            verdicts[judged.verification.verdict] += 1
            seen["messages"] += len(record.value["traj"])
            seen["events"] += sum(
                isinstance(event.payload, MessageRecorded | ModelResponded | FeedbackRecorded) for event in made.events
            )
    assert verdicts == {"pass": 49, "fail": 51}
    assert seen["reused"] == 25
    assert seen["messages"] == seen["events"] == 2526
