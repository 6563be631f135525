import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.vocabulary.episode import EpisodeStarted, ModelResponded
from eventlog.interchange.langfuse import importer as langfuse_module
from eventlog.interchange.langfuse.importer import Langfuse
from tests.eventlog.interchange.drafting import Imports, data_url, draft, lines, of, png

USER = {"role": "user", "content": "Weather?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Ulm"}'}}


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path)


def row(id_: str, type_: str, begun: int, ended: int | None, **fields: Any) -> dict[str, Any]:
    """An observation as the API and the UI write it."""
    times = {"startTime": f"2026-01-02T03:04:{begun:02}.000Z"}
    if ended is not None:
        times["endTime"] = f"2026-01-02T03:04:{ended:02}.000Z"
    return {"id": id_, "traceId": "t1", "type": type_, "name": id_, "level": "DEFAULT"} | times | fields


def generation(id_: str, begun: int, ended: int, prompt: Any, answer: Any, **fields: Any) -> dict[str, Any]:
    return row(id_, "GENERATION", begun, ended, model="m", input=prompt, output=answer, **fields)


def trace() -> list[dict[str, Any]]:
    """A small whole trace: an agent that asks a tool once. Not in order."""
    asked = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    told = {"role": "tool", "tool_call_id": "c1", "content": "rainy"}
    answer = {"role": "assistant", "content": "It rains."}
    return [
        row("weather", "TOOL", 2, 3, parentObservationId="root", input={"city": "Ulm"}, output="rainy"),
        generation("two", 4, 5, [USER, asked, told], answer, parentObservationId="root"),
        row("root", "AGENT", 0, 6),
        generation("one", 1, 2, [USER], asked, parentObservationId="root", modelParameters={"temperature": 0.5}),
    ]


def exported(observation: dict[str, Any]) -> dict[str, Any]:
    """The same row as the blob storage integration writes it."""
    names = {"traceId": "trace_id", "startTime": "start_time", "endTime": "end_time", "model": "provided_model_name"}
    names |= {"parentObservationId": "parent_observation_id", "modelParameters": "model_parameters"}
    made = {"project_id": "p", "status_message": "", "parent_observation_id": "", "model_parameters": ""}
    for name, value in observation.items():
        if name.endswith("Time"):
            value = value.replace("T", " ").replace(".000Z", ".000000")
        if name in ("input", "output", "modelParameters") and not isinstance(value, str):
            value = json.dumps(value)
        made[names.get(name, name)] = value
    return made


def score(name: str, **fields: Any) -> dict[str, Any]:
    given = {"id": f"s-{name}", "traceId": "t1", "name": name, "source": "API", "timestamp": "2026-01-02T03:05:00.000Z"}
    return given | fields


def told(*observations: dict[str, Any], scores: Any = (), traces: Any = ()) -> Any:
    value = {"trace": list(traces), "observations": list(observations), "scores": list(scores)}
    return draft(Langfuse(), value)


ABOUT = {"id": "t1", "timestamp": "2026-01-02T03:04:00Z", "tags": [], "public": False}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("rows.jsonl", lines(*trace())),
        ("exported.jsonl", lines(*map(exported, trace()))),
        ("ui.json", json.dumps(trace())),
        ("page.json", json.dumps({"data": trace(), "meta": {"page": 1}})),
        ("trace.json", json.dumps(ABOUT | {"observations": trace(), "scores": []})),
    ],
)
def test_a_trace_is_an_episode_in_every_form_of_export(imports: Imports, name: str, data: str) -> None:
    report = imports.take(data, name)
    assert (report.format, report.episodes) == ("langfuse", {"new": 1, "present": 0, "rejected": 0})
    assert imports.take(data, name).episodes["present"] == 1
    assert [type(payload).__name__ for payload in imports.payloads()] == [
        "EpisodeStarted",
        "MessageRecorded",
        "ModelResponded",
        "ActionSubmitted",
        "FeedbackRecorded",
        "ModelResponded",
        "EpisodeEnded",
    ]
    started, _, first, action, feedback, second, ended = imports.payloads()
    assert (started.goal, started.policy) == ("Weather?", "m")
    assert (first.latency_ms, msgspec.json.decode(first.sampling)) == (1000.0, {"temperature": 0.5})
    assert (action.action.call_id, bytes(action.action.args)) == ("c1", b'{"city": "Ulm"}')
    assert (feedback.action, feedback.call_id, msgspec.json.decode(feedback.feedback.value)) == (4, "c1", "rainy")
    assert (second.step, second.content, ended.end.kind) == (2, "It rains.", "finished")
    seconds = [(event.occurred_at or 0) // 10**6 % 60 for event in imports.events()]
    assert seconds == [0, 1, 2, 2, 3, 5, 6]


def test_rows_of_traces_observations_and_scores_in_one_file_are_put_together(imports: Imports) -> None:
    about = {"id": "t1", "timestamp": "2026-01-02T03:04:00.000Z", "sessionId": "s", "userId": "u", "release": "r1"}
    good = score("correct", value=1, dataType="BOOLEAN", comment="yes")
    report = imports.take(lines(good, about, *trace()), "a.jsonl")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 0}
    started, verdict = imports.payloads()[0], imports.payloads()[-1]
    assert (started.versions, {event.conversation for event in imports.events()[:-1]}) == ({"release": "r1"}, {"s"})
    assert (verdict.verification.verdict, verdict.verification.reward, verdict.why) == ("pass", 1.0, "yes")


