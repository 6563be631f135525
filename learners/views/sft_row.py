"""View `sft_row`: one row per passing episode of the split train, for imitation.

A row refers to the events of the conversation and says which turns train: those a model generated, but
not what was copied from another episode nor turns marked as erroneous. It holds no text.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from eventlog.projection import Column, relation
from eventlog.views import PREFIX
from learners import rows
from learners.rows import Facts, Key
from learners.views import SFT_ROWS, reading
from learners.views.rollout import ROLLOUT
from learners.views.sft_fold import READS, SFT_FOLD

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.database import Connection

_NULLABLE = frozenset(
    {"task", "group", "policy", "environment", "judged_by", "reward", "tokens", "completion_tokens", "tools"}
)
_FACTS = """
SELECT episode, started, split, task, source, origin, policy, environment, judged_by, reward, steps, tokens,
       supervised, content, plan, parent, curated
FROM {relation} ORDER BY episode
"""
_LEFT_OUT = """
SELECT CASE WHEN retracted THEN 'retracted' WHEN split <> 'train' THEN 'split ' || split
            ELSE 'verdict ' || verdict END, count(*)
FROM {relation} WHERE retracted OR split <> 'train' OR verdict <> 'pass' GROUP BY 1
"""


class SftRow:
    """The view, for releases."""

    name, version, *_ = SFT_ROWS
    projection = SFT_FOLD
    projections = (projection, ROLLOUT)
    reads: Mapping[str, int] = READS

    def schema(self) -> "pa.Schema":
        return reading.schema(self.projection.logical, _NULLABLE)

    def rows(self, connection: "Connection", log_id: bytes, keys: Collection[Key] | None = None) -> Iterator[rows.Row]:
        width = len(self.projection.logical)
        names = ", ".join(f'"{column.name}"' for column in (*self.projection.logical, Column("late")))
        streams = None if keys is None else [key.stream.removeprefix(PREFIX) for key in keys]
        where = "" if streams is None else "WHERE episode = ANY(%s)"
        query = f"SELECT {names} FROM {relation(self.projection)} {where} ORDER BY episode"
        versions = [column.name for column in self.projection.logical].index("part_version")
        for values in reading.stream(connection, query, () if streams is None else (streams,)):
            stream, started = PREFIX + values[0], values[1]
            sources = tuple(sorted({started, *values[versions], *values[width]}))
            yield rows.Row(Key(log_id, stream, started, 0), values[:width], ((stream, sources),))

    def facts(self, connection: "Connection", log_id: bytes) -> Iterator[Facts]:
        from learners.generations import generations

        trained = generations(connection)
        for row in reading.stream(connection, _FACTS.format(relation=relation(self.projection))):
            episode, started, split, task, source, origin, policy, *others, content, plan, parent, curated = row
            environment, judged_by, reward, steps, tokens, supervised = others
            stream = PREFIX + episode
            yield Facts(
                Key(log_id, stream, started, 0),
                split,
                task,
                source,
                origin,
                trained.get(policy, 0) if origin == "model" else None,
                policy,
                environment,
                judged_by,
                reward,
                steps,
                tokens,
                supervised,
                content,
                tuple(plan),
                parent,
                curated,
                (stream, started),
            )

    def left_out(self, connection: "Connection") -> dict[str, int]:
        return dict(connection.execute(_LEFT_OUT.format(relation=relation(ROLLOUT))).fetchall())


SFT_ROW: Final = SftRow()
