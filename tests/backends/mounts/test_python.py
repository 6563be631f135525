"""Python tools as they come: functions, methods, classes with a static invoke; where state comes from."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from backends.contract import ResetRefused, ResetSpec
from backends.mounts import opened
from backends.replaying import Plan
from core.errors import Unavailable
from core.vocabulary.contract import Finish, ToolCall
from core.vocabulary.task import InitialConditions
from tests.backends.mounts.making import action, call, failed, mount, mounted, value

COUNTER = """
def load(start=3):
    return {"count": start, "seen": []}

def add(data, by: int) -> int:
    data["count"] += by
    data["seen"].append(by)
    return data["count"]

def look(data):
    return data["count"]

def lose(data, by: int):
    data["count"] += by
    raise KeyError("lost")
"""
STATE = {"loader": "shop:load", "parameter": "data"}
TOOLS = ["shop:add", "shop:look", "shop:lose"]


def test_functions_of_a_module_are_tools_in_the_order_they_stand(tmp_path: Path) -> None:
    made = opened(
        mount(tmp_path, "from os.path import join\ndef zeta(): ...\ndef alpha(x: int, y=None): ...\ndef _no(): ...")
    )
    tools = made.describe().tools
    assert [tool.name for tool in tools] == ["zeta", "alpha"]
    assert isinstance(tools[1].parameters, Raw)
    assert msgspec.json.decode(tools[1].parameters) == {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {}},
        "required": ["x"],
        "additionalProperties": False,
    }
    made.close()


def test_listed_tools_keep_the_order_of_the_list(tmp_path: Path) -> None:
    made = opened(mount(tmp_path, COUNTER, tools=["shop:look", "shop.add"], state=STATE))
    assert [tool.name for tool in made.describe().tools] == ["look", "add"]
    made.close()


def test_classes_with_a_static_invoke_are_tools(tmp_path: Path) -> None:
    code = """
class Tool:
    @staticmethod
    def invoke(data, **kwargs): raise NotImplementedError

class BookSeat(Tool):
    @staticmethod
    def invoke(data, row: int) -> str:
        data["rows"].append(row)
        return "booked %d" % len(data["rows"])
    @staticmethod
    def get_info():
        return {"type": "function", "function": {"name": "book_it", "description": "Books.",
                "parameters": {"type": "object", "properties": {"row": {"type": "integer"}}, "required": ["row"]}}}

class ShowRows(Tool):
    @staticmethod
    def invoke(data) -> str:
        return str(data["rows"])

def load(): return {"rows": []}
TOOLS = [BookSeat, ShowRows]
"""
    made = mounted(tmp_path, code, tools=["shop:TOOLS"], state={"loader": "shop:load"})
    assert [tool.name for tool in made.describe().tools] == ["book_it", "show_rows"]
    assert value(call(made, "book_it", row=4)) == "booked 1"
    assert value(call(made, "show_rows")) == "[4]"
    made.close()


def test_methods_of_an_object_share_it_within_an_episode(tmp_path: Path) -> None:
    code = """
class Till:
    def __init__(self): self.total = 0; self._secret = object()
    def _load(self, config, currency="EUR"): self.total = config.get("total", 0); self.currency = currency
    def pay(self, amount: float) -> dict: self.total += amount; return {"total": self.total}
