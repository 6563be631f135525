import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import BadRecord, UsageError
from eventlog.interchange import Confidence
from eventlog.interchange.swe.mini import MiniSweAgent
from tests.eventlog.interchange.drafting import REAL, Imports, data_url, draft, of, png, real, told

FILE = REAL / "swe-agent/mini-github_issue.traj.json"
SYSTEM = {"role": "system", "content": "Answer with one bash block."}
ASKED = {"role": "user", "content": "Mend the bug."}


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path)


def turn(command: str = "ls", **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": f"Look.\n```bash\n{command}\n```"} | fields


def acted(command: str = "ls", id_: str | None = None, **extra: Any) -> dict[str, Any]:
    """A turn whose action the file records."""
    action = {"command": command} | ({} if id_ is None else {"tool_call_id": id_})
    calls = None if id_ is None else [call(command, id_)]
    return turn(command, tool_calls=calls, extra={"actions": [action]} | extra)


def call(command: str, id_: str) -> dict[str, Any]:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return {"id": id_, "type": "function", "function": function}


def came_back(content: Any = "a.py", id_: str | None = None, **extra: Any) -> dict[str, Any]:
    who = {"role": "user"} if id_ is None else {"role": "tool", "tool_call_id": id_}
    return who | {"content": content, "extra": {"raw_output": "a.py", "returncode": 0} | extra}


def run(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "messages": [SYSTEM, ASKED, *messages],
        "info": {"exit_status": "Submitted", "submission": "diff"},
        "trajectory_format": "mini-swe-agent-1.1",
    } | fields


def test_a_recorded_command_is_an_action_and_what_came_back_answers_it() -> None:
    made = told(draft(MiniSweAgent(), run(acted(), came_back(), acted("submit"))))
    assert [(event["type"], event.get("step")) for event in made] == [
        ("EpisodeStarted", None),
        ("MessageRecorded", None),
        ("MessageRecorded", None),
        ("ModelResponded", 1),
        ("ActionSubmitted", 1),
        ("FeedbackRecorded", 1),
        ("ModelResponded", 2),
        ("ActionSubmitted", 2),
        ("ActionSubmitted", 2),
        ("EpisodeEnded", None),
    ]
    assert made[0]["goal"] == "Mend the bug."
    assert made[4]["action"] == {"kind": "ToolCall", "tool": "bash", "args": {"command": "ls"}}
    assert (made[5]["action"], made[5]["feedback"]) == (5, {"kind": "ToolResult", "value": "a.py"})
    assert made[5]["extra"] == {"extra": {"raw_output": "a.py", "returncode": 0}}
    assert made[8]["action"] == {"kind": "Finish", "claim": "submitted", "answer": "diff"}


def test_tool_calls_are_answered_by_their_ids() -> None:
    both = turn(
        tool_calls=[call("a", "c1"), call("b", "c2")],
        extra={"actions": [{"command": "a", "tool_call_id": "c1"}, {"command": "b", "tool_call_id": "c2"}]},
    )
    made = draft(MiniSweAgent(), run(both, came_back("B", "c2"), came_back("A", "c1")))
    assert [event["action"].get("call_id") for event in of(made, "ActionSubmitted")] == ["c1", "c2", None]
    fed = [(event["action"], event["call_id"], event["feedback"]["value"]) for event in of(made, "FeedbackRecorded")]
    assert fed == [(6, "c2", "B"), (5, "c1", "A")]
    assert "extra" not in of(made, "ModelResponded")[0]


def test_a_command_in_the_text_alone_is_no_action() -> None:
    made = draft(MiniSweAgent(), run(turn(), {"role": "user", "content": "<returncode>0</returncode>"}, info={}))
    assert not of(made, "ActionSubmitted", "FeedbackRecorded")
    assert of(made, "MessageRecorded")[-1]["step"] == 1


def test_a_message_that_is_no_result_stays_one() -> None:
    said = {"role": "user", "content": "Exactly one command!", "extra": {"interrupt_type": "FormatError"}}
    made = draft(MiniSweAgent(), run(acted(), said, came_back()))
    assert of(made, "MessageRecorded")[-1]["content"] == "Exactly one command!"
    assert len(of(made, "FeedbackRecorded")) == 1


def test_usage_cost_and_times_are_those_of_the_model_call() -> None:
    response = {
        "model": "gpt-5",
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 60},
            "completion_tokens_details": {"reasoning_tokens": 5, "audio_tokens": None},
        },
        "choices": [{"finish_reason": "stop", "index": 0}],
    }
    message = acted(response=response, cost=0.5, timestamp=1_700_000_000.25)
    made = draft(MiniSweAgent(), run(message, info={"model_stats": {"instance_cost": 0.5}}))
    (responded,) = of(made, "ModelResponded")
    assert responded["usage"] == {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "thinking_tokens": 5,
        "cached_tokens": 60,
    }
    assert (responded["model"], responded["cost"], responded["finish_reason"]) == ("gpt-5", 0.5, "stop")
    assert responded["extra"] == {"extra": {"response": response}}
    assert {event.occurred_at for event in made.events[3:5]} == {1_700_000_000_250_000}
    assert made.events[0].occurred_at is None
    assert not of(made, "BudgetCharged")