def test_what_rows_were_enriched_with_is_said_of_the_trace_also_where_every_row_is_an_event() -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    rows = [generation("one", 1, 2, [USER], asked), row("weather", "TOOL", 2, 3, input={"city": "Ulm"}, output="rainy")]
    payloads = told(*(each | {"userId": "u", "tags": ["a"]} for each in rows))
    assert of(payloads, "EpisodeStarted")[0]["extra"] == {"trace": {"userId": "u", "tags": ["a"]}}
    assert all("userId" not in each["extra"]["observation"] for each in of(payloads, "ModelResponded"))


def test_scores_decide_only_on_a_scale_that_is_known() -> None:
    def verdict(name: str, **fields: Any) -> str:
        (made,) = of(told(*trace(), scores=[score(name, **fields)]), "VerificationRecorded")
        found: str = made["verification"]["verdict"]
        return found

    assert verdict("success", value=1, dataType="BOOLEAN") == "pass"
    assert verdict("success", value=0, dataType="BOOLEAN") == "fail"
    assert verdict("toxic", value=1, dataType="BOOLEAN") == "inconclusive"
    assert verdict("helpful", value=1.0, dataType="NUMERIC") == "inconclusive"
    assert verdict("grade", value=0, stringValue="incorrect", dataType="CATEGORICAL") == "fail"
    assert verdict("grade", value=0, stringValue="meh", dataType="CATEGORICAL") == "inconclusive"
    assert verdict("remark", value=0, stringValue="pass", dataType="TEXT") == "inconclusive"
    assert verdict("success", value=1, dataType="BOOLEAN", observationId="one") == "inconclusive"


def test_scores_alone_are_refused_with_the_mend(imports: Imports) -> None:
    report = imports.take(lines(score("x", value=1, dataType="NUMERIC")), "a.jsonl")
    assert report.episodes == {"new": 0, "present": 0, "rejected": 1}
    assert "cat *.jsonl | trajlog import -" in report.rejected[0].why


def test_orphans_are_kept_and_counted() -> None:
    made = told(generation("one", 1, 2, [USER], "hi", parentObservationId="gone"))
    assert len(of(made, "ModelResponded", "EpisodeEnded")) == 2
    assert made.unmapped["observation without its parent: kept, no parent was made up"] == 1
    lone = told(generation("one", 1, 2, [USER], "hi", traceId=None))
    assert len(of(lone, "ModelResponded")) == 1


def test_other_observations_are_kept_as_they_were_written() -> None:
    looked = row("look", "RETRIEVER", 1, 2, parentObservationId="root", metadata={"k": 1})
    made = told(looked, *trace())
    assert made.unmapped["observation RETRIEVER: kept in extra"] == 1
    assert looked in of(made, "EpisodeStarted")[0]["extra"]["observations"]


def test_an_observation_exported_twice_counts_once_as_it_was_updated_last() -> None:
    old = generation("one", 1, 2, [USER], "old", updatedAt="2026-01-02T03:05:00Z")
    new = generation("one", 1, 2, [USER], "new", updatedAt="2026-01-02T03:06:00Z")
    for order in ((old, new), (new, old)):
        made = told(*order)
        assert [turn["content"] for turn in of(made, "ModelResponded")] == ["new"]
        assert made.unmapped["observation exported again with other content: the one updated last counts"] == 1


def test_tokens_and_cost_are_read_however_they_are_counted() -> None:
    def usage(**fields: Any) -> dict[str, Any]:
        (turn,) = of(told(generation("one", 1, 2, [USER], "hi", **fields)), "ModelResponded")
        found: dict[str, Any] = turn.get("usage", {})
        return found | {"cost": turn.get("cost")}

    apart = {"input": 70, "input_cached_tokens": 30, "output": 5, "output_reasoning_tokens": 15, "total": 120}
    assert usage(usageDetails=apart, costDetails={"total": 0.5}) == {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "thinking_tokens": 15,
        "cached_tokens": 30,
        "cost": 0.5,
    }
    whole = {"prompt_tokens": 412, "completion_tokens": 87, "cost": 0.25}
    assert usage(usage={"input": 412, "output": 87, "total": 499, "unit": "TOKENS"}, totalCost=0.25) == whole
    assert usage(promptTokens=412, completionTokens=87, totalTokens=499, calculatedTotalCost=0.25) == whole


