import json
import resource
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import BadRecord
from core.event import MAX_TIME, MIN_TIME
from core.vocabulary import TYPES, payload
from core.vocabulary.contract import Check, ExecError, ToolCall, ToolResult, Ui, Verification
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeEnded,
    EpisodeRetracted,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    NoteAdded,
    VerificationRecorded,
)
from eventlog.inmemory import InMemoryLog
from eventlog.interchange import Context, Record, Source
from eventlog.interchange.otlp import importer as otlp_module
from eventlog.interchange.otlp.exporter import spans
from eventlog.interchange.otlp.importer import Otlp
from eventlog.writer import Writer
from tests.core.strategies import names, structs
from tests.eventlog.interchange.drafting import Imports, data_url, draft, keep, lines, of, png
from tests.eventlog.interchange.spans import (
    START,
    answered,
    asked,
    chat,
    pairs,
    request,
    said,
    span,
    tool,
    typed,
    weather,
)
from tests.examples import examples


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path)


def told(*made: dict[str, Any], types: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """What an importer makes of these spans, sorted as a record is."""
    found = draft(Otlp(), request(*sorted(made, key=lambda each: int(each["startTimeUnixNano"]))))
    return of(found, *types) if types else of(found, *{type(event.payload).__name__ for event in found.events})


def feedback(*made: dict[str, Any]) -> dict[str, Any]:
    (found,) = told(*made, types=("FeedbackRecorded",))
    answer: dict[str, Any] = found["feedback"]
    return answer


def test_a_trace_is_an_episode_from_spans_out_of_order_on_several_lines(imports: Imports) -> None:
    one, two, three, four = weather()
    report = imports.take(lines(request(one, two), request(three), request(four)), "a.jsonl")
    assert (report.format, report.episodes) == ("otlp", {"new": 1, "present": 0, "rejected": 0})
    assert [type(payload).__name__ for payload in imports.payloads()] == [
        "EpisodeStarted",
        "MessageRecorded",
        "ModelResponded",
        "ActionSubmitted",
        "FeedbackRecorded",
        "ModelResponded",
        "EpisodeEnded",
    ]
    started, user, first, action, feedback, second, ended = imports.payloads()
    assert (started.goal, started.policy, started.environment) == ("Weather in Ulm?", "m", "shop")
    assert user.role == "user"
    assert (first.step, first.finish_reason, msgspec.json.decode(first.sampling)) == (1, None, {"temperature": 0.5})
    assert (action.step, action.action.tool, bytes(action.action.args)) == (1, "weather", b'{"city": "Ulm"}')
    assert (feedback.action, feedback.call_id, feedback.latency_ms) == (4, "c1", 1000.0)
    assert msgspec.json.decode(feedback.feedback.value) == "rainy"
    assert (second.step, second.content, second.usage.prompt_tokens) == (2, "It rains.", 9)
    assert ended.end.kind == "finished"
    assert [event.occurred_at for event in imports.events()] == [
        (START + seconds) * 10**6 for seconds in (0, 1, 2, 2, 4, 6, 7)
    ]
    assert report.unmapped == {"attribute http.tries: kept in extra": 1}
    assert {"key": "http.tries", "value": {"intValue": "2"}} in msgspec.json.decode(feedback.extra)["span"][
        "attributes"
    ]


def test_the_same_file_again_adds_nothing_and_the_same_span_twice_counts_once(imports: Imports) -> None:
    data = lines(request(*weather()), request(weather()[0]))
    assert imports.take(data, "a.jsonl").episodes["new"] == 1
    again = imports.take(lines(request(weather()[2]), request(*weather())), "b.jsonl")
    assert again.episodes == {"new": 0, "present": 1, "rejected": 0}


def test_a_span_repeated_with_other_content_counts_once_as_it_ended_last() -> None:
    early = span(1, 0, 1, chat([], said("assistant", "half")))
    late = span(1, 0, 2, chat([], said("assistant", "whole")))
    found = draft(Otlp(), request(early, late))
    assert [turn["content"] for turn in of(found, "ModelResponded")] == ["whole"]
    assert found.unmapped["span repeated with other content: the one that ended last counts"] == 1


def test_orphans_are_kept_and_counted_and_no_parent_is_made_up() -> None:
    found = draft(Otlp(), request(span(2, 0, 1, chat([], said("assistant", "x")), parent=9)))
    assert len(of(found, "ModelResponded")) == 1
    assert of(found, "EpisodeEnded") == []
    assert found.unmapped["span without its parent: kept, no parent was made up"] == 1
    assert found.unmapped["no root span that ended: how the episode ended is not known"] == 1


def test_traces_of_one_conversation_are_one_episode(imports: Imports) -> None:
    def turn(trace: int, at: int, text: str) -> dict[str, Any]:
        more = {"gen_ai.conversation.id": "talk"}
        return span(trace, at, at + 1, chat([said("user", text)], said("assistant", text.upper()), **more), trace=trace)

    plain = span(7, 20, 21, chat([], said("assistant", "z")), trace=7)
    report = imports.take(lines(request(turn(2, 5, "b")), request(plain), request(turn(1, 0, "a"))), "a.jsonl")
    assert report.episodes["new"] == 2
    talk = imports.events()[: len(imports.events()) - 3]
    assert {event.conversation for event in talk} == {"talk"}
    contents = [payload.content for payload in imports.payloads() if isinstance(payload, ModelResponded)]
    assert contents == ["A", "B", "z"]


def test_a_trace_in_two_conversations_stays_alone(imports: Imports) -> None:
    one = span(1, 0, 1, chat([], said("assistant", "a"), **{"gen_ai.conversation.id": "x"}), trace=1)
    two = span(2, 2, 3, chat([], said("assistant", "b"), **{"gen_ai.conversation.id": "y"}), trace=1)
    three = span(3, 4, 5, chat([], said("assistant", "c"), **{"gen_ai.conversation.id": "x"}), trace=2)
    assert imports.take(request(one, two, three)).episodes["new"] == 2


def test_repeated_prompts_are_recorded_once_and_repeated_messages_as_often_as_they_were_said() -> None:
    first = [said("system", "be brief"), said("user", "again")]
    second = [*first, said("assistant", "a"), said("user", "again")]
    made = told(
        span(1, 0, 1, chat(first, said("assistant", "a"))),
        span(2, 2, 3, chat(second, said("assistant", "b"))),
        types=("MessageRecorded",),
    )
    assert [(message["role"], message["content"]) for message in made] == [
        ("system", "be brief"),
        ("user", "again"),
        ("user", "again"),
    ]


def test_a_tool_answer_told_only_by_the_next_prompt_is_feedback() -> None:
    prompt = [said("user", "?")]
    made = told(
        span(1, 0, 1, chat(prompt, asked("c", "f", x=1))),
        span(2, 2, 3, chat([*prompt, asked("c", "f", x=1), answered("c", {"ok": True})], said("assistant", "done"))),
        types=("FeedbackRecorded", "MessageRecorded"),
    )
    assert [event["type"] for event in made] == ["MessageRecorded", "FeedbackRecorded"]
    assert made[1]["feedback"] == {"kind": "ToolResult", "value": {"ok": True}}


def test_a_tool_span_that_no_model_asked_for_is_an_action_of_its_own() -> None:
    made = told(span(1, 0, 1, tool("f") | {"gen_ai.tool.call.arguments": {"a": [1, 2.5, True]}}))
    assert [event["type"] for event in made] == [
        "EpisodeStarted",
        "ActionSubmitted",
        "FeedbackRecorded",
        "EpisodeEnded",
    ]
    assert made[1]["action"]["args"] == {"a": [1, 2.5, True]}


def test_a_tool_span_without_an_id_answers_the_call_of_its_name_and_arguments() -> None:
    calls = {"role": "assistant", "parts": [*asked(None, "f", x=1)["parts"], *asked(None, "f", x=2)["parts"]]}
    made = told(
        span(1, 0, 1, chat([], calls)),
        span(2, 2, 3, tool("f", **{"gen_ai.tool.call.arguments": '{"x": 2}', "gen_ai.tool.call.result": "two"})),
        types=("FeedbackRecorded",),
    )
    assert [event["action"] for event in made] == [4]


@pytest.mark.parametrize(
    ("error", "class_"),
    [("TimeoutError", "timeout"), ("404", "not_found"), ("429", "transient"), ("Boom", "backend_bug")],
)
def test_a_span_that_failed_is_an_error_whose_effect_is_unknown(error: str, class_: str) -> None:
    status = {"code": 2, "message": "went wrong"}
    made = feedback(span(1, 0, 1, tool("f", **{"error.type": error}), status=status))
    assert made["kind"] == "ExecError"
    assert (made["class"], made["effect"], made["message"]) == (class_, "unknown", "went wrong")


def test_an_exception_event_says_what_a_failed_tool_ran_into() -> None:
    event = {"name": "exception", "attributes": pairs({"exception.type": "PermissionError", "exception.message": "no"})}
    made = feedback(span(1, 0, 1, tool("f"), status={"code": "STATUS_CODE_ERROR"}, events=[event]))
    assert (made["class"], made["message"]) == ("permission", "no")


def test_a_failed_root_is_an_error_of_the_agent() -> None:
    (ended,) = told(
        span(1, 0, 9, {"gen_ai.operation.name": "invoke_agent"}, status={"code": 2, "message": "crashed"}),
        types=("EpisodeEnded",),
    )
    assert ended["end"] == {"kind": "agent_error", "message": "crashed"}


def test_an_agent_span_is_a_step_only_without_model_calls_inside() -> None:
    output = json.dumps([said("assistant", "hi")])
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.output.messages": output}
    assert len(told(span(1, 0, 9, agent), types=("ModelResponded",))) == 1
    inner = span(2, 1, 2, chat([], said("assistant", "hi")), parent=1)
    assert len(told(span(1, 0, 9, agent), inner, types=("ModelResponded",))) == 1


def test_a_model_span_around_another_is_the_same_call_told_twice() -> None:
    outer = span(1, 0, 9, chat([], said("assistant", "hi")))
    inner = span(2, 1, 2, chat([], said("assistant", "hi")), parent=1)
    assert len(told(outer, inner, types=("ModelResponded",))) == 1


def test_indexed_attributes_of_openllmetry_are_read() -> None:
    first = {
        "llm.request.type": "chat",
        "gen_ai.system": "openai",
        "gen_ai.response.model": "m-1",
        "gen_ai.usage.prompt_tokens": 7,
        "gen_ai.usage.completion_tokens": 3,
        "llm.usage.total_tokens": 10,
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "be brief",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": '[{"type": "text", "text": "hello"}]',
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.finish_reason": "tool_calls",
        "gen_ai.completion.0.tool_calls.0.id": "c1",
        "gen_ai.completion.0.tool_calls.0.name": "f",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"a":  1}',
        "llm.request.functions.0.name": "f",
        "llm.request.functions.0.parameters": '{"type": "object"}',
    }
    ran = {"traceloop.span.kind": "tool", "traceloop.entity.name": "f", "traceloop.entity.output": '{"ok": 1}'}
    made = told(span(1, 0, 1, first), span(2, 2, 3, ran))
    started, system, user, turn, action, answer, _ = made
    assert started["tools"] == [{"name": "f", "parameters": {"type": "object"}}]
    assert (system["content"], user["content"]) == ("be brief", "hello")
    assert (turn["model"], turn["finish_reason"]) == ("m-1", "tool_calls")
    assert turn["usage"] == {"prompt_tokens": 7, "completion_tokens": 3}
    assert (action["action"]["args"], action["action"]["call_id"]) == ({"a": 1}, "c1")
    assert answer["feedback"]["value"] == {"ok": 1}


