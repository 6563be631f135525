import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import BadRecord
from eventlog.interchange import Confidence
from eventlog.interchange.swe.agent import SweAgent
from tests.eventlog.interchange.drafting import REAL, Imports, data_url, draft, drafts, of, png, real, told

FILES = REAL / "swe-agent"


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path)


def ran(action: Any = "ls", observation: Any = "a.py", thought: str = "Look.", **fields: Any) -> dict[str, Any]:
    """An entry of a trajectory."""
    response = f"{thought}\n```\n{action}\n```"
    return {"action": action, "observation": observation, "response": response, "thought": thought} | fields


def turn(action: str = "ls", thought: str = "Look.", **fields: Any) -> dict[str, Any]:
    """The assistant's message that `ran` with the same words goes with."""
    content = f"{thought}\n```\n{action}\n```"
    return {"role": "assistant", "content": content, "thought": thought, "action": action, "agent": "main"} | fields


def shown(content: Any, role: str = "user", **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "agent": "main", "message_type": "observation"} | fields


BEGINNING = [
    {"role": "system", "content": "You are an agent.", "agent": "main", "message_type": "system_prompt"},
    shown("Mend the bug."),
]


def run(*trajectory: dict[str, Any], history: list[dict[str, Any]] | None = None, **fields: Any) -> dict[str, Any]:
    info = {"exit_status": "submitted", "submission": "diff", "model_stats": {"api_calls": 2}}
    record = {"environment": "main", "trajectory": list(trajectory), "info": info}
    return record | ({} if history is None else {"history": BEGINNING + history}) | fields


def call(name: str = "find_file", arguments: str = '{"file":  "a"}', id_: str = "c1") -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, "id": id_, "type": "function"}


def test_an_entry_and_its_message_are_one_step() -> None:
    record = run(
        ran(), ran("submit", "diff", "Done."), history=[turn(), shown("a.py\nbash-$"), turn("submit", "Done.")]
    )
    made = told(draft(SweAgent(), record))
    assert [(event["type"], event.get("step")) for event in made] == [
        ("EpisodeStarted", None),
        ("MessageRecorded", None),
        ("MessageRecorded", None),
        ("ModelResponded", 1),
        ("ActionSubmitted", 1),
        ("FeedbackRecorded", 1),
        ("ModelResponded", 2),
        ("ActionSubmitted", 2),
        ("FeedbackRecorded", 2),
        ("ActionSubmitted", 2),
        ("EpisodeEnded", None),
    ]
    started, fed, claim = made[0], made[5], made[9]
    assert (started["goal"], started["environment"]) == ("Mend the bug.", "main")
    assert made[4]["action"] == {"kind": "ToolCall", "tool": "bash", "args": {"command": "ls"}}
    assert (fed["action"], fed["feedback"]) == (5, {"kind": "ToolResult", "value": "a.py"})
    assert fed["extra"] == {"message": {"role": "user", "content": "a.py\nbash-$"}}
    assert claim["action"] == {"kind": "Finish", "claim": "submitted", "answer": "diff"}


def test_function_calls_keep_their_argument_text() -> None:
    record = run(
        ran("find_file a", "found"),
        history=[turn("find_file a", tool_calls=[call()]), shown("found", "tool", tool_call_ids=["c1"])],
    )
    data = json.dumps(record).encode()
    assert b'{\\"file\\":  \\"a\\"}' in data
    made = draft(SweAgent(), record)
    (submitted, _) = of(made, "ActionSubmitted")
    assert submitted["action"] == {"kind": "ToolCall", "tool": "find_file", "args": {"file": "a"}, "call_id": "c1"}
    (fed,) = of(made, "FeedbackRecorded")
    assert (fed["call_id"], fed["feedback"]["value"]) == ("c1", "found")
    assert "extra" not in fed
    assert of(made, "ModelResponded")[0]["extra"] == {"action": "find_file a"}
    assert not made.unmapped


def test_a_history_may_stand_alone() -> None:
    history = [
        *BEGINNING,
        turn("find_file a", tool_calls=[call()]),
        shown("found", "tool", tool_call_ids=["c1"]),
        turn("submit", tool_calls=[call("submit", "{}", "c2")]),
    ]
    made = draft(SweAgent(), {"history": history})
    assert [event["action"].get("call_id") for event in of(made, "ActionSubmitted")] == ["c1", "c2"]
    (fed,) = of(made, "FeedbackRecorded")
    assert (fed["step"], fed["feedback"]["value"]) == (1, "found")
    assert of(made, "EpisodeEnded")[0]["end"] == {"kind": "finished"}


