"""Times are exact to the microsecond, in every year that has four digits."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import BadEvent, UsageError
from core.event import MAX_TIME, MIN_TIME
from core.times import from_text, now, parse_since, to_text

DAY = 86_400_000_000
NEW_YEAR = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z


@given(st.integers(MIN_TIME, MAX_TIME))
def test_a_time_survives_its_text(at: int) -> None:
    assert from_text(to_text(at)) == at
    assert len(to_text(at)) == 27


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("2026-01-01T00:00:00.000006Z", NEW_YEAR + 6),
        ("2026-01-01T00:00:00.250Z", NEW_YEAR + 250_000),
        ("2026-01-01T00:00:00.0000069Z", NEW_YEAR + 6),
        ("2026-01-01t01:00:00+01:00", NEW_YEAR),
        ("2025-12-31 18:30:00-05:30", NEW_YEAR),
        ("2026-01-01T00:00:00.5z", NEW_YEAR + 500_000),
        ("2026-01-01T00:00:00.000000999Z", NEW_YEAR),
        ("0001-01-01T00:00:00Z", MIN_TIME),
        ("9999-12-31T23:59:59.999999Z", MAX_TIME),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000_000),
    ],
)
def test_rfc_3339_is_read(text: str, at: int) -> None:
    assert from_text(text) == at


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T23:59:60Z",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "148000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00,5Z",
        "2026-W01-1T00:00:00.000000Z",
        "２０２６-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z\n",
        "1767225600",
    ],
)
def test_what_is_no_time_is_one_error(text: str) -> None:
    with pytest.raises(BadEvent):
        from_text(text)


@given(st.text() | st.from_regex(r"\d{4}-[01]\d-[0-3]\d[Tt ][0-2]\d:[0-6]\d:[0-6]\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)"))
def test_any_text_is_a_time_or_one_error(text: str) -> None:
    with contextlib.suppress(BadEvent):
        assert MIN_TIME <= from_text(text) <= MAX_TIME


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("7d", NEW_YEAR - 7 * DAY),
        ("2w", NEW_YEAR - 14 * DAY),
        ("6h", NEW_YEAR - DAY // 4),
        ("30m", NEW_YEAR - DAY // 48),
        ("90s", NEW_YEAR - 90_000_000),
        ("999999999w", MIN_TIME),
        ("2025-12-31", NEW_YEAR - DAY),
        ("2025-12-31T00:00:00Z", NEW_YEAR - DAY),
    ],
)
def test_since_takes_a_span_a_date_or_a_time(text: str, at: int) -> None:
    assert parse_since(text, at=NEW_YEAR) == at


@pytest.mark.parametrize("text", ["", "7", "d", "-7d", "7 d", "7y", "yesterday", "2026-02-30", "9999999999d"])
def test_any_other_since_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="7d or 6h"):
        parse_since(text)


def test_now_is_between_then_and_later() -> None:
    assert NEW_YEAR - 2 * 366 * DAY < parse_since("1s") < now() < MAX_TIME
