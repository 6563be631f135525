import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import BadRecord
from core.times import from_text
from eventlog.interchange import Confidence
from eventlog.interchange.atif.importer import Atif
from eventlog.interchange.export.exporter import referring
from tests.eventlog.interchange.drafting import REAL, Imports, draft, drafts, of, png, told
from tests.eventlog.interchange.exporting import taken
from tests.eventlog.interchange.trajectories import acted, call, result, said, trajectory

FILES = REAL / "atif"
Json = dict[str, Any]


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path)


def made(*steps: Json, **fields: Any) -> list[Json]:
    return told(draft(Atif(), trajectory(*steps, **fields)))


def last(*steps: Json, **fields: Any) -> Json:
    return made(*steps, **fields)[-1]


def test_a_step_of_the_agent_is_a_model_turn_with_its_calls_and_their_results() -> None:
    started, asked, turn, action, feedback, closing, ended = made()
    assert started == {
        "type": "EpisodeStarted",
        "policy": "planner-27b",
        "versions": {"planner": "2.1"},
        "goal": "Find x.",
    }
    assert asked == {"type": "MessageRecorded", "role": "user", "content": "Find x."}
    assert turn == {"type": "ModelResponded", "step": 1, "content": "Looking."}
    assert action["action"] == {"kind": "ToolCall", "tool": "find", "args": {"q": "x"}, "call_id": "c1"}
    assert feedback == {
        "type": "FeedbackRecorded",
        "step": 1,
        "feedback": {"kind": "ToolResult", "value": "found"},
        "call_id": "c1",
        "action": 4,
    }
    assert closing == {"type": "ModelResponded", "step": 2, "content": "It is here."}
    assert ended == {"type": "EpisodeEnded", "end": {"kind": "finished"}}


def test_the_session_is_the_conversation_that_spans_its_files() -> None:
    events = draft(Atif(), trajectory()).events
    assert {event.conversation for event in events} == {"s1"}
    long = draft(Atif(), trajectory(session_id="s" * 600))
    assert long.events[0].conversation is None
    assert told(long)[0]["extra"] == {"session_id": "s" * 600}


@pytest.mark.parametrize("minor", range(9))
def test_every_version_is_read(minor: int) -> None:
    assert len(made(version=f"1.{minor}")) == 7


def test_a_step_has_its_time_and_the_episode_that_of_its_first_own_step() -> None:
    old = said(timestamp="2026-01-01T00:00:00Z", is_copied_context=True)
    own = acted(call(), results=[result()], timestamp="2026-01-02T03:04:05.5+00:00")
    events = draft(Atif(), trajectory(old, own)).events
    at = from_text("2026-01-02T03:04:05.5Z")
    assert [event.occurred_at for event in events] == [at, from_text("2026-01-01T00:00:00Z"), at, at, None]


@pytest.mark.parametrize("time", ["2026-01-02T03:04:05", "yesterday", 17, "9999-12-31T23:59:59-10:00"])
def test_a_time_that_says_no_moment_is_kept_and_not_guessed(time: Any) -> None:
    (event,) = of(draft(Atif(), trajectory(said(), acted(timestamp=time))), "ModelResponded")
    assert event["extra"] == {"timestamp": time}


def test_metrics_are_kept_with_their_turn() -> None:
    metrics = {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "cached_tokens": 4,
        "cost_usd": 0.25,
        "prompt_token_ids": [5, 6, 7],
        "completion_token_ids": [8, 9],
        "logprobs": [-0.5, -1],
        "extra": {"reasoning_tokens": 1, "ttft": 0.2},
    }
    (turn,) = of(draft(Atif(), trajectory(said(), acted(metrics=metrics, reasoning_content="Hm."))), "ModelResponded")
    assert turn["usage"] == {"prompt_tokens": 10, "completion_tokens": 2, "thinking_tokens": 1, "cached_tokens": 4}
    assert (turn["cost"], turn["token_ids"], turn["logprobs"]) == (0.25, [8, 9], [-0.5, -1.0])
    assert turn["context"]["prompt_ids"] == [5, 6, 7]
    assert turn["thought"] == "Hm."
    assert turn["extra"] == {"metrics": {"extra": {"ttft": 0.2}}}


def test_logprobs_that_are_not_one_per_token_are_not_taken_for_such() -> None:
    metrics = {"completion_token_ids": [8, 9], "logprobs": [-0.5]}
    made = draft(Atif(), trajectory(said(), acted(metrics=metrics)))
    (turn,) = of(made, "ModelResponded")
    assert turn["token_ids"] == [8, 9]
    assert "logprobs" not in turn
    assert turn["extra"] == {"metrics": {"logprobs": [-0.5]}}
    assert made.unmapped["steps[].metrics.logprobs: kept in extra"] == 1


