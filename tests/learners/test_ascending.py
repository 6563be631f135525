"""Rows sorted part by part are in the order that sorting them at once gives."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from learners import ascending

hashes = st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(hashes, st.integers(0, 3), st.booleans()), max_size=40), st.integers(1, 9))
def test_the_order_is_that_of_the_keys_then_of_the_rows(
    monkeypatch: pytest.MonkeyPatch, rows: list[tuple[int, int, bool]], at_once: int
) -> None:
    monkeypatch.setattr(ascending, "AT_ONCE", at_once)

    def keys(first: int, end: int) -> tuple[pa.Array, list[pa.Array]]:
        meant = [number for number in range(first, end) if rows[number][2]]
        columns = [pa.array([rows[number][i] for number in meant], pa.uint64()) for i in (0, 1)]
        return pa.array(meant, pa.uint64()), columns

    found = [number for part in ascending.ascending(len(rows), keys) for number in part.to_pylist()]
    assert found == sorted((n for n, row in enumerate(rows) if row[2]), key=lambda n: (*rows[n][:2], n))