def test_a_trajectory_may_stand_alone() -> None:
    made = draft(SweAgent(), run(ran(), ran("true", "")))
    assert [event["step"] for event in of(made, "ModelResponded")] == [1, 2]
    assert [event["feedback"]["value"] for event in of(made, "FeedbackRecorded")] == ["a.py", ""]


@pytest.mark.parametrize("state", [{"open_file": "n/a"}, '{"open_file": "n/a"}\n'])
def test_a_state_is_an_object_also_where_it_is_recorded_as_a_text(state: Any) -> None:
    made = draft(SweAgent(), run(ran(state=state, execution_time=0.25)))
    (fed,) = of(made, "FeedbackRecorded")
    assert (fed["extra"], fed["latency_ms"]) == ({"state": {"open_file": "n/a"}}, 250.0)
    assert made.unmapped == {"trajectory[].state: kept in extra": 1}


def test_a_state_that_is_no_json_is_kept_as_it_is() -> None:
    (fed,) = of(draft(SweAgent(), run(ran(state="{broken"))), "FeedbackRecorded")
    assert fed["extra"] == {"state": "{broken"}


def test_prompts_are_not_copied_into_events() -> None:
    record = run(ran(query=[{"role": "user", "content": "SECRET"}]), history=[turn()])
    made = draft(SweAgent(), record)
    assert "SECRET" not in json.dumps(told(made))
    (reason,) = made.unmapped
    assert reason.startswith("trajectory[].query: in the record alone")


def test_demonstrations_are_copied_context_and_no_steps() -> None:
    demo = [
        shown("An old issue.", is_demo=True),
        turn("old", "Old.", is_demo=True, tool_calls=[call("old")]),
        shown("old answer", is_demo=True),
    ]
    made = draft(SweAgent(), run(ran(), history=[*demo, turn()]))
    first, second = of(made, "ModelResponded")
    assert (first["step"], first["copied"], second["step"], "copied" in second) == (1, True, 2, False)
    assert first["extra"]["tool_calls"] == [call("old")]
    assert [event["step"] for event in of(made, "ActionSubmitted", "FeedbackRecorded")] == [2, 2, 2]
    marked = [event.get("extra") for event in of(made, "MessageRecorded")]
    assert marked == [None, None, {"is_demo": True}, {"is_demo": True}]
    assert of(made, "EpisodeStarted")[0]["goal"] == "Mend the bug."


def test_turns_that_were_repeated_are_steps_with_the_one_that_stood() -> None:
    record = run(
        ran("", "", "No command."),
        ran("vim a", "", "Edit."),
        ran(),
        history=[turn(), shown("a.py")],
    )
    made = draft(SweAgent(), record)
    assert [event["content"][:4] for event in of(made, "ModelResponded")] == ["No c", "Edit", "Look"]
    commands = [event["action"].get("args") for event in of(made, "ActionSubmitted")]
    assert commands == [{"command": "vim a"}, {"command": "ls"}, None]
    assert [(event["step"], event["action"]) for event in of(made, "FeedbackRecorded")] == [(3, 8)]


def test_two_turns_with_the_same_words_are_two_steps() -> None:
    record = run(ran("ls", "1"), ran("ls", "2"), history=[turn(), shown("one"), turn(), shown("two")])
    fed = of(draft(SweAgent(), record), "FeedbackRecorded")
    assert [(event["step"], event["feedback"]["value"]) for event in fed] == [(1, "1"), (2, "2")]
    assert [event["extra"]["message"]["content"] for event in fed] == ["one", "two"]


def test_what_the_model_thought_apart_is_its_thought() -> None:
    blocks = [{"type": "thinking", "thinking": "Hmm.", "signature": "s"}]
    made = draft(SweAgent(), run(ran(), history=[turn(thinking_blocks=blocks)]))
    (responded,) = of(made, "ModelResponded")
    assert responded["thought"] == "Hmm."
    assert responded["extra"] == {"message": {"thinking_blocks": blocks}}
    (plain,) = of(draft(SweAgent(), run(ran())), "ModelResponded")
    assert "thought" not in plain and plain["content"].startswith("Look.")


