import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import UsageError
from core.vocabulary.episode import ActionSubmitted, ModelResponded
from eventlog.interchange import Confidence
from eventlog.interchange.openai.importer import OpenAIChat
from tests.eventlog.interchange.drafting import Imports, data_url, draft, keep, lines, png, told
from tests.eventlog.interchange.exporting import arguments, taken

Json = dict[str, Any]


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path)


def call(arguments: Any = '{"q":  "x"}', id_: str = "c1", name: str = "find") -> Json:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def user(content: Any = "Find x.", **fields: Any) -> Json:
    return {"role": "user", "content": content} | fields


def assistant(*calls: Json, content: Any = None, **fields: Any) -> Json:
    return {"role": "assistant", "content": content} | ({"tool_calls": list(calls)} if calls else {}) | fields


def tool(content: Any = '{"x":   1}', id_: str = "c1", **fields: Any) -> Json:
    return {"role": "tool", "tool_call_id": id_, "content": content} | fields


def chat(*messages: Json, **fields: Any) -> Json:
    given = messages or (user(), assistant(call()), tool(), assistant(content="It is here."))
    return {"messages": list(given)} | fields


def made(*messages: Json, **fields: Any) -> list[Json]:
    return told(draft(OpenAIChat(), chat(*messages, **fields)))


def test_an_assistants_message_is_a_step_with_its_calls_and_their_answers() -> None:
    assert made(model="gpt") == [
        {"type": "EpisodeStarted", "goal": "Find x.", "policy": "gpt"},
        {"type": "MessageRecorded", "role": "user", "content": "Find x."},
        {"type": "ModelResponded", "step": 1},
        {
            "type": "ActionSubmitted",
            "step": 1,
            "action": {"kind": "ToolCall", "tool": "find", "args": {"q": "x"}, "call_id": "c1"},
        },
        {
            "type": "FeedbackRecorded",
            "step": 1,
            "feedback": {"kind": "ToolResult", "value": {"x": 1}},
            "call_id": "c1",
            "action": 4,
        },
        {"type": "ModelResponded", "step": 2, "content": "It is here."},
        {"type": "EpisodeEnded", "end": {"kind": "finished"}},
    ]


@pytest.mark.parametrize(
    ("given", "args", "text"),
    [
        ('{"q":  1}', b'{"q":  1}', None),
        ('{"a":1,"a":2.0}', b'{"a":1,"a":2.0}', None),
        ("no json", b"null", "no json"),
        ("", b"null", ""),
        ("[1]", b"[1]", None),
        ({"q": 1}, b'{"q": 1}', None),
        (None, b"null", None),
    ],
)
def test_arguments_are_kept_to_the_byte(given: Any, args: bytes, text: str | None) -> None:
    events = taken("openai", json.dumps(chat(user(), assistant(call(given)))).encode())
    payloads = [event.payload for event in events]
    assert arguments(payloads) == [args]
    (action,) = (payload.action for payload in payloads if isinstance(payload, ActionSubmitted))
    assert getattr(action, "args_text", None) == text


def test_white_space_around_arguments_is_kept_beside_them() -> None:
    turn, action = made(user(), assistant(call(' {"q":1}\n')))[2:4]
    assert action["action"]["args"] == {"q": 1}
    assert turn["extra"] == {"tool_calls[0]": {"function": {"arguments": ' {"q":1}\n'}}}


def test_null_content_is_not_empty() -> None:
    turns = [event for event in made(assistant(), assistant(content="")) if event["type"] == "ModelResponded"]
    assert [turn.get("content", "absent") for turn in turns] == ["absent", ""]


def test_parallel_calls_share_a_step_and_reused_ids_are_told_apart() -> None:
    turn = (assistant(call(), call(id_="c2")), tool("b", "c2"), tool("a", "c1"))
    feedback = [event for event in made(user(), *turn, *turn) if event["type"] == "FeedbackRecorded"]
    assert [(event["step"], event["action"]) for event in feedback] == [(1, 5), (1, 4), (2, 10), (2, 9)]


def test_an_answer_to_nothing_is_a_message() -> None:
    (event,) = made(user(), tool("lost", "c9"))[2:]
    assert event == {
        "type": "MessageRecorded",
        "role": "tool",
        "content": "lost",
        "extra": {"tool_call_id": "c9"},
    }


def test_the_calls_of_old_are_calls_and_marked() -> None:
    old = assistant(function_call={"name": "find", "arguments": '{"q": 1}'})
    events = made(
        user(),
        old,
        {"role": "function", "name": "find", "content": "x"},
        functions=[{"name": "find", "parameters": {"type": "object"}}],
    )
    assert events[0]["tools"] == [{"name": "find", "parameters": {"type": "object"}}]
    assert events[0]["extra"] == {"functions": []}
    assert events[2]["extra"] == {"function_call": {}}
    assert events[3]["action"] == {"kind": "ToolCall", "tool": "find", "args": {"q": 1}}
    assert (events[4]["action"], events[4]["extra"]) == (4, {"role": "function", "name": "find"})


