"""Patterns: what they match, and that the index never hides it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UsageError
from eventlog.search.grams import SLOTS, required, slots, words
from eventlog.search.normal import folded, plain
from eventlog.search.pattern import Pattern
from eventlog.search.texts import texts

scripts = st.text(
    st.sampled_from("abcXYZ019 _-.:/\"'()[]{}é漢字予約をßİıσςЖю אב👩\u200d\u0301\u00a0\u3000ﬁ①\t"), max_size=40
)


def numbers(text: str) -> set[int]:
    return {slot for word in words(text) for slot in slots(word)}


def found(pattern: str, text: str, **options: bool) -> list[str]:
    """What is marked in each line found."""
    hits = Pattern(pattern, **options).lines(text)
    return [hit.line[first:end] for hit in hits for first, end in hit.spans]


@given(scripts, scripts, scripts)
def test_every_part_of_a_text_needs_only_numbers_that_the_text_has(before: str, part: str, after: str) -> None:
    text = plain(before + part + after)
    if plain(part) in text:
        assert required([plain(part)]) <= numbers(text)
    if folded(part) in folded(text):
        assert required([folded(part)]) <= numbers(text)
    assert all(0 <= slot < SLOTS for slot in numbers(text))


@given(scripts, scripts, scripts, st.booleans())
def test_no_match_is_hidden_by_the_index(before: str, part: str, after: str, ignore_case: bool) -> None:
    text = before + part + after
    if not part.strip():
        return
    pattern = Pattern(part, ignore_case=ignore_case)
    if list(pattern.lines(text)):
        assert set(pattern.required) <= numbers(text)


expressions = st.sampled_from(
    [
        "HAT[0-9]{3}",
        "(seat)s? (booked|taken)",
        r"^flight \d+",
        "a+bcde*f",
        "(?i)timeout",
        "(?:no such )+flight",
        "(?P<x>room)s",
        "no (?=such)such",
        "x*",
        "予約.?済み",
        "(?i:Straße) und",
        "(?>atomic)ally",
        "abc??d",
        "[ab]cdef|ghij",
    ]
)
sentences = st.lists(
    st.sampled_from(
        [
            "HAT136",
            "seats",
            "seat",
            "booked",
            "flight 12",
            "aaabcdf",
            "TIMEOUT",
            "no such",
            "flight",
            "rooms",
            "予約済み",
            "STRASSE und",
            "straße und",
            "Straße und",
            "atomically",
            "abcd",
            "acdef",
            "ghij",
            " ",
        ]
    ),
    max_size=6,
).map(" ".join)


@given(expressions, sentences, st.booleans())
def test_no_match_of_an_expression_is_hidden_by_the_index(expression: str, text: str, ignore_case: bool) -> None:
    pattern = Pattern(expression, regex=True, ignore_case=ignore_case)
    if list(pattern.lines(text)):
        assert set(pattern.required) <= numbers(text)


@pytest.mark.parametrize(
    "expression", ["HAT[0-9]{3}", "(seat)s? (booked)", "(?i)timeout", "予約.?済み", "(?:no such )+flight"]
)
def test_expressions_are_narrowed_down_by_what_they_hold(expression: str) -> None:
    assert Pattern(expression, regex=True).required or "HAT" in expression


@pytest.mark.parametrize(
    ("pattern", "text", "marked"),
    [
        ("flight", "a flight, a Flight", ["flight"]),
        ("HAT136", "ＨＡＴ１３６", ["ＨＡＴ１３６"]),
        ("予約", "本日の予約は予約済み", ["予約", "予約"]),
        ("cafe\u0301", "Le café", ["café"[-4:]]),
        ("a.c", "abc a.c", ["a.c"]),
        ("👩", "👩\u200d👩\u200d👧", ["👩", "👩"]),
        ("שלום", "אמר שלום", ["שלום"]),
        ("\x1b[2J", "x\x1b[2Jy", ["\x1b[2J"]),
    ],
)
def test_a_text_is_found_as_it_is_read(pattern: str, text: str, marked: list[str]) -> None:
    assert found(pattern, text) == marked


def test_case_is_ignored_when_asked() -> None:
    assert found("flight", "Flight FLIGHT flight", ignore_case=True) == ["Flight", "FLIGHT", "flight"]
    assert found("strasse", "Die Straße", ignore_case=True) == ["Straße"]
    assert found("HAT[0-9]", "hat1", regex=True, ignore_case=True) == ["hat1"]
    assert found("HAT[0-9]", "hat1", regex=True) == []


def test_only_the_lines_that_match_are_found() -> None:
    hits = list(Pattern("b").lines("a\nb1\nc\n2b b"))
    assert [(hit.line, hit.spans) for hit in hits] == [("b1", [(0, 1)]), ("2b b", [(1, 2), (3, 4)])]
    assert found("^b", "ab\nb1", regex=True) == ["b"]
    assert found("x*", "aaa", regex=True) == []


@pytest.mark.parametrize(
    ("pattern", "options", "line"),
    [
        ("", {}, "PATTERN: the pattern is empty"),
        (" \t", {}, "PATTERN: the pattern is empty"),
        ("a\nb", {}, "the pattern has a line break; text is searched line by line"),
        ("\udcff", {}, "the pattern is not UTF-8"),
        ("(", {"regex": True}, "not a regular expression: "),
        ("[a-", {"regex": True}, "or search the text: -F"),
        ("a{99999999999}", {"regex": True}, "not a regular expression"),
        ("(" * 5_000 + ")" * 5_000, {"regex": True}, "not a regular expression"),
    ],
)
def test_what_is_no_pattern_is_said(pattern: str, options: dict[str, bool], line: str) -> None:
    with pytest.raises(UsageError) as error:
        Pattern(pattern, **options)
    assert line in str(error.value)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | scripts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(scripts, inner, max_size=3),
    max_leaves=6,
)


@given(
    values,
    st.sampled_from(["a", "abc", "X", "019", "e", "true", "é", "c a", "_", "1", "Z_", "a-b"]),
    st.booleans(),
    st.booleans(),
)
def test_a_quick_look_never_hides_a_match(value: Any, pattern: str, ignore_case: bool, escaped: bool) -> None:
    body = msgspec.json.encode({"value": value})
    if escaped:
        body = body.decode().encode("ascii", errors="backslashreplace")
        if b"\\x" in body or b"\\U" in body:
            return
    wanted = Pattern(pattern, ignore_case=ignore_case)
    hits = [hit for _, text in texts("Unknown", body, lambda address: None) for hit in wanted.lines(text)]
    assert wanted.may_match(body) or not hits
