"""A recipe applied: what it keeps, why the rest is left out, and that the same rows give the same choice."""

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.recipe import Caps, Filters, Recipe, Shares, Weights
from learners.rows import Facts, Key
from learners.selection import NotForTraining, Selection, select


def fact(name: str, **fields: Any) -> Facts:
    values: dict[str, Any] = {
        "split": "train",
        "task": "t",
        "source": "live",
        "origin": "model",
        "generation": 0,
        "policy": "p",
        "environment": None,
        "judged_by": "machine",
        "reward": 1.0,
        "steps": 3,
        "tokens": 100,
        "supervised": 3,
        "content": name.encode(),
        "plan": ("send",),
        "parent": None,
        "curated": None,
        "goal": (f"episode/{name}", 1),
    }
    return Facts(Key(b"l" * 16, f"episode/{name}", 1, 0), **(values | fields))


def names(rows: list[Facts], chosen: Selection) -> list[str]:
    return [row.key.stream[8:] for row, code in zip(rows, chosen.codes, strict=True) if not code]


def kept(rows: list[Facts], recipe: Recipe) -> list[str]:
    return names(rows, select(rows, recipe))


@pytest.mark.parametrize("split", ["dev", "audit", "final"])
def test_a_row_of_another_split_is_refused_whatever_the_recipe_says(split: str) -> None:
    with pytest.raises(NotForTraining, match=split):
        select([fact("a"), fact("b", split=split)], Recipe(filters=Filters(task=["other"])))


def test_a_silent_recipe_keeps_all_but_copies_and_what_cannot_train() -> None:
    rows = [
        fact("a"),
        fact("b", supervised=0),
        fact("c", curated="drop"),
        fact("d", curated="keep"),
        fact("e", content=b"d"),
        fact("f", curated="review"),
    ]
    chosen = select(rows, Recipe())
    assert chosen.kept == 2
    assert chosen.excluded == {
        "curated: drop": 1,
        "curated: review": 1,
        "duplicate: content": 1,
        "nothing supervised": 1,
    }
    assert list(chosen.weights) == [1.0, 1.0]
    assert kept(rows, Recipe(dedup=[])) == ["a", "d", "e"]


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ({"task": ["airline/*", "x"]}, "task"),
        ({"source": ["tau-bench"]}, "source"),
        ({"origin": ["human", "model/*"]}, "origin"),
        ({"environment": ["*"]}, "environment"),
        ({"not_task": ["t"]}, "not_task"),
        ({"tool": ["call"]}, "tool"),
        ({"not_tool": ["se*"]}, "not_tool"),
        ({"min_reward": 1.5}, "min_reward"),
        ({"max_steps": 2}, "max_steps"),
        ({"max_tokens": 99}, "max_tokens"),
        ({"min_supervised": 4}, "min_supervised"),
    ],
)
def test_filters_say_which_of_them_left_a_row_out(filters: dict[str, Any], reason: str) -> None:
    fits = fact(
        "b",
        task="airline/1",
        source="tau-bench",
        generation=1,
        environment="e",
        plan=("call",),
        reward=2.0,
        steps=1,
        tokens=9,
        supervised=9,
    )
    rows = [fact("a"), fits]
    chosen = select(rows, Recipe(filters=Filters(**filters)))
    assert (names(rows, chosen), chosen.excluded) == (["b"], {f"filter: {reason}": 1})


def test_a_row_without_the_value_passes_no_filter_on_it() -> None:
    rows = [fact("a", reward=None), fact("b", tokens=None), fact("c", task=None)]
    for filters in (Filters(min_reward=0.0), Filters(max_tokens=10**9), Filters(task=["*"])):
        assert select(rows, Recipe(filters=filters)).kept == 2


def test_what_is_refused_is_said_and_only_rows_that_would_come_in_are_asked_about() -> None:
    asked: list[str] = []

    def refuse(rows: Any) -> list[str | None]:
        asked.extend(row.key.stream for row in rows)
        return [None if row.key.stream == "episode/a" else "near-duplicate: task of dev" for row in rows]

    rows = [fact("a"), fact("b"), fact("c", supervised=0)]
    chosen = select(rows, Recipe(), refuse)
    assert chosen.excluded == {"near-duplicate: task of dev": 1, "nothing supervised": 1}
    assert asked == ["episode/a", "episode/b"]


