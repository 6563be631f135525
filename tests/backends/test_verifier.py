"""Criteria are judged by what they say, and nothing passes that asks nothing or shows nothing."""

import string
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from backends import paths, script
from backends.contract import Evidence
from backends.faults import Fault, Faults, parse
from backends.phone import Phone
from backends.schemas import Schemas, canonical, digest, named
from backends.testing import call
from backends.verifier import Answered, Run, check, verify
from core.errors import BadRecord, UsageError
from core.vocabulary.contract import Cancelled, EnvFailure, ExecError, ToolCall, ToolResult
from core.vocabulary.episode import ToolSpec
from core.vocabulary.task import Criterion
from tests.backends.plays import ALL

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def evidence(state: Any) -> Evidence:
    return Evidence(state=raw(state), digest=digest(state))


def run(before: Any = None, after: Any = None, *actions: Answered, answer: str | None = None, end: Any = None) -> Run:
    return Run(before=evidence(before or {}), after=evidence(after or {}), actions=actions, answer=answer, end=end)


def did(tool: str, result: Any = True, /, **args: Any) -> Answered:
    return Answered(call(tool, **args), ToolResult(raw(result)))


def failed(tool: str) -> Answered:
    return Answered(call(tool), ExecError("conflict", False, "none"))


def verdict(policy: Any, rule: Any, judged: Run) -> str:
    return check(Criterion("c", policy, rule=raw(rule)), judged).verdict


@pytest.mark.parametrize(
    ("policy", "rule", "judged", "expected"),
    [
        ("state", {"path": "$.a"}, run({}, {"a": None}), "pass"),
        ("state", {"path": "$.a"}, run({}, {}), "fail"),
        ("state", {"path": "$.a", "like": 1}, run({}, {"a": 1.0}), "pass"),
        ("state", {"path": "$.a", "like": 1}, run({}, {"a": True}), "fail"),
        ("state", {"path": "$.a", "like": 1}, run({}, {"a": "1"}), "fail"),
        (
            "state",
            {"path": "$.a[*]", "like": {"b": 1}, "count": 2},
            run({}, {"a": [{"b": 1}, {"b": 1, "c": 2}]}),
            "pass",
        ),
        ("state", {"path": "$.a[*]", "like": {"b": 1}, "count": 1}, run({}, {"a": [{"b": 1}, {"b": 1}]}), "fail"),
        ("state", {"path": "$.a[*]", "count": 0}, run({}, {"a": {}}), "pass"),
        ("state", {"path": '$["a b"][-1]', "like": 2}, run({}, {"a b": [1, 2]}), "pass"),
        ("state", {"path": "$.a", "like": {"$has": "MILK"}}, run({}, {"a": "oat milk"}), "pass"),
        ("state", {"path": "$.a", "like": {"$not": {"$has": "milk"}}}, run({}, {"a": "oat milk"}), "fail"),
        ("state", {"path": "$.a", "like": {"$matches": "^o.t"}}, run({}, {"a": "oat"}), "pass"),
        ("state", {"path": "$.a", "like": {"$matches": "("}}, run({}, {"a": "oat"}), "error"),
        ("state", {"path": "$.a", "like": {"$near": 1}}, run({}, {"a": "oat"}), "error"),
        ("state", {"path": "$.a", "like": [1, {"$has": "x"}]}, run({}, {"a": [1, "xy"]}), "pass"),
        ("no_collateral", {"allow": ["$.a"]}, run({"a": 1, "b": 1}, {"a": 2, "b": 1}), "pass"),
        ("no_collateral", {"allow": ["$.a"]}, run({"a": 1, "b": 1}, {"a": 2, "b": 2}), "fail"),
        ("no_collateral", {"allow": ["$.a[*].x"]}, run({"a": {"k": {"x": 1}}}, {"a": {"k": {"x": 2}}}), "pass"),
        ("no_collateral", {"allow": ["$.a[*].x"]}, run({"a": {"k": {"x": 1}}}, {"a": {}}), "fail"),
        ("no_collateral", {"allow": []}, run({"a": [1, 2]}, {"a": [1]}), "fail"),
        ("call", {"tool": "t"}, run(None, None, did("t")), "pass"),
        ("call", {"tool": "t"}, run(None, None, failed("t")), "fail"),
        ("call", {"tool": "t", "args": {"x": 1}}, run(None, None, did("t", x=1, y=2)), "pass"),
        ("call", {"tool": "t", "result": {"ok": True}}, run(None, None, did("t", {"ok": False})), "fail"),
        ("call", {"tool": "t", "count": 0}, run(None, None, did("u")), "pass"),
        ("order", {"first": {"tool": "a"}, "then": {"tool": "b"}}, run(None, None, did("a"), did("b")), "pass"),
        ("order", {"first": {"tool": "a"}, "then": {"tool": "b"}}, run(None, None, did("b"), did("a")), "fail"),
        ("order", {"first": {"tool": "a"}, "then": {"tool": "b"}}, run(None, None, did("a")), "fail"),
        ("answer", {"like": {"$has": "14"}}, run(answer="Platform 14"), "pass"),
        ("answer", {"like": {"$has": "14"}}, run(), "fail"),
        ("behaviour", {"never": {"tool": "t"}}, run(None, None, did("t")), "fail"),
        ("behaviour", {"max_calls": 1}, run(None, None, did("t"), did("t")), "fail"),
        ("rubric", {"ask": "was it polite?"}, run(), "inconclusive"),
        ("external", None, run(), "inconclusive"),
        ("state", {}, run(), "vacuous"),
        ("behaviour", {"max_calls": None}, run(), "vacuous"),
        ("state", {"paths": "$"}, run(), "error"),
        ("state", {"path": "$..a"}, run(), "error"),
    ],
)
def test_a_rule_means_what_it_says(policy: str, rule: Any, judged: Run, expected: str) -> None:
    assert verdict(policy, rule, judged) == expected


