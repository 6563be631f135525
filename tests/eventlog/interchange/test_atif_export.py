import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from core.vocabulary import Payload
from core.vocabulary.contract import (
    Clarify,
    Delegate,
    ExecError,
    Feedback,
    Finish,
    Finished,
    Observation,
    Point,
    SubagentResult,
    ToolCall,
    ToolResult,
    Ui,
    UserReply,
)
from core.vocabulary.episode import (
    ActionDispatched,
    ActionSubmitted,
    EpisodeEnded,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    NoteAdded,
    Usage,
)
from eventlog.interchange.export.exporter import Library, referring
from tests.eventlog import samples
from tests.eventlog.interchange import inspect_logs, results, spans, test_langfuse
from tests.eventlog.interchange.drafting import Imports, png
from tests.eventlog.interchange.exporting import (
    again,
    arguments,
    as_drafted,
    as_told,
    exported,
    name_of,
    real_files,
    sent,
    shelf,
    sound,
    taken,
    without_nulls,
)
from tests.eventlog.interchange.trajectories import acted, call, result, said, trajectory

Json = dict[str, Any]


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path)


def told(*payloads: Payload, library: Library | None = None) -> Json:
    """The trajectory of these events, after a start."""
    events = samples.stored(("episode/e1", [EpisodeStarted(policy="planner"), *payloads]))
    document = exported("atif", events, library)
    assert as_drafted(taken("atif", document)) == as_told(events)
    return sound(document)


def test_a_live_episode_is_a_trajectory() -> None:
    made = told(*samples.episode()[1:])
    assert made["schema_version"] == "ATIF-v1.8"
    assert made["trajectory_id"] == "e1"
    assert made["agent"] == {"name": "trajlog", "version": "unknown", "model_name": "planner"}
    assert [step["source"] for step in made["steps"]] == ["user", "agent", "agent"]
    assert made["steps"][1] == {
        "step_id": 2,
        "source": "agent",
        "message": "I will look.",
        "timestamp": "2026-01-02T03:04:07.000006Z",
        "metrics": {"prompt_tokens": 100, "completion_tokens": 10},
        "tool_calls": [{"tool_call_id": "c1", "function_name": "tool_1", "arguments": {"at": "07:00"}}],
        "observation": {"results": [{"source_call_id": "c1", "content": "done"}]},
    }
    assert made["steps"][2]["observation"]["results"][0]["content"] == "Error: no such thing"
    assert made["final_metrics"] == {"total_prompt_tokens": 200, "total_completion_tokens": 20, "total_steps": 3}


def test_verdicts_ends_and_notes_are_in_extra_to_be_read() -> None:
    made = told(*samples.episode()[1:], NoteAdded("hm", target=2))
    carried = {entry["type"]: entry["payload"] for entry in made["extra"]["trajlog"]["events"] if "payload" in entry}
    assert carried["EpisodeEnded"] == {"end": {"kind": "finished"}}
    assert carried["VerificationRecorded"]["verification"]["verdict"] == "fail"
    assert carried["NoteAdded"] == {"text": "hm", "target": 2}