def test_copied_steps_neither_count_nor_train() -> None:
    events = made(said(is_copied_context=True), acted(is_copied_context=True), acted(call(), is_copied_context=True))
    turns = [event for event in events if event["type"] == "ModelResponded"]
    assert [turn["copied"] for turn in turns] == [True, True]
    assert events[1]["extra"] == {"is_copied_context": True}
    assert events[-1]["type"] == "ActionSubmitted"


def test_a_dispatch_without_a_model_is_no_model_turn() -> None:
    events = made(said(), acted(call(), message="", llm_call_count=0, results=[result()]), acted(llm_call_count=0))
    assert [event["type"] for event in events[2:]] == [
        "ActionSubmitted",
        "FeedbackRecorded",
        "MessageRecorded",
        "EpisodeEnded",
    ]
    assert events[4]["role"] == "assistant"


def test_results_are_matched_inside_their_step_though_ids_come_again() -> None:
    step = acted(call(), call(id_="c2"), results=[result("2", "c2"), result("1")])
    events = made(said(), step, step)
    feedback = [event for event in events if event["type"] == "FeedbackRecorded"]
    assert [(event["step"], event["call_id"], event["action"]) for event in feedback] == [
        (1, "c2", 5),
        (1, "c1", 4),
        (2, "c2", 10),
        (2, "c1", 9),
    ]


def test_a_result_without_a_call_is_an_observation() -> None:
    events = made(said(), acted(results=[result("$ ls", None)]), said("Note.", "system", observation={"results": []}))
    assert events[3]["feedback"] == {"kind": "Observation", "text": "$ ls"}
    assert "action" not in events[3]


def test_an_orphan_result_stays_an_answer_to_nothing() -> None:
    event = last(said(), acted(call(), results=[result("lost", "c9")]))
    assert (event["call_id"], event.get("action")) == ("c9", None)


def test_a_text_that_is_json_is_the_value_only_if_it_is_exactly_that() -> None:
    contents = ['{"a":  1}', ' {"a": 1}', "5", "plain", None]
    calls = [call(id_=f"c{i}") for i in range(5)]
    events = made(said(), acted(*calls, results=[result(text, f"c{i}") for i, text in enumerate(contents)]))
    values = [event["feedback"]["value"] for event in events if event["type"] == "FeedbackRecorded"]
    assert values == [{"a": 1}, ' {"a": 1}', "5", "plain", None]


def test_arguments_that_are_no_object_are_kept_too() -> None:
    calls = [call(id_=f"c{i}") | {"arguments": value} for i, value in enumerate(['{"a":  1}', "no json", [1], None])]
    data = json.dumps(trajectory(said(), acted(*calls))).encode()
    actions = [event.payload.action for event in taken("atif", data) if hasattr(event.payload, "action")]
    assert [bytes(action.args) for action in actions] == [b'{"a":  1}', b"null", b"[1]", b"null"]
    assert [action.args_text for action in actions] == [None, "no json", None, None]


def test_parts_are_kept_and_their_text_is_what_was_said() -> None:
    parts = [{"type": "text", "text": "Look"}, {"type": "text", "text": "there"}]
    events = made(said(parts), acted(call(), message=parts, results=[result(parts)]))
    assert events[1]["content"] == parts
    assert (events[2]["content"], events[2]["extra"]) == ("Look\nthere", {"message": parts})
    assert events[4]["feedback"]["value"] == parts


def test_tools_are_those_the_model_could_call() -> None:
    tool = {"type": "function", "function": {"name": "find", "description": "Finds.", "parameters": {"type": "object"}}}
    agent = {"name": "a", "version": "1", "tool_definitions": [tool]}
    started = made(agent=agent)[0]
    assert started["tools"] == [{"name": "find", "description": "Finds.", "parameters": {"type": "object"}}]
    strange = made(agent=agent | {"tool_definitions": [{"name": "find", "input_schema": {}}]})[0]
    assert "tools" not in strange
    assert strange["extra"]["agent"] == {"tool_definitions": [{"name": "find", "input_schema": {}}]}


def test_what_has_no_place_is_kept_and_counted() -> None:
    step = acted(
        call() | {"extra": {"n": 1}}, results=[result(extra={"m": 2})], reasoning_effort="high", extra={"k": 3}
    )
    episode = draft(Atif(), trajectory(said(), step, notes="by hand", unheard_of=1))
    events = told(episode)
    assert events[0]["extra"] == {"notes": "by hand", "unheard_of": 1}
    assert events[2]["extra"] == {
        "reasoning_effort": "high",
        "extra": {"k": 3},
        "tool_calls[0]": {"extra": {"n": 1}},
    }
    assert events[4]["extra"] == {"extra": {"m": 2}}
    assert episode.unmapped["steps[].reasoning_effort: kept in extra"] == 1


