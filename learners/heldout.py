"""What is held out: tasks and episodes of the splits dev, audit and final, and what comes near them.

A row is refused if its task is held out or derived from one that is, if its episode was forked from one
that is, at whatever remove, or if its goal and plan are a near-duplicate. Of goals that are sealed or
missing the last cannot be said: they are counted as unread.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from eventlog.projection import relation
from eventlog.views import PREFIX
from learners import duplicates
from learners.rows import Facts
from learners.views.rollout import ROLLOUT

if TYPE_CHECKING:
    from eventlog.database import Connection

_TASKS = "task/"
_DEFINED = """
SELECT s.stream, e.body FROM stream s CROSS JOIN LATERAL (
    SELECT version, body FROM event WHERE event.stream = s.stream AND type = 'TaskDefined' ORDER BY version) e
WHERE s.stream ^@ 'task/' ORDER BY s.stream, e.version
"""
"""Stream by stream: joined, a log that was just filled and has no statistics would be read from end to end."""
_PLANS = """
SELECT e.body FROM event e WHERE e.stream = %s AND e.type = 'PlanRecorded' ORDER BY e.version
"""
_EPISODES = "SELECT episode, started, split, task, plan FROM {relation} WHERE split <> %s ORDER BY episode"
_ANCESTRY = "SELECT split, parent FROM {relation} WHERE episode = %s"
_STARTED = """
SELECT e.stream, e.body FROM event e JOIN unnest(%s::text[], %s::bigint[]) w (stream, version) USING (stream, version)
"""
_CHUNK = 1_000
_CACHED = 50_000


class _Goal(msgspec.Struct, gc=False):
    goal: str | None = None


class _Spec(msgspec.Struct, gc=False):
    split: str
    goal: str | None = None
    parent: str | None = None


class _Defined(msgspec.Struct, gc=False):
    spec: _Spec


_goal = msgspec.json.Decoder(_Goal).decode
_defined = msgspec.json.Decoder(_Defined).decode


class HeldOut:
    """What is held out in some logs. `connections` are by log id, each as a view's rows are read on it:
    with `ROLLOUT` up to date, as of the cut."""

    def __init__(self, connections: "Mapping[bytes, Connection]") -> None:
        self._connections = connections
        self.tasks: dict[str, str] = {}
        self.derived: dict[str, str] = {}
        self.episodes: Counter[str] = Counter()
        self.index = duplicates.Index()
        self.unread = 0
        self._near: dict[tuple[str, tuple[str, ...]], str | None] = {}
        self._splits: dict[tuple[bytes, str], str | None] = {}
        for connection in connections.values():
            self._read_tasks(connection)
            self._read_episodes(connection)

    @property
    def nothing(self) -> bool:
        return not self.tasks and not self.episodes

    def refuse(self, rows: Sequence[Facts]) -> list[str | None]:
        """Of each row why it may not be trained on, or None."""
        if self.nothing:
            return [None] * len(rows)
        reasons = [self._of_its_task(row) or self._of_its_parents(row) for row in rows]
        unsure = [row for row, reason in zip(rows, reasons, strict=True) if reason is None]
        near = iter(self._near_duplicates(unsure))
        return [next(near) if reason is None else reason for reason in reasons]

    def report(self) -> dict[str, Any]:
        """For the manifest: what was held out, how near-duplicates were found, and how many such are missed."""
        return {
            "tasks": dict(sorted(Counter(self.tasks.values()).items())),
            "derived_tasks": len(self.derived),
            "episodes": dict(sorted(self.episodes.items())),
            "goals": len(self.index),
            "unread": self.unread,
            "near_duplicates": {
                "measure": "0.5 Jaccard of words + 0.3 overlap of values + 0.2 Jaccard of the plan's pairs of tools",
                "threshold": duplicates.THRESHOLD,
                "measured": duplicates.MEASURED,
            },
        }

    def _read_tasks(self, connection: "Connection") -> None:
        specs: dict[str, list[_Spec]] = {}
        for stream, body in connection.execute(_DEFINED, binary=True).fetchall():
            specs.setdefault(str(stream).removeprefix(_TASKS), []).append(_defined(body).spec)
        for task, versions in specs.items():
            held = next((spec.split for spec in versions if spec.split != "train"), None)
            if held is not None:
                self.tasks[task] = held
                plan = self._gold_plan(connection, task)
                for spec in versions:
                    self._know(spec.goal, plan, held)
        parents = {task: [spec.parent for spec in versions if spec.parent] for task, versions in specs.items()}
        for task in parents:
            if task not in self.tasks:
                held = next((self.tasks[one] for one in _ancestors(task, parents) if one in self.tasks), None)
                if held is not None:
                    self.derived[task] = held

    def _gold_plan(self, connection: "Connection", task: str) -> tuple[str, ...]:
        for (body,) in connection.execute(_PLANS, (f"hidden/task/{task}",), binary=True).fetchall():
            said: dict[str, Any] = msgspec.json.decode(body)
            if said.get("name") == "gold" and isinstance(said.get("steps"), list):
                return tuple(_tools(said["steps"]))
        return ()

    def _read_episodes(self, connection: "Connection") -> None:
        query = _EPISODES.format(relation=relation(ROLLOUT))
        found = connection.execute(query, ("train",), binary=True).fetchall()
        for at in range(0, len(found), _CHUNK):
            chunk = found[at : at + _CHUNK]
            goals = _goals(connection, [(PREFIX + episode, started) for episode, started, *_ in chunk])
            for episode, _, split, task, plan in chunk:
                self.episodes[split] += 1
                if task is not None:
                    self.tasks.setdefault(task, split)
                self._know(goals.get(PREFIX + episode), tuple(plan), split)

    def _know(self, goal: str | None, plan: tuple[str, ...], split: str) -> None:
        if goal:
            self.index.add(duplicates.signature(goal, plan), split)
        else:
            self.unread += 1

    def _of_its_task(self, row: Facts) -> str | None:
        if row.task in self.tasks:
            return f"held out: task of {self.tasks[row.task]}"
        return f"held out: derived from a task of {self.derived[row.task]}" if row.task in self.derived else None

    def _of_its_parents(self, row: Facts) -> str | None:
        held = self._descends(row.key.log_id, row.parent) if row.parent else None
        return held and f"held out: forked from an episode of {held}"

    def _descends(self, log_id: bytes, stream: str | None) -> str | None:
        """The held-out split that a stream or one it was forked from is of."""
        seen: list[str] = []
        found: str | None = None
        while stream is not None and stream not in seen and (log_id, stream) not in self._splits:
            seen.append(stream)
            query = _ANCESTRY.format(relation=relation(ROLLOUT))
            row = self._connections[log_id].execute(query, (stream.removeprefix(PREFIX),)).fetchone()
            split, stream = row or ("train", None)
            if split != "train":
                found, stream = split, None
        if found is None and stream is not None:
            found = self._splits.get((log_id, stream))
        for one in seen:
            self._splits[log_id, one] = found
        return found

    def _near_duplicates(self, rows: Sequence[Facts]) -> Iterator[str | None]:
        wanted: dict[bytes, list[tuple[str, int]]] = {}
        for row in rows:
            wanted.setdefault(row.key.log_id, []).append(row.goal)
        goals = {log_id: _goals(self._connections[log_id], places) for log_id, places in wanted.items()}
        for row in rows:
            goal = goals[row.key.log_id].get(row.goal[0])
            if goal:
                yield self._nearest(goal, row.plan)
            else:
                self.unread += 1
                yield None

    def _nearest(self, goal: str, plan: tuple[str, ...]) -> str | None:
        key = (goal, plan)
        if key not in self._near:
            if len(self._near) >= _CACHED:
                self._near.clear()
            found = self.index.nearest(duplicates.signature(goal, plan))
            self._near[key] = None if found is None else f"near-duplicate: task of {found[1]}"
        return self._near[key]


def _goals(connection: "Connection", places: Iterable[tuple[str, int]]) -> dict[str, str]:
    """The goals that EpisodeStarted events say, by stream; those that can be read."""
    streams, versions = [], []
    for stream, version in places:
        streams.append(stream)
        versions.append(version)
    found = {}
    for stream, body in connection.execute(_STARTED, (streams, versions), binary=True):
        goal = _goal(body).goal
        if goal:
            found[str(stream)] = goal
    return found


def _ancestors(task: str, parents: Mapping[str, Sequence[str]]) -> Iterator[str]:
    seen = {task}
    waiting = list(parents.get(task, ()))
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            yield one
            waiting += parents.get(one, ())


def _tools(steps: Sequence[Any]) -> Iterator[str]:
    """The tools that a script calls, in order."""
    for step in steps:
        for call in [step, *step.get("calls", [])] if isinstance(step, dict) else []:
            if isinstance(call, dict) and isinstance(call.get("tool"), str):
                yield call["tool"]
