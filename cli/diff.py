"""`trajlog diff`: two episodes side by side."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.filters import AsOf
from cli.frame import Json, command
from cli.output import clean, note, print_json, print_text, style
from cli.settings import settings
from cli.terminal import columns, cut, width
from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.comparison import Comparison, Side
    from eventlog.comparison.calls import Record
    from eventlog.comparison.rows import Row
    from eventlog.database import Connection

_COLOURS = {"~": "yellow", "!": "yellow", "-": "red", "+": "green"}
_WIDEST = 100


@command(
    "trajlog diff @last-failed",
    "trajlog diff 1f0c 77aa",
    "trajlog diff 1f0c --against 77aa --mask time,ids",
    "trajlog diff @last-failed --against pass --json",
    "trajlog diff 1f0c 77aa --as-of 2026-09-01",
)
def diff(
    episode: Annotated[
        str, typer.Argument(metavar="EP", help="An id, the beginning of one, @last or @last-failed: episode a.")
    ],
    other: Annotated[str | None, typer.Argument(metavar="EP2", help="The same for episode b.")] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="pass|EP2",
            help="pass, the default: the passing episode of the same task that shares most calls. Else episode b.",
        ),
    ] = None,
    mask: Annotated[
        str | None, typer.Option(metavar="time,ids", help="Do not compare times, generated ids, or both.")
    ] = None,
    whole: Annotated[bool, typer.Option("--all", help="Show the calls that are the same, too.")] = False,
    as_of: AsOf = None,
    json: Json = False,
) -> None:
    """Compare two episodes call by call.

    Calls are aligned by their longest common subsequence, so a call more or less shifts nothing. The
    first divergence is marked; a call is numbered by its version (EP@N shows it in full). Before it
    stands ~ where it was asked otherwise, ! where it was answered otherwise or left another state,
    - where only a made it, + where only b did. Exit code 0: the same calls, answers, end and verdict;
    1: not.

    JSON: {a, b: {episode, task, end, verdict, calls}, differs: [calls, end, verdict], first_divergence
    (index into pairs, or null), shared, masks, pairs: [{kind: same|arguments|feedback|state|only_a|only_b,
    name, a, b: {version, step, answer} or null, arguments: [{path, a, b, absent}], feedback: [the same],
    state: the same or null}]}.
    """
    from cli.reading import position_of, reading
    from eventlog.comparison import compare, recorded

    if other is not None and against is not None:
        raise UsageError("two episodes to compare with", where="diff", mend="give EP2 or --against, not both")
    masks = _masks(mask)
    with settings().open() as log, reading(log, as_of=position_of(log, as_of)) as connection:
        sides = [_side(connection, name) for name in _names(connection, episode, other or against, masks)]
        a, b = recorded(connection, *(side.episode for side in sides))
    found = compare((sides[0], a), (sides[1], b), masks)
    if json:
        print_json(found)
    else:
        _print(found, a, b, whole)
    if found.differs:
        raise typer.Exit(1)


def _masks(mask: str | None) -> tuple[str, ...]:
    from eventlog.comparison.differences import MASKS

    names = tuple(dict.fromkeys(name.strip() for name in mask.split(","))) if mask is not None else ()
    for name in names:
        if name not in MASKS:
            raise UsageError(f"{name!r} cannot be masked", where="--mask", mend=f"use {', '.join(MASKS)}")
    return names


def _names(connection: "Connection", episode: str, other: str | None, masks: tuple[str, ...]) -> tuple[str, str]:
    from cli.progress import Progress
    from eventlog.comparison.passing import CANDIDATES, closest

    ours = _whole(connection, episode)
    if other not in (None, "pass"):
        return ours, _whole(connection, other or "")
    with Progress("looking for the closest episode that passed", total=CANDIDATES, unit="episodes") as bar:
        theirs = closest(connection, ours, masks, bar.update)
    note(f"compared with {theirs}, which passed")
    return ours, theirs


def _whole(connection: "Connection", name: str) -> str:
    from eventlog.views.named import resolve

    named = resolve(connection, name)
    if named.version is not None:
        raise UsageError("whole episodes are compared", where=name, mend="leave the @N out")
    return named.episode


def _side(connection: "Connection", episode: str) -> "Side":
    from eventlog.comparison import Side
    from eventlog.views import listing

    row: dict[str, Any] = listing.episode(connection, episode, ("task", "end", "verdict")) or {}
    return Side(episode, **row)


def _print(found: "Comparison", a: list["Record"], b: list["Record"], whole: bool) -> None:
    from eventlog.comparison.rows import rows

    for name, side in (("a", found.a), ("b", found.b)):
        said = [f"{key} {value}" for key, value in (("task", side.task), ("verdict", side.verdict)) if value]
        said += [f"end {side.end}"] if side.end else []
        said.append("1 call" if side.calls == 1 else f"{side.calls:,} calls")
        head = f"{name}  {clean(side.episode)}"
        print_text(style(head, "bold") + _fit(f"{head}  {clean(' · '.join(said))}")[len(head) :])
    print_text(_fit(_summary(found)))
    shown = [(row, clean(row.a), clean(row.b)) for row in rows(found, a, b, whole=whole)]
    limit = columns()
    size = max((width(left) for row, left, _ in shown if not row.wide), default=0)
    size = min(size, _WIDEST if limit is None else (limit - 5) // 2)
    for row, left, right in shown:
        _print_row(row, left, right, size, limit)


def _summary(found: "Comparison") -> str:
    masked = f", {' and '.join(found.masks)} masked" if found.masks else ""
    if not found.differs:
        return f"the same: calls, answers, end and verdict{masked}"
    calls = "1 call" if found.shared == 1 else f"{found.shared:,} calls"
    return f"different: {', '.join(found.differs)}; {calls} in common{masked}"


def _print_row(row: "Row", left: str, right: str, size: int, limit: int | None) -> None:
    if row.wide:
        print_text(style(_fit(f"> {left}"), "bold"))
        return
    if limit is not None:
        left, right = cut(left, size), cut(right, limit - size - 5)
    text = f"{row.mark} {left}{' ' * (size - width(left))} | {right}".rstrip()
    print_text(style(text, _COLOURS[row.mark]) if row.mark in _COLOURS else text)


def _fit(text: str) -> str:
    limit = columns()
    return text if limit is None else cut(text, limit)