def test_embedded_trajectories_are_episodes_of_their_own() -> None:
    inner = trajectory(said("Sub."), acted(message="Done."), trajectory_id="t2")
    deeper = trajectory(acted(message="Deep."), trajectory_id="t3")
    del inner["session_id"]
    inner["subagent_trajectories"] = [deeper]
    refs: Json = {"subagent_trajectory_ref": [{"trajectory_id": "t2", "extra": {"n": 1}}]}
    outer = trajectory(said(), acted(call(), results=[result("ok", **refs)]), subagent_trajectories=[inner])
    parent, child, grandchild = drafts(Atif(), outer)
    assert told(parent)[4]["feedback"] == {"kind": "SubagentResult", "child_episode": "1", "value": "ok"}
    assert told(parent)[4]["extra"] == {"subagent_trajectory_ref[0]": {"extra": {"n": 1}}}
    assert child.events[0].conversation == "s1"
    assert told(grandchild)[1]["content"] == "Deep."


def test_a_child_is_named_by_the_id_it_gets(imports: Imports) -> None:
    inner = trajectory(trajectory_id="t2")
    refs: Json = {"subagent_trajectory_ref": [{"trajectory_id": "t2"}]}
    outer = trajectory(said(), acted(call(), results=[result("ok", **refs)]), subagent_trajectories=[inner])
    imports.take(outer)
    streams = [event.stream for event in imports.events() if event.type == "EpisodeStarted"]
    (feedback,) = (
        p.feedback
        for p in imports.payloads()
        if getattr(p, "feedback", None) and p.call_id == "c1" and hasattr(p.feedback, "child_episode")
    )
    assert f"episode/{feedback.child_episode}" == streams[1]
    assert imports.take(outer).episodes == {"new": 0, "present": 2, "rejected": 0}


def test_references_to_other_files_are_kept() -> None:
    refs = [{"session_id": "s2", "trajectory_path": "sub.json"}, {"trajectory_path": "sub2.json"}]
    step = said("Handed over.", "system", observation={"results": [{"subagent_trajectory_ref": refs}]})
    events = made(said(), step, acted(), continued_trajectory_ref="t.cont-1.json")
    assert events[3]["extra"] == {"subagent_trajectory_ref": refs}
    assert events[0]["extra"] == {"continued_trajectory_ref": "t.cont-1.json"}
    assert events[-1]["type"] == "ModelResponded"


@pytest.mark.parametrize(
    ("steps", "ends"),
    [
        ((said(), acted()), True),
        ((said(), acted(call("finish"))), True),
        ((said(), acted(call("find"))), False),
        ((said(), acted(results=[result("$", None)])), False),
        ((acted(), said()), False),
    ],
)
def test_an_end_is_only_recorded_where_the_agent_declared_it(steps: tuple[Json, ...], ends: bool) -> None:
    assert (last(*steps)["type"] == "EpisodeEnded") is ends


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema_version": "ATIF-v2.0"}, "schema_version 'ATIF-v2.0' is none of ATIF-v1.0 to ATIF-v1.8"),
        ({"steps": []}, "steps is empty: nothing happened in this trajectory"),
        ({"steps": None}, "steps is missing: this is no ATIF trajectory"),
        ({"steps": {}}, "steps: expected `array | null`, got `object`"),
        ({"steps": [1]}, "steps: expected `object`, got `int` - at `$[0]`"),
        ({"steps": [{"source": "robot", "message": ""}]}, "steps[0]: source 'robot' is not system, user or agent"),
        (
            {"steps": [{"source": "agent", "message": "", "tool_calls": [{"tool_call_id": "c"}]}]},
            "steps[0].tool_calls[0]: function_name is missing",
        ),
    ],
)
def test_what_is_no_trajectory_is_rejected_alone(imports: Imports, change: Json, why: str) -> None:
    report = imports.take([trajectory() | change, trajectory()], format="atif")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert [(refusal.where, refusal.why) for refusal in report.rejected] == [("a.json[0]", why)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema_version": "ATIF-v1.9"}, "$.schema_version 'ATIF-v1.9' is not ATIF-v1.0 to ATIF-v1.8"),
        ({"steps": []}, "$.steps is empty: nothing happened in this trajectory"),
        (
            {"steps": [{"step_id": 1} | acted(call(), results=[result("x", "c9")])]},
            "$.steps[0].observation.results[0].source_call_id no call of the step has the id 'c9'",
        ),
        ({"agent": {"name": "a"}}, "$.agent.version is missing"),
    ],
)
def test_strict_rejects_what_breaks_a_rule(imports: Imports, change: Json, why: str) -> None:
    report = imports.take(trajectory() | change, strict=True)
    assert [refusal.why for refusal in report.rejected] == [why]
    assert imports.take(trajectory(), strict=True).rejected == []


