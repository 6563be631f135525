"""Times: microseconds since 1970-01-01 UTC inside, RFC 3339 text with six digits and Z outside."""

import re
import time
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from core.errors import BadEvent, UsageError
from core.event import MAX_TIME, MIN_TIME

IN_2000: Final = 946_684_800_000_000
"""2000-01-01 UTC, where Postgres counts from."""

_EPOCH = datetime(1970, 1, 1)
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ]((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?:\.(\d+))?"
    r"(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))",
    re.ASCII,
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_AGO = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
_MILLIS = {f"{millis:03}": millis * 1_000 for millis in range(1_000)}
"""Fractions of a second as most write them, in µs."""
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def now() -> int:
    """This machine's time."""
    return time.time_ns() // 1_000


def to_text(at: int) -> str:
    """RFC 3339: `2026-01-02T03:04:05.000006Z`."""
    seconds, micros = divmod(at, 1_000_000)
    return f"{_second_text(seconds)}.{micros:06}Z"


@lru_cache(maxsize=4_096)
def _second_text(seconds: int) -> str:
    return (_EPOCH + timedelta(0, seconds)).isoformat()


def from_text(text: str, *, where: str | None = None) -> int:
    """RFC 3339 with a time zone; digits beyond the microsecond are cut off. BadEvent if it is none."""
    zone = 1 if text[-1:] == "Z" else len("+00:00") if text[-6:] == "+00:00" else 0
    if zone and text[19:20] == ".":
        fraction = text[20:-zone]
        micros = _MILLIS.get(fraction)
        if micros is None and fraction.isdecimal() and fraction.isascii():
            micros = int(fraction[:6].ljust(6, "0"))
        if micros is not None:
            try:
                return second_of(text[:19]) + micros
            except BadEvent:  # said below of the whole text
                pass
    return _from_text(text, where)


@lru_cache(maxsize=4_096)
def second_of(text: str) -> int:
    """A whole second; many events share it."""
    return _from_text(f"{text}Z", None)


def _from_text(text: str, where: str | None) -> int:
    found = _RFC3339.fullmatch(text)
    if not found:
        raise _bad(text, where, "is not RFC 3339", "write it like 2026-01-02T03:04:05.000006Z, zone included")
    date, clock, fraction, sign, hours, minutes = found.groups()
    try:
        since = datetime.fromisoformat(f"{date}T{clock}") - _EPOCH
    except ValueError as error:
        raise _bad(text, where, f"is no date ({error})", "mend the date") from None
    seconds = since.days * 86_400 + since.seconds
    if sign:
        seconds -= (int(hours) * 3_600 + int(minutes) * 60) * (-1 if sign == "-" else 1)
    at = seconds * 1_000_000 + (int(fraction[:6].ljust(6, "0")) if fraction else 0)
    if not MIN_TIME <= at <= MAX_TIME:
        raise _bad(text, where, "is outside the years 1 to 9999 in UTC", "mend the date")
    return at


def parse_since(text: str, *, at: int | None = None) -> int:
    """`7d`, `6h`, `30m`, `90s`, `2w` before `at` (default now), a date (midnight UTC) or RFC 3339.
    UsageError if it is none of these."""
    ago = _AGO.fullmatch(text)
    if ago:
        reference = now() if at is None else at
        return max(MIN_TIME, reference - int(ago[1]) * _SECONDS[ago[2]] * 1_000_000)
    try:
        return from_text(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)
    except BadEvent as error:
        raise UsageError(
            error.what, mend="give a span like 7d or 6h, a date like 2026-01-02, or 2026-01-02T03:04:05Z"
        ) from None


def _bad(text: str, where: str | None, what: str, mend: str) -> BadEvent:
    return BadEvent(f"time {text[:80]!r} {what}", where=where, mend=mend)
