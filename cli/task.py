"""`trajlog task`: tasks, and the gate that admits them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame import Json, command
from cli.settings import settings
from core.errors import BadRecord, UsageError

if TYPE_CHECKING:
    from backends.tasks import Known, Task
    from core.vocabulary.task import AdmissionDecided
    from eventlog.log import Log

Env = Annotated[
    str | None, typer.Option("--env", metavar="NAME", help="The environment to try it in; default: the task's first.")
]


@command(
    "trajlog task add --env phone",
    "trajlog task add tasks.json",
    "trajlog task add more/*.toml --env airline --json",
)
def add(
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="JSON, JSONL or TOML.")] = None,
    env: Env = None,
    json: Json = False,
) -> None:
    """Add tasks through the gate, from files or an environment.

    A task says what must be achieved; its plans prove that it can be judged: the gold plan passes, doing
    nothing fails, so does the gold plan without one of its writes, and whatever changes something
    besides. A task that does not get through cannot be run (exit 1). What is there already is tried again.

    JSON: [{task, digest, split, admitted, environment, probes: [{name, expected, verdict}], why}].
    """
    from backends import environments, tasks

    if not files and env is None:
        raise UsageError("nothing to add", where="task add", mend="name files, or --env NAME for its own tasks")
    home = settings().home
    found = [task for file in files or [] for task in tasks.read(file)] or environments.tasks_of(env or "", home)
    for task in found:
        why = tasks.refusal(task)
        if why is not None:
            raise BadRecord(f"refused: {why}", where=task.id)
    from eventlog.writer import Writer

    writer = Writer("tasks")
    with settings().open() as log:
        for task in found:
            tasks.store(log, task, writer)
        _through(log, found, env, writer, json)


@command("trajlog task ls", "trajlog task ls --json")
def ls(json: Json = False) -> None:
    """List the tasks of the log.

    JSON: [{task, digest, split, capability, goal, admitted, environment, why}]; admitted is null before
    the gate has decided.
    """
    from backends import tasks
    from cli.output import note, print_json_array, print_table
    from eventlog.log import reader_of

    with settings().open() as log, reader_of(log).borrow() as connection:
        rows = [_row(known) for known in tasks.listed(connection)]
    if json:
        print_json_array(rows)
    elif rows:
        heads = ("task", "split", "capability", "admitted", "environment", "goal")
        print_table(heads, [[_cell(row[head]) for head in heads] for row in rows])
    else:
        note("no tasks; trajlog task add --env phone adds some")


@command("trajlog task show phone/early-flight", "trajlog task show phone/early-flight --json")
def show(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task's id.")],
    json: Json = False,
) -> None:
    """Show a task: its specification, its plans and what the gate said.

    JSON: {task, digest, spec, plans, admitted, environment, why, probes}.
    """
    from backends import tasks
    from cli.output import clean, json_text, print_json, print_text, style

    with settings().open() as log:
        known = tasks.load(log, task)
    row = _row(known)
    said = {
        "task": task,
        "digest": row["digest"],
        "spec": known.task.spec,
        "plans": known.task.plans,
        "admitted": row["admitted"],
        "environment": row["environment"],
        "why": row["why"],
        "probes": known.decided.probes if known.decided else [],
    }
    if json:
        print_json(said)
        return
    print_text(f"{style(clean(task), 'bold')}  {row['digest']}")
    print_text(clean(known.task.spec.goal))
    print_text(f"split {row['split']}, {row['capability']}, {_admission(known)}")
    print_text(json_text({"spec": known.task.spec, "plans": known.task.plans}, indent=2))


@command("trajlog task gate phone/early-flight", "trajlog task gate phone/early-flight --env phone --json")
def gate(
    names: Annotated[list[str], typer.Argument(metavar="TASK...", help="Ids of tasks.")],
    env: Env = None,
    json: Json = False,
) -> None:
    """Try tasks at the admission gate again.

    After an environment changed, say. The answer is recorded, and `trajlog run` goes by the last one.
    Output and exit code as of `task add`.
    """
    from backends import tasks
    from eventlog.writer import Writer

    with settings().open() as log:
        found = [tasks.load(log, name).task for name in names]
        _through(log, found, env, Writer("tasks"), json)


def _through(log: "Log", found: "list[Task]", env: str | None, writer: Any, json: bool) -> None:
    """Put tasks through the gate, record and print what it says."""
    from backends import environments, gate, tasks
    from cli.output import print_json_array, print_table
    from cli.progress import Progress

    home = settings().home
    made = {name: environments.find(name, home) for name in dict.fromkeys(_where(task, env) for task in found)}
    rows = []
    with Progress("at the gate", total=len(found), unit="tasks") as bar:
        for task in found:
            decided = gate.admit(task, made[_where(task, env)])
            log.append(writer.event(tasks.PREFIX + task.id, decided))
            rows.append(_decision(task, decided))
            bar.advance()
    if json:
        print_json_array(rows)
    else:
        heads = ("task", "split", "admitted", "environment", "probes")
        table = [[*(_cell(row[head]) for head in heads[:-1]), len(row["probes"])] for row in rows]
        print_table(heads, table, right=("probes",))
    refused = [row for row in rows if not row["admitted"]]
    if refused:
        many = f" (and {len(refused) - 1} more of {len(rows)})" if len(refused) > 1 else ""
        raise BadRecord(f"not admitted: {refused[0]['why']}{many}", where=refused[0]["task"])


def _where(task: "Task", env: str | None) -> str:
    if env is not None:
        return env
    if task.spec.backends:
        return task.spec.backends[0]
    raise UsageError("it names no environment", where=task.id, mend="give --env NAME")


def _decision(task: "Task", decided: "AdmissionDecided") -> dict[str, Any]:
    return {
        "task": task.id,
        "digest": decided.digest,
        "split": task.spec.split,
        "admitted": decided.admitted,
        "environment": decided.environment,
        "probes": [{"name": one.name, "expected": one.expected, "verdict": one.verdict} for one in decided.probes],
        "why": decided.why,
    }


def _row(known: "Known") -> dict[str, Any]:
    task, decided = known.task, known.decided
    return {
        "task": task.id,
        "digest": task.digest,
        "split": task.spec.split,
        "capability": task.spec.capability,
        "goal": task.spec.goal,
        "admitted": None if decided is None else decided.admitted,
        "environment": None if decided is None else decided.environment,
        "why": None if decided is None else decided.why,
    }


def _admission(known: "Known") -> str:
    from cli.output import clean

    if known.decided is None:
        return "the gate has not seen it"
    if known.admitted:
        return f"admitted in {clean(known.decided.environment or '')}"
    return f"not admitted: {clean(known.decided.why or '')}"


def _cell(value: Any) -> Any:
    return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
