"""The gate lets a task in that can be judged, and names what is wrong with every other."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from backends import tasks
from backends.contract import Evidence
from backends.gate import admit
from backends.phone import Phone
from backends.script import Step
from backends.tasks import Plans, Task
from core.errors import BadRecord, NotFound, TrajlogError
from core.vocabulary.contract import Action, Feedback, ToolResult
from core.vocabulary.episode import ToolSpec
from core.vocabulary.task import AdmissionDecided, Criterion
from eventlog.inmemory import InMemoryLog
from eventlog.writer import Writer
from tests.backends.plays import ALL, Wayward
from tests.databases import Databases

FLIGHT = ALL["early-flight"]
SHOPPING = ALL["shopping-list"]


def raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def changed(task: Task, **fields: Any) -> Task:
    return replace(task, spec=replace(task.spec, **fields))


def planned(task: Task, **plans: Any) -> Task:
    return replace(task, plans=replace(task.plans, **plans))


def state(id: str, path: str, **rule: Any) -> Criterion:
    return Criterion(id, "state", rule=raw({"path": path, **rule}))


@pytest.mark.parametrize("name", ALL)
def test_the_phones_own_tasks_are_admitted(name: str) -> None:
    decided = admit(ALL[name], Phone)
    assert decided.admitted, decided.why
    assert decided.environment == Phone().describe().name
    names = [probe.name for probe in decided.probes]
    writes = [step for step in ALL[name].plans.gold if step.tool and step.tool not in Phone().describe().reads]
    assert names.count("dropped_write") == len(writes)
    assert {"gold", "repeat", "other_plan", "nothing", "collateral_write"} <= set(names)
    assert [probe.verdict for probe in decided.probes if probe.expected == "pass"] == ["pass", "pass", "pass"]


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (changed(FLIGHT, criteria=[]), "it has no criteria"),
        (changed(FLIGHT, criteria=[Criterion("a", "state")]), "criterion a asks nothing"),
        (changed(FLIGHT, criteria=[Criterion("a", "state", rule=Raw(b"{}"))]), "criterion a asks nothing"),
        (changed(FLIGHT, criteria=[Criterion("a", "behaviour", rule=Raw(b'{"never":null}'))]), "asks nothing"),
        (changed(FLIGHT, criteria=[Criterion("a", "state", rule=raw({"path": "alarms"}))]), "is no path"),
        (
            changed(FLIGHT, criteria=[Criterion("a", "answer", rule=raw({"has": "x"}))]),
            "criterion a: no rule",
        ),
        (changed(FLIGHT, criteria=[replace(FLIGHT.spec.criteria[0], gates=False)]), "none of its criteria gates"),
        (changed(FLIGHT, criteria=[FLIGHT.spec.criteria[0]] * 2), "two of its criteria have one id"),
        (planned(FLIGHT, gold=[]), "it has no gold plan"),
        (
            planned(FLIGHT, gold=[Step(tool="set_alarm", args=raw({"time": "5:45"}))]),
            "the gold plan fails: check alarm_set is fail",
        ),
        (planned(FLIGHT, others=[[Step(answer="Done.")]]), "plan 1 of the others fails: check alarm_set"),
        (
            changed(FLIGHT, criteria=[state("a", "$.alarms.a1", like={"time": "07:00"})]),
            "doing nothing passes",
        ),
        (changed(FLIGHT, expects_no_change=True), "doing nothing fails, but no change is expected"),
        (
            changed(SHOPPING, criteria=[state("a", "$.notes.n1.text", like={"$has": "oat milk"})]),
            "it passes without delete_note of step 3 of the gold plan",
        ),
        (
            planned(changed(FLIGHT, criteria=[FLIGHT.spec.criteria[0]]), collateral=FLIGHT.plans.collateral),
            "the plan that changes something besides passes",
        ),
        (
            planned(changed(FLIGHT, criteria=FLIGHT.spec.criteria[:2]), collateral=[]),
            "it passes although $.alarms.a1 was changed besides",
        ),
        (changed(FLIGHT, backends=["airline"]), "it may run in airline only"),
        (changed(FLIGHT, tools=[ToolSpec("take_photo")]), "needs the tool take_photo"),
        (changed(FLIGHT, tools=[ToolSpec("set_alarm", schema_digest="sha256:0")]), "has another schema"),
        (
            changed(FLIGHT, initial=replace(FLIGHT.spec.initial, clock="noon")),
            "its initial conditions cannot be had",
        ),
    ],
)
def test_a_task_that_cannot_be_trusted_is_refused_in_one_line(task: Task, why: str) -> None:
    decided = admit(task, Phone)
    assert not decided.admitted
    assert why in (decided.why or "")
    assert "\n" not in (decided.why or "")


def test_a_state_that_cannot_be_read_is_no_pass() -> None:
    class Blind(Phone):
        def evidence(self) -> Evidence:
            return Evidence(state=Raw(b"null"), digest=None)

    decided = admit(FLIGHT, Blind)
    assert "check alarm_set is inconclusive" in (decided.why or "")


def test_an_environment_that_does_not_do_the_same_twice_is_named_by_its_tool() -> None:
    calls: list[int] = []

    def drift(n: int, action: Action, real: Any) -> Feedback:
        calls.append(n)
        answer: Feedback = real()
        return answer if len(calls) < 3 else ToolResult(raw(len(calls)))

    decided = admit(FLIGHT, lambda: Wayward(drift))
    assert decided.why == "two runs of the gold plan differ: call 1, list_alarms, answers differently"


def test_faults_of_the_task_are_injected_at_the_gate_too() -> None:
    faults = raw([{"fault": "busy", "tool": "set_alarm", "calls": [1]}])
    task = changed(FLIGHT, initial=replace(FLIGHT.spec.initial, faults=faults))
    assert "the gold plan fails" in (admit(task, Phone).why or "")
    gold = [FLIGHT.plans.gold[1], *FLIGHT.plans.gold]
    others = [[*FLIGHT.plans.others[0][:1], *FLIGHT.plans.others[0]]]
    recovering = planned(task, gold=gold, others=others)
    # the first write is lost to the fault, and without it the second one would be
    assert admit(recovering, Phone).why is None


# -- tasks in the log ----------------------------------------------------------------------------------------


def test_a_task_is_kept_with_its_plans_out_of_sight() -> None:
    log = InMemoryLog()
    assert tasks.store(log, FLIGHT, Writer("t"))
    assert not tasks.store(log, FLIGHT, Writer("t"))
    assert [event.stream for event in log.read_all()] == [
        *["hidden/task/phone/early-flight"] * 3,
        "task/phone/early-flight",
    ]
    known = tasks.load(log, "phone/early-flight")
    assert msgspec.json.encode(known.task) == msgspec.json.encode(FLIGHT)
    assert known.decided is None and not known.admitted
    with pytest.raises(NotFound, match="no such task"):
        tasks.load(log, "phone/other")


def test_the_gates_word_counts_for_the_specification_it_saw() -> None:
    log, writer = InMemoryLog(), Writer("t")
    tasks.store(log, FLIGHT, writer)
    log.append(writer.event("task/phone/early-flight", AdmissionDecided(FLIGHT.digest, True, [])))
    assert tasks.load(log, FLIGHT.id).admitted
    other = changed(FLIGHT, goal="Another goal")
    assert tasks.store(log, other, writer)
    assert not tasks.load(log, FLIGHT.id).admitted
    assert tasks.load(log, FLIGHT.id, FLIGHT.digest).admitted
    assert tasks.load(log, FLIGHT.id, FLIGHT.digest).task.spec.goal == FLIGHT.spec.goal
    fewer = planned(other, others=[], collateral=[])
    assert tasks.store(log, fewer, writer)
    assert tasks.load(log, FLIGHT.id).task.plans == Plans(other.plans.gold)


def test_a_split_is_set_once() -> None:
    log = InMemoryLog()
    tasks.store(log, FLIGHT, Writer("t"))
    with pytest.raises(BadRecord, match="its split is train and stays so"):
        tasks.store(log, changed(FLIGHT, split="dev"), Writer("t"))


def test_all_tasks_are_listed_with_the_gates_word(databases: Databases) -> None:
    writer = Writer("t")
    with databases.fresh("tasks").ledger() as log:
        for task in ALL.values():
            tasks.store(log, task, writer)
        log.append(writer.event("task/phone/move-alarm", AdmissionDecided(ALL["move-alarm"].digest, True, [])))
        log.append(writer.event("task/phone/which-gate", AdmissionDecided("sha256:of an older one", True, [])))
        with log.reader.borrow() as connection:
            found = {known.task.id: known.admitted for known in tasks.listed(connection)}
    assert found == {task.id: task.id == "phone/move-alarm" for task in ALL.values()}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.json", "", "it is empty"),
        ("a.json", "[]", "holds no task"),
        ("a.json", '{"id":"x"}', "no task"),
        ("a.json", '[{"id":"../x","spec":{}}]', "no task"),
        ("a.jsonl", "{", "it is cut short"),
        ("a.toml", "task = ", "it is no TOML"),
        ("a.json", '{"id":"x","spec":{"goal":"g"}}', "no task"),
    ],
)
def test_a_file_that_holds_no_task_is_named(tmp_path: Path, name: str, text: str, why: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(TrajlogError, match=why) as raised:
        tasks.read(tmp_path / name)
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)


def test_tasks_can_be_written_as_json_lines_and_as_toml(tmp_path: Path) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_bytes(b"\n".join(msgspec.json.encode(task) for task in ALL.values()) + b"\n")
    assert [task.digest for task in tasks.read(lines)] == [task.digest for task in ALL.values()]
    toml = tmp_path / "a.toml"
    toml.write_text(
        """
        id = "tea"
        [spec]
        goal = "Wake me at four."
        capability = "parameter_filling"
        axis = "tool_use"
        split = "dev"
        backends = ["phone"]
        scenario = { domain = "time", intent = "set an alarm", interaction = "single turn" }
        [[spec.criteria]]
        id = "set"
        policy = "state"
        rule = { path = "$.alarms[*]", like = { time = "16:00" }, count = 1 }
        [[spec.criteria]]
        id = "nothing_else"
        policy = "no_collateral"
        rule = { allow = ["$.alarms", "$.ids.alarms"] }
        [plans]
        gold = [{ tool = "set_alarm", args = { time = "16:00" } }]
        """
    )
    [task] = tasks.read(toml)
    assert admit(task, Phone).admitted
