"""MCP servers as environments: a real one, over stdio and over HTTP."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

pytest.importorskip("mcp", reason="the extra mcp is not here")

from backends.contract import Make, ResetRefused, ResetSpec
from backends.mounts import Mounted, mcp_server, opened
from backends.mounts.mount import check, convert
from backends.replaying import Plan
from backends.testing import BackendContract, Sample
from backends.testing import call as made_call
from core.errors import Unavailable, UsageError
from core.vocabulary.contract import ToolResult
from core.vocabulary.task import InitialConditions
from tests.backends.mounts.making import action, call, failed, value

PLAIN = Path(__file__).with_name("mcp_plain.py")
SDK = Path(__file__).with_name("mcp_sdk.py")
STATE = {"read": {"tool": "look"}}


def server(**said: Any) -> Mounted:
    given = {
        "name": "lamp",
        "kind": "mcp",
        "command": [sys.executable, str(PLAIN)],
        "folder": str(PLAIN.parent),
        **said,
    }
    return opened(check(convert(given, "here"), "here"))


class TestOverStdio(BackendContract):
    @pytest.fixture
    def make(self) -> Make:
        return lambda: server(state=STATE, determinism="D0")

    @pytest.fixture
    def sample(self) -> Sample:
        wrong, slow = made_call("switch", on="bright"), made_call("hang")
        return Sample(read=made_call("look"), write=made_call("switch", on=True), wrong=wrong, slow=slow)


@pytest.fixture
def lamp() -> Iterator[Mounted]:
    made = server(state=STATE)
    made.reset(ResetSpec())
    yield made
    made.close()


def test_tools_come_with_their_schemas_and_hints(lamp: Mounted) -> None:
    manifest = lamp.describe()
    assert [tool.name for tool in manifest.tools] == [
        "switch",
        "look",
        "count",
        "fail",
        "hang",
        "leave",
        "odd",
        "noise",
        "fetch",
    ]
    assert manifest.reads == ["look"]
    assert manifest.open_world == {"fetch": ["net"]}
    assert manifest.determinism == "D2"
    assert manifest.tools[0].description == "Switch the lamp."


def test_a_mount_can_say_that_a_world_is_closed() -> None:
    made = server(open_world={"*": []})
    made.close()
    assert made.describe().open_world == {}


def test_results_are_what_a_model_is_shown(lamp: Mounted) -> None:
    assert value(call(lamp, "switch", on=True)) == "on: True"
    answer = call(lamp, "count")
    assert isinstance(answer, ToolResult)
    assert (value(answer), answer.schema_valid) == ("1", True)


def test_a_result_that_breaks_its_own_schema_is_kept_as_it_came(lamp: Mounted) -> None:
    answer = call(lamp, "odd")
    assert isinstance(answer, ToolResult)
    assert (value(answer), answer.schema_valid) == ({"result": "many"}, False)


def test_what_a_server_prints_disturbs_nothing(lamp: Mounted) -> None:
    assert value(call(lamp, "noise")) == "done"
    assert value(call(lamp, "switch", on=True)) == "on: True"
    assert lamp.printed() == "a line for the log"


def test_errors_are_typed(lamp: Mounted) -> None:
    assert "no luck" in failed(call(lamp, "fail", why="no luck"), "precondition", "unknown")
    assert "there is no tool 'fly'" in failed(call(lamp, "fly"), "unknown_tool")
    assert "is not of type 'boolean'" in failed(call(lamp, "switch", on="x"), "schema")


def test_every_episode_is_a_new_process(lamp: Mounted) -> None:
    call(lamp, "switch", on=True)
    lamp.reset(ResetSpec())
    assert value(call(lamp, "count")) == "0"
    with pytest.raises(ResetRefused, match="takes no initial state"):
        lamp.reset(ResetSpec(initial=InitialConditions(state=Raw(b"{}"))))


def test_a_server_that_ends_is_said_and_comes_back_with_a_reset(lamp: Mounted) -> None:
    failed(call(lamp, "leave"), "backend_bug", "unknown")
    assert not lamp.health().ok
    lamp.reset(ResetSpec())
    assert value(call(lamp, "switch", on=False)) == "on: False"


def test_plans_run_one_after_the_other() -> None:
    made = server(state=STATE, determinism="D0")
    plan = Plan(ResetSpec(), [action("switch", on=True), action("nope"), action("look")], states=True, verbatim=True)
    found = list(made.replay([plan, plan], 20.0))
    assert [value(one.feedback[0]) for one in found] == ["on: True"] * 2
    assert found[0].states == found[1].states
    failed(found[0].feedback[1], "unknown_tool")
    made.close()


def test_a_server_made_with_the_sdk_is_one_too() -> None:
    made = server(command=[sys.executable, str(SDK)], state=STATE)
    made.reset(ResetSpec())
    assert value(call(made, "switch", on=True)) == "on: True"
    assert (made.describe().reads, [*made.describe().open_world]) == (["look"], ["reset"])
    made.close()


def test_over_http_a_reset_is_what_the_mount_file_says() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = subprocess.Popen(
        [sys.executable, str(SDK), str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait(port)
        made = server(command=[], url=f"http://127.0.0.1:{port}/mcp", state={**STATE, "reset": [{"tool": "reset"}]})
        made.reset(ResetSpec())
        assert value(call(made, "switch", on=True)) == "on: True"
        begun = made.reset(ResetSpec())
        assert made.observe().state == begun
        assert "0" in value(call(made, "look"))
        running.kill()
        running.wait()
        feedback = call(made, "switch", on=True)
        assert not isinstance(feedback, ToolResult)
        made.close()
    finally:
        running.kill()


def _wait(port: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the server did not start")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"command": ["/nowhere/server"]}, "mount lamp: command: /nowhere/server cannot be started: No such file"),
        (
            {"command": [sys.executable, "-c", "print(1)"]},
            "wrote '1' to stdout, which is no MCP message; stdout is for",
        ),
        (
            {"command": [sys.executable, "-c", "import time; print('hi', flush=True); time.sleep(9)"], "start_s": 1.0},
            "did not answer in 1 s, and wrote 'hi' to stdout",
        ),
        ({"state": {"read": {"tool": "lok"}}}, "state.read names 'lok', but no tool is called so; its tools: switch,"),
        ({"state": {"reset": [{"tool": "rest"}]}}, "state.reset names 'rest', but no tool"),
        ({"command": [sys.executable, "-c", "import sys; sys.exit('no config')"]}, "no config"),
        ({"command": [sys.executable, "-c", "while True: pass"], "start_s": 1.0}, "did not answer in 1 s"),
        ({"command": [], "url": "http://127.0.0.1:9/mcp"}, ""),
    ],
)
def test_a_server_that_cannot_be_reached_is_one_line(said: dict[str, Any], why: str) -> None:
    begun = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        server(**said)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - begun < 30


def test_a_variable_that_is_not_set_is_said_once() -> None:
    with pytest.raises(UsageError) as caught:
        server(env={"A": "$NOT_SET"})
    assert str(caught.value).startswith("mount lamp, A: the environment variable NOT_SET is not set; ")


def test_paths_lead_into_the_state(lamp: Mounted) -> None:
    call(lamp, "switch", on=True)
    assert msgspec.json.decode(lamp.evidence().state) == {"on": True, "turns": 1}


@pytest.mark.parametrize(
    ("structured", "shown", "state"),
    [
        ({"events": ["tea"]}, "events", {"events": ["tea"]}),
        (None, '{"events": ["tea"]}', {"events": ["tea"]}),
        (None, "tea at four", "tea at four"),
        ({"result": '{"events": []}'}, '{"events": []}', {"events": []}),
        ({"result": [1]}, "1", {"result": [1]}),
        (None, {"content": []}, {"content": []}),
    ],
)
def test_the_state_is_data_where_there_is_data(structured: Any, shown: Any, state: Any) -> None:
    assert msgspec.json.decode(mcp_server._state(structured, Raw(msgspec.json.encode(shown)))) == state