def test_the_cost_of_the_run_is_charged_where_no_call_has_one() -> None:
    made = draft(MiniSweAgent(), run(turn(), info={"exit_status": "", "model_stats": {"instance_cost": 0.5}}))
    assert [(event["dimension"], event["amount"]) for event in of(made, "BudgetCharged")] == [("money", 0.5)]


def test_the_responses_api_has_items_in_place_of_messages() -> None:
    answer = {
        "object": "response",
        "model": "gpt-5",
        "usage": {"input_tokens": 7, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 1}},
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "message", "content": [{"type": "output_text", "text": "Look."}]},
            {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
        ],
        "extra": {"actions": [{"command": "ls", "tool_call_id": "c1"}], "cost": 0.1},
    }
    result = {"type": "function_call_output", "call_id": "c1", "output": "a.py", "extra": {"returncode": 0}}
    made = draft(MiniSweAgent(), run(answer, result))
    (responded,) = of(made, "ModelResponded")
    assert (responded["content"], responded["usage"]["completion_tokens"]) == ("Look.", 3)
    assert responded["extra"]["output"] == answer["output"]
    (fed,) = of(made, "FeedbackRecorded")
    assert (fed["call_id"], fed["feedback"]["value"]) == ("c1", "a.py")


@pytest.mark.parametrize(
    ("exception", "kind", "effect"),
    [
        ("action was not executed", "precondition", "none"),
        ("An error occurred while executing the command: timed out after 60 seconds", "timeout", "unknown"),
        ("BrokenPipeError", "backend_bug", "unknown"),
    ],
)
def test_what_could_not_be_carried_out_is_a_failed_action(exception: str, kind: str, effect: str) -> None:
    made = draft(MiniSweAgent(), run(acted(), came_back("oh", exception_info=exception)))
    (fed,) = of(made, "FeedbackRecorded")
    assert fed["feedback"] == {
        "kind": "ExecError",
        "class": kind,
        "retryable": False,
        "effect": effect,
        "message": "oh",
    }
    assert fed["extra"]["extra"]["exception_info"] == exception


LIMITS = {"config": {"agent": {"step_limit": 3}}, "model_stats": {"api_calls": 3}}


@pytest.mark.parametrize(
    ("info", "end"),
    [
        ({"exit_status": "Submitted", "submission": "diff"}, {"kind": "finished"}),
        ({"exit_status": "Submitted", "submission": ""}, {"kind": "agent_error", "message": "submitted nothing"}),
        ({"exit_status": "LimitsExceeded"} | LIMITS, {"kind": "budget", "dimension": "steps"}),
        ({"exit_status": "LimitsExceeded"}, {"kind": "budget", "dimension": "money"}),
        ({"exit_status": "LimitsExceeded", "config": []}, {"kind": "budget", "dimension": "money"}),
        ({"exit_status": "TimeExceeded"}, {"kind": "budget", "dimension": "wall"}),
        ({"exit_status": "KeyboardInterrupt"}, {"kind": "cancelled", "message": "KeyboardInterrupt"}),
        ({"exit_status": "ValueError"}, {"kind": "agent_error", "message": "ValueError"}),
    ],
)
def test_the_exit_status_says_how_it_ended(info: dict[str, Any], end: dict[str, Any]) -> None:
    made = draft(MiniSweAgent(), run(turn(), info=info))
    assert of(made, "EpisodeEnded")[0]["end"] == end
    assert not of(made, "VerificationRecorded")


