"""`trajlog verdict`: a person's judgement of an episode, and all that were ever made."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.filters import AsOf
from cli.frame import Json, command
from cli.output import note, print_json_array, print_table
from cli.settings import settings
from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.remarks import Judged


@command(
    "trajlog verdict 1f0c fail --why 'The seat was booked twice.'",
    "trajlog verdict @last pass",
    "trajlog verdict 1f0c --history",
    "trajlog verdict 1f0c --history --as-of 2026-09-01 --json",
)
def verdict(
    episode: Annotated[str, typer.Argument(metavar="EP", help="An episode, as in show.")],
    judgement: Annotated[
        Literal["pass", "fail", "inconclusive"] | None,
        typer.Argument(metavar="pass|fail|inconclusive", help="Your verdict."),
    ] = None,
    why: Annotated[str | None, typer.Option(metavar="TEXT", help="What it rests on.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Show every verdict instead.")] = False,
    as_of: AsOf = None,
    json: Json = False,
) -> None:
    """Judge an episode, or show how it was judged.

    Yours is a human's verdict: it outranks any machine's, also one that comes later, and only another
    human's replaces it. Nothing is overwritten: --history shows every verdict, and which one rules.

    JSON of --history: [{version, occurred_at, committed_at, source: machine|human|import, writer,
    verdict, reward, progress, why, supersedes, rules}].
    """
    from cli.reading import position_of, reading
    from cli.written import print_written
    from eventlog import remarks
    from eventlog.views.named import resolve

    if history == (judgement is not None) or (history and why is not None):
        raise UsageError("either judge or look", where="verdict", mend="give pass, fail or inconclusive, or --history")
    if judgement is not None and as_of is not None:
        raise UsageError("a judgement is made now", where="--as-of", mend="give it with --history")
    with settings().open() as log:
        cut = position_of(log, as_of)
        with reading(log, as_of=cut) as connection:
            about = resolve(connection, episode)
        if judgement is not None:
            print_written(remarks.judge(log, about, judgement, why), f"judged {judgement}", json=json)
        else:
            _print_history(remarks.history(log.read(about.stream, until=about.version, as_of=cut)), json)


def _print_history(found: "list[Judged]", json: bool) -> None:
    from msgspec.structs import asdict

    from core.times import to_text

    rows = [
        asdict(one)
        | {
            "occurred_at": None if one.occurred_at is None else to_text(one.occurred_at),
            "committed_at": to_text(one.committed_at),
        }
        for one in found
    ]
    if json:
        print_json_array(rows)
    elif rows:
        heads = ("version", "when", "source", "verdict", "reward", "rules", "why")
        table = [
            (
                f"@{row['version']}",
                (row["occurred_at"] or row["committed_at"])[:19] + "Z",
                row["source"],
                row["verdict"],
                None if row["reward"] is None else f"{row['reward']:g}",
                "rules" if row["rules"] else "",
                row["why"],
            )
            for row in rows
        ]
        print_table(heads, table, right=("version", "reward"))
    else:
        note("nobody has judged it")
