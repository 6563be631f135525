"""`trajlog step`: an episode on the whole screen."""

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.filters import AsOf
from cli.frame import command
from cli.settings import settings
from cli.terminal import interactive
from core.errors import NotFound, TrajlogError, UsageError

if TYPE_CHECKING:
    from cli.stepper.panes import Against
    from cli.stepper.walk import Walk
    from eventlog.blobs import BlobStore
    from eventlog.log import Log


@command(
    "trajlog step @last-failed",
    "trajlog step 1f0c@14",
    "trajlog step 1f0c --step 3",
    "trajlog step 1f0c --as-of release-1",
)
def step(
    episode: Annotated[
        str, typer.Argument(metavar="EP", help="An id, the beginning of one, @last or @last-failed; EP@N is event N.")
    ],
    number: Annotated[int | None, typer.Option("--step", metavar="N", min=1, help="Begin at step N.")] = None,
    as_of: AsOf = None,
) -> None:
    """Step through an episode on the whole screen.

    Above are the events, below is what the chosen one says. j and k go from event to event, h and l from
    step to step; d compares with the closest episode that passed, s shows the screenshot, t the UI tree,
    r the event as it is stored, m memory, / searches; ? lists every key, q quits.
    """
    _check_terminal()
    from cli.reading import position_of, reading
    from cli.stepper.walk import Walk
    from eventlog.blobs import BlobStore
    from eventlog.views import listing
    from eventlog.views.named import resolve

    with ExitStack() as stack:
        log = stack.enter_context(settings().open())
        cut = position_of(log, as_of)
        with reading(log, as_of=cut) as connection:
            named = resolve(connection, episode)
            row = listing.episode(connection, named.episode) or {}
        head = log.head().position if cut is None else cut
        walk = Walk(named.episode, row, list(log.read(named.stream, as_of=head)))
        begin = _begin(walk, named.version, number)
        _run(walk, BlobStore(settings().blobs), begin, lambda: _against(log, walk, cut), stack)


def _check_terminal() -> None:
    for stream in (sys.stdin, sys.stdout):
        if not interactive(stream):
            raise UsageError("step needs a terminal", mend="trajlog show prints an episode anywhere")
    if os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        raise UsageError("this terminal cannot show a whole screen (TERM)", mend="use trajlog show")


def _begin(walk: "Walk", version: int | None, step: int | None) -> int:
    if version is not None and version > len(walk):
        raise NotFound(f"there is no event {version}: the episode has {len(walk)}", where=walk.episode)
    if step is None:
        return 0 if version is None else walk.index(version)
    found = walk.first_of(step)
    if found is None:
        raise NotFound(f"there is no step {step}: it has {walk.row.get('steps') or 0}", where=walk.episode)
    return found


def _run(walk: "Walk", store: "BlobStore", begin: int, compare: "Callable[[], Against]", stack: ExitStack) -> None:
    import tempfile

    from cli.stepper.app import Stepper

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trajlog-step-")))
    app = Stepper(
        walk,
        store,
        index=begin,
        compare=compare,
        open_picture=lambda index: _open_picture(walk, store, index, folder),
    )
    code = app.run()
    if app.failure is not None:
        raise app.failure
    if code == 130:
        raise KeyboardInterrupt


def _open_picture(walk: "Walk", store: "BlobStore", index: int, folder: Path) -> str:
    """Open the screen at an event with what was done on it drawn in, where there is a desktop."""
    from cli.screen import open_file
    from eventlog.screens import screen_at
    from eventlog.screenshot import Seen, draw

    screen = screen_at(walk.events, index)
    if screen is None or screen.picture is None:
        return "no screenshot was recorded up to here" if screen is None else "no screenshot was kept"
    event = walk.events[index]
    action = walk.payload(index).get("action") if event.type == "ActionSubmitted" else None
    address = str(screen.picture["address"])
    actions = [action] if isinstance(action, dict) and action.get("kind") == "Ui" else []
    try:
        picture = draw(store.get(address), Seen(screen, address, actions, []), f"@{screen.version}")
        file = folder / f"screen-{screen.version}-{event.version}.png"
        file.write_bytes(picture.data)
    except TrajlogError as error:
        return str(error)
    return f"opened {file}" if open_file(file) else "there is no desktop here to open it on"


def _against(log: "Log", walk: "Walk", as_of: int | None) -> "Against":
    """The comparison with the closest passing episode."""
    from cli.stepper.panes import Against
    from eventlog.comparison import Side, compare
    from eventlog.comparison.passing import closest
    from eventlog.views import listing, reading

    with reading(log, as_of=as_of) as connection:
        other = closest(connection, walk.episode)
        rows = [listing.episode(connection, name, ("task", "end", "verdict")) or {} for name in (walk.episode, other)]
    events = list(log.read(f"episode/{other}", as_of=as_of))
    found = compare((Side(walk.episode, **rows[0]), walk.events), (Side(other, **rows[1]), events))
    return Against(other, found, events)
