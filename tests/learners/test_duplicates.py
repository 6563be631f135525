"""Near-duplicates of tasks: what is told apart, and that the measured shares are what the manifest says."""

from itertools import combinations

import pytest

from learners.duplicates import MEASURED, THRESHOLD, Index, likeness, signature
from tests.learners.paraphrases import SET


def missed(kind: str, plan: bool) -> float:
    found = [
        likeness(
            signature(made.goal, made.plan if plan else ()), signature(getattr(made, kind), made.plan if plan else ())
        )
        for made in SET
    ]
    return round(sum(one < THRESHOLD for one in found) / len(found), 4)


def test_the_measured_shares_are_measured() -> None:
    kinds = ("light", "medium", "heavy")
    assert {kind: missed(kind, True) for kind in kinds} == MEASURED["missed"]
    assert {kind: missed(kind, False) for kind in kinds} == MEASURED["missed_without_plan"]
    others = [
        likeness(signature(one.goal, one.plan), signature(other.goal, other.plan))
        for one, other in combinations(SET, 2)
    ]
    assert MEASURED["false"] == {
        "sibling": round(1 - missed("sibling", True), 4),
        "other": round(sum(one >= THRESHOLD for one in others) / len(others), 4),
    }


def test_likeness_is_symmetric_and_one_of_itself() -> None:
    for one, other in combinations(SET[:8], 2):
        a, b = signature(one.goal, one.plan), signature(other.goal, other.plan)
        assert likeness(a, b) == likeness(b, a)
        assert likeness(a, a) == pytest.approx(1)


def test_the_index_finds_what_comparing_all_finds() -> None:
    index = Index()
    for made in SET:
        index.add(signature(made.goal, made.plan), made.goal)
    for made in SET:
        for text in (made.light, made.medium, made.heavy, made.sibling):
            wanted = signature(text, made.plan)
            best = max((likeness(wanted, signature(one.goal, one.plan)), one.goal) for one in SET)
            found = index.nearest(wanted)
            assert (found and found[1]) == (best[1] if best[0] >= THRESHOLD else None)


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("把明天早上七点的闹钟改到八点", "把明天早上七点的闹钟，改到八点吧", True),
        ("把明天早上七点的闹钟改到八点", "给妈妈发一条短信说我到了", False),
        ("SET AN ALARM FOR 7", "set an alarm for 7.", True),
        ("Ｓet an alarm for 7", "Set an alarm for 7", True),
        ("", "", False),
        ("the of and", "the of and", False),
    ],
)
def test_goals_in_other_writings(one: str, other: str, near: bool) -> None:
    index = Index()
    index.add(signature(one), "held out")
    assert (index.nearest(signature(other)) is not None) is near


def test_values_tell_siblings_apart() -> None:
    index = Index()
    index.add(signature("Set an alarm for 6:45 and name it Gym", ("set_alarm",)), "held out")
    assert index.nearest(signature("Set an alarm for 8:30 and name it Work", ("set_alarm",))) is None
    assert index.nearest(signature("Set an alarm, 6:45, and name it Gym", ("set_alarm",))) is not None