def test_lenient_keeps_what_breaks_a_rule(imports: Imports) -> None:
    odd = trajectory(
        said(),
        acted(call(), call(), results=[result("x", "c9")], model_name=5, metrics={"prompt_tokens": "many"}),
        version="1.9",
    )
    odd["steps"][1]["step_id"] = 7
    report = imports.take(odd)
    assert report.rejected == []
    assert report.unmapped["ATIF-v1.9 read as ATIF-v1.8"] == 1
    (turn,) = (json.loads(event.body) for event in imports.events() if event.type == "ModelResponded")
    assert turn["extra"] == {"step_id": 7, "model_name": 5, "metrics": {"prompt_tokens": "many"}}


def test_images_beside_the_file_come_with_it(imports: Imports) -> None:
    (imports.folder / "images").mkdir()
    (imports.folder / "images/a.png").write_bytes(png())
    (imports.folder / "images/b.png").write_text("no image")
    (imports.folder.parent / "secret.png").write_bytes(png(shade=9))
    paths = ["images/a.png", "images/b.png", "images/c.png", "../secret.png", "https://x.test/d.png"]
    parts = [{"type": "image", "source": {"media_type": "image/png", "path": path}} for path in paths]
    report = imports.take(trajectory(said(parts), acted(call(), results=[result(parts)])))
    message, feedback = (p for p in imports.payloads() if hasattr(p, "role") or hasattr(p, "feedback"))
    blob = referring(png())
    assert json.loads(bytes(message.extra))["images"] == {
        "images/a.png": json.loads(json.dumps({"address": blob.address, "size": blob.size, "media_type": "image/png"}))
    }
    assert feedback.feedback.blobs == [blob]
    assert imports.blobs.get(blob.address) == png()
    assert report.unmapped["an image that is none"] == 2
    assert report.unmapped["an image that is not beside the file"] == 4


def test_strict_rejects_an_image_that_is_none(imports: Imports) -> None:
    (imports.folder / "a.png").write_text("no image")
    parts = [{"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}]
    report = imports.take(trajectory(said(parts)), strict=True)
    assert "'a.png' is no image: it is text/plain" in report.rejected[0].why


@pytest.mark.parametrize(
    ("first", "confidence"),
    [
        (trajectory(), Confidence.CERTAIN),
        (trajectory() | {"schema_version": "1.4"}, Confidence.LIKELY),
        ({"schema_version": "1.4", "steps": []}, Confidence.NO),
        ({"agent": "main", "steps": [{"source": "agent"}]}, Confidence.NO),
        ({"messages": []}, Confidence.NO),
        (None, Confidence.NO),
    ],
)
def test_only_trajectories_are_claimed(first: Any, confidence: Confidence) -> None:
    assert Atif().sniff(b"", first) == confidence


def test_a_list_a_document_and_lines_of_trajectories_are_found(imports: Imports) -> None:
    one, two = trajectory(), trajectory(session_id="s2")
    assert imports.take([one, two]).format == "atif"
    lines = "\n".join(json.dumps(each) for each in (one, two))
    assert imports.take(lines, "b.jsonl").episodes == {"new": 0, "present": 2, "rejected": 0}
    assert imports.take(json.dumps(one, indent=2)).format == "atif"


@pytest.mark.skipif(not FILES.is_dir(), reason="the real ATIF files are not here")
def test_the_real_files_import_whole(imports: Imports) -> None:
    for path in sorted(FILES.glob("*.json")):
        report = imports.take_file(path, strict=True)
        assert report.episodes == {"new": 1, "present": 0, "rejected": 0}
    starts = [event for event in imports.events() if event.type == "EpisodeStarted"]
    assert len(starts) == 3
    turns = [payload for payload in imports.payloads() if hasattr(payload, "copied")]
    assert [turn.copied for turn in turns].count(True) == 1
    assert sum(turn.usage.prompt_tokens for turn in turns if turn.usage) == 100 + 120 + 2252 + 4250


def test_a_record_is_named_in_the_fault() -> None:
    with pytest.raises(BadRecord, match="r: steps is empty"):
        draft(Atif(), trajectory(steps=[]))