"""
    made = opened(mount(tmp_path, code, objects=["shop:Till"], state={"load": "_load"}))
    state = {"objects": {"Till": {"total": 5}}, "options": {"currency": "NOK"}}
    given = InitialConditions(state=Raw(msgspec.json.encode(state)))
    made.reset(ResetSpec(initial=given))
    assert value(call(made, "pay", amount=2)) == {"total": 7}
    assert msgspec.json.decode(made.evidence().state) == {"Till": {"total": 7, "currency": "NOK"}}
    made.reset(ResetSpec(initial=given))
    assert value(call(made, "pay", amount=1)) == {"total": 6}
    with pytest.raises(ResetRefused, match="names 'Safe', which is no object"):
        made.reset(ResetSpec(initial=InitialConditions(state=Raw(b'{"objects":{"Safe":{}}}'))))
    made.close()


def test_every_episode_has_a_copy_of_its_own(tmp_path: Path) -> None:
    made = mounted(tmp_path, COUNTER, tools=TOOLS, state=STATE)
    before = made.observe().state
    assert value(call(made, "add", by=2)) == 5
    assert made.observe().state != before
    assert made.reset(ResetSpec()) == before
    assert value(call(made, "look")) == 3
    made.close()


def test_what_modules_keep_in_globals_is_fresh_too_in_a_fork(tmp_path: Path) -> None:
    code = "seen = []\ndef note(x: int):\n    seen.append(x)\n    return list(seen)\ndef snapshot(): return seen\n"
    made = mounted(tmp_path, code, tools=["shop:note"], state={"snapshot": "shop:snapshot"})
    begun = made.observe().state
    for _ in range(3):
        assert value(call(made, "note", x=1)) == [1]
        assert value(call(made, "note", x=2)) == [1, 2]
        assert made.reset(ResetSpec()) == begun
    plans = [Plan(ResetSpec(), [action("note", x=7)], states=True)] * 3
    found = list(made.replay(plans, 20.0))
    assert [value(one.feedback[0]) for one in found] == [[7]] * 3
    assert len({tuple(one.states) for one in found}) == 1
    made.close()


def test_a_state_that_a_task_gives_replaces_the_loaded_one(tmp_path: Path) -> None:
    made = mounted(tmp_path, COUNTER, tools=TOOLS, state=STATE)
    made.reset(ResetSpec(initial=InitialConditions(state=Raw(b'{"count":40,"seen":[]}'))))
    assert value(call(made, "look")) == 40
    with pytest.raises(ResetRefused, match="no clock that could be set"):
        made.reset(ResetSpec(initial=InitialConditions(clock="2026-01-01T00:00:00Z")))
    made.close()


def test_the_digest_is_of_what_the_snapshot_function_shows(tmp_path: Path) -> None:
    code = COUNTER + "\ndef shown(data): return {'count': data['count']}\n"
    made = mounted(tmp_path, code, tools=TOOLS, state={**STATE, "snapshot": "shop:shown"})
    assert msgspec.json.decode(made.evidence().state) == {"count": 3}
    made.close()


def test_failures_are_told_by_exception_and_by_pattern(tmp_path: Path) -> None:
    code = """