def test_a_state_that_could_not_be_read_shows_nothing() -> None:
    blind = replace(run(), after=Evidence(state=Raw(b"null"), digest=None))
    assert verdict("state", {"path": "$", "count": 1}, blind) == "inconclusive"
    assert verdict("no_collateral", {"allow": []}, blind) == "inconclusive"


def test_the_worst_check_that_gates_decides_and_progress_is_told_apart() -> None:
    def criterion(id: str, like: int, **more: Any) -> Criterion:
        return Criterion(id, "state", rule=raw({"path": "$.a", "like": like}), **more)

    spec = ALL["early-flight"].spec
    judged = run({}, {"a": 1})
    given_ = [criterion("yes", 1, milestone=True), criterion("no", 2, milestone=True, gates=False)]
    found = verify(replace(spec, criteria=given_), judged)
    assert (found.verdict, found.progress) == ("pass", 0.5)
    assert verify(replace(spec, criteria=[*given_, criterion("never", 3)]), judged).verdict == "fail"
    assert verify(replace(spec, criteria=[*given_, Criterion("r", "rubric")]), judged).verdict == "inconclusive"
    assert verify(replace(spec, criteria=[*given_, Criterion("v", "state")]), judged).verdict == "vacuous"
    assert verify(replace(spec, criteria=[]), judged).verdict == "vacuous"
    assert verify(replace(spec, criteria=given_[1:]), judged).verdict == "vacuous"


def test_nothing_is_said_about_an_agent_whose_environment_failed_or_who_was_stopped() -> None:
    spec = ALL["early-flight"].spec
    assert verify(spec, run(end=EnvFailure())).verdict == "error"
    assert verify(spec, run(end=Cancelled())).verdict == "inconclusive"


def test_other_criteria_are_another_verifier() -> None:
    flight, move = ALL["early-flight"].spec, ALL["move-alarm"].spec
    assert verify(flight, run()).verifier_digest == verify(flight, run({}, {"a": 1})).verifier_digest
    assert verify(flight, run()).verifier_digest != verify(move, run()).verifier_digest


# -- paths ---------------------------------------------------------------------------------------------------

STEPS = st.lists(st.none() | st.integers(-3, 9) | st.text(min_size=1, max_size=5), max_size=5).map(tuple)


@given(STEPS)
def test_a_path_that_was_written_is_read_the_same(steps: tuple[paths.Step, ...]) -> None:
    assert paths.parse(paths.text(steps)) == steps