@pytest.mark.parametrize("info", [{"exit_status": ""}, {"exit_status": None}, {}])
def test_a_run_that_was_killed_has_no_end(info: dict[str, Any]) -> None:
    assert not of(draft(MiniSweAgent(), run(turn(), info=info | {"notes": 1})), "EpisodeEnded")


def test_the_message_that_ends_a_run_is_its_end() -> None:
    last = {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff", "x": 1}}
    made = draft(MiniSweAgent(), run(acted(), last))
    (ended,) = of(made, "EpisodeEnded")
    assert (ended["end"], ended["extra"]) == (
        {"kind": "finished"},
        {"exit_status": "Submitted", "message": {"extra": {"x": 1}}},
    )
    alone = draft(MiniSweAgent(), run(acted(), last, info={}))
    assert of(alone, "EpisodeEnded")[0]["end"] == {"kind": "finished"}
    assert of(alone, "ActionSubmitted")[-1]["action"]["answer"] == "diff"


def test_the_configuration_names_model_and_environment() -> None:
    config = {"model": {"model_name": "gpt-5"}, "environment": {"image": "testbed"}}
    record = run(turn(), info={"config": config, "mini_version": "2.1"}, instance_id="org__repo-1")
    made = draft(MiniSweAgent(), record)
    started = made.started
    assert (started.task, started.policy, started.environment) == ("org__repo-1", "gpt-5", "testbed")
    assert started.versions == {"mini-swe-agent": "2.1", "trajectory_format": "mini-swe-agent-1.1"}
    assert made.unmapped == {"info.config: kept in extra": 1}


def test_a_bare_list_is_one_episode_and_its_last_command_says_that_it_ended() -> None:
    messages = [SYSTEM, ASKED, turn(), {"role": "user", "content": "a.py"}]
    made = draft(MiniSweAgent(), messages)
    assert [event["type"] for event in told(made)] == [
        "EpisodeStarted",
        "MessageRecorded",
        "MessageRecorded",
        "ModelResponded",
        "MessageRecorded",
    ]
    done = draft(MiniSweAgent(), [*messages, turn("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")])
    assert of(done, "EpisodeEnded")[0]["end"] == {"kind": "finished"}


def test_images_in_contents_become_blobs() -> None:
    def parts(data: bytes) -> list[dict[str, Any]]:
        return [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": data_url(data)}}]

    made = draft(MiniSweAgent(), run(acted(), came_back(parts(png()))))
    (fed,) = of(made, "FeedbackRecorded")
    assert fed["feedback"]["value"][1]["image_url"]["url"]["media_type"] == "image/png"
    with pytest.raises(BadRecord, match=r"messages\[3\]: holds what is said to be an image"):
        draft(MiniSweAgent(), run(acted(), came_back(parts(b"none"))))


def test_what_has_no_place_is_kept_and_counted() -> None:
    record = run(acted(custom=1), turn(provider={"a": 1}), {**ASKED, "tags": []}, info={"notes": 2}, top=3)
    made = draft(MiniSweAgent(), record)
    assert made.unmapped == {
        f"{path}: kept in extra": 1
        for path in ("messages[].extra.custom", "messages[].provider", "messages[].tags", "info.notes", "top")
    }
    assert of(made, "EpisodeStarted")[0]["extra"] == {"info": {"notes": 2}, "top": 3}


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"info": {}}, "messages is missing"),
        (run() | {"messages": []}, "messages is empty"),
        (run() | {"messages": {}}, "messages: expected `array"),
        (run(turn(content=5)), r"messages\[2\]: content: expected a text or a list of parts"),
        (run({"content": "x"}), r"messages\[2\]: role is missing"),
        (run({"role": "alien", "content": "x"}), r"messages\[2\]: role: no role 'alien' is known"),
        (run({"role": 5, "content": "x"}), r"messages\[2\]: role: expected `str"),
        (run(turn(extra=5)), r"messages\[2\]\.extra: .xpected `object"),
        (run(turn(timestamp="now")), r"messages\[2\]: timestamp: expected `float"),
        (run(turn(timestamp=1e300)), r"messages\[2\]: timestamp: no seconds since 1970"),
        (run(turn(extra={"response": {"usage": {"prompt_tokens": "x"}}})), r"response: usage: expected `int"),
        (run(turn(tool_calls=[{}])), r"messages\[2\]\.tool_calls\[0\]\.function: name is missing"),
        (run(info=5), "info: .xpected `object"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(record: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRecord, match=why):
        draft(MiniSweAgent(), record)


def test_a_file_that_is_a_list_is_one_record(imports: Imports) -> None:
    messages = [SYSTEM, ASKED, turn("echo MINI_SWE_AGENT_FINAL_OUTPUT")]
    report = imports.take(messages, "a.traj.json")
    assert (report.format, report.episodes["new"]) == ("mini-swe-agent", 1)
    started = imports.payloads()[0]
    assert imports.blobs.get(started.origin.record.address) == json.dumps(messages).encode()
    again = imports.take(json.dumps(messages) + "\n" + json.dumps(messages[:2]) + "\n", "b.jsonl")
    assert again.episodes == {"new": 1, "present": 1, "rejected": 0}


def test_a_list_of_trajectories_is_as_many_records(imports: Imports) -> None:
    report = imports.take([run(turn()), run(turn("pwd")), {"messages": 5}])
    assert report.episodes == {"new": 2, "present": 0, "rejected": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (json.dumps([SYSTEM, ASKED, turn()])[:-30], "cut short"),
        ('[{"role": "user", "content": NaN}]', "NaN"),
        ('[{"role": "user", "content": "\\ud800"}]', "half a character"),
        ('[{"role": "user", "content": "<returncode>"}, 5]', r"expected `object`, got `int`"),
        ('[{"role": "user", "content": "<returncode>", "a": ' + "[" * 5000 + "]" * 5000 + "}]", "too deep"),
        ('[{"role": "user", "content": "<returncode>"}]\n{"a": 1}', "no list of messages"),
    ],
)
def test_a_bad_list_is_rejected_in_one_line(imports: Imports, text: str, why: str) -> None:
    report = imports.take(text, format="mini-swe-agent")
    assert report.episodes["rejected"] == 1
    assert why in report.rejected[0].why and "\n" not in report.rejected[0].why


