"""`trajlog project`: projections and reactors, run, rebuilt and retried."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame import Json, command
from cli.output import clean, note, print_json, print_json_array, print_json_line, print_table, print_text
from cli.settings import settings
from core.errors import TrajlogError, UsageError

if TYPE_CHECKING:
    from eventlog.database import Connection
    from eventlog.log import Log
    from eventlog.projection import AnyProjection
    from eventlog.projection.reactor import Reactor

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Which; all, if none is named.")]

_HEADS = ("name", "version", "position", "lag", "parked", "state")
_POLL_S = 0.1
_BACK_S = 1.0


@command("trajlog project ls", "trajlog project ls --json")
def ls(json: Json = False) -> None:
    """List the projections and where they stand.

    Reading commands bring those up to date that they read; `trajlog project run` all. The state: `new` was
    never folded; `live` is the one that is read; `building` grows beside it; `kept` is what a new version
    or a rebuild replaced; `refused`: the log was restored or failed over since, rebuild it; `reactor` has
    effects and runs with `project run` alone; `left`: its plug-in is not installed any more.

    JSON: [{name, version, position, lag, parked, state}].
    """
    with ExitStack() as stack:
        log = stack.enter_context(settings().open())
        connection = stack.enter_context(_connection(log))
        known, reactors, faults = _everything()
        _print_standings(connection, known, reactors, None, json)
    _end(faults)


@command("trajlog project run", "trajlog project run episode task", "trajlog project run --follow")
def run(
    names: Names = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with events as they come; Ctrl-C ends.")] = False,
    json: Json = False,
) -> None:
    """Bring projections up to date, and let reactors react.

    Plug-ins' too. A fold that cannot take an event parks its stream, and the rest goes on: see
    `trajlog project parked`. Parked streams of reactors are tried again.

    JSON: as `project ls`; with --follow a line {position} whenever everything has come so far.
    """
    with ExitStack() as stack:
        log = stack.enter_context(settings().open())
        known, reactors, faults = _everything()
        chosen, reacting = _choose(known, reactors, names or [])
        if follow:
            for fault in faults:
                note(str(fault))
            _follow(log, chosen, reacting, json)
        connection = stack.enter_context(_connection(log))
        errors = _run(log, connection, chosen, reacting)
        done = {one.name for one in chosen} | {one.name for one in reacting}
        _print_standings(connection, known, reactors, done, json)
    _end([*faults, *errors])


@command("trajlog project rebuild episode", "trajlog project rebuild --all")
def rebuild(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Which.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every one.")] = False,
    json: Json = False,
) -> None:
    """Fold the whole log into new tables, then put them in place.

    The old ones are read until then, and kept until the next rebuild. One that is interrupted goes on where
    it was when it is run again. Reactors are never rebuilt.

    JSON: as `project ls`, of what was rebuilt.
    """
    from cli.progress import Progress
    from cli.reading import processes
    from eventlog.projection import is_second, sources
    from eventlog.projection import rebuild as module
    from eventlog.projection.registry import choose
    from eventlog.projection.runner import catch_up

    if bool(names) == all_:
        raise UsageError("which projections?", where="project rebuild", mend="name them, or give --all")
    with ExitStack() as stack:
        log = stack.enter_context(settings().open())
        connection = stack.enter_context(_connection(log))
        known, reactors, faults = _everything()
        for name in names or ():
            if name in {reactor.name for reactor in reactors}:
                raise UsageError("a reactor has effects: it is never rebuilt", where=name)
        by_name = {projection.name: projection for projection in choose(known, names or [])}
        chosen = [projection for name, projection in by_name.items() if all_ or name in (names or [])]
        for projection in chosen:
            if is_second(projection):
                catch_up(log, connection, [by_name[source.name] for source in sources(projection)])
            with Progress(f"rebuilding {projection.name}", unit="events") as bar:
                module.rebuild(log, connection, projection, progress=bar.update, processes=processes())
        _print_standings(connection, known, reactors, {one.name for one in chosen}, json)
    _end(faults)


@command("trajlog project parked", "trajlog project parked episode --json")
def parked(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Of this projection or reactor.")] = None,
    json: Json = False,
) -> None:
    """List streams that stopped at an event.

    A fold that raises stops at the event for that stream: its rows are those of what came before.
    `trajlog project retry` tries again.

    JSON: [{name, version, stream, position, reason}].
    """
    from eventlog.projection import registry
    from eventlog.projection.parked import parked as all_parked

    with settings().open() as log, _connection(log) as connection:
        found = [one for one in all_parked(connection) if name in (None, one.name)]
    if name is not None and not found:
        known, reactors, _ = _everything()
        if name not in {each.name for each in (*known, *reactors)}:
            raise registry.unknown(name)
    if json:
        print_json_array(found)
    elif found:
        rows = [(p.name, p.version, p.stream, f"{p.position:,}", p.reason) for p in found]
        print_table(("name", "version", "stream", "position", "reason"), rows, right=("version", "position"))
    else:
        note("nothing is parked")


@command(
    "trajlog project retry episode",
    "trajlog project retry episode episode/0123456789abcdef",
    "trajlog project retry my_reactor --from 1200",
)
def retry(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A projection or reactor.")],
    streams: Annotated[
        list[str] | None, typer.Argument(metavar="[STREAM]...", help="Which; all of its parked ones, if none is named.")
    ] = None,
    begin: Annotated[
        int | None,
        typer.Option("--from", metavar="POSITION", min=1, help="A reactor reacts again to events from here on."),
    ] = None,
    json: Json = False,
) -> None:
    """Try parked streams again.

    A projection folds them from their first event, as its fold is now; a reactor goes on with the event
    that it could not take. Exit code 1: some stopped again.

    JSON: {name, tried, parked}.
    """
    from cli.progress import Progress
    from eventlog.projection import parked as module
    from eventlog.projection import reactor as reacting
    from eventlog.projection.registry import choose
    from eventlog.projection.runner import catch_up

    with ExitStack() as stack:
        log = stack.enter_context(settings().open())
        connection = stack.enter_context(_connection(log))
        known, reactors, _ = _everything()
        before = [one for one in module.parked(connection) if one.name == name]
        for found in reactors:
            if found.name == name:
                if begin is not None:
                    reacting.begin(connection, found, begin)
                tried = len(before)
                reacting.run(log, connection, found)
                break
        else:
            if begin is not None:
                raise UsageError("only a reactor goes on from a position", where=name, mend="leave --from out")
            chosen = choose(known, [name])
            catch_up(log, connection, chosen)
            with Progress(f"folding {name} again", unit="streams") as bar:
                tried = module.retry(log, connection, chosen[-1], streams or (), bar.update)
        left = len([one for one in module.parked(connection) if one.name == name])
    if json:
        print_json({"name": name, "tried": tried, "parked": left})
    else:
        print_text(clean(f"{name}: {tried:,} tried, {left:,} parked now"))
    if left:
        raise typer.Exit(1)


def _connection(log: "Log") -> Any:
    from eventlog.log import reader_of

    return reader_of(log).borrow()


def _everything() -> "tuple[list[AnyProjection], list[Reactor], list[TrajlogError]]":
    """Projections, reactors, and what is wrong with plug-ins."""
    from eventlog.projection import registry
    from learners.views.folds import PROJECTIONS

    faults: list[registry.BadPlugin] = []
    return registry.projections(faults, PROJECTIONS), registry.reactors(faults), list(faults)


def _choose(
    known: "list[AnyProjection]", reactors: "list[Reactor]", names: list[str]
) -> "tuple[list[AnyProjection], list[Reactor]]":
    """Those that are named, with what they are made from; all if none is."""
    from eventlog.projection.registry import choose

    reacting = [reactor for reactor in reactors if not names or reactor.name in names]
    rest = [name for name in names if name not in {reactor.name for reactor in reacting}]
    return choose(known, rest) if rest or not names else [], reacting


def _run(
    log: "Log", connection: "Connection", chosen: "list[AnyProjection]", reactors: "list[Reactor]"
) -> list[TrajlogError]:
    """Catch up and react; what cannot be is passed over, and why is returned."""
    from cli.progress import Progress
    from cli.reading import processes
    from eventlog.projection import reactor as reacting
    from eventlog.projection.runner import catch_up
    from eventlog.projection.tables import sound

    good, errors = sound(connection, chosen)
    with Progress("folding", unit="events") as bar:
        catch_up(log, connection, good, progress=bar.update, processes=processes())
    for reactor in reactors:
        try:
            with Progress(f"reacting: {reactor.name}", unit="events") as bar:
                if reacting.run(log, connection, reactor, progress=bar.update) is None:
                    note(f"{reactor.name}: another process runs it")
        except TrajlogError as error:
            errors.append(error)
    return errors


def _follow(log: "Log", chosen: "list[AnyProjection]", reactors: "list[Reactor]", json: bool) -> None:
    """Go on until interrupted, also when the database goes away and comes again. A notification of the log
    only shortens the wait."""
    import time

    from eventlog.projection.hint import wait

    position = None
    said: set[str] = set()
    while True:
        try:
            with _connection(log) as connection:
                for error in _run(log, connection, chosen, reactors):
                    _say_once(error, said)
                head = log.head().position
                if head != position:
                    position = head
                    if json:
                        print_json_line({"position": position})
                    else:
                        note(f"position {position:,}")
                wait(connection, _POLL_S)
        except TrajlogError as error:
            if not error.retryable:
                raise
            _say_once(error, said)
            time.sleep(_BACK_S)


def _say_once(error: TrajlogError, said: set[str]) -> None:
    if str(error) not in said:
        said.add(str(error))
        note(str(error))


def _print_standings(
    connection: "Connection",
    known: "Sequence[AnyProjection]",
    reactors: "Sequence[Reactor]",
    names: set[str] | None,
    json: bool,
) -> None:
    """The rows of `project ls`, or those of these names that are not kept."""
    from eventlog.projection.overview import overview

    found = overview(connection, known, reactors)
    if names is not None:
        found = [one for one in found if one.name in names and one.state != "kept"]
    if json:
        print_json_array(found)
        return
    rows = [(p.name, p.version, f"{p.position:,}", f"{p.lag:,}", f"{p.parked:,}", p.state) for p in found]
    print_table(_HEADS, rows, right=("version", "position", "lag", "parked"))
    for one in found:
        if one.state == "refused":
            note(f"{one.name}: the log was restored or failed over since: trajlog project rebuild {one.name}")


def _end(faults: Sequence[TrajlogError]) -> None:
    """Say what could not be done, and exit accordingly."""
    for fault in faults:
        note(str(fault))
    if faults:
        raise typer.Exit(1)