def test_a_failed_tool_is_an_error_and_a_failed_root_an_error_of_the_agent() -> None:
    failed = row("weather", "TOOL", 2, 3, level="ERROR", statusMessage="down", parentObservationId="root")
    made = told(failed, row("root", "AGENT", 0, 6, level="ERROR", statusMessage="gave up"))
    answer, ended = of(made, "FeedbackRecorded", "EpisodeEnded")
    assert (answer["feedback"]["kind"], answer["feedback"]["message"]) == ("ExecError", "down")
    assert ended["end"] == {"kind": "agent_error", "message": "gave up"}


def test_calls_and_tools_that_are_exported_apart_are_read() -> None:
    made = told(
        generation(
            "one",
            1,
            2,
            {"messages": [USER], "temperature": 1},
            {"role": "assistant", "content": "calling"},
            tool_calls=[json.dumps({"id": "c", "name": "f", "arguments": '{"a": 1}'})],
            tool_definitions={"f": json.dumps({"description": "does f", "parameters": {"type": "object"}})},
        )
    )
    started, turn, action = of(made, "EpisodeStarted", "ModelResponded", "ActionSubmitted")
    assert started["tools"] == [{"name": "f", "description": "does f", "parameters": {"type": "object"}}]
    assert action["action"]["args"] == {"a": 1}
    assert turn["extra"]["input"] == {"temperature": 1}


def test_a_trace_without_observations_is_one_turn(imports: Imports) -> None:
    alone = {"id": "t", "timestamp": "2026-01-02T03:04:05Z", "input": "hi", "output": "ho", "tags": [], "public": True}
    assert imports.take(lines(alone), "a.jsonl").episodes["new"] == 1
    (turn,) = [payload for payload in imports.payloads() if isinstance(payload, ModelResponded)]
    (started,) = [payload for payload in imports.payloads() if isinstance(payload, EpisodeStarted)]
    assert (started.goal, turn.content) == ("hi", "ho")


def test_an_image_in_a_prompt_is_a_blob() -> None:
    parts = [{"type": "image_url", "image_url": {"url": data_url(png())}}]
    made = told(generation("one", 1, 2, [{"role": "user", "content": parts}], "a square"))
    (heard,) = of(made, "MessageRecorded")
    assert heard["content"][0]["image_url"]["url"]["media_type"] == "image/png"


def test_each_bad_row_is_one_line_and_the_rest_comes_in(imports: Imports) -> None:
    bad = ["{", "[]", '{"x": 1}', json.dumps(score("x", value=1, traceId="", dataType="NUMERIC")), '{"id": NaN}']
    wrong = generation("w", 1, 2, [USER], "hi", traceId="t2", startTime=5)
    report = imports.take(lines(*trace(), *bad, wrong), "a.jsonl")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 6}
    whys = " · ".join(refusal.why for refusal in report.rejected)
    assert "no observation, trace or score of Langfuse: it has x" in whys
    assert "its trace id is empty" in whys
    assert "startTime: expected" in whys


@pytest.mark.parametrize("name", ["observations", "scores"])
def test_a_row_inside_a_trace_without_an_id_is_one_line(imports: Imports, name: str) -> None:
    whole, bad = ABOUT | {"observations": trace()}, ABOUT | {"id": "t2", name: [{"id": "a"}, {"name": "b"}]}
    report = imports.take(lines(whole, bad), "a.jsonl")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert report.rejected[0].why == f"{name}[1] of a trace has no id"


def test_texts_that_are_none_are_refused_where_they_are(imports: Imports) -> None:
    whole = lines(*trace()).encode()
    bad = lines(generation("w", 1, 2, [USER], "Ulm", traceId="t2")).encode()
    report = imports.take(whole + bad.replace(b"Ulm", b"\xff") + bad.replace(b"Ulm", b"\\ud800"), "a.jsonl")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 2}
    assert "not valid UTF-8" in report.rejected[0].why
    assert "half a character" in report.rejected[1].why


def test_a_trace_that_is_too_large_is_refused_alone(imports: Imports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(langfuse_module, "MAX_RECORD", 3_000)
    large = generation("w", 1, 2, [USER], "x" * 4_000, traceId="t2")
    report = imports.take(lines(*trace(), large), "a.jsonl")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert "a trace must fit" in report.rejected[0].why


def test_unknown_fields_are_kept_and_counted() -> None:
    made = told(generation("one", 1, 2, [USER], "hi", metadata={"k": 1}, shiny=True))
    (turn,) = of(made, "ModelResponded")
    assert turn["extra"]["observation"]["shiny"] is True
    assert made.unmapped["observations[].shiny: kept in extra"] == 1