def test_images_in_contents_become_blobs() -> None:
    parts = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": data_url(png())}}]
    record = run(ran(), history=[shown(parts), turn(content=parts, thought="Look."), shown(parts)])
    made = draft(SweAgent(), record)
    said = of(made, "MessageRecorded")[-1]["content"]
    assert said[0] == parts[0] and said[1]["image_url"]["url"]["media_type"] == "image/png"
    (responded,) = of(made, "ModelResponded")
    assert responded["content"] == "See"
    assert responded["extra"]["message"]["content"] == said
    assert data_url(png()) not in json.dumps(told(made))


def test_an_image_that_is_none_is_refused_with_its_place() -> None:
    parts = [{"type": "image_url", "image_url": {"url": data_url(b"<html>")}}]
    with pytest.raises(BadRecord, match=r"history\[2\]: holds what is said to be an image and is no image"):
        draft(SweAgent(), run(history=[shown(parts)]))


@pytest.mark.parametrize(
    ("status", "submission", "end"),
    [
        ("submitted", "diff", {"kind": "finished"}),
        ("submitted", "", {"kind": "agent_error", "message": "submitted nothing"}),
        ("submitted", "\n", {"kind": "agent_error", "message": "submitted nothing"}),
        ("submitted", None, {"kind": "agent_error", "message": "submitted nothing"}),
        ("exit_cost", None, {"kind": "budget", "dimension": "money"}),
        ("submitted (exit_cost)", "diff", {"kind": "budget", "dimension": "money"}),
        ("exit_context", None, {"kind": "budget", "dimension": "tokens"}),
        ("exit_total_execution_time", None, {"kind": "budget", "dimension": "wall"}),
        ("exit_format", None, {"kind": "agent_error", "message": "exit_format"}),
        ("exit_forfeit", None, {"kind": "refused", "reason_code": "exit_forfeit"}),
        ("exit_environment_error", None, {"kind": "env_failure", "message": "exit_environment_error"}),
        ("something new", None, {"kind": "agent_error", "message": "something new"}),
        (7, None, {"kind": "agent_error", "message": "7"}),
    ],
)
def test_the_exit_status_says_how_it_ended(status: Any, submission: Any, end: dict[str, Any]) -> None:
    made = draft(SweAgent(), run(ran(), info={"exit_status": status, "submission": submission}))
    (ended,) = of(made, "EpisodeEnded")
    assert ended["end"] == end
    assert ended["extra"]["exit_status"] == status
    claims = [event for event in of(made, "ActionSubmitted") if event["action"]["kind"] == "Finish"]
    assert len(claims) == (status == "submitted" and submission is not None)
    assert not of(made, "VerificationRecorded")


@pytest.mark.parametrize("fields", [{"info": {"exit_status": None, "notes": 1}}, {"info": {"notes": 1}}])
def test_a_run_that_was_killed_has_no_end(fields: dict[str, Any]) -> None:
    made = draft(SweAgent(), run(ran(), **fields))
    assert not of(made, "EpisodeEnded")
    assert made.started.extra and b'"notes":1' in bytes(made.started.extra)


def test_costs_and_tokens_of_the_run_are_charged() -> None:
    stats = {"instance_cost": 0.25, "tokens_sent": 100, "tokens_received": 20, "api_calls": 1}
    made = draft(SweAgent(), run(ran(), info={"exit_status": "exit_cost", "model_stats": stats}))
    assert [(event["dimension"], event["amount"]) for event in of(made, "BudgetCharged")] == [
        ("money", 0.25),
        ("tokens", 120.0),
    ]
    assert of(made, "EpisodeEnded")[0]["extra"]["model_stats"] == stats
    nothing = {"instance_cost": 0, "tokens_sent": 0, "tokens_received": None}
    assert not of(draft(SweAgent(), run(ran(), info={"model_stats": nothing})), "BudgetCharged")