def test_messages_as_span_events_and_as_log_records_are_read() -> None:
    events = [
        {"name": "gen_ai.user.message", "attributes": pairs({"content": "hello"})},
        {"name": "gen_ai.choice", "attributes": pairs({"finish_reason": "stop", "message": '{"content": "hi"}'})},
    ]
    asks = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    made = told(span(1, 0, 1, asks, events=events), types=("MessageRecorded", "ModelResponded"))
    assert [event["content"] for event in made] == ["hello", "hi"]
    assert made[1]["finish_reason"] == "stop"

    record = {
        "traceId": f"{1:032x}",
        "spanId": f"{1:016x}",
        "eventName": "gen_ai.choice",
        "body": typed({"index": 0, "message": {"content": "from a log"}}),
    }
    value = request(span(1, 0, 1, asks)) | {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    assert [event["content"] for event in of(draft(Otlp(), value), "ModelResponded")] == ["from a log"]


def test_structured_attributes_say_the_same_as_json_texts() -> None:
    given = chat([], said("assistant", "x")) | {"gen_ai.output.messages": [said("assistant", "x")]}
    assert told(span(1, 0, 1, given), types=("ModelResponded",))[0]["content"] == "x"


def test_an_image_in_a_message_is_a_blob_and_one_that_is_none_is_refused() -> None:
    def message(data: str) -> list[Any]:
        return [{"role": "user", "parts": [{"type": "blob", "modality": "image", "content": data}]}]

    whole = data_url(png()).partition(",")[2]
    (heard,) = told(span(1, 0, 1, chat(message(whole), said("assistant", "x"))), types=("MessageRecorded",))
    assert heard["content"][0]["content"]["media_type"] == "image/png"
    with pytest.raises(BadRecord, match="said to be an image"):
        told(span(1, 0, 1, chat(message("aGk="), said("assistant", "x"))))


def test_reasoning_choices_and_unknown_parts_are_kept() -> None:
    parts = [
        {"type": "reasoning", "content": "hm"},
        {"type": "text", "content": "yes"},
        {"type": "hologram", "content": "?"},
    ]
    given = chat([], {"role": "assistant", "parts": parts})
    given["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "parts": parts}, said("assistant", "no")])
    found = draft(Otlp(), request(span(1, 0, 1, given)))
    (turn,) = of(found, "ModelResponded")
    assert (turn["thought"], turn["content"]) == ("hm", "yes")
    assert turn["extra"]["parts"] == [parts[2]]
    assert turn["extra"]["choices"] == ["no"]
    assert found.unmapped["message part hologram: kept in extra"] == 1
    assert found.unmapped["further choice: kept in extra"] == 1


def test_evaluations_are_external_checks_and_an_unknown_scale_decides_nothing() -> None:
    def judged(**given: Any) -> dict[str, Any]:
        attributes = pairs({f"gen_ai.evaluation.{key.replace('_', '.')}": value for key, value in given.items()})
        event = {"name": "gen_ai.evaluation.result", "attributes": attributes}
        (made,) = told(span(1, 0, 1, chat([], said("assistant", "x")), events=[event]), types=("VerificationRecorded",))
        verification: dict[str, Any] = made["verification"]
        return verification

    passed = judged(name="correct", score_label="pass", score_value=1.0)
    assert (passed["verdict"], passed["reward"], passed["checks"][0]["policy"]) == ("pass", 1.0, "external")
    assert judged(name="tone", score_value=4.5)["verdict"] == "inconclusive"
    assert judged(name="x", score_label="fail")["verdict"] == "fail"


def test_other_spans_are_kept_as_they_were_written_and_traces_without_any_are_said_in_one_line(
    imports: Imports,
) -> None:
    looked = span(5, 1, 2, {"gen_ai.operation.name": "retrieval", "db": "x"}, parent=1, name="retrieval")
    http = [span(1, 0, 1, {"http.route": "/"}, trace=trace, name="GET") for trace in (8, 9)]
    report = imports.take(lines(request(*weather(), looked), request(*http)), "a.jsonl")
    assert report.unmapped["span retrieval: kept in extra"] == 1
    started = imports.payloads()[0]
    kept = [each["data"] for each in msgspec.json.decode(started.extra)["spans"]]
    assert looked in kept
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert report.rejected[0].why == "traces without a GenAI span, left out: 2"


def test_each_bad_record_is_one_line_and_the_rest_comes_in(imports: Imports) -> None:
    good = json.dumps(request(*weather()))
    bad = [
        "{",
        "[1]",
        '{"resourceMetrics": []}',
        '{"resourceSpans": 5}',
        json.dumps(request(span(1, 0, 1) | {"traceId": "xyz"})),
        json.dumps(request({k: v for k, v in span(1, 0, 1).items() if k != "spanId"})),
        json.dumps(request(span(1, 0, 1, chat([], said("assistant", "x")), trace=5) | {"startTimeUnixNano": "soon"})),
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": NaN}]}]}]}',
        good.replace("Ulm", "\\ud800"),
        good[:-40],
    ]
    report = imports.take(lines(good, *bad), "a.jsonl")
    assert report.episodes == {"new": 1, "present": 0, "rejected": len(bad)}
    whys = {refusal.where.partition(" ")[0]: refusal.why for refusal in report.rejected}
    assert "neither resourceSpans nor resourceLogs" in whys["a.jsonl:4"]
    assert "traceId 'xyz' is not 32 hex digits" in whys["a.jsonl:6"]
    assert "spanId is missing" in whys["a.jsonl:7"]
    assert "no number of nanoseconds" in whys["a.jsonl:8"]
    assert "NaN" in whys["a.jsonl:9"]
    assert "half a character" in whys["a.jsonl:10"]
    assert all("\n" not in why for why in whys.values())


def test_ids_in_base64_and_zeros_for_no_parent_are_read(imports: Imports) -> None:
    made = span(1, 0, 1, chat([], said("assistant", "x"))) | {
        "traceId": "AAAAAAAAAAAAAAAAAAAAAQ==",
        "spanId": "AAAAAAAAAAE=",
        "parentSpanId": "0000000000000000",
    }
    report = imports.take(request(made))
    assert report.episodes["new"] == 1
    assert imports.payloads()[-1].end.kind == "finished"


def test_a_trace_that_is_too_large_is_refused_alone(imports: Imports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_module, "MAX_RECORD", 2_000)
    large = span(1, 0, 1, chat([], said("assistant", "x" * 3_000)), trace=2)
    small = span(1, 0, 1, chat([], said("assistant", "x")), trace=3)
    report = imports.take(lines(request(large), request(small)), "a.jsonl")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert "an episode's spans must fit" in report.rejected[0].why


def exported(imports: Imports) -> dict[str, Any]:
    events = imports.events()
    made: dict[str, Any] = json.loads(msgspec.json.encode(spans(imports.payloads()[0], events)))
    return made


def bodies(imports: Imports) -> list[tuple[Any, ...]]:
    """The events without what is the import's own."""
    found = []
    for event, said_ in zip(imports.events(), imports.payloads(), strict=True):
        if isinstance(said_, EpisodeStarted):
            said_ = msgspec.structs.replace(said_, origin=None)
        if isinstance(said_, EpisodeEnded):
            said_ = msgspec.structs.replace(said_, runs={})
        body = msgspec.json.encode(said_)
        found.append((event.version, event.type, body, event.occurred_at, event.actor, event.conversation))
    return found


def recorded(imports: Imports) -> None:
    """A live episode with what OpenTelemetry has no place for."""
    writer = Writer("planner")
    raw = msgspec.Raw
    payloads: list[tuple[Any, int | None]] = [
        (EpisodeStarted(task="t", goal="g", policy="p", seeds={"s": 1}), None),
        (MessageRecorded("user", raw(b'"hi"')), 1_767_323_045_000_006),
        (ModelResponded(1, content="ok", thought="hm", cost=0.5, token_ids=[1, 2], logprobs=[-0.5, None]), None),
        (ActionSubmitted(1, ToolCall(tool="f", args=raw(b'{"x":  1}'), call_id="c")), 1_767_323_046_000_000),
        (ActionSubmitted(1, Ui("tap")), None),
        (FeedbackRecorded(1, ToolResult(raw(b'{"y": 2}')), call_id="c", action=4), None),
        (FeedbackRecorded(1, ExecError("timeout", retryable=True, effect="unknown", message="m"), action=5), None),
        (NoteAdded("look", target=4), None),
        (VerificationRecorded(Verification("fail", [Check("c", "state", "fail")]), source="machine"), None),
        (EpisodeRetracted("x"), None),
        (NoteAdded("late", target=9), None),
    ]
    for said_, at in payloads:
        imports.log.append(writer.event("episode/live", said_, occurred_at=at, actor="planner", conversation="talk"))


def test_an_exported_episode_comes_back_event_by_event(imports: Imports, tmp_path: Path) -> None:
    recorded(imports)
    (tmp_path / "again").mkdir()
    again = Imports(tmp_path / "again")
    report = again.take(exported(imports))
    assert (report.format, report.episodes["new"], report.rejected) == ("otlp", 1, [])
    before = [body for body in bodies(imports) if body[1] != "EpisodeRetracted"]
    after = bodies(again)
    assert [body[1:] for body in after] == [body[1:] for body in before]
    assert report.unmapped == {"retraction of the exported episode: kept in the record": 1}


def test_an_export_without_one_of_the_events_keeps_what_refers_to_the_others(imports: Imports, tmp_path: Path) -> None:
    recorded(imports)
    left = [event for event in imports.events() if event.type != "MessageRecorded"]
    (tmp_path / "again").mkdir()
    again = Imports(tmp_path / "again")
    again.take(msgspec.json.encode(spans(imports.payloads()[0], left)))
    assert [event.type for event in again.events()] == [e.type for e in left if e.type != "EpisodeRetracted"]
    answers = [said_.action for said_ in again.payloads() if isinstance(said_, FeedbackRecorded)]
    notes = [said_.target for said_ in again.payloads() if isinstance(said_, NoteAdded)]
    assert (answers, notes) == ([3, 4], [3, 8])


def test_an_export_says_the_same_in_the_conventions_attributes(imports: Imports) -> None:
    recorded(imports)
    (scope,) = [scope for each in exported(imports)["resourceSpans"] for scope in each["scopeSpans"]]
    by_name = {each["name"]: {a["key"]: a["value"] for a in each["attributes"]} for each in scope["spans"]}
    assert by_name["invoke_agent p"]["gen_ai.operation.name"] == {"stringValue": "invoke_agent"}
    turn = by_name["chat"]
    assert json.loads(turn["gen_ai.input.messages"]["stringValue"]) == [said("user", "hi")]
    output = json.loads(turn["gen_ai.output.messages"]["stringValue"])[0]["parts"]
    assert [part["type"] for part in output] == ["reasoning", "text", "tool_call", "tool_call"]
    assert by_name["execute_tool f"]["gen_ai.tool.call.arguments"] == {"stringValue": '{"x":  1}'}
    assert by_name["execute_tool Ui"]["error.type"] == {"stringValue": "timeout"}
    assert all(len(each["spanId"]) == 16 and len(each["traceId"]) == 32 for each in scope["spans"])


def test_an_imported_trace_exported_again_keeps_its_spans_and_comes_back(imports: Imports, tmp_path: Path) -> None:
    looked = span(5, 1, 2, {"gen_ai.operation.name": "retrieval"}, parent=1, name="retrieval")
    imports.take(request(*weather(), looked))
    made = exported(imports)
    found = [each for r in made["resourceSpans"] for s in r["scopeSpans"] for each in s["spans"]]
    ids = {each["spanId"]: each for each in found}
    for original in [*weather(), looked]:
        copy = ids[original["spanId"]]
        for name in ("traceId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"):
            assert copy[name] == original[name]
        keys = {each["key"] for each in copy["attributes"]}
        assert {each["key"] for each in original["attributes"]} <= keys
    (tmp_path / "again").mkdir()
    again = Imports(tmp_path / "again")
    report = again.take(made)
    assert (report.episodes["new"], report.unmapped) == (1, {})
    assert bodies(again) == bodies(imports)


def test_an_export_that_lost_spans_is_read_by_its_attributes(imports: Imports, tmp_path: Path) -> None:
    recorded(imports)
    made = exported(imports)
    kept = [each for each in made["resourceSpans"][0]["scopeSpans"][0]["spans"] if each["name"] != "chat"]
    made["resourceSpans"][0]["scopeSpans"][0]["spans"] = kept
    (tmp_path / "again").mkdir()
    again = Imports(tmp_path / "again")
    assert again.take(made).episodes["new"] == 1
    types = {event.type for event in again.events()}
    assert {"ActionSubmitted", "FeedbackRecorded"} <= types
    assert "NoteAdded" not in types


def test_two_exported_episodes_of_one_conversation_stay_two(imports: Imports, tmp_path: Path) -> None:
    recorded(imports)
    writer = Writer("planner")
    more = [EpisodeStarted(task="u"), ModelResponded(1, content="x")]
    for said_ in more:
        imports.log.append(writer.event("episode/other", said_, conversation="talk"))
    requests = []
    for stream in ("episode/live", "episode/other"):
        events = [event for event in imports.events() if event.stream == stream]
        started = next(p for e, p in zip(imports.events(), imports.payloads(), strict=True) if e.stream == stream)
        requests.append(json.loads(msgspec.json.encode(spans(started, events))))
    (tmp_path / "again").mkdir()
    again = Imports(tmp_path / "again")
    assert again.take(lines(*requests), "a.jsonl").episodes["new"] == 2


def test_a_prompt_that_speaks_of_exported_episodes_is_a_prompt() -> None:
    prompt = "What is trajlog.episode?"
    (heard,) = told(span(1, 0, 1, chat([said("user", prompt)], said("assistant", "an id"))), types=("MessageRecorded",))
    assert heard["content"] == prompt


def test_an_episode_whose_source_held_spans_of_its_own_comes_back() -> None:
    log = InMemoryLog()
    log.append(Writer("w").event("episode/x", EpisodeStarted(extra=msgspec.Raw(b'{"spans":[7]}'))))
    made = json.loads(msgspec.json.encode(spans(EpisodeStarted(), list(log.read("episode/x")))))
    beside = span(7, 0, 1)
    made["resourceSpans"] += request(beside)["resourceSpans"]
    found = draft(Otlp(), made)
    assert found.started.extra == msgspec.Raw(b'{"spans":[7]}')
    assert found.unmapped == {"span beside an exported episode: kept in the record": 1}


LATER = sorted(TYPES.keys() - {"EpisodeStarted", "EpisodeRetracted"})


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_whatever_an_episode_holds_comes_back(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(LATER), max_size=8))
    payloads = [data.draw(structs(TYPES[name])) for name in ["EpisodeStarted", *types]]
    writer, log = Writer("w"), InMemoryLog()
    for said_ in payloads:
        at = data.draw(st.none() | st.integers(MIN_TIME, MAX_TIME))
        actor = data.draw(st.none() | names)
        log.append(writer.event("episode/x", said_, occurred_at=at, actor=actor, conversation=actor))
    before = list(log.read("episode/x"))
    started = payload(before[0])
    assert isinstance(started, EpisodeStarted)
    encoded = msgspec.json.encode(spans(started, before))
    (made,) = Otlp().episodes(Record("r", encoded, {}, len(encoded)), Context("r", "train", keep))
    for event, draft_ in zip(before, made.events, strict=True):
        expected = payload(event)
        if isinstance(expected, EpisodeEnded):
            expected = msgspec.structs.replace(expected, runs={})
        if isinstance(expected, FeedbackRecorded | VerificationRecorded | NoteAdded):
            expected = pointing(expected, len(before))
        assert draft_.payload == expected
        told = (draft_.occurred_at, draft_.actor, draft_.conversation)
        assert (event.occurred_at, event.actor, event.conversation) == told


def pointing(said_: Any, last: int) -> Any:
    """The payload without a version that its stream does not have."""
    for name in ("action", "supersedes", "target"):
        version = getattr(said_, name, None)
        if version is not None and not 1 <= version <= last:
            said_ = msgspec.structs.replace(said_, **{name: None})
    return said_


def test_memory_stays_bounded_by_the_largest_trace(imports: Imports, tmp_path: Path) -> None:
    text = "x" * 20_000
    path = tmp_path / "large.jsonl"
    with path.open("w") as file:
        for trace in range(1, 1_500):
            file.write(
                json.dumps(request(span(1, 0, 1, chat([said("user", text)], said("assistant", "y")), trace=trace)))
            )
            file.write("\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    source = Source("large.jsonl", path)
    with source.open() as reader:
        count = sum(isinstance(item, Record) for item in Otlp().records(source, reader))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert count == 1_499
    assert grown < 100_000
