"""Judges a run by the criteria of its task: a pure function of what was done and what the state became.

A check that asks nothing is `vacuous`, one whose evidence is missing `inconclusive`, one whose rule is
none `error`; none of them passes. Progress is the share of milestones that pass, whatever the verdict.
"""

from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from backends import paths, rules
from backends.contract import Evidence
from backends.schemas import digest, plain
from core.errors import BadRecord
from core.vocabulary.base import Verdict
from core.vocabulary.contract import (
    Action,
    Cancelled,
    Check,
    End,
    EnvFailure,
    Feedback,
    LeaseLost,
    ToolCall,
    ToolResult,
    Verification,
)
from core.vocabulary.task import Criterion, TaskSpec


class Answered(msgspec.Struct, frozen=True):
    """An action and what came back last; None if nothing did."""

    action: Action
    feedback: Feedback | None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification rests on. `answer`: what the user was told last."""

    before: Evidence
    after: Evidence
    actions: Sequence[Answered] = ()
    answer: str | None = None
    end: End | None = None


def verify(spec: TaskSpec, run: Run) -> Verification:
    """The verdict on a run. Where the environment failed or somebody stopped it, nothing can be said
    about the agent: `error` and `inconclusive`."""
    checks = [check(criterion, run) for criterion in spec.criteria]
    milestones = [made for criterion, made in zip(spec.criteria, checks, strict=True) if criterion.milestone]
    return Verification(
        _verdict(checks, run.end),
        checks,
        verifier_digest=verifier_digest(spec),
        progress=sum(made.verdict == "pass" for made in milestones) / len(milestones) if milestones else None,
    )


def verifier_digest(spec: TaskSpec) -> str:
    """Of the criteria and of the code that decides them."""
    return digest([_code(), plain(spec.criteria)])


def check(criterion: Criterion, run: Run) -> Check:
    """One criterion's verdict, with expected and actual where it does not pass."""
    try:
        rule = rules.read(criterion.policy, criterion.rule)
        verdict, detail = _judge(rule, run)
    except BadRecord as error:
        verdict, detail = "error", str(error)
    said = UNSET if detail is None else Raw(msgspec.json.encode(detail))
    return Check(criterion.id, criterion.policy, verdict, gates=criterion.gates, detail=said)


def _verdict(checks: list[Check], end: End | None) -> Verdict:
    if isinstance(end, EnvFailure | LeaseLost):
        return "error"
    if isinstance(end, Cancelled):
        return "inconclusive"
    found = {made.verdict for made in checks if made.gates}
    for verdict in _WORST_FIRST:
        if verdict in found:
            return verdict
    return "pass" if found else "vacuous"


_WORST_FIRST: tuple[Verdict, ...] = ("error", "fail", "vacuous", "inconclusive")


def _judge(rule: Any, run: Run) -> tuple[Verdict, Any]:
    if rule is UNSET:
        return "vacuous", "the criterion asks nothing"
    if isinstance(rule, rules.StateRule):
        return _state(rule, run)
    if isinstance(rule, rules.CollateralRule):
        return _collateral(rule, run)
    if isinstance(rule, rules.CallRule):
        return _counted(len(_calls(rule, run)), rule.count, lambda: _summary(run))
    if isinstance(rule, rules.OrderRule):
        return _order(rule, run)
    if isinstance(rule, rules.AnswerRule):
        if run.answer is None:
            return "fail", "the user was told nothing"
        return ("pass", None) if paths.like(run.answer, rule.like) else ("fail", {"told": run.answer[:200]})
    if isinstance(rule, rules.BehaviourRule):
        return _behaviour(rule, run)
    return "inconclusive", "this is judged elsewhere"


def _state(rule: rules.StateRule, run: Run) -> tuple[Verdict, Any]:
    if run.after.digest is None:
        return "inconclusive", "the state could not be read"
    found = list(paths.select(msgspec.json.decode(run.after.state), paths.parse(rule.path)))
    hits = sum(rule.like is UNSET or paths.like(value, rule.like) for value in found)
    return _counted(hits, rule.count, lambda: {"path": rule.path, "found": found[:5]})


def _collateral(rule: rules.CollateralRule, run: Run) -> tuple[Verdict, Any]:
    if run.before.digest is None or run.after.digest is None:
        return "inconclusive", "the state could not be read"
    allowed = [paths.parse(path) for path in rule.allow]
    changed = paths.changes(msgspec.json.decode(run.before.state), msgspec.json.decode(run.after.state))
    besides = [paths.text(place) for place in changed if not any(paths.covers(path, place) for path in allowed)]
    return ("fail", {"changed": besides[:10]}) if besides else ("pass", None)


def _order(rule: rules.OrderRule, run: Run) -> tuple[Verdict, Any]:
    first, then = _calls(rule.first, run), _calls(rule.then, run)
    if not first or not then:
        return "fail", f"{(rule.first if not first else rule.then).tool} was not called"
    return ("pass", None) if first[0] < then[0] else ("fail", f"{rule.then.tool} came before {rule.first.tool}")


def _behaviour(rule: rules.BehaviourRule, run: Run) -> tuple[Verdict, Any]:
    if rule.never is not None and _calls(rule.never, run):
        return "fail", f"{rule.never.tool} was called"
    if rule.max_calls is not None and len(run.actions) > rule.max_calls:
        return "fail", {"calls": len(run.actions), "at_most": rule.max_calls}
    return "pass", None


def _calls(rule: rules.CallRule, run: Run) -> list[int]:
    """The places of the calls that fit and were answered by a result."""
    found = []
    for place, (action, feedback) in enumerate((one.action, one.feedback) for one in run.actions):
        if isinstance(action, ToolCall) and action.tool == rule.tool and isinstance(feedback, ToolResult):
            fits = rule.args is UNSET or paths.like(msgspec.json.decode(action.args), rule.args)
            if fits and (rule.result is UNSET or paths.like(msgspec.json.decode(feedback.value), rule.result)):
                found.append(place)
    return found


def _counted(hits: int, count: int | None, detail: Any) -> tuple[Verdict, Any]:
    if hits == count or (count is None and hits):
        return "pass", None
    wanted = "at least 1" if count is None else str(count)
    return "fail", {"expected": wanted, "actual": hits, "seen": detail()}


def _summary(run: Run) -> list[str]:
    return [one.action.tool for one in run.actions if isinstance(one.action, ToolCall)][:20]


@cache
def _code() -> str:
    found = sha256()
    for module in (__file__, paths.__file__, rules.__file__):
        found.update(Path(str(module)).read_bytes())
    return found.hexdigest()