@given(st.text(alphabet=string.printable, max_size=12))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        assert isinstance(paths.parse(text), tuple)
    except BadRecord as error:
        assert "\n" not in str(error) or "\n" in repr(text)


@given(VALUES, VALUES)
def test_changes_are_where_two_values_differ_and_nowhere_else(before: Any, after: Any) -> None:
    places = list(paths.changes(before, after))
    assert (places == []) == paths.same(before, after)
    for place in paths.unchanged(before, after):
        assert not any(paths.covers(place, other) or paths.covers(other, place) for other in places)
        other = paths.altered(after, place)
        found = list(paths.changes(after, other))
        assert found and all(paths.covers(place, at) for at in found)


@given(VALUES)
def test_every_value_is_like_itself(value: Any) -> None:
    if not any(key.startswith("$") for key in _keys(value)):
        assert paths.like(value, value)


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for member in value.values() for key in _keys(member))]
    return [key for member in value for key in _keys(member)] if isinstance(value, list) else []


# -- schemas, scripts, faults -------------------------------------------------------------------------------------


def test_a_tools_digest_is_that_of_what_it_says_however_it_is_written() -> None:
    one = ToolSpec("t", "d", Raw(b'{"type":"object","properties":{}}'))
    other = ToolSpec("t", "d", Raw(b'{ "properties": {}, "type": "object" }'))
    assert named(one).schema_digest == named(other).schema_digest
    assert named(one).schema_digest != named(replace(one, description="e")).schema_digest


def test_a_schema_that_is_none_names_its_tool() -> None:
    with pytest.raises(UsageError, match="tool t: its parameters are no JSON schema"):
        Schemas([ToolSpec("t", None, Raw(b'{"type":"objekt"}'))]).check()


@given(VALUES)
def test_equal_values_have_equal_bytes(value: Any) -> None:
    assert canonical(value) == canonical(msgspec.json.decode(msgspec.json.encode(value)))


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b'[{"tool":"t","answer":"a"}]', b'[{"say":"x"}]', b"[1]", b"{", b'{"tool":"t","arguments":{}}'],
)
def test_what_is_no_script_is_refused_in_one_line(text: bytes) -> None:
    if text in (b"", b"[]"):
        assert script.parse(text) == []
        return
    with pytest.raises(UsageError) as raised:
        script.parse(text, where="steps.json")
    assert str(raised.value).startswith("steps.json: no script: ")


def test_a_script_may_be_json_lines() -> None:
    plan = ALL["shopping-list"].plans.others[0]
    lines = b"\n".join(msgspec.json.encode(step) for step in plan)
    assert script.encode(script.parse(lines)) == script.encode(plan)
    dropped = script.without(plan, 2, 0)
    assert [call_.tool for _, _, call_ in script.tool_calls(dropped)] == ["list_notes", "read_note", "edit_note"]


@given(st.lists(st.sampled_from(["a", "b"]), max_size=8), st.lists(st.integers(1, 4), max_size=3))
def test_a_plan_hits_the_calls_it_names_and_no_other(tools: list[str], calls: list[int]) -> None:
    phone = Phone()
    faults = Faults([Fault(fault="f", tool="a", calls=calls)])
    seen = 0
    for tool in tools:
        _, hit = faults.execute(phone, call(tool), 1.0, tool)
        seen += tool == "a"
        assert (hit is not None) == (tool == "a" and (not calls or seen in calls))


def test_a_fault_on_every_tool_counts_all_calls() -> None:
    faults = Faults([Fault(fault="f", calls=[2])])
    hits = [faults.execute(Phone(), call(tool), 1.0, "k")[1] is not None for tool in "abc"]
    assert hits == [False, True, False]
    assert faults.execute(Phone(), ToolCall("a", Raw(b"null")), 1.0, "k")[1] is None


@pytest.mark.parametrize(
    "plan", [b"{", b'[{"tool":"t"}]', b'[{"fault":"f","calls":[0]}]', b'[{"fault":"f","class":"x"}]']
)
def test_what_is_no_fault_plan_is_refused(plan: bytes) -> None:
    with pytest.raises(UsageError, match=r"faults\.json"):
        parse(plan, where="faults.json")
