"""A comparison as rows to read."""

from collections.abc import Sequence

from core.vocabulary import Payload
from eventlog.comparison import Side, compare
from eventlog.comparison.rows import Row, rows
from tests.eventlog.samples import call, failed, ok, stored


def shown(a: Sequence[Payload], b: Sequence[Payload], *, whole: bool = False) -> list[Row]:
    left, right = stored(("episode/a", a)), stored(("episode/b", b))
    sides = Side("a", end="finished", verdict="fail"), Side("b", end="finished", verdict="pass")
    return list(rows(compare((sides[0], left), (sides[1], right)), left, right, whole=whole))


def test_every_call_can_be_quoted_and_the_first_divergence_is_marked() -> None:
    a = [call(1, "look"), ok(1), call(2, "open", what="door"), ok(2), call(3, "sit"), ok(3, "so")]
    b = [call(1, "look"), ok(1), call(2, "open", what="window"), ok(2), call(3, "leave"), failed(3)]
    assert shown(a, b) == [
        Row(" ", "@1 look()", "@1 look()"),
        Row(" ", "first divergence: asked otherwise", wide=True),
        Row("~", '@3 open(what="door")', '@3 open(what="window")'),
        Row(" ", '  $.what: "door"', '  $.what: "window"'),
        Row("-", '@5 sit() → ok "so" @6', ""),
        Row("+", "", '@5 leave() → error not_found "Error: no such thing" @6'),
        Row(" ", "end finished", "end finished"),
        Row("~", "verdict fail", "verdict pass"),
    ]


def test_answers_of_another_kind_stand_whole_and_others_by_path() -> None:
    assert shown([call(1, "look"), ok(1)], [call(1, "look"), failed(1)])[1:3] == [
        Row("!", "@1 look()", "@1 look()"),
        Row(" ", '  → ok "done" @2', '  → error not_found "Error: no such thing" @2'),
    ]
    assert shown([call(1, "look"), ok(1, {"n": 1})], [call(1, "look"), ok(1, {})])[2] == Row(
        " ", "  → $.value.n: 1", "  → $.value.n: (nothing)"
    )
    assert shown([call(1, "look")], [call(1, "look"), ok(1)])[2] == Row(" ", "  → (nothing)", '  → ok "done" @2')


def test_runs_of_the_same_are_folded_unless_all_are_wanted() -> None:
    same = [payload for step in range(1, 9) for payload in (call(step, f"t{step}"), ok(step))]
    other = [call(9, "x"), ok(9)]
    folded = shown([*same, *other], same)
    assert [row.a for row in folded][:4] == [
        "… 6 calls the same, @1 to @11",
        "@13 t7()",
        "@15 t8()",
        "first divergence: only in a",
    ]
    assert folded[0].b == "… @1 to @11"
    assert [row.a for row in shown([*same, *other], same, whole=True)][:2] == ["@1 t1()", "@3 t2()"]
    assert shown(same[:6], [*same[:6], *other])[0].a == "@1 t1()"


def test_of_many_places_some_are_shown_and_the_rest_counted() -> None:
    a, b = ({f"k{i}": i + add for i in range(20)} for add in (0, 100))
    texts = [row.a for row in shown([call(1, "look", **a)], [call(1, "look", **b)])]  # type: ignore[arg-type]
    assert texts[2:5] == ["  $.k0: 0", "  $.k1: 1", "  $.k2: 2"]
    assert "  … 12 more places" in texts