@pytest.mark.parametrize("data", [b"a,b\n1,2\n", b"<html>", b"\x89PNG\r\n\x1a\n\0\0"])
def test_what_is_no_json_is_said(imports: Imports, data: bytes) -> None:
    with pytest.raises(BadRecord, match=r"is (a table|an HTML page|binary data)"):
        imports.take(data, format="mini-swe-agent")


@pytest.mark.parametrize(
    ("value", "sure"),
    [
        (run(turn()), Confidence.CERTAIN),
        ({"messages": [], "info": {"model_stats": {}}}, Confidence.LIKELY),
        ({"messages": [SYSTEM, ASKED]}, Confidence.NO),
        ({"messages": [SYSTEM], "info": {"a": 1}}, Confidence.NO),
        ([SYSTEM, turn("x"), {"role": "user", "content": "<returncode>0</returncode>"}], Confidence.LIKELY),
        ([SYSTEM, ASKED], Confidence.POSSIBLE),
        ([{"content": None, "name": 'a"b', "role": "user"}], Confidence.POSSIBLE),
        ([{"a": 1, "content": "x"}], Confidence.NO),
        ({"role": "user", "content": "one message a line"}, Confidence.NO),
        ([run(turn())], Confidence.CERTAIN),
    ],
)
def test_only_its_own_files_are_claimed(value: Any, sure: Confidence) -> None:
    first = value[0] if isinstance(value, list) else value
    assert MiniSweAgent().sniff(json.dumps(value).encode(), first) is sure
    assert MiniSweAgent().sniff(b"x", None) is Confidence.NO


def test_a_list_of_plain_messages_that_fits_another_format_too_is_not_guessed(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eventlog.interchange.swe.agent import SweAgent

    monkeypatch.setattr(SweAgent, "sniff", lambda *_: Confidence.POSSIBLE)
    with pytest.raises(UsageError, match=r"could be mini-swe-agent and .*swe-agent; say which with --format"):
        imports.take([SYSTEM, ASKED])


@pytest.mark.skipif(not FILE.exists(), reason="the real mini-swe-agent file is not here")
def test_the_real_file_comes_whole(imports: Imports) -> None:
    (made,) = real(MiniSweAgent(), FILE)
    recorded = json.loads(FILE.read_text())
    said = of(made, "MessageRecorded", "ModelResponded")
    assert [event["content"] for event in said] == [message["content"] for message in recorded]
    assert (len(made.events), len(of(made, "ModelResponded"))) == (24, 10)
    assert of(made, "EpisodeEnded")[0]["end"] == {"kind": "finished"}
    assert imports.take_file(FILE).format == "mini-swe-agent"
