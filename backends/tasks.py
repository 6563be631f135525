"""Tasks: read from files, kept as events, looked up by id.

A task file is JSON, JSON lines or TOML: one task or several, each `{id, spec, plans}`. `plans` are
scripts for the admission gate: `gold` must pass, `others` too, `collateral` must not. The
specification goes into `task/<id>`, the plans into `hidden/task/<id>`, where no planner reads.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from backends import rules, script
from backends.schemas import digest, plain
from backends.script import Script
from core import choices
from core.errors import BadRecord, NotFound, UsageError
from core.vocabulary import payload
from core.vocabulary.task import AdmissionDecided, PlanRecorded, TaskDefined, TaskSpec
from eventlog.log import Log
from eventlog.writer import Writer

if TYPE_CHECKING:
    from eventlog.database import Connection

PREFIX = "task/"
HIDDEN = "hidden/task/"
_MANY = frozenset({".jsonl", ".ndjson"})


class Plans(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Ways through a task: for the gate alone."""

    gold: Script = []
    others: list[Script] = []
    collateral: Script = []


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task with the plans that prove it."""

    id: Annotated[str, Meta(pattern=r"^[\w.:-]+(/[\w.:-]+)*$", max_length=200)]
    spec: TaskSpec
    plans: Plans = Plans()

    @property
    def digest(self) -> str:
        """Of the specification: equal specifications, equal digests."""
        return digest(plain(self.spec))


class Known(msgspec.Struct, frozen=True):
    """A task as the log holds it. `decided`: the gate's last word on this specification."""

    task: Task
    decided: AdmissionDecided | None = None

    @property
    def admitted(self) -> bool:
        return self.decided is not None and self.decided.admitted