def test_caps_of_each_value_and_of_named_ones() -> None:
    rows = [fact(f"{task}{i}", task=task, source=source) for task in "ab" for source in "xy" for i in range(5)]
    rows = [row._replace(key=row.key._replace(row=i), content=bytes([i])) for i, row in enumerate(rows)]
    chosen = select(rows, Recipe(caps=Caps(task=3, source={"x": 1})))
    counts = Counter((row.task, row.source) for row, code in zip(rows, chosen.codes, strict=True) if not code)
    assert counts["a", "x"] + counts["a", "y"] == 3
    assert counts["b", "x"] + counts["b", "y"] == 3
    assert counts["a", "x"] + counts["b", "x"] == 1
    assert sum(chosen.excluded.values()) == 14
    assert set(chosen.excluded) == {"cap: task", "cap: source"}
    assert select(rows, Recipe(caps=Caps(task=0))).kept == 0


def test_a_share_leaves_the_most_rows_that_allow_it() -> None:
    rows = [fact(f"m{i:02}", generation=1) for i in range(30)] + [fact(f"h{i:02}", origin="human") for i in range(10)]
    chosen = select(rows, Recipe(shares=Shares(origin={"model/*": 0.5})))
    assert Counter(name[0] for name in names(rows, chosen)) == {"h": 10, "m": 10}
    assert chosen.excluded == {"share: origin model/*": 20}
    third = select(rows, Recipe(shares=Shares(origin={"model/*": 0.3})))
    assert Counter(name[0] for name in names(rows, third)) == {"h": 10, "m": 4}
    assert select(rows[:30], Recipe(shares=Shares(origin={"model/*": 0.9}))).kept == 0


def test_weights_are_products_balanced_and_their_mean_is_one() -> None:
    rows = [fact("a", task="x"), fact("b", task="x"), fact("c", task="y"), fact("d", task="y", source="s")]
    weights = select(rows, Recipe(weights=Weights(source={"s": 3.0}))).weights
    assert list(weights) == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])
    uneven = [*rows, fact("e", task="y")]
    weights = select(uneven, Recipe(weights=Weights(balance=["task"]))).weights
    assert sum(weights[:2]) == pytest.approx(sum(weights[2:]))
    assert sum(weights) == pytest.approx(len(uneven))


RECIPES = [
    Recipe(),
    Recipe(seed=3, dedup=["task"]),
    Recipe(caps=Caps(task=2, source={"s1": 3}), dedup=[]),
    Recipe(shares=Shares(source={"s1": 0.4}, task={"t1": 0.5}), weights=Weights(balance=["task"])),
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 9)), max_size=40), st.integers(0, 3))
def test_the_choice_depends_on_the_rows_not_on_their_order(values: list[tuple[int, int, int]], which: int) -> None:
    rows = [
        fact(f"{i:02}", task=f"t{task}", source=f"s{source}", content=bytes([content]))
        for i, (task, source, content) in enumerate(values)
    ]
    chosen = select(rows, RECIPES[which])
    shuffled = random.Random(1).sample(rows, len(rows))
    again = select(shuffled, RECIPES[which])
    assert set(names(rows, chosen)) == set(names(shuffled, again))
    assert chosen.excluded == again.excluded
    assert dict(zip(names(rows, chosen), chosen.weights, strict=True)) == pytest.approx(
        dict(zip(names(shuffled, again), again.weights, strict=True))
    )
    for share in RECIPES[which].shares.source.values():
        of_it = sum(row.source == "s1" for row, code in zip(rows, chosen.codes, strict=True) if not code)
        assert of_it <= share * chosen.kept + 1e-9


def test_another_seed_chooses_otherwise() -> None:
    rows = [fact(f"{i:02}") for i in range(40)]
    some = [kept(rows, Recipe(seed=seed, caps=Caps(task=10))) for seed in range(4)]
    assert len({tuple(one) for one in some}) == 4
    assert kept(rows, Recipe(seed=2, caps=Caps(task=10))) == some[2]
