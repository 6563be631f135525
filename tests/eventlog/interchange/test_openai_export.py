import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from core.vocabulary import Payload
from core.vocabulary.contract import Observation, Point, ToolCall, Ui
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    ToolSpec,
)
from eventlog.interchange.export.exporter import Library, referring
from tests.eventlog import samples
from tests.eventlog.interchange.drafting import Imports, data_url, png
from tests.eventlog.interchange.exporting import arguments, as_drafted, as_told, exported, sent, taken
from tests.eventlog.interchange.test_openai import assistant, call, chat, tool, user

Json = dict[str, Any]


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path)


def told(*payloads: Payload, library: Library | None = None) -> Json:
    """The line of these events, after a start."""
    events = samples.stored(("episode/e1", [EpisodeStarted(), *payloads]))
    document = exported("openai", events, library)
    assert as_drafted(taken("openai", document)) == as_told(events)
    made: Json = json.loads(document)
    return made


def test_a_live_episode_is_what_a_model_is_tuned_on() -> None:
    made = told(*samples.episode()[1:])
    assert made["messages"] == [
        {"role": "user", "content": "please, the alarm"},
        {"role": "assistant", "content": "I will look.", "tool_calls": [call('{"at":"07:00"}', "c1", "tool_1")]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "assistant", "content": "I will look.", "tool_calls": [call('{"at":"07:00"}', "c2", "tool_2")]},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: no such thing"},
    ]
    assert list(made) == ["messages", "extra"]


def test_bare_is_only_what_the_format_has() -> None:
    spec = ToolSpec("find", "Finds.", Raw(b'{"type": "object"}'))
    events = samples.stored(("episode/e1", [EpisodeStarted(task="t", tools=[spec]), *samples.episode()[1:]]))
    made = json.loads(exported("openai", events, Library(bare=True)))
    assert list(made) == ["messages", "tools"]
    assert made["tools"] == [
        {"type": "function", "function": {"name": "find", "description": "Finds.", "parameters": {"type": "object"}}}
    ]


@pytest.mark.parametrize("args", [b'{"q":  1e2}', b'{"a":1,"a":2}', b"[ ]", b"null", b'"x"', b'{\n"\\u0000":1}'])
def test_arguments_are_a_text_to_the_byte(args: bytes) -> None:
    made = told(ModelResponded(1), ActionSubmitted(1, ToolCall("t", Raw(args), "c1")))
    assert made["messages"][0]["tool_calls"][0]["function"]["arguments"] == args.decode()
    for data in (json.dumps(made, indent=1).encode(), json.dumps(made).encode()):
        assert arguments([event.payload for event in taken("openai", data)]) == [args]


def test_arguments_that_are_no_json_are_their_text() -> None:
    made = told(ModelResponded(1), ActionSubmitted(1, ToolCall("t", Raw(b"null"), "c1", "no json")))
    assert made["messages"][0]["tool_calls"][0]["function"]["arguments"] == "no json"


def test_what_must_not_train_has_no_weight() -> None:
    made = told(
        ModelResponded(1, content="old", copied=True),
        MessageRecorded("assistant", Raw(b'"put in its mouth"')),
        ModelResponded(2, content="new"),
        samples.call(3, "t", "c1"),
    )
    assert [message.get("weight", 1) for message in made["messages"]] == [0, 0, 1, 0]


def test_answers_follow_their_calls_at_once_and_come_back_in_their_order() -> None:
    made = told(
        ModelResponded(1),
        samples.call(1, "a", "c1"),
        MessageRecorded("user", Raw(b'"wait"')),
        samples.ok(1, "late", action=3),
    )
    assert [message["role"] for message in made["messages"]] == ["assistant", "tool", "user"]
    assert "order" in made["extra"]["trajlog"]


def test_what_answers_no_call_is_said_by_the_user() -> None:
    made = told(ModelResponded(1), FeedbackRecorded(1, Observation(text="$ ls")))
    assert made["messages"][1] == {"role": "user", "content": "$ ls"}


def test_screens_are_images_and_trees_texts() -> None:
    screen, tree = referring(png()), referring(b"<node/>")
    blobs = {screen.address: png(), tree.address: b"<node/>"}
    made = told(
        ModelResponded(1, thought="Tap it."),
        ActionSubmitted(1, Ui("tap", Point(0, 5))),
        FeedbackRecorded(1, Observation([screen, tree]), action=3),
        library=Library(blobs.get),
    )
    asked, seen = made["messages"]
    assert asked["reasoning_content"] == "Tap it."
    assert asked["tool_calls"][0]["function"]["name"] == "tap"
    assert seen["content"] == [
        {"type": "text", "text": "<node/>"},
        {"type": "image_url", "image_url": {"url": data_url(png())}},
    ]


def test_an_episode_in_which_nothing_was_said_is_a_line_too() -> None:
    assert told()["messages"] == [{"role": "user", "content": ""}]


OLD = chat(
    user("Find x."),
    assistant(function_call={"name": "find", "arguments": '{"q":  1}'}),
    {"role": "function", "name": "find", "content": "x"},
    assistant(content="It is here."),
    functions=[{"name": "find", "description": "Finds.", "parameters": {"type": "object"}, "odd": 1}],
)
NEW = chat(
    {"role": "developer", "content": "Be kind."},
    user([{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": data_url(png())}}], name="ann"),
    assistant(call(), call(' {"q":1}\n', "c2"), content="", reasoning_content="Hm."),
    tool("b", "c2", name="find"),
    tool([{"type": "text", "text": "a"}], "c1"),
    assistant({"id": "c3", "type": "custom", "custom": {"name": "sh", "input": "ls"}}),
    tool("lost", "c9"),
    assistant(refusal="No.", weight=0.5),
    model="gpt",
    tools=[{"type": "function", "function": {"name": "find", "strict": True, "parameters": {"type": "object"}}}],
    parallel_tool_calls=True,
    metadata={"a": "b"},
    extra={"mine": 1},
)


@pytest.mark.parametrize("original", [OLD, NEW], ids=["old", "new"])
def test_what_came_from_openai_goes_back_to_where_it_stood(imports: Imports, original: Json) -> None:
    imports.take(original)
    (document,) = sent(imports, "openai")
    made = json.loads(document)
    del made["extra"]["trajlog"]
    if not made["extra"]:
        del made["extra"]
    assert made == original
    assert as_drafted(taken("openai", document)) == as_told(imports.events())
