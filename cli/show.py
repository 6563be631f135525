"""`trajlog show`: what happened in an episode."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.filters import AsOf
from cli.frame import Json, command
from cli.output import clean, note, print_json, print_json_line, print_text, style
from cli.settings import settings
from cli.terminal import columns, cut, width
from core.errors import NotFound, UsageError

if TYPE_CHECKING:
    from core.event import StoredEvent
    from eventlog.log import Log
    from eventlog.wording import Line

_PIPE_WIDTH = 100
_FIXED = 46
_AFTERWARDS_S = 2.0


@command(
    "trajlog show @last-failed",
    "trajlog show 1f0c --from 12",
    "trajlog show 1f0c@14",
    "trajlog show 1f0c --step 3",
    "trajlog show @last --follow",
    "trajlog show 1f0c --open 3 --out step3.png",
    "trajlog show 1f0c --as-of release-1",
    "trajlog show 1f0c --json",
)
def show(
    episode: Annotated[
        str, typer.Argument(metavar="EP", help="An id, the beginning of one, @last or @last-failed; EP@N is event N.")
    ],
    first: Annotated[int, typer.Option("--from", metavar="N", min=1, help="From event version N on.")] = 1,
    step: Annotated[int | None, typer.Option(metavar="N", help="Step N (one model turn) in full.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Every event as it is stored.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with events as they come, until its end.")] = False,
    open_: Annotated[
        int | None, typer.Option("--open", metavar="N", help="The screen of step N, with its touch drawn in.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where --open writes the picture (PNG); default: a new file.")
    ] = None,
    as_of: AsOf = None,
    json: Json = False,
) -> None:
    """Show what happened in an episode.

    One line per event, numbered by its version; feedback stands behind the action it answers, with
    its own version. Long values are folded: --step N and EP@N show them in full.

    --follow prints new events the moment they are in the log, and stops two seconds after the episode's
    end if no more comes (a verdict does), or at Ctrl-C. With --json it prints one line per event.

    --open writes the screen that step N was decided on to a file and prints its path; at a terminal
    with a desktop it is opened as well. JSON: {episode, step, version, file, notes}.
    """
    from cli.reading import position_of, reading
    from eventlog.views import listing
    from eventlog.views.named import resolve

    if open_ is not None:
        if follow or raw or step is not None or first != 1:
            raise UsageError("--open shows a picture and nothing else", mend="leave the other options out")
        from cli.screen import show_screen

        show_screen(episode, open_, out, json, as_of)
        return
    if out is not None:
        raise UsageError("--out is where --open writes", mend="give --open N with it")
    if follow and as_of is not None:
        raise UsageError("--follow shows what is still to come", mend="leave --as-of out")
    with settings().open() as log:
        cut = position_of(log, as_of)
        with reading(log, as_of=cut) as connection:
            named = resolve(connection, episode)
            row = listing.episode(connection, named.episode) or dict.fromkeys(listing.SHOWN)
        row["episode"] = named.episode
        if follow and (named.version is not None or step is not None):
            raise UsageError("--follow shows an episode from an event on", mend="give --from N with it")
        head = log.head().position if cut is None else cut
        events = list(log.read(named.stream, as_of=head))
        kept = _chosen(events, named.episode, named.version, step, first)
        if json:
            _print_json(row, kept, follow)
        elif raw:
            for event in kept:
                _print_raw(event)
        elif named.version is not None or step is not None:
            for event in kept:
                _print_full(event)
        else:
            _print_timeline(row, events, first)
        if follow:
            _follow(log, named.stream, head, events, raw=raw, json=json)


def _chosen(
    events: list["StoredEvent"], name: str, version: int | None, step: int | None, first: int
) -> list["StoredEvent"]:
    """The events that were asked for."""
    from eventlog.timeline import payload_of, step_of

    if version is not None and version > len(events):
        raise NotFound(f"there is no event {version}: the episode has {len(events)}", where=name)
    if version is not None and step is not None:
        raise UsageError("an event and a step are two things to show", mend="leave @N or --step out")
    if first > max(1, len(events)):
        raise NotFound(f"there is no event {first}: the episode has {len(events)}", where=name)
    if version is not None:
        events = [event for event in events if event.version == version]
    if step is not None:
        steps = {event.version: step_of(payload_of(event)) for event in events}
        events = [event for event in events if steps[event.version] == step]
        if not events:
            known = [number for number in steps.values() if number is not None]
            raise NotFound(f"there is no step {step}: the last is {max(known, default=0)}", where=name)
    return [event for event in events if event.version >= first]


def _print_json(row: dict[str, Any], events: list["StoredEvent"], follow: bool) -> None:
    if not follow:
        print_json({**row, "events": [_json(event) for event in events]})
        return
    for event in events:
        print_json_line(_json(event))


def _json(event: "StoredEvent") -> dict[str, Any]:
    import msgspec

    from core.identity import uuid_text
    from core.times import to_text
    from eventlog.timeline import payload_of, step_of

    return {
        "position": event.position,
        "stream": event.stream,
        "version": event.version,
        "event_id": uuid_text(event.event_id),
        "type": event.type,
        "occurred_at": None if event.occurred_at is None else to_text(event.occurred_at),
        "actor": event.actor,
        "step": step_of(payload_of(event)),
        "payload": msgspec.Raw(event.body),
    }


def _print_raw(event: "StoredEvent") -> None:
    print_text(f"{event.version:>5}  {event.type}  {clean(event.body.decode())}")


def _print_full(event: "StoredEvent") -> None:
    """An event with everything it says."""
    from core.times import to_text
    from eventlog.timeline import payload_of
    from eventlog.wording import unfolded

    when = "" if event.occurred_at is None else f"  {to_text(event.occurred_at)}"
    print_text(style(f"@{event.version} {clean(event.type)}{when}", "bold"))
    for text in unfolded(payload_of(event), 1):
        print_text(clean(text))


def _print_timeline(row: dict[str, Any], events: Iterable["StoredEvent"], first: int) -> None:
    from eventlog.timeline import lines

    _print_heading(row)
    print_text(style(f"    ver  step  {'what happened':<{_text_width()}}  {'ms':>8}  {'tokens':>7}  verdict", "dim"))
    for line in lines(events, first=first):
        _print_line(line)


def _print_heading(row: dict[str, Any]) -> None:
    said = [
        f"{name.replace('_', ' ')} {row[name]:g}" if isinstance(row[name], float) else f"{name} {row[name]}"
        for name in ("task", "verdict", "reward", "end", "steps", "tokens", "source", "policy", "split")
        if row[name] is not None
    ]
    print_text(style(f"episode {clean(row['episode'])}", "bold") + clean(f"  {' · '.join(said)}"))
    if row["retracted"]:
        note("this episode was retracted with its import")


def _text_width() -> int:
    limit = columns()
    return _PIPE_WIDTH if limit is None else max(limit - _FIXED, 30)


def _print_line(line: "Line") -> None:
    size = _text_width()
    text = clean(line.action)
    if line.outcome is not None:
        answer = "" if line.answer is None else f" @{line.answer}"
        room = size * 3 // 5 if columns() else len(text) * 2
        outcome = clean(f"{line.outcome}")
        if columns() and width(text) + width(outcome) + len(answer) + 3 > size:
            text = cut(text, max(room, size - width(outcome) - len(answer) - 3))
            outcome = cut(outcome, size - width(text) - len(answer) - 3)
        text = f"{text} → {outcome}{answer}"
    elif columns():
        text = cut(text, size)
    step = "" if line.step is None else str(line.step)
    ms = "" if line.ms is None else f"{line.ms:,.0f}"
    tokens = "" if line.tokens is None else f"{line.tokens:,}"
    numbers = f"{' ' * (size - width(text))}  {ms:>8}  {tokens:>7}  {clean(line.verdict or '')}".rstrip()
    mark = style("✗", "red") if line.failed else " "
    print_text(f"{mark} {line.version:>5}  {step:>4}  {text}{numbers}")
    for check in _checks(line):
        print_text(check)


def _checks(line: "Line") -> Iterator[str]:
    limit = columns()
    for check in line.checks:
        text = clean(check)
        yield f"{style('✗', 'red')}{' ' * 13}{text if limit is None else cut(text, limit - 14)}"


def _follow(log: "Log", stream: str, after: int, before: list["StoredEvent"], *, raw: bool, json: bool) -> None:
    """Print events after a position as they come; `before` are those up to there."""
    import sys
    import time

    from core.vocabulary.episode import EpisodeEnded
    from eventlog.timeline import line

    ended = any(event.type == EpisodeEnded.__name__ for event in before)
    latest = time.monotonic()
    sys.stdout.flush()
    for event in log.follow(after=after, stream=stream):
        if event is None:
            sys.stdout.flush()
            if ended and time.monotonic() - latest > _AFTERWARDS_S:
                note("the episode has ended")
                return
            continue
        ended = ended or event.type == EpisodeEnded.__name__
        latest = time.monotonic()
        if json:
            print_json_line(_json(event))
        elif raw:
            _print_raw(event)
        else:
            _print_line(line(event))
