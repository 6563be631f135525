"""Which model turns are erroneous, by what rules, judges and people said of them.

A person outranks a judge, a judge a rule; of one source's words on a turn the latest counts, rule by rule.
A verified recovery is supervised, whatever went wrong in it.
"""

from typing import Final

import msgspec

from learners.views.reads import Marked

_RANKS: Final = {"human": 2, "judge": 1, "rule": 0}


class Mark(msgspec.Struct, array_like=True, gc=False):
    version: int
    rank: int
    erroneous: bool
    recovery: bool


Marks = dict[int, dict[str, Mark]]
"""Step → who said it (a rule by its name) → what."""


def add(marks: Marks, version: int, said: Marked) -> None:
    """Take in a mark."""
    rank = _RANKS.get(said.source, 0)
    who = said.source if rank else f"rule {(said.rule or '').partition('@')[0]}"
    marks.setdefault(said.step, {})[who] = Mark(version, rank, said.erroneous, said.recovery)


def ruling(marks: Marks, step: int) -> list[Mark]:
    """The marks that count for a step."""
    said = marks.get(step, {}).values()
    highest = max((mark.rank for mark in said), default=0)
    return [mark for mark in said if mark.rank == highest]


def erroneous(marks: Marks) -> set[int]:
    """The steps that must not be imitated."""
    return {
        step
        for step in marks
        if not any(mark.recovery for mark in ruling(marks, step))
        and any(mark.erroneous for mark in ruling(marks, step))
    }


def recoveries(marks: Marks) -> set[int]:
    """The steps that are verified recoveries."""
    return {step for step in marks if any(mark.recovery for mark in ruling(marks, step))}