@pytest.mark.parametrize(
    "entry",
    [
        ran("", "Exited (autosubmitted)", "Exit due to cost limit", response="Exit due to cost limit"),
        ran("exit_cost", "", "Exit due to cost limit", response=""),
    ],
)
def test_what_the_harness_says_at_the_end_is_no_model_turn(entry: dict[str, Any]) -> None:
    made = draft(SweAgent(), run(ran(), entry))
    assert len(of(made, "ModelResponded")) == 1
    notice = of(made, "FeedbackRecorded")[-1]
    assert notice["feedback"] == {"kind": "EnvNotice", "source": "swe-agent", "text": "Exit due to cost limit"}
    assert notice["step"] == 1


def test_a_last_malformed_answer_is_a_turn_that_did_nothing() -> None:
    made = draft(SweAgent(), run(ran("exit_format", "", "Exit due to format error", response="I am lost")))
    assert of(made, "ModelResponded")[0]["content"] == "I am lost"
    assert [event["action"]["kind"] for event in of(made, "ActionSubmitted")] == ["Finish"]


@pytest.mark.parametrize(
    ("observation", "kind", "effect"),
    [
        ("\nEXECUTION TIMED OUT", "timeout", "unknown"),
        ("The command 'sleep 99' was cancelled because it took more than 30 seconds. Try", "timeout", "unknown"),
        ("partial\nCOMMAND FAILED TO EXECUTE. RESTARTING PROCESS.", "transport_lost", "unknown"),
        ("Interactive operation 'vim a' is not supported by this environment.", "permission", "none"),
    ],
)
def test_what_could_not_be_carried_out_is_a_failed_action(observation: str, kind: str, effect: str) -> None:
    (fed,) = of(draft(SweAgent(), run(ran("x", observation))), "FeedbackRecorded")
    assert fed["feedback"] == {
        "kind": "ExecError",
        "class": kind,
        "retryable": False,
        "effect": effect,
        "message": observation,
    }


@pytest.mark.parametrize("as_text", [True, False])
def test_the_replay_configuration_names_task_and_model(as_text: bool) -> None:
    config = {
        "agent": {"model": {"name": "gpt-4o"}},
        "problem_statement": {"id": "org__repo-1", "text": "It crashes."},
    }
    info = {"swe_agent_version": "1.1.0", "swe_agent_hash": "abc", "review": 1}
    record = run(ran(), replay_config=json.dumps(config) if as_text else config, info=info)
    started = draft(SweAgent(), record).started
    assert (started.task, started.goal, started.policy) == ("org__repo-1", "It crashes.", "gpt-4o")
    assert started.versions == {"swe_agent_version": "1.1.0", "swe_agent_hash": "abc"}


def test_each_attempt_of_a_retried_run_is_an_episode() -> None:
    record = run(ran("best")) | {"attempts": [run(ran("first")), run(ran("best"))]}
    first, second = drafts(SweAgent(), record)
    assert (first.started.attempt, second.started.attempt) == (1, 2)
    assert of(second, "ActionSubmitted")[0]["action"]["args"] == {"command": "best"}
    assert first.unmapped["trajectory: in the record alone, beside its attempts"] == 1


