"""How texts become cells, and UI trees lines."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cli.stepper.paint import fit, flat, split, wrapped
from cli.stepper.uitree import tree_lines

TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("\u200d\ufe0f\u0301\u0300漢字👩❤🇩🇪 \t\x1b\u202e")))
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@given(TEXTS, st.integers(0, 30))
def test_a_text_takes_exactly_the_width_it_is_given(text: str, width: int) -> None:
    fitted = fit(flat(text), width)
    assert cell_len(fitted) == width
    assert not UNSAFE.search(fitted)


@given(TEXTS, st.integers(2, 30))
def test_a_wrapped_text_loses_nothing_but_blanks_and_no_line_is_too_wide(text: str, width: int) -> None:
    lines = list(wrapped(flat(text), width))
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == flat(text).replace(" ", "")


def test_lines_break_between_words() -> None:
    assert list(wrapped("the quick brown fox jumps", 10)) == ["the quick", "brown fox", "jumps"]
    assert list(wrapped("x" * 25, 10)) == ["x" * 10, "x" * 10, "x" * 5]
    assert list(wrapped("", 10)) == [""]


def test_a_long_text_is_wrapped_in_time_that_grows_with_it() -> None:
    assert sum(1 for _ in wrapped("漢字" * 100_000, 80)) == 5_000


@given(TEXTS, TEXTS)
def test_what_is_searched_for_is_marked_and_nothing_lost(text: str, needle: str) -> None:
    parts = list(split(text, needle.casefold()))
    assert "".join(part for part, _ in parts) == text
    assert all(part.casefold() == needle.casefold() for part, hit in parts if hit)


def test_stacks_of_marks_are_cut() -> None:
    assert flat("z" + "\u0301" * 50) == "z" + "\u0301" * 3


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            '<?xml version="1.0"?>\n<hierarchy rotation="0"><node class="a.b.Button" text="Go" clickable="true" '
            'enabled="false" resource-id="app:id/go" bounds="[0,0][1,1]"/></hierarchy>',
            ["hierarchy rotation=0", '  Button "Go" #go clickable disabled [0,0][1,1]'],
        ),
        ('{"role": "button", "children": []}', ["role: button", "children: []"]),
        ("<hierarchy><node>", ["<hierarchy><node>"]),
        ("{not json", ["{not json"]),
        ("one\ntwo", ["one", "two"]),
        ("", []),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', ['<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>']),
    ],
)
def test_ui_trees_are_indented_and_what_is_none_is_shown_as_it_is(text: str, lines: list[str]) -> None:
    assert list(tree_lines(text)) == lines