class Closed(Exception): ...
class Later(Closed): ...
def shut(): raise Later("come back")
def ask(name: str): return "Error: nobody is called " + name
def fall(): return [][1]
"""
    rules = [
        {"exception": "shop.Closed", "class": "transient", "retryable": True},
        {"pattern": "^Error: nobody", "class": "not_found"},
    ]
    made = mounted(
        tmp_path, code, tools=["shop:shut", "shop:ask", "shop:fall"], errors=rules, error_text="Error: {error}"
    )
    assert failed(call(made, "shut"), "transient") == "Error: come back"
    assert failed(call(made, "ask", name="Bo"), "not_found") == "Error: nobody is called Bo"
    assert failed(call(made, "fall"), "not_found", "unknown") == "Error: list index out of range"
    made.close()


def test_an_exception_that_no_rule_knows_says_whether_something_changed(tmp_path: Path) -> None:
    made = mounted(tmp_path, COUNTER, tools=TOOLS, state=STATE)
    assert failed(call(made, "lose", by=1), "not_found", "applied") == "KeyError: 'lost'"
    assert failed(call(made, "lose", by=0), "not_found", "none") == "KeyError: 'lost'"
    made.close()


def test_arguments_that_do_not_fit_never_reach_the_tool(tmp_path: Path) -> None:
    made = mounted(tmp_path, COUNTER, tools=TOOLS, state=STATE)
    assert "'two' is not of type 'integer'" in failed(call(made, "add", by="two"), "schema")
    assert "required" in failed(call(made, "add"), "schema")
    assert "'add'" in failed(call(made, "ad", by=1), "unknown_tool")
    assert "no other way to act" in failed(made.execute(Finish("done"), 5.0, "finish"), "unknown_tool")
    broken = ToolCall("add", Raw(b"null"), args_text="{by: 2")
    assert "no JSON" in failed(made.execute(broken, 5.0, "broken"), "schema")
    assert value(call(made, "look")) == 3
    made.close()


def test_a_verbatim_plan_gives_tools_what_was_recorded(tmp_path: Path) -> None:
    made = mounted(tmp_path, COUNTER, tools=TOOLS, state=STATE, error_text="Error: {error}")
    calls = [action("add", by="x"), action("add", wrong=1), action("sub"), action("add", by=1, data={})]
    (found,) = made.replay([Plan(ResetSpec(), calls, verbatim=True)], 20.0)
    assert failed(found.feedback[0], "backend_bug", "unknown").startswith("Error: unsupported operand")
    assert failed(found.feedback[1], "schema").startswith("Error: add() got an unexpected keyword argument 'wrong'")
    assert failed(found.feedback[2], "unknown_tool") == "there is no tool 'sub'"
    assert failed(found.feedback[3], "schema").startswith("Error: got multiple values")
    made.close()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("{'a': {1, 3, 2}, 4: (1,)}", {"a": [1, 2, 3], "4": [1]}),
        ("float('nan')", "nan"),
        ("[1.5, None, True]", [1.5, None, True]),
        ("'caf\\u00e9 \\ud83d'", "café \ufffd"),
        ("__import__('datetime').date(2026, 1, 2)", "2026-01-02"),
        ("b'ab'", "6162"),
        ("type('P', (), {'__init__': lambda s: setattr(s, 'x', 1)})()", {"x": 1}),
        ("object", "<class 'object'>"),
    ],
)
def test_results_that_json_does_not_know_come_back_as_values(tmp_path: Path, code: str, said: Any) -> None:
    made = mounted(tmp_path, f"def give(): return {code}")
    assert value(call(made, "give")) == said
    made.close()


def test_a_coroutine_is_awaited(tmp_path: Path) -> None:
    made = mounted(tmp_path, "import asyncio\nasync def wait(x: int):\n    await asyncio.sleep(0)\n    return x\n")
    assert value(call(made, "wait", x=5)) == 5
    made.close()


def test_arguments_that_a_tool_changes_are_its_own(tmp_path: Path) -> None:
    code = "def sort(items: list):\n    items.sort(); items.append(9)\n    return items\n"
    made = mounted(tmp_path, code)
    asked = action("sort", items=[3, 1])
    assert value(made.execute(asked, 5.0, "a")) == [1, 3, 9]
    assert value(made.execute(asked, 5.0, "b")) == [1, 3, 9]
    assert bytes(asked.args) == b'{"items":[3,1]}'
    made.close()


def test_a_key_that_was_answered_is_answered_the_same(tmp_path: Path) -> None:
    made = mounted(tmp_path, COUNTER, tools=TOOLS, state=STATE)
    once = made.execute(action("add", by=1), 5.0, "k")
    assert made.execute(action("add", by=1), 5.0, "k") is once
    assert value(call(made, "look")) == 4
    made.close()


@pytest.mark.parametrize("name", ["core", "cli", "eventlog", "backends", "json_tools"])
def test_modules_may_be_called_as_ours_are(tmp_path: Path, name: str) -> None:
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text("def who(): return __file__\n")
    made = opened(mount(tmp_path, "", module="unused", tools=[f"{name}:who"]))
    made.reset(ResetSpec())
    assert value(call(made, "who")) == str(package / "__init__.py")
    made.close()


def test_nothing_of_ours_is_imported_there(tmp_path: Path) -> None:
    code = "import sys\ndef ours(): return sorted({n.split('.')[0] for n in sys.modules} & {'core', 'cli', 'msgspec'})"
    made = mounted(tmp_path, code)
    assert value(call(made, "ours")) == []
    made.close()


def test_a_change_of_code_schema_or_rules_is_another_version_and_a_move_is_none(tmp_path: Path) -> None:
    def version(folder: Path, code: str = COUNTER, **said: Any) -> str:
        folder.mkdir(exist_ok=True)
        made = opened(mount(folder, code, tools=TOOLS, state=STATE, **said))
        made.close()
        return made.describe().version

    first = version(tmp_path / "a")
    assert version(tmp_path / "b") == first
    assert version(tmp_path / "b", deadline_s=3.0) == first
    assert version(tmp_path / "b", COUNTER + "# a word\n") != first
    assert version(tmp_path / "b", error_text="Error: {error}") != first
    (tmp_path / "b" / "data.json").write_text("{}")
    assert version(tmp_path / "b", files=["*.json"]) != first


def test_a_mount_that_cannot_be_loaded_says_why_in_one_line(tmp_path: Path) -> None:
    for code, tools, said in [
        ("import nothing_like_it", ["shop"], "ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("x = 1/0", ["shop"], "ZeroDivisionError: division by zero"),
        ("def f(:", ["shop"], "SyntaxError"),
        ("x = 1", ["shop"], "shop has no tools"),
        ("x = 1", ["shop:y"], "shop has no 'y'"),
        ("x = 1", ["shop:x"], "1 is no tool"),
        ("def f(): ...\ng = f", ["shop:f", "shop:g"], "two tools are called 'f'"),
        ("import os; os._exit(3)", ["shop"], "it exited with 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", ["shop"], "it was ended by SIGSEGV"),
        ("raise SystemExit(2)", ["shop"], "SystemExit: 2"),
        (
            "print('half way'); import os; os._exit(1)",
            ["shop"],
            "it exited with 1 while its tools were loaded: half way",
        ),
    ]:
        with pytest.raises(Unavailable) as caught:
            opened(mount(tmp_path, code, tools=tools))
        assert said in str(caught.value), code
        assert "\n" not in str(caught.value)


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="/nowhere/python cannot be started"):
        opened(mount(tmp_path, "def f(): ...", python="/nowhere/python"))


def test_loading_that_never_ends_is_ended(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"took longer than 0\.5 s to load"):
        opened(mount(tmp_path, "while True: pass", start_s=0.5))
