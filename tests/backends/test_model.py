"""The planner that asks a model, against a real HTTP server that speaks the protocol."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from backends import model
from backends.jobs import Limits
from backends.model import ModelPlanner, address, turn
from backends.planners import PlannerSpec
from core.errors import UsageError
from core.vocabulary.contract import Finish, ToolCall
from core.vocabulary.episode import ActionSubmitted, FeedbackRecorded, MessageRecorded, ModelResponded
from eventlog.inmemory import InMemoryLog
from tests.backends.plays import ALL, of_type, play
from tests.backends.server import ModelServer, serving

FLIGHT = ALL["early-flight"]
SHOPPING = ALL["shopping-list"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "WAIT_S", 0.01)
    monkeypatch.delenv(model.KEY, raising=False)


def planner(server: ModelServer, sampling: str | None = None) -> ModelPlanner:
    text = f"openai:{server.url}#planner-27b"
    made = PlannerSpec(text, UNSET if sampling is None else Raw(sampling.encode())).make()
    assert isinstance(made, ModelPlanner)
    return made


def test_a_model_that_does_what_the_gold_plan_does_passes() -> None:
    with serving(SHOPPING.plans.others[0]) as server:
        outcome, events = play(SHOPPING, planner=planner(server, '{"temperature":0.5}'))
    assert (outcome.end, outcome.verdict, outcome.steps, outcome.tokens) == ("finished", "pass", 4, 440)
    assert [said.role for said in of_type(events, MessageRecorded)] == ["system", "user"]
    said = of_type(events, ModelResponded)
    assert (said[0].model, said[0].usage.prompt_tokens, said[0].finish_reason) == ("planner-27b", 100, "tool_calls")
    assert bytes(said[0].sampling) == b'{"temperature":0.5}'
    assert said[0].context.spans == [(1, 3)]
    assert said[2].content == "Both at once."
    assert said[-1].content == "Done."


def test_the_server_is_told_the_conversation_and_the_tools_as_they_are() -> None:
    with serving(SHOPPING.plans.others[0]) as server:
        _, events = play(SHOPPING, planner=planner(server, '{"temperature":0.5,"max_tokens":99}'))
    last = server.asked[-1]
    assert (last["model"], last["temperature"], last["max_tokens"]) == ("planner-27b", 0.5, 99)
    assert [tool["function"]["name"] for tool in last["tools"]][:2] == ["get_time", "wait"]
    assert last["tools"][1]["function"]["parameters"]["required"] == ["minutes"]
    roles = [message["role"] for message in last["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "tool"]
    submitted = of_type(events, ActionSubmitted)
    calls = [call for message in last["messages"] for call in message.get("tool_calls", [])]
    assert [call["function"]["arguments"] for call in calls] == [
        bytes(one.action.args).decode() for one in submitted[:4]
    ]
    answers = {message["tool_call_id"]: message["content"] for message in last["messages"] if message["role"] == "tool"}
    assert set(answers) == {call["id"] for call in calls}
    assert json.loads(answers["call_1_0"])["text"] == "bread\neggs"


def test_a_digest_names_the_prompt() -> None:
    with serving(FLIGHT.plans.gold) as server:
        first = of_type(play(FLIGHT, planner=planner(server))[1], ModelResponded)
        again = of_type(play(FLIGHT, planner=planner(server))[1], ModelResponded)
    digests = [said.context.digest for said in first]
    assert len(set(digests)) == len(digests)
    assert digests == [said.context.digest for said in again]


def test_the_key_goes_to_the_server_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(model.KEY, "sk-secret-17")
    log = InMemoryLog()
    with serving(FLIGHT.plans.gold) as server:
        play(FLIGHT, log=log, planner=planner(server))
        assert {headers["authorization"] for headers in server.headers} == {"Bearer sk-secret-17"}
        server.answer = lambda request: (401, b'{"error":{"message":"bad key sk-secret-17"}}')
        outcome, _ = play(FLIGHT, log=log, planner=planner(server))
    assert "401" in (outcome.message or "")
    assert "bad key ***" in (outcome.message or "")
    assert not any(b"sk-secret" in event.body for event in log.read_all())


def test_a_server_that_is_busy_for_a_while_is_asked_again() -> None:
    with serving(FLIGHT.plans.gold) as server:
        real, refusals = server.answer, [429, 503]
        server.answer = lambda request: (refusals.pop(), b"busy") if refusals else real(request)
        outcome, _ = play(FLIGHT, planner=planner(server))
    assert outcome.verdict == "pass"
    assert len(server.asked) == 5


@pytest.mark.parametrize(("status", "body"), [(503, b"busy"), (404, b"no such model")])
def test_a_server_that_does_not_work_says_nothing_about_the_agent(status: int, body: bytes) -> None:
    with ModelServer(lambda request: (status, body)) as server:
        outcome, _ = play(FLIGHT, planner=planner(server))
    assert (outcome.end, outcome.verdict, outcome.infrastructure) == ("agent_error", "error", True)
    assert str(status) in (outcome.message or "")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"hello", "hello"),
        (b"", "nothing"),
        (b"<html>\n<p>Hi", "<html> <p>Hi"),
        (b"{}", "{}"),
        (b'{"choices":[]}', "{'choices': []}"),
        (b'{"choices":[{"message":null}]}', "{'choices': [{'message': None}]}"),
        (b'{"error":{"message":"no such model"}}', "no such model"),
        (b"[" * 5000, "["),
    ],
)
def test_an_answer_that_is_no_chat_completion_says_nothing_about_the_agent(body: bytes, shown: str) -> None:
    with ModelServer(lambda request: (200, body)) as server:
        outcome, _ = play(FLIGHT, planner=planner(server))
    assert (outcome.end, outcome.verdict, outcome.infrastructure) == ("agent_error", "error", True)
    assert outcome.message and "\n" not in outcome.message
    assert f"{server.url}: it answered 200 without a chat completion: {shown}" in outcome.message


def test_a_server_that_is_not_there_says_nothing_about_the_agent() -> None:
    with ModelServer(lambda request: {}) as server:
        url = server.url
    outcome, _ = play(FLIGHT, planner=ModelPlanner(url, "m"))
    assert (outcome.end, outcome.verdict, outcome.infrastructure) == ("agent_error", "error", True)
    assert url in (outcome.message or "")


@pytest.mark.parametrize(
    "answer",
    [
        (200, b'{"choices":[{"message":{"tool_calls":[{"function":{}}]}}]}'),
        (400, b'{"error":"context too long"}'),
        {"content": ""},
        {"content": "I will set the ala", "finish_reason": "length", "tool_calls": None, "cut": True},
    ],
)
def test_an_answer_that_cannot_be_used_is_the_agents_error(answer: Any) -> None:
    def said(request: dict[str, Any]) -> Any:
        return dict(answer) if isinstance(answer, dict) else answer  # the server adds to it

    with ModelServer(said) as server:
        outcome, _ = play(FLIGHT, planner=planner(server))
    assert (outcome.end, outcome.verdict, outcome.infrastructure) == ("agent_error", "fail", False)
    assert outcome.message and "\n" not in outcome.message


def test_a_call_whose_arguments_are_no_json_is_answered_by_an_error() -> None:
    turns: Iterator[dict[str, Any]] = iter(
        [
            {"tool_calls": [{"id": "c1", "function": {"name": "set_alarm", "arguments": '{"time": "05:4'}}]},
            {"content": "I gave up."},
        ]
    )
    with ModelServer(lambda request: next(turns)) as server:
        _, events = play(FLIGHT, planner=planner(server))
    [call] = [said.action for said in of_type(events, ActionSubmitted) if isinstance(said.action, ToolCall)]
    assert (call.args_text, bytes(call.args)) == ('{"time": "05:4', b"null")
    assert of_type(events, FeedbackRecorded)[0].feedback.class_ == "schema"
    assert server.asked[-1]["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"time": "05:4'


def test_a_server_that_never_answers_is_left_after_the_deadline() -> None:
    with serving(FLIGHT.plans.gold) as server:
        server.hang.set()
        begun = time.monotonic()
        outcome, _ = play(FLIGHT, planner=planner(server), limits=Limits(turn_s=0.3))
        assert time.monotonic() - begun < 5
    assert (outcome.end, outcome.infrastructure) == ("agent_error", False)
    assert "no answer within 0.3 s" in (outcome.message or "")


def test_a_question_under_way_can_be_broken_off() -> None:
    with serving(FLIGHT.plans.gold) as server:
        server.hang.set()
        asking = planner(server)

        def cancel() -> None:
            server.asked_within(1, 10)
            asking.cancel()

        threading.Thread(target=cancel, daemon=True).start()
        outcome, _ = play(FLIGHT, planner=asking)
        again, _ = play(FLIGHT, planner=asking)
        asking.close()
    assert outcome.end == again.end == "cancelled"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://localhost:8000/v1#m", ("http://localhost:8000/v1", "m")),
        ("https://user:secret@host/v1/?key=secret#org/m-7b", ("https://host/v1", "org/m-7b")),
        ("http://[::1]:80/v1#m", ("http://[::1]:80/v1", "m")),
    ],
)
def test_an_address_is_shown_without_what_is_secret(text: str, shown: tuple[str, str]) -> None:
    assert address(text) == shown
    assert "secret" not in PlannerSpec(f"openai:{text}").shown


@pytest.mark.parametrize(
    "text", ["", "gold", "openai:", "openai:localhost#m", "openai:http://h/v1", "openai:http://h:x/v1#m", "script:"]
)
def test_what_is_no_planner_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        PlannerSpec(text).make()
    assert "\n" not in str(raised.value)


def test_sampling_parameters_are_an_object() -> None:
    for text in ("openai:http://h/v1#m", "script:none.json"):
        for given in (b"[1]", b"{", b""):
            with pytest.raises(UsageError, match="--sampling: no JSON object"):
                PlannerSpec(text, Raw(given)).make()


def test_content_in_parts_and_thoughts_are_read() -> None:
    message = {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "reasoning": "hm"}
    found = turn({"choices": [{"message": message, "finish_reason": "stop"}], "usage": None}, None)
    assert (found.content, found.thought, found.actions) == ("ab", "hm", [Finish("done")])
    call = {"function": {"name": "t", "arguments": {"a": 1}}}
    found = turn({"choices": [{"message": {"content": None, "tool_calls": [call]}}]}, None)
    assert isinstance(found.actions[0], ToolCall)
    assert msgspec.json.decode(found.actions[0].args) == {"a": 1}
