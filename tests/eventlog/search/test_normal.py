"""Texts that are the same to a reader have one form, and what is found in it is found in the text."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.search.normal import folded, located, plain

forms = st.sampled_from([plain, folded])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("café", "cafe\u0301"),
        ("ＨＡＴ１３６", "HAT136"),
        ("ﬁle", "file"),
        ("한글", "\u1112\u1161\u11ab\u1100\u1173\u11af"),
        ("ｶﾞｷﾞ", "ガギ"),
        ("①", "1"),
    ],
)
def test_one_form_whatever_the_writing(a: str, b: str) -> None:
    assert plain(a) == plain(b)
    assert folded(a) == folded(b.upper())


@pytest.mark.parametrize(
    ("a", "b"), [("Straße", "STRASSE"), ("İstanbul", "istanbul"), ("ΣΊΣΥΦΟΣ", "σίσυφος"), ("K", "k")]
)
def test_case_is_folded_in_every_script(a: str, b: str) -> None:
    assert folded(a) == folded(b)


@given(st.text(), forms)
def test_a_form_is_its_own_form(text: str, form: Callable[[str], str]) -> None:
    assert form(form(text)) == form(text)


@given(st.text(), st.text(min_size=1), st.text(), forms)
def test_what_is_found_in_the_form_is_shown_in_the_text(
    before: str, needle: str, after: str, form: Callable[[str], str]
) -> None:
    text = before + needle + after
    formed = form(text)
    wanted = form(needle)
    at = formed.find(wanted)
    if at < 0 or not wanted:
        return
    shown, ((first, end),) = located(text, form, [(at, at + len(wanted))])
    assert shown in (text, formed)
    assert wanted in form(shown[first:end])


def test_a_span_covers_the_characters_it_came_from() -> None:
    assert located("ab ﬁx", plain, [(3, 4)]) == ("ab ﬁx", [(3, 4)])
    assert located("cafe\u0301s", plain, [(3, 4)]) == ("cafe\u0301s", [(3, 5)])
    assert located("GROẞ!", folded, [(3, 5)]) == ("GROẞ!", [(3, 4)])
    assert located("\u1112\u1161\u11ab!", plain, [(0, 1)]) == ("\u1112\u1161\u11ab!", [(0, 3)])
