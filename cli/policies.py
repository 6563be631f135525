"""`trajlog policies`: what episodes say about each policy."""

from typing import Annotated

import typer

from cli import filters as options
from cli.frame import Json, command
from cli.summary import summarise

_COLUMNS = (
    "policy",
    "episodes",
    "tasks",
    "passed",
    "failed",
    "undecided",
    "unverified",
    "pass_rate",
    "pass_k",
    "steps",
    "tokens",
)


@command(
    "trajlog policies",
    "trajlog policies --split dev --sort rate --reverse",
    "trajlog policies --as-of release-1 --json",
)
def policies(
    task: options.Task = None,
    source: options.Source = None,
    policy: options.Policy = None,
    split: options.Split = None,
    import_: options.Import = None,
    since: options.Since = None,
    until: options.Until = None,
    sort: Annotated[
        str, typer.Option(help="By policy, rate or steps, tokens, episodes, failed, latest (largest first).")
    ] = "policy",
    reverse: options.Reverse = False,
    limit: options.Limit = 50,
    as_of: options.AsOf = None,
    json: Json = False,
) -> None:
    """List policies with their pass rates.

    A rate is of the episodes judged pass or fail; `undecided` were judged otherwise. pass_k is pass^1,
    pass^2, …: the chance that k trials of one task all pass, averaged over the tasks that have k. Filters
    choose the episodes that count.

    JSON: [{policy, episodes, tasks, passed, failed, undecided, unverified, pass_rate, trials, pass_k: [number],
    steps, tokens (means), last_position}].
    """
    from eventlog.views.summaries import POLICY_LIST

    summarise(
        POLICY_LIST,
        _COLUMNS,
        order=(sort, reverse, limit),
        as_of=as_of,
        json=json,
        task=task,
        source=source,
        policy=policy,
        split=split,
        import_=import_,
        since=since,
        until=until,
    )