def read(path: Path) -> list[Task]:
    """The tasks in a file. `UsageError` or `BadRecord`, naming the file and the task."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    found = [_task(value, where) for value, where in _values(path, data)]
    if not found:
        raise BadRecord("holds no task", where=str(path))
    ids = [task.id for task in found]
    twice = next((id for id in ids if ids.count(id) > 1), None)
    if twice is not None:
        raise BadRecord(f"holds task {twice} twice", where=str(path))
    return found


def refusal(task: Task) -> str | None:
    """Why the specification can never be judged; None if it can."""
    if not task.spec.criteria:
        return "it has no criteria: say when it is done"
    ids = [criterion.id for criterion in task.spec.criteria]
    if len(set(ids)) < len(ids):
        return "two of its criteria have one id"
    if not any(criterion.gates for criterion in task.spec.criteria):
        return "none of its criteria gates: it could not fail"
    for criterion in task.spec.criteria:
        try:
            rule = rules.read(criterion.policy, criterion.rule)
        except BadRecord as error:
            return f"criterion {criterion.id}: {error.what}"
        if rule is msgspec.UNSET:
            return f"criterion {criterion.id} asks nothing"
    return None if task.plans.gold else "it has no gold plan to prove it by"


def store(log: Log, task: Task, writer: Writer) -> bool:
    """Keep a task; False if the log holds it already, exactly so. `BadRecord` if its split changed: that
    is set once."""
    known = _find(log, task.id)
    if known is not None:
        if plain(known.task) == plain(task):
            return False
        if known.task.spec.split != task.spec.split:
            raise BadRecord(
                f"its split is {known.task.spec.split} and stays so, but this one says {task.spec.split}",
                where=task.id,
                mend="give the task another id",
            )
    plans = [PlanRecorded(task.digest, "gold", script.encode(task.plans.gold))]
    plans += [PlanRecorded(task.digest, "other_plan", script.encode(one)) for one in task.plans.others]
    if task.plans.collateral:
        plans.append(PlanRecorded(task.digest, "collateral_write", script.encode(task.plans.collateral)))
    for plan in plans:
        log.append(writer.event(HIDDEN + task.id, plan))
    log.append(writer.event(PREFIX + task.id, TaskDefined(task.digest, task.spec)))
    return True


def load(log: Log, id: str, digest: str | None = None) -> Known:
    """The task of that id, as it was last defined, or as the specification of that digest. `NotFound`."""
    found = _find(log, id, digest)
    if found is None:
        what = "no such task" if digest is None else f"the log has no specification {digest[:19]}… of the task"
        raise NotFound(what, where=id, mend="trajlog task ls lists them; trajlog task add --env phone adds some")
    return found


def listed(connection: "Connection") -> Iterator[Known]:
    """Every task of the log, by id, without its plans."""
    rows = connection.execute(_ALL)
    defined: TaskDefined | None = None
    decided: AdmissionDecided | None = None
    last = None
    for stream, type_, body in rows:
        if stream != last and defined is not None and last is not None:
            yield Known(Task(last.removeprefix(PREFIX), defined.spec), decided)
            defined = None
        last = stream
        if type_ == "TaskDefined":
            defined, decided = msgspec.json.decode(body, type=TaskDefined), None
        else:
            said = msgspec.json.decode(body, type=AdmissionDecided)
            decided = said if defined is not None and said.digest == digest(plain(defined.spec)) else decided
    if defined is not None and last is not None:
        yield Known(Task(last.removeprefix(PREFIX), defined.spec), decided)


_ALL = (
    "SELECT stream, type, body FROM trajlog.event WHERE stream >= 'task/' AND stream < 'task0' "
    "AND type IN ('TaskDefined', 'AdmissionDecided') ORDER BY stream, version"
)


def _find(log: Log, id: str, wanted: str | None = None) -> Known | None:
    defined: TaskDefined | None = None
    decided: AdmissionDecided | None = None
    for said in map(payload, log.read(PREFIX + id)):
        if isinstance(said, TaskDefined) and wanted in (None, said.digest):
            defined = said
            decided = None
        elif isinstance(said, AdmissionDecided) and defined is not None and said.digest == defined.digest:
            decided = said
    if defined is None:
        return None
    plans: dict[str, list[Script]] = {}
    last: str | None = None
    for said in map(payload, log.read(HIDDEN + id)):
        if isinstance(said, PlanRecorded) and said.digest == defined.digest:
            if said.name == "gold" and last != "gold":
                plans = {}  # plans are kept whole: the latest set counts
            plans.setdefault(said.name, []).append(script.parse(said.steps, where=id))
            last = said.name
    gold = plans.get("gold", [[]])[-1]
    kept = Plans(gold, plans.get("other_plan", []), plans.get("collateral_write", [[]])[-1])
    return Known(Task(id, defined.spec, kept), decided)


def _values(path: Path, data: bytes) -> Iterator[tuple[Any, str]]:
    """Each task of the file as plain values, and where it stands."""
    try:
        if path.suffix == ".toml":
            import tomllib

            found: Any = tomllib.loads(data.decode())
            found = found.get("task", found)
        elif path.suffix in _MANY:
            lines: Iterable[bytes] = data.splitlines()
            found = [msgspec.json.decode(line) for line in lines if line.strip()]
        else:
            found = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:  # also what tomllib and msgspec raise
        raise _unreadable(path, data, str(error)) from error
    if isinstance(found, list):
        for number, value in enumerate(found):
            yield value, f"{path}[{number}]"
    else:
        yield found, str(path)


def _unreadable(path: Path, data: bytes, why: str) -> BadRecord:
    kind = {".toml": "TOML", ".jsonl": "JSON lines", ".ndjson": "JSON lines"}.get(path.suffix, "JSON")
    if not data.strip():
        return BadRecord("it is empty", where=str(path), mend="write a task in it; see docs/environments.md")
    if "truncated" in why:
        return BadRecord(
            "it is cut short: the JSON in it does not end", where=str(path), mend="get the whole file again"
        )
    mend = "a task file ends in .json, .jsonl or .toml; see docs/environments.md"
    return BadRecord(f"it is no {kind}: {why}", where=str(path), mend=mend)


def _task(value: Any, where: str) -> Task:
    try:
        return msgspec.json.decode(msgspec.json.encode(value), type=Task)
    except (msgspec.MsgspecError, ValueError) as error:
        mend = choices.mend(str(error), Task) or "see docs/environments.md"
        raise BadRecord(f"no task: {error}", where=where, mend=mend) from error
