"""The options that choose and order: the same wherever episodes are listed or taken from a list."""

from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.views.listing import Filters

Task = Annotated[str | None, typer.Option(help="Of this task.")]
Verdict = Annotated[str | None, typer.Option(help="Judged pass, fail, inconclusive, error, vacuous or unverified.")]
Source = Annotated[str | None, typer.Option(help="From this format, or live.")]
Policy = Annotated[str | None, typer.Option(help="Acted by this model or checkpoint.")]
Tool = Annotated[str | None, typer.Option(help="Whose last failed call was of this tool.")]
Split = Annotated[str | None, typer.Option(help="Of the split train, dev, audit or final.")]
Import = Annotated[str | None, typer.Option("--import", help="Brought by this import; its id may be cut short.")]
Since = Annotated[str | None, typer.Option(help="Started since: 7d, 6h, a date, a time.")]
Until = Annotated[str | None, typer.Option(help="Started before: 7d, 6h, a date, a time.")]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", metavar="TAG|POSITION|TIME", help="As the log was then: at a tag, a position or a time."),
]
Retracted = Annotated[bool, typer.Option("--retracted", help="Retracted ones too.")]
Reverse = Annotated[bool, typer.Option("--reverse", help="In the opposite order.")]
Limit = Annotated[int, typer.Option(min=0, help="At most so many; 0 is all.")]


def filters(
    *,
    task: str | None,
    verdict: str | None,
    source: str | None,
    policy: str | None,
    tool: str | None,
    split: str | None,
    import_: str | None,
    since: str | None,
    retracted: bool,
    until: str | None = None,
) -> "Filters":
    """What was chosen. `UsageError` for a verdict or split that is none."""
    from core.times import parse_since
    from eventlog.views import listing

    return listing.Filters(
        task=task,
        verdict=one_of("--verdict", verdict, listing.VERDICTS),
        source=source,
        policy=policy,
        failing_tool=tool,
        split=one_of("--split", split, ("train", "dev", "audit", "final")),
        import_id=import_,
        since=None if since is None else parse_since(since),
        retracted=retracted,
        until=None if until is None else parse_since(until),
    )


def one_of(option: str, value: str | None, known: tuple[str, ...]) -> str | None:
    """The value, if it is known or None."""
    if value is None or value in known:
        return value
    raise UsageError(f"{value!r} is not one of {', '.join(known)}", where=option)