def test_what_has_no_place_is_kept_and_counted() -> None:
    record = run(
        ran(extra_info={"a": 1}),
        history=[turn(tags=["x"]), shown("a.py", cache_control={"type": "ephemeral"}), shown("late", agent="sub")],
        info={"exit_status": "exit_cost", "edited_files30": "…", "submission": {"a": 1}},
        custom=5,
    )
    made = draft(SweAgent(), record)
    assert of(made, "ModelResponded")[0]["extra"] == {"message": {"tags": ["x"]}, "extra_info": {"a": 1}}
    assert of(made, "FeedbackRecorded")[0]["extra"] == {"message": {"cache_control": {"type": "ephemeral"}}}
    assert of(made, "MessageRecorded")[-1]["extra"] == {"agent": "sub"}
    assert of(made, "EpisodeStarted")[0]["extra"] == {"agent": "main", "custom": 5}
    assert of(made, "EpisodeEnded")[0]["extra"] == {
        "exit_status": "exit_cost",
        "edited_files30": "…",
        "submission": {"a": 1},
    }
    assert made.unmapped == {
        f"{path}: kept in extra": 1
        for path in (
            "trajectory[].extra_info",
            "history[].tags",
            "history[].cache_control",
            "history[].agent",
            "info.edited_files30",
            "info.submission",
            "custom",
        )
    }


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"info": {}}, "trajectory and history are missing"),
        (run(trajectory={}), "trajectory: expected `array"),
        (run(trajectory=[5]), "trajectory: expected `object`, got `int`"),
        (run(ran(action=5)), r"trajectory\[0\]: action: expected `str"),
        (run(ran(execution_time="1")), r"trajectory\[0\]: execution_time: expected `float"),
        (run(history=[{"content": "x"}]), r"history\[2\]: role is missing"),
        (run(history=[shown("x", "alien")]), r"history\[2\]: role: invalid enum value 'alien'"),
        (run(history=[turn(content=5)]), r"history\[2\]: content: expected a text or a list of parts"),
        (run(history=[turn(tool_calls=[{}])]), r"history\[2\]\.tool_calls\[0\]\.function: name is missing"),
        (run(ran(), info=5), "xpected `object"),
        (run(ran(), info={"exit_status": []}), "info: exit_status: expected"),
        (run(ran(), info={"model_stats": {"tokens_sent": "7"}}), "info: model_stats: expected `float"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(record: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRecord, match=why):
        drafts(SweAgent(), record)


def test_bad_records_are_rejected_alone(imports: Imports) -> None:
    whole = json.dumps(run(ran()))
    bad = [whole[:-9], '{"trajectory": NaN}', '{"trajectory": 5}', '{"trajectory": ' + "[" * 5000 + "]" * 5000 + "}"]
    report = imports.take("\n".join([whole, *bad, json.dumps(run(ran("pwd")))]), "a.jsonl")
    assert report.episodes == {"new": 2, "present": 0, "rejected": 4}
    assert all("\n" not in refused.why for refused in report.rejected)


def test_the_same_file_twice_adds_nothing(imports: Imports) -> None:
    imports.take(run(ran()), "a.traj")
    count = len(imports.events())
    assert imports.take(run(ran()), "b.traj").episodes == {"new": 0, "present": 1, "rejected": 0}
    assert len(imports.events()) == count


def test_a_large_observation_lies_in_the_blob_store(imports: Imports) -> None:
    report = imports.take(run(ran("cat", "x" * 2_000_000), history=[turn("cat"), shown("y" * 2_000_000)]), "a.traj")
    assert report.rejected == []
    assert all(len(event.body) < 70_000 for event in imports.events())


@pytest.mark.parametrize(
    ("first", "sure"),
    [
        (run(ran()), Confidence.CERTAIN),
        (run(ran(), history=[]), Confidence.CERTAIN),
        ({"history": BEGINNING}, Confidence.CERTAIN),
        ({"attempts": [run(ran())]}, Confidence.CERTAIN),
        (run(), Confidence.LIKELY),
        ({"history": [{"role": "user", "content": "x"}]}, Confidence.POSSIBLE),
        ({"trajectory": [{"step": 1}]}, Confidence.NO),
        ({"history": ["x"]}, Confidence.NO),
        ({"messages": [], "info": {"exit_status": "Submitted"}}, Confidence.NO),
        ({"role": "user", "content": "x"}, Confidence.NO),
        (None, Confidence.NO),
    ],
)
def test_only_its_own_files_are_claimed(first: dict[str, Any] | None, sure: Confidence) -> None:
    assert SweAgent().sniff(b"", first) is sure


@pytest.mark.skipif(not FILES.exists(), reason="the real SWE-agent files are not here")
@pytest.mark.parametrize(
    ("name", "steps", "events"),
    [
        ("function_calling_simple.traj", 5, 19),
        ("humanevalfix-python-0.traj", 5, 20),
        ("networking_1.traj", 4, 17),
        ("test-repo-old.traj", 5, 22),
    ],
)
def test_a_real_file_comes_whole(name: str, steps: int, events: int) -> None:
    path = FILES / name
    recorded = json.loads(path.read_text())
    (made,) = real(SweAgent(), path)
    assert len(made.events) == events
    assert len(of(made, "ModelResponded")) == len(of(made, "FeedbackRecorded")) == steps
    assert of(made, "EpisodeEnded")[0]["end"] == {"kind": "finished"}
    for entry, fed in zip(recorded.get("trajectory", []), of(made, "FeedbackRecorded"), strict=False):
        assert fed["feedback"]["value"] == entry["observation"]
    whole = json.dumps(told(made))
    for message in recorded["history"]:
        assert json.dumps(message["content"]) in whole
