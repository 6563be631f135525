"""`trajlog mark`: turns that rules find erroneous, so that training does not imitate them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import filters as options
from cli.frame import Json, command
from cli.output import note, print_json_array, print_table
from cli.progress import Progress
from cli.settings import settings
from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.database import Connection
    from eventlog.views.listing import Filters
    from learners.marking import Mark

_COLUMNS = ("call", "step", "rule", "why", "new")


@command(
    "trajlog mark @last",
    "trajlog mark --verdict pass --source tau-bench --dry-run",
    "trajlog mark --all --json",
)
def mark(
    episodes: Annotated[list[str] | None, typer.Argument(metavar="[EP]...", help="Episodes, as in show.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every episode.")] = False,
    task: options.Task = None,
    verdict: options.Verdict = None,
    source: options.Source = None,
    policy: options.Policy = None,
    split: options.Split = None,
    import_: options.Import = None,
    since: options.Since = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be marked, and mark nothing.")] = False,
    json: Json = False,
) -> None:
    """Mark the turns that are erroneous by rule.

    A marked turn stays in the context but does not train. The rules: repeated_failing_call (a call that had
    failed, made again with the same arguments, which failed again), schema_violation (arguments that are no
    JSON or do not fit the tool's schema) and unknown_tool. What failed for a reason of the environment's is
    no error of a turn. A person's or a judge's word on a turn outranks a rule's.

    Marks are events in the episode's stream. Marking again adds nothing, so an interrupted run is run again.

    JSON: [{episode, version (of the call), step, rule, why, event_id, new}].
    """
    from cli.reading import reading
    from eventlog.views import EPISODES
    from learners.marking import mark as marked
    from learners.views.rollout import ROLLOUT

    filters = options.filters(
        task=task,
        verdict=verdict,
        source=source,
        policy=policy,
        tool=None,
        split=split,
        import_=import_,
        since=since,
        retracted=False,
    )
    _one_choice(bool(episodes), all_, filters)
    with settings().open() as log:
        with reading(log, (EPISODES, ROLLOUT)) as connection:
            streams = _named(connection, episodes) if episodes else _chosen(connection, filters)
        with Progress("marking", total=len(streams), unit="episodes") as bar:
            found = list(marked(log, _counted(streams, bar), dry_run=dry_run))
    if json:
        print_json_array(_row(one) for one in found)
    elif found:
        print_table(_COLUMNS, [_cells(one) for one in found], right=("step",))
    new = sum(not one.known for one in found)
    said = "would be marked" if dry_run else "marked"
    note(f"{new:,} turns {said}, {len(found) - new:,} were before; {len(streams):,} episodes looked at")


def _one_choice(named: bool, all_: bool, filters: "Filters") -> None:
    """`UsageError` unless the episodes are chosen in one way."""
    from eventlog.views.listing import Filters

    if named + all_ + (filters != Filters()) != 1:
        raise UsageError(
            "which episodes?", where="mark", mend="name them, or give --all, or filters such as --verdict pass"
        )


def _named(connection: "Connection", names: list[str]) -> list[str]:
    from eventlog.views.named import resolve

    return list(dict.fromkeys(resolve(connection, name).stream for name in names))


def _chosen(connection: "Connection", filters: "Filters") -> list[str]:
    """The streams of the episodes that pass, in which a rule could find something."""
    from eventlog.projection import relation
    from eventlog.views import EPISODES, PREFIX
    from eventlog.views.listing import where
    from learners.views.rollout import ROLLOUT

    conditions, values = where(filters)
    conditions.append(f"episode IN (SELECT episode FROM {relation(ROLLOUT)} WHERE errors > 0 OR tools > 0)")
    query = f"SELECT episode FROM {relation(EPISODES)} WHERE {' AND '.join(conditions)} ORDER BY position"
    return [PREFIX + episode for (episode,) in connection.execute(query, values)]


def _counted(streams: list[str], bar: "Progress") -> Iterator[str]:
    for stream in streams:
        yield stream
        bar.advance()


def _cells(one: "Mark") -> tuple[Any, ...]:
    return (
        f"{one.stream.removeprefix('episode/')}@{one.version}",
        one.step,
        one.rule,
        one.why,
        "" if one.known else "new",
    )


def _row(one: "Mark") -> dict[str, Any]:
    from core.identity import uuid_text

    return {
        "episode": one.stream.removeprefix("episode/"),
        "version": one.version,
        "step": one.step,
        "rule": one.rule,
        "why": one.why,
        "event_id": uuid_text(one.event_id),
        "new": not one.known,
    }