@pytest.mark.parametrize(
    ("args", "native"),
    [
        (b'{"q":  "x"}', {"q": "x"}),
        (b'{"q":1e2,"p":1.0}', {"q": 100.0, "p": 1.0}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"\\u00e9":"\\/"}', {"é": "/"}),
        (b'{\n "n": 123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
        (b"[1]", {}),
        (b'"x"', {}),
        (b"null", {}),
    ],
)
def test_arguments_come_back_to_the_byte_also_from_a_file_that_was_written_again(args: bytes, native: Any) -> None:
    events = samples.stored(
        ("episode/e1", [EpisodeStarted(), ModelResponded(1), ActionSubmitted(1, ToolCall("t", Raw(args)))])
    )
    document = exported("atif", events)
    made = sound(document)
    assert made["steps"][0]["tool_calls"][0]["arguments"] == native
    for data in (document, json.dumps(made, indent=2).encode(), json.dumps(made, ensure_ascii=False).encode()):
        assert arguments([event.payload for event in taken("atif", data)]) == [args]


def test_what_an_edit_changed_counts_and_not_what_was_carried_for_it() -> None:
    spaced = ActionSubmitted(1, ToolCall("t", Raw(b'{"q":  1}')))
    made = told(ModelResponded(1), spaced, ModelResponded(2), EpisodeEnded(Finished()))
    made["steps"][0]["tool_calls"][0]["arguments"] = {"q": 2}
    made["steps"][1]["message"] = "Edited."
    events = [event.payload for event in taken("atif", json.dumps(made).encode())]
    assert arguments(events) == [b'{"q": 2}']
    assert [event.content for event in events if isinstance(event, ModelResponded)] == [None, "Edited."]
    assert isinstance(events[-1], EpisodeEnded)


def test_a_file_without_its_last_step_still_imports() -> None:
    made = told(*samples.episode()[1:])
    del made["steps"][2]
    types = [type(event.payload).__name__ for event in taken("atif", json.dumps(made).encode())]
    assert types[-2:] == ["EpisodeEnded", "VerificationRecorded"]
    assert types.count("ModelResponded") == 1


def test_ids_used_twice_in_a_step_get_others_that_results_name() -> None:
    twice = [samples.call(1, "t", "c1"), samples.call(1, "t", "c1"), samples.call(1, "t")]
    made = told(ModelResponded(1), *twice, samples.ok(1, "b", action=4), samples.ok(1, "a", action=3))
    (step,) = made["steps"]
    assert [one["tool_call_id"] for one in step["tool_calls"]] == ["c1", "call_4", "call_5"]
    assert [(one["source_call_id"], one["content"]) for one in step["observation"]["results"]] == [
        ("call_4", "b"),
        ("c1", "a"),
    ]


def test_feedback_lies_in_the_step_it_answers_and_comes_back_in_its_order() -> None:
    made = told(
        ModelResponded(1),
        samples.call(1, "a", "c1"),
        samples.ok(1, 1, action=3),
        samples.call(1, "b", "c2"),
        ModelResponded(2),
        samples.ok(1, 2, action=5),
    )
    assert [len(step["observation"]["results"]) if "observation" in step else 0 for step in made["steps"]] == [2, 0]
    assert "order" in made["extra"]["trajlog"]


def test_actions_without_a_model_turn_are_dispatched_by_no_model() -> None:
    made = told(samples.call(1, "a", "c1"), samples.ok(1, action=2))
    assert made["steps"][0]["llm_call_count"] == 0


def test_taps_and_other_actions_are_calls() -> None:
    made = told(
        ModelResponded(1),
        ActionSubmitted(1, Ui("tap", Point(0, 5))),
        ActionSubmitted(1, Delegate("helper", "look")),
        ActionSubmitted(1, Clarify("Which?")),
        ActionSubmitted(1, Finish("done")),
    )
    calls = made["steps"][0]["tool_calls"]
    assert [one["function_name"] for one in calls] == ["tap", "delegate", "clarify", "finish"]
    assert calls[0]["arguments"] == {"target": {"kind": "point", "x": 0.0, "y": 5.0}}


def test_every_kind_of_feedback_has_a_content() -> None:
    feedback: list[Feedback] = [
        ToolResult(Raw(b'{"a": 1}')),
        ToolResult(Raw(b"5")),
        ToolResult(Raw(b'[{"type":"text","text":"t"}]')),
        ExecError("timeout", retryable=True, effect="unknown"),
        Observation(text="seen"),
        UserReply("yes"),
    ]
    made = told(ModelResponded(1), *(FeedbackRecorded(1, each) for each in feedback))
    contents = [one["content"] for one in made["steps"][0]["observation"]["results"]]
    assert contents == ['{"a": 1}', "5", [{"type": "text", "text": "t"}], "error: timeout", "seen", "yes"]


def test_messages_of_any_role_are_steps() -> None:
    roles = ("system", "developer", "user", "assistant", "tool")
    contents = (b'"a"', b"null", b'[{"type":"image_url","image_url":{"url":"https://x.test/a.png"}},{"type":"odd"}]')
    made = told(*(MessageRecorded(role, Raw(content)) for role in roles for content in contents))  # type: ignore[arg-type]
    assert [step["source"] for step in made["steps"][::3]] == ["system", "system", "user", "agent", "system"]
    assert made["steps"][2]["message"] == [
        {"type": "image", "source": {"media_type": "image/png", "path": "https://x.test/a.png"}}
    ]


def test_copied_turns_are_marked_and_do_not_count() -> None:
    used = Usage(prompt_tokens=10)
    made = told(ModelResponded(1, content="old", usage=used, copied=True), ModelResponded(2, usage=used))
    assert [step.get("is_copied_context") for step in made["steps"]] == [True, None]
    assert made["final_metrics"]["total_prompt_tokens"] == 10


def test_numbers_that_the_format_does_not_allow_are_carried() -> None:
    made = told(
        ModelResponded(1, usage=Usage(prompt_tokens=-1), token_ids=[1, 2], logprobs=[-0.5]),
        ModelResponded(2, token_ids=[1], logprobs=[None]),
    )
    assert made["steps"][0]["metrics"] == {"completion_token_ids": [1, 2]}
    assert made["steps"][1]["metrics"] == {"completion_token_ids": [1]}


def test_an_episode_in_which_nothing_happened_is_a_trajectory_too() -> None:
    assert len(told()["steps"]) == 1
    assert len(told(EpisodeEnded(Finished()), ActionDispatched(1))["steps"]) == 1


def test_bare_is_only_what_the_format_has() -> None:
    events = samples.stored(("episode/e1", samples.episode()))
    assert "extra" not in sound(exported("atif", events, Library(bare=True)))


def test_screens_are_images_by_path_and_trees_are_texts(tmp_path: Path) -> None:
    screen, tree = referring(png()), referring(b"<node/>")
    blobs = {screen.address: png(), tree.address: b"<node/>"}
    seen = FeedbackRecorded(1, Observation([screen, tree], text="home"))
    library = Library(blobs.get, image=lambda blob: f"images/{blob.size}.png")
    made = told(ModelResponded(1), seen, library=library)
    assert made["steps"][0]["observation"]["results"][0]["content"] == [
        {"type": "text", "text": "home"},
        {"type": "image", "source": {"media_type": "image/png", "path": f"images/{screen.size}.png"}},
        {"type": "text", "text": "<node/>"},
    ]


def test_blobs_come_along_with_the_files_and_others_are_not_referred_to(imports: Imports) -> None:
    screen, tree, gone = referring(png()), referring(b"<node/>"), referring(b"\0")
    blobs = {screen.address: png(), tree.address: b"<node/>"}
    seen = FeedbackRecorded(1, Observation([screen, tree, gone], text="home"))
    events = samples.stored(("episode/e1", [EpisodeStarted(), ModelResponded(1), seen]))
    document = exported("atif", events, Library(blobs.get, image=lambda _: "a.png"))
    (imports.folder / "a.png").write_bytes(png())
    report = imports.take(document)
    (feedback,) = (payload.feedback for payload in imports.payloads() if isinstance(payload, FeedbackRecorded))
    assert feedback == Observation([screen, tree], text="home")
    assert [imports.blobs.get(blob.address) for blob in feedback.blobs] == [png(), b"<node/>"]
    assert report.unmapped["extra.trajlog: a blob that is not here"] == 1


def test_large_texts_are_in_their_place_again(imports: Imports) -> None:
    words = "wörd " * 20_000
    imports.take(trajectory(said(words), acted(call(q=words), results=[result(words)], message=words)))
    (document,) = sent(imports, "atif")
    made = sound(document)
    assert made["steps"][0]["message"] == made["steps"][1]["message"] == words
    assert made["steps"][1]["tool_calls"][0]["arguments"] == {"q": words}
    assert made["steps"][1]["observation"]["results"][0]["content"] == words
    assert len(document) < 6 * len(words.encode())


def test_what_came_from_atif_goes_back_to_where_it_stood(imports: Imports) -> None:
    tool = {"type": "function", "function": {"name": "find", "strict": True, "parameters": {"a": 1}}}
    agent = {"name": "a", "version": "1", "tool_definitions": [tool], "extra": {"k": 1}}
    parts = [{"type": "text", "text": "a"}, {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}]
    original = trajectory(
        said(parts, timestamp="2026-01-02T03:04:05.000006Z", extra={"e": 1}),
        said("Note.", "system", observation={"results": [{"subagent_trajectory_ref": [{"trajectory_path": "b"}]}]}),
        acted(
            call() | {"extra": {"timeout": 5}},
            results=[result(parts, extra={"score": 0.5}), result("more", None)],
            message=parts,
            reasoning_effort=0.5,
            reasoning_content="hm",
            model_name="m",
            llm_call_count=2,
            metrics={"prompt_tokens": 5, "logprobs": [-1.0], "extra": {"reasoning_tokens": 1, "ttft": 2}},
        ),
        acted(message="", llm_call_count=0, extra={"z": 1}),
        agent=agent,
        trajectory_id="t1",
        notes="n",
        continued_trajectory_ref="t.cont-1.json",
        final_metrics={"total_steps": 4, "extra": {"f": 1}},
        extra={"own": {"x": 1}},
    )
    imports.take(original, strict=True)
    (document,) = sent(imports, "atif")
    made = sound(document)
    del made["extra"]["trajlog"]
    assert made == original


def test_what_breaks_the_rules_is_carried_and_the_export_is_sound(imports: Imports) -> None:
    imports.take(
        trajectory(
            said(reasoning_effort="high", mood="good"),
            acted(call(), call(), results=[result("x", "c9")], metrics={"prompt_tokens": "12"}, model_name=3),
            agent={"name": "a"},
            colour=1,
        )
    )
    (document,) = sent(imports, "atif")
    sound(document)
    assert as_drafted(taken("atif", document)) == as_told(imports.events())


def test_sub_agents_are_embedded_and_come_back_as_episodes(imports: Imports) -> None:
    inner = trajectory(trajectory_id="t2", session_id="s2", subagent_trajectories=[trajectory(trajectory_id="t3")])
    inner["steps"][1]["observation"]["results"][0]["subagent_trajectory_ref"] = [{"trajectory_id": "t3"}]
    refs: Json = {"subagent_trajectory_ref": [{"trajectory_id": "t2", "session_id": "s2"}]}
    original = trajectory(said(), acted(call(), results=[result("ok", **refs)]), subagent_trajectories=[inner])
    imports.take(original)
    document = sent(imports, "atif")[0]
    made = sound(document)
    assert made["subagent_trajectories"][0]["subagent_trajectories"][0]["trajectory_id"] == "t3"
    made_plain = _without_ours(made)
    assert made_plain == _without_ours(original) | {"trajectory_id": made["trajectory_id"]}
    other = Imports(imports.folder / "other")
    other.folder.mkdir()
    assert other.take(document).episodes == {"new": 3, "present": 0, "rejected": 0}


def _without_ours(value: Any) -> Any:
    if isinstance(value, dict):
        fields = {name: _without_ours(item) for name, item in value.items() if name != "trajlog"}
        return {name: item for name, item in fields.items() if (name, item) != ("extra", {})}
    return [_without_ours(item) for item in value] if isinstance(value, list) else value


def test_a_sub_agent_that_is_not_here_is_a_file_beside() -> None:
    made = told(ModelResponded(1), samples.call(1, "t", "c1"), FeedbackRecorded(1, SubagentResult("e9"), action=3))
    (one,) = made["steps"][0]["observation"]["results"]
    assert one["subagent_trajectory_ref"] == [{"trajectory_path": "e9.json"}]


def test_sub_agents_that_refer_to_each_other_end() -> None:
    loop = [
        EpisodeStarted(),
        ModelResponded(1),
        FeedbackRecorded(1, SubagentResult("b")),
    ]
    back = [EpisodeStarted(), ModelResponded(1), FeedbackRecorded(1, SubagentResult("a"))]
    events = {name: samples.stored((f"episode/{name}", payloads)) for name, payloads in (("a", loop), ("b", back))}
    made = sound(exported("atif", events["a"], Library(events=lambda name: events.get(name, []))))
    assert len(made["subagent_trajectories"]) == 1


@pytest.mark.parametrize("path", real_files("atif"), ids=name_of)
def test_a_real_file_goes_out_as_it_came(imports: Imports, path: Path) -> None:
    imports.take_file(path)
    (document,) = sent(imports, "atif")
    made = sound(document)
    original = without_nulls(json.loads(path.read_text()))
    carried = made["extra"].pop("trajlog")
    if not made["extra"]:
        del made["extra"]
    for name in carried["filled"]:
        del made[name]
    assert made | {"schema_version": original["schema_version"]} == original


@pytest.mark.parametrize("path", real_files("atif", "tau-bench", "swe-agent", "android-control"), ids=name_of)
@pytest.mark.parametrize("format", ["atif", "openai", "otlp"])
def test_real_episodes_of_every_format_come_back_from_every_format(tmp_path: Path, path: Path, format: str) -> None:
    (tmp_path / "first").mkdir()
    imports = Imports(tmp_path / "first")
    imports.take_file(path)
    if format == "atif":
        for document in sent(imports, "atif"):
            sound(document)
    other = again(tmp_path / "second", imports, format)
    assert as_told(other.events()) == as_told(imports.events())
    assert arguments(other.payloads()) == arguments(imports.payloads())


def test_a_blob_that_is_missing_stays_a_reference(imports: Imports) -> None:
    imports.take(trajectory(said("x" * 100_000), acted()))
    library = shelf(imports)._replace(fetch=lambda _: None)
    (event, *_) = (event for event in imports.log.read_all() if event.type == "EpisodeStarted")
    document = exported("atif", list(imports.log.read(event.stream)), library)
    assert b"sha256:" in document
    sound(document)


MADE_HERE: dict[str, Any] = {
    "inspect": inspect_logs.log(inspect_logs.sample()),
    "langfuse": test_langfuse.trace(),
    "otlp": spans.request(*spans.weather()),
    "tau-bench": results.result(),
}


@pytest.mark.parametrize("source", MADE_HERE)
@pytest.mark.parametrize("format", ["atif", "openai", "otlp"])
def test_episodes_of_other_formats_come_back_from_every_format(tmp_path: Path, source: str, format: str) -> None:
    (tmp_path / "first").mkdir()
    imports = Imports(tmp_path / "first")
    assert imports.take(MADE_HERE[source], format=source).episodes["new"] > 0
    if format == "atif":
        for document in sent(imports, "atif"):
            sound(document)
    other = again(tmp_path / "second", imports, format)
    assert as_told(other.events()) == as_told(imports.events())
