"""View `rollout_group`: one row per group of rollouts, which are compared with one another.

Of a rollout's attempts the latest counts. `success` is s_i, null where the verdict says neither pass nor
fail. What is said of the whole group (`task`, `policy`, `split`, …) is null where its rollouts differ.
Where tokens were recorded, `sampled` holds the versions of those turns, rollout after rollout, and
`sampled_turns` how many are each one's.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from eventlog.projection import Column, Row, Source, relation
from eventlog.views import PREFIX
from learners import rows
from learners.rows import Facts, Key
from learners.views import ROLLOUT_GROUPS, ROLLOUTS, reading
from learners.views.rollout import READS, ROLLOUT

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.database import Connection

GROUPS: Final = "group/"

_SHARED = ("split", "task", "source", "origin", "policy", "environment")
_LISTED = (
    *("episode", "rollout", "attempt", "started", "judged", "verdict", "end", "success", "reward", "progress", "steps"),
    *("calls", "errors", "prompt_tokens", "completion_tokens", "thinking_tokens", "cost", "latency_ms", "scored"),
)
_SPARSE = frozenset(
    {"rollout", "end", "success", "reward", "progress", "cost", "latency_ms"}
    | {"prompt_tokens", "completion_tokens", "thinking_tokens"}
)
_READ = (*_SHARED, *_LISTED, "sampled", "last_position")
_TYPES = {column.name: column.type for column in ROLLOUT.columns}


class Fold:
    """The second stage. Retracted episodes do not count."""

    name, version, *_ = ROLLOUT_GROUPS
    reads = (Source(ROLLOUTS, ("group",)),)
    query = f"""
SELECT "group", {", ".join(f'"{name}"' for name in _READ)}
FROM {{rollout}} AS r WHERE NOT retracted
"""
    key = ("group",)
    logical: Sequence[Column] = (
        Column("group"),
        *[Column(name) for name in _SHARED],
        Column("policies", "bigint"),
        Column("rollouts", "bigint"),
        Column("passed", "bigint"),
        Column("failed", "bigint"),
        Column("undecided", "bigint"),
        Column("counts", "boolean[]"),
        *[Column(name, f"{_TYPES[name]}[]") for name in _LISTED],
        Column("sampled", "bigint[]"),
        Column("sampled_turns", "bigint[]"),
    )
    columns: Sequence[Column] = (*logical, Column("last_position", "bigint"))
    indexes = ("task", "last_position")

    def rows(self, key: Row, group: Sequence[Row]) -> Iterable[Row]:
        found = [dict(zip(_READ, row[1:], strict=True)) for row in group]
        found.sort(key=lambda one: (one["rollout"] is None, one["rollout"] or 0, one["attempt"], one["episode"]))
        latest = {one["episode"] if one["rollout"] is None else one["rollout"]: one["episode"] for one in found}
        counts = [one["episode"] in set(latest.values()) for one in found]
        successes = [one["success"] for one, counted in zip(found, counts, strict=True) if counted]
        yield (
            *key,
            *[_shared(name, found) for name in _SHARED],
            len({one["policy"] for one in found} - {None}),
            len(successes),
            successes.count(1),
            successes.count(0),
            successes.count(None),
            counts,
            *[list(map(itemgetter(name), found)) for name in _LISTED],
            [version for one in found for version in one["sampled"]],
            [len(one["sampled"]) for one in found],
            max(one["last_position"] for one in found),
        )


def _shared(name: str, found: Sequence[Mapping[str, Any]]) -> Any:
    first = found[0][name]
    return first if all(one[name] == first for one in found) else None


_FACTS = """
SELECT "group", split, task, source, origin, policy, environment, steps, completion_tokens, passed + failed,
       episode, started
FROM {relation} WHERE split = 'train' ORDER BY "group"
"""
_LEFT_OUT = """
SELECT CASE WHEN split IS NULL THEN 'splits mixed' ELSE 'split ' || split END, count(*)
FROM {relation} WHERE split IS DISTINCT FROM 'train' GROUP BY 1
"""


class RolloutGroup:
    """The view, for releases: groups of the split train."""

    name, version, *_ = ROLLOUT_GROUPS
    projection = Fold()
    projections = (projection, ROLLOUT)
    reads: Mapping[str, int] = READS

    def schema(self) -> "pa.Schema":
        return reading.schema(self.projection.logical, nullable=_SHARED, sparse=_SPARSE)

    def rows(self, connection: "Connection", log_id: bytes, keys: Collection[Key] | None = None) -> Iterator[rows.Row]:
        names = [column.name for column in self.projection.logical]
        groups = None if keys is None else [key.stream.removeprefix(GROUPS) for key in keys]
        where, values = ("", ()) if groups is None else ('AND "group" = ANY(%s)', (groups,))
        quoted = ", ".join(f'"{name}"' for name in names)
        query = f"SELECT {quoted} FROM {relation(self.projection)} WHERE split = 'train' {where} ORDER BY \"group\""
        for found in reading.stream(connection, query, values):
            yield rows.Row(Key(log_id, GROUPS + found[0], 0, 0), found, _sources(dict(zip(names, found, strict=True))))

    def facts(self, connection: "Connection", log_id: bytes) -> Iterator[Facts]:
        from learners.generations import generations

        trained = generations(connection)
        for found in reading.stream(connection, _FACTS.format(relation=relation(self.projection))):
            group, split, task, source, origin, policy, environment, steps, tokens, judged, episodes, started = found
            yield Facts(
                key=Key(log_id, GROUPS + group, 0, 0),
                split=split,
                task=task,
                source=source or "mixed",
                origin=origin or "mixed",
                generation=trained.get(policy, 0) if origin == "model" else None,
                policy=policy,
                environment=environment,
                judged_by=None,
                reward=None,
                steps=max(steps),
                tokens=max((count for count in tokens if count is not None), default=None),
                supervised=judged,
                content=blake2b("\0".join(episodes).encode(), digest_size=16).digest(),
                plan=(),
                parent=None,
                curated=None,
                goal=(PREFIX + episodes[0], started[0]),
            )

    def left_out(self, connection: "Connection") -> dict[str, int]:
        return dict(connection.execute(_LEFT_OUT.format(relation=relation(self.projection))).fetchall())


def _sources(row: Mapping[str, Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The events that a group rests on: each rollout's start, verdict and sampled turns."""
    found = []
    taken = 0
    for episode, started, judged, turns in zip(
        row["episode"], row["started"], row["judged"], row["sampled_turns"], strict=True
    ):
        sampled = row["sampled"][taken : taken + turns]
        taken += turns
        found.append((PREFIX + episode, tuple(sorted({started, *sampled, *([judged] if judged else [])}))))
    return tuple(found)


ROLLOUT_GROUP: Final = RolloutGroup()