def test_a_custom_tool_takes_a_text() -> None:
    custom = {"id": "c1", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    turn, action = made(user(), assistant(custom))[2:4]
    assert action["action"] == {"kind": "ToolCall", "tool": "sh", "args": None, "call_id": "c1", "args_text": "ls"}
    assert turn["extra"] == {"tool_calls[0]": {"type": "custom"}}


def test_roles_names_and_thoughts() -> None:
    events = made(
        {"role": "developer", "content": "Be kind."},
        user(name="ann"),
        assistant(content="Hi.", reasoning_content="Greet.", name="bot", weight=0),
    )
    assert events[1]["role"] == "developer"
    assert events[2]["name"] == "ann"
    assert events[3]["thought"] == "Greet."
    assert events[3]["extra"] == {"name": "bot", "weight": 0}


@pytest.mark.parametrize(
    ("ending", "end"),
    [
        (assistant(content="Done."), {"kind": "finished"}),
        (assistant(refusal="I will not."), {"kind": "refused"}),
        (assistant(call()), None),
        (tool(), None),
        (user("And?"), None),
    ],
)
def test_an_end_is_only_recorded_where_the_assistant_had_the_last_word(ending: Json, end: Any) -> None:
    last = made(user(), assistant(call()), ending)[-1]
    assert (last["end"] if last["type"] == "EpisodeEnded" else None) == end


def test_parts_are_kept_and_their_images_are_blobs(imports: Imports) -> None:
    parts = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": data_url(png())}}]
    imports.take(chat(user(parts), assistant(call(), content=parts), tool(parts)))
    message, turn, _, feedback = (json.loads(event.body) for event in imports.events()[1:])
    blob = keep(png())
    reference = {"address": blob.address, "size": blob.size, "media_type": "image/png"}
    kept = [parts[0], {"type": "image_url", "image_url": {"url": reference}}]
    assert message["content"] == turn["extra"]["content"] == feedback["feedback"]["value"] == kept
    assert turn["content"] == "See"
    assert imports.blobs.get(blob.address) == png()


def test_what_has_no_place_is_kept_and_counted() -> None:
    spec = {"type": "function", "function": {"name": "find", "strict": True}}
    episode = draft(OpenAIChat(), chat(metadata={"a": "b"}, tools=[spec], temperature=0.5))
    assert told(episode)[0]["extra"] == {
        "metadata": {"a": "b"},
        "temperature": 0.5,
        "tools[0]": {"function": {"strict": True}},
    }
    assert episode.unmapped["metadata: kept in extra"] == 1


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"messages": []}, "messages is empty: nothing was said"),
        ({"messages": "hi"}, "messages: expected `array | null`, got `str`"),
        ({"a": 1}, "messages is missing: this is no chat"),
        (chat({"role": "robot"}), "messages[0]: role 'robot' is none of "),
        (chat({"content": "x"}), "messages[0]: role 'None' is none of "),
        (chat(assistant({"function": {}})), "messages[0].tool_calls[0].function: name is missing"),
        (
            chat(user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}])),
            "messages[0]: holds what is said to be an image and is no image",
        ),
    ],
)
def test_what_is_no_chat_is_rejected_alone(imports: Imports, record: Json, why: str) -> None:
    report = imports.take(lines(record, chat()), "a.jsonl", format="openai")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert report.rejected[0].where == "a.jsonl:1"
    assert report.rejected[0].why.startswith(why)


def test_a_bare_list_of_messages_is_one_episode_if_asked_for(imports: Imports) -> None:
    messages = chat()["messages"]
    with pytest.raises(UsageError, match="could be mini-swe-agent and openai; say which with --format"):
        imports.take(messages)
    assert imports.take(messages, format="openai").episodes["new"] == 1
    assert imports.take(lines(messages, messages[:2]), "b.jsonl", format="openai").episodes["new"] == 1
    (first, *_) = imports.payloads()
    assert json.loads(imports.blobs.get(first.origin.record.address)) == messages


@pytest.mark.parametrize(
    ("first", "confidence"),
    [
        (chat(), Confidence.LIKELY),
        (chat(tools=[], metadata={}), Confidence.LIKELY),
        (chat(info={}), Confidence.POSSIBLE),
        ({"messages": []}, Confidence.NO),
        ({"messages": [{"role": "robot"}]}, Confidence.NO),
        ({"messages": ["x"]}, Confidence.NO),
        ({"trajectory": []}, Confidence.NO),
        (None, Confidence.NO),
    ],
)
def test_only_chats_are_claimed(first: Any, confidence: Confidence) -> None:
    assert OpenAIChat().sniff(b"", first) == confidence


def test_a_line_is_found_and_comes_once(imports: Imports) -> None:
    data = lines(chat(), chat(user("Other."), assistant(content="Yes.")))
    assert imports.take(data, "a.jsonl").format == "openai"
    assert imports.take(data, "b.jsonl").episodes == {"new": 0, "present": 2, "rejected": 0}
    assert sum(isinstance(payload, ModelResponded) for payload in imports.payloads()) == 3
