"""The rules that criteria are made of: what each policy can ask, as data.

| policy | rule |
|---|---|
| state | `{path, like?, count?}`: of the values at `path` of the final state at least one, or `count`, fit `like` |
| no_collateral | `{allow: [path]}`: nothing changed between first and final state but there |
| call | `{tool, args?, result?, count?}`: at least one, or `count`, answered calls fit |
| order | `{first, then}`: both happened, the first such call before the first such other |
| answer | `{like}`: what the user was told last |
| behaviour | `{never: call}` or `{max_calls: n}` |
| rubric, external | judged elsewhere |
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from backends.paths import parse
from core.errors import BadRecord
from core.vocabulary.contract import CheckPolicy

Count = Annotated[int, Meta(ge=0)]


class _Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a criterion asks."""


class StateRule(_Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    like: Any = UNSET
    count: Count | None = None


class CallRule(_Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tool: str
    args: Any = UNSET
    result: Any = UNSET
    count: Count | None = None


class OrderRule(_Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    first: CallRule
    then: CallRule


class AnswerRule(_Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    like: Any


class BehaviourRule(_Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    never: CallRule | None = None
    max_calls: Count | None = None


class CollateralRule(_Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    allow: list[str] = []


KINDS: Final[dict[CheckPolicy, type[_Rule]]] = {
    "state": StateRule,
    "call": CallRule,
    "order": OrderRule,
    "answer": AnswerRule,
    "behaviour": BehaviourRule,
    "no_collateral": CollateralRule,
}


def read(policy: CheckPolicy, rule: Raw | UnsetType) -> Any:
    """The rule of a criterion; None if it is to be judged elsewhere, `UNSET` if it asks nothing.
    `BadRecord` for what is no rule of this policy."""
    if policy not in KINDS:
        return None
    if rule is UNSET or bytes(rule) in (b"null", b"{}"):
        return CollateralRule() if policy == "no_collateral" and rule is not UNSET else UNSET
    try:
        found = msgspec.json.decode(Raw(rule), type=KINDS[policy])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadRecord(f"no rule of policy {policy}: {error}", mend="see docs/environments.md") from error
    if isinstance(found, BehaviourRule) and found.never is None and found.max_calls is None:
        return UNSET
    for path in _paths(found):
        parse(path)
    return found


def _paths(rule: Any) -> list[str]:
    if isinstance(rule, StateRule):
        return [rule.path]
    return list(rule.allow) if isinstance(rule, CollateralRule) else []
