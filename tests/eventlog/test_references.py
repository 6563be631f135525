"""Blob references in payloads: every one is found, and nothing else is taken for one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.verify.references import addresses

ADDRESS = "sha256:" + "0123456789abcdef" * 4
OTHER = "sha256:" + "f" * 64
BLOB = {"address": ADDRESS, "size": 3, "media_type": "text/plain"}


def found(payload: Any) -> set[str]:
    return addresses(json.dumps(payload).encode())


@pytest.mark.parametrize(
    "payload",
    [
        BLOB,
        {"screenshot": BLOB},
        {"a": [[{"b": BLOB}]]},
        {"a": BLOB, "b": BLOB},
        {"a": {**BLOB, "extra": [1, 2]}},
    ],
)
def test_a_reference_is_found_wherever_it_stands(payload: Any) -> None:
    assert found(payload) == {ADDRESS}


def test_white_space_and_order_do_not_matter() -> None:
    assert addresses(b'{ "x" : {"media_type":"a", "size": 1 , "address"  :\n"%b" } }' % ADDRESS.encode()) == {ADDRESS}


def test_references_inside_each_other_are_all_found() -> None:
    assert found({**BLOB, "parts": [{**BLOB, "address": OTHER}]}) == {ADDRESS, OTHER}


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"text": ADDRESS},
        {"address": ADDRESS},
        {"address": ADDRESS, "size": 3},
        {**BLOB, "address": ADDRESS[:-1]},
        {**BLOB, "address": ADDRESS.upper()},
        {**BLOB, "address": "sha256:none"},
        {**BLOB, "address": [ADDRESS]},
        {"text": json.dumps(BLOB)},
        {"address": "12 High Street", "size": 3, "media_type": ADDRESS},
    ],
)
def test_what_only_looks_like_one_is_not(payload: Any) -> None:
    assert found(payload) == set()


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.just(BLOB),
        lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
        max_leaves=20,
    )
)
def test_any_payload_is_read(value: Any) -> None:
    def expected(part: Any) -> bool:
        if part == BLOB:
            return True
        if isinstance(part, dict):
            return any(map(expected, part.values()))
        return isinstance(part, list) and any(map(expected, part))

    assert found({"x": value}) == ({ADDRESS} if expected(value) else set())
