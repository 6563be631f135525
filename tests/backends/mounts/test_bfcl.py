"""BFCL's 800 multi-turn tasks: needs bfcl-eval in this interpreter, or in that of TRAJLOG_TEST_BFCL."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from backends.contract import ResetSpec
from backends.gate import admit
from backends.mounts import Mounted, bfcl, checking, opened
from backends.mounts.bfcl_tasks import tasks as as_tasks
from backends.mounts.hosted import Hosted
from backends.mounts.mount import Bfcl
from backends.replaying import Plan
from core.errors import BadRecord, Unavailable
from core.vocabulary.contract import ToolCall

MOUNT = Bfcl(name="bfcl", python=os.environ.get("TRAJLOG_TEST_BFCL"), folder="/")


@cache
def here() -> bool:
    python = MOUNT.python or sys.executable
    found = subprocess.run([python, "-s", "-c", "import bfcl_eval, mpmath"], capture_output=True, check=False)
    return found.returncode == 0


@pytest.fixture(scope="module")
def mounted() -> Iterator[Mounted]:
    if not here():
        pytest.skip("bfcl-eval is not here")
    made = opened(MOUNT)
    yield made
    made.close()


@pytest.fixture(scope="module")
def tasks(mounted: Mounted) -> list[bfcl.Task]:
    assert isinstance(mounted.engine, Hosted)
    return list(bfcl.tasks(mounted.engine))


def run(mounted: Mounted, *plans: Plan) -> list[tuple[list[bytes], list[str]]]:
    return [([checking.text(one) for one in run.feedback], run.states) for run in mounted.replay(iter(plans), 60.0)]


def plan(task: bfcl.Task, calls: list[ToolCall] | None = None) -> Plan:
    spec = ResetSpec(task=task.id, initial=task.initial)
    return Plan(spec, task.calls if calls is None else calls, states=True, verbatim=True)


def test_all_tasks_and_gold_calls_are_there(mounted: Mounted, tasks: list[bfcl.Task]) -> None:
    assert len(tasks) == 800
    assert sum(len(task.calls) for task in tasks) == 4_625
    assert Counter(task.id.rpartition("_")[0].removeprefix("multi_turn_") for task in tasks) == dict.fromkeys(
        bfcl.CATEGORIES, 200
    )
    assert len(mounted.describe().tools) == 128
    assert {call.tool for task in tasks for call in task.calls} <= {tool.name for tool in mounted.describe().tools}


def test_every_gold_plan_passes_state_and_response_checks_and_comes_again() -> None:
    if not here():
        pytest.skip("bfcl-eval is not here")
    found = checking.check(lambda: opened(MOUNT))
    assert (found.tasks, found.calls, found.problems, found.nondeterministic) == (800, 4_625, [], [])


def test_what_leaves_a_call_out_fails(mounted: Mounted, tasks: list[bfcl.Task]) -> None:
    """Of 40 tasks the last call of the last turn that has one."""
    caught = tried = 0
    for task in tasks[::20]:
        last = max(place for place, turn in enumerate(task.gold) if turn)
        shorter = [turn[:-1] if place == last else turn for place, turn in enumerate(task.gold)]
        less = msgspec.structs.replace(task, gold=shorter)
        (gold, states), (answers, after) = run(mounted, plan(task), plan(less))
        checks = bfcl.judge(bfcl.turns(less, answers, after), bfcl.turns(task, gold, states))
        tried += 1
        caught += any(check.verdict == "fail" for check in checks)
    assert (tried, caught) == (40, 40)


def test_an_episode_of_a_task_starts_in_its_initial_conditions(mounted: Mounted, tasks: list[bfcl.Task]) -> None:
    task = tasks[0]
    wanted = mounted.reset(ResetSpec(task=task.id, initial=task.initial))
    assert mounted.reset(ResetSpec(task=task.id)) == wanted
    assert mounted.reset(ResetSpec(task=f"bfcl/{task.id}")) == wanted
    assert mounted.reset(ResetSpec(task=tasks[30].id)) != wanted
    tools = mounted.observe().tools
    assert tools is not None
    assert 0 < len(tools) < 128


def test_a_task_gets_through_the_gate(mounted: Mounted) -> None:
    brought = as_tasks(mounted)
    for _ in range(3):
        task = next(brought)
        decided = admit(task, lambda: opened(MOUNT))
        assert decided.admitted, (task.id, decided.why)


def test_a_missing_package_is_said_with_its_mend(tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    with pytest.raises(Unavailable, match=r"has no bfcl-eval; .* -m pip install --no-deps bfcl-eval mpmath"):
        opened(Bfcl(name="bfcl", python=str(bare / "bin" / "python"), folder="/"))


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("sort('a.txt')", b'{"file_name":"a.txt"}'),
        ("mv('a', destination='b')", b'{"source":"a","destination":"b"}'),
        ("pick(x=[1, -2.5, {'k': (1, 2)}], y=None, z=True)", b'{"x":[1,-2.5,{"k":[1,2]}],"y":null,"z":true}'),
    ],
)
def test_gold_calls_are_parsed_with_their_arguments_by_name(text: str, args: bytes) -> None:
    order = {"sort": ["file_name"], "mv": ["source", "destination"]}
    assert bfcl.parse(text, order).args == Raw(args)


@pytest.mark.parametrize(
    "text",
    ["__import__('os').system('x')", "sort(open('x'))", "sort('a', 'b')", "x = 1", "f(", "1", "f(*[1])", "f" * 10],
)
def test_what_is_no_plain_call_is_never_evaluated(text: str) -> None:
    with pytest.raises(BadRecord, match="no gold call"):
        bfcl.parse(text, {"sort": ["file_name"]})


def test_responses_may_come_in_any_order_and_earlier_but_must_come() -> None:
    gold = [bfcl.Turn([b"a", b"b"], "s1"), bfcl.Turn([], "s1"), bfcl.Turn([b"a"], "s2")]

    def verdicts(run: list[bfcl.Turn]) -> list[str]:
        return [check.verdict for check in bfcl.judge(run, gold)]

    assert verdicts(gold) == ["pass"] * 4
    assert verdicts([bfcl.Turn([b"b", b"a", b"x"], "s1"), gold[1], gold[2]]) == ["pass"] * 4
    assert verdicts([bfcl.Turn([b"b"], "s1"), gold[1], gold[2]]) == ["pass", "fail", "pass", "pass"]
    assert verdicts([gold[0], gold[1], bfcl.Turn([b"a"], "s9")]) == ["pass", "pass", "fail", "pass"]
    assert verdicts([gold[0]]) == ["pass", "pass", "fail", "pass"]
