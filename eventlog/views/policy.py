"""Projection `policy`: one row per policy (model, checkpoint), made from the episodes it acted in.

pass^k is taken within each task and averaged over the tasks.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from eventlog.projection import Column, Row, Source
from eventlog.views import EPISODES, POLICIES
from eventlog.views.rates import TRIALS, Trials, pass_k, total


class Policy:
    """The second stage. Retracted episodes do not count; those that name no task are no trials of one."""

    name, version, *_ = POLICIES
    reads = (Source(EPISODES, ("policy",)),)
    query = f"SELECT policy, task, {TRIALS} FROM {{episode}} AS e WHERE NOT retracted GROUP BY policy, task"
    key = ("policy",)
    columns: Sequence[Column] = (
        Column("policy"),
        Column("episodes", "bigint"),
        Column("tasks", "bigint"),
        Column("passed", "bigint"),
        Column("failed", "bigint"),
        Column("undecided", "bigint"),
        Column("unverified", "bigint"),
        Column("pass_rate", "double precision"),
        Column("trials", "bigint"),
        Column("pass_k", "double precision[]"),
        Column("steps", "double precision"),
        Column("tokens", "double precision"),
        Column("last_position", "bigint"),
    )
    indexes = ("last_position",)

    def rows(self, key: Row, group: Sequence[Row]) -> Iterable[Row]:
        cells = [(task, Trials(*counts)) for _, task, *counts in group]
        whole = total(trials for _, trials in cells)
        of_tasks = [trials for task, trials in cells if task is not None]
        yield (
            *key,
            whole.episodes,
            len(of_tasks),
            whole.passed,
            whole.failed,
            whole.undecided,
            whole.unverified,
            whole.rate,
            max((trials.judged for trials in of_tasks), default=0),
            pass_k(of_tasks),
            whole.mean_steps,
            whole.mean_tokens,
            whole.last_position,
        )


POLICY: Final = Policy()
