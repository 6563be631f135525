"""`trajlog run`: a planner, an environment, and the record of what they did."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame import Json, command
from cli.output import note
from cli.settings import settings
from core.errors import BadRecord, UsageError

if TYPE_CHECKING:
    from backends.fleet import Begun
    from backends.jobs import Job, Outcome
    from eventlog.log import Log


@command(
    "trajlog run --env phone --task phone/early-flight --planner script:steps.json",
    "trajlog run --env phone --task phone/early-flight --planner openai:http://localhost:8000/v1#planner-27b"
    " --group 8 --parallel 4",
    "trajlog run --env phone --task phone/move-alarm --planner script:steps.json --faults faults.json --json",
    "trajlog run --resume @last",
)
def run(
    env: Annotated[str | None, typer.Option(metavar="NAME", help="The environment; default: the task's first.")] = None,
    task: Annotated[list[str] | None, typer.Option(metavar="TASK", help="The task; may be given again.")] = None,
    planner: Annotated[
        str | None, typer.Option(metavar="PLANNER", help="script:FILE, or openai:URL#MODEL (key: OPENAI_API_KEY).")
    ] = None,
    group: Annotated[int, typer.Option(min=1, help="Rollouts of each task, as one group.")] = 1,
    parallel: Annotated[int, typer.Option(min=1, max=256, help="Episodes at once.")] = 1,
    faults: Annotated[Path | None, typer.Option(metavar="FILE", help="Faults to inject, besides the task's.")] = None,
    sampling: Annotated[
        str | None, typer.Option(metavar="JSON", help="Sampling parameters of the model, as a JSON object.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The environment's seed.")] = 0,
    deadline: Annotated[float, typer.Option(min=0.001, metavar="SECONDS", help="For one action.")] = 30.0,
    turn_deadline: Annotated[float, typer.Option(min=0.001, metavar="SECONDS", help="For one turn.")] = 120.0,
    resume: Annotated[
        str | None, typer.Option(metavar="EP|GROUP", help="Go on with what a killed or interrupted run left open.")
    ] = None,
    end: Annotated[bool, typer.Option("--end", help="With --resume: end it as cancelled instead.")] = False,
    json: Json = False,
) -> None:
    """Run a planner on a task, and record everything.

    Every action is in the log before it is carried out. Ctrl-C ends the episodes under way as cancelled;
    one whose process was killed is gone on with by --resume, a group is completed by it. A task must
    have been admitted (trajlog task gate). Exit 0: every episode passed; 1: some did not; 4: environment
    or model server failed.

    JSON: {env, planner, groups, episodes: [{episode, task, rollout, end, verdict, steps, tokens, wall_s,
    progress, failed, message, infrastructure}], passed, exit}.
    """
    from backends.jobs import Limits

    limits = Limits(action_s=deadline, turn_s=turn_deadline)
    if resume is not None:
        if task or group != 1 or faults or sampling is not None or seed:
            raise UsageError(
                "what it goes on with is settled", where="--resume", mend="only --env and --planner can differ"
            )
        _resume(resume, env, planner, parallel, limits, end, json)
        return
    if end or not task or planner is None:
        missing = "--resume" if end else "--task" if not task else "--planner"
        tasks = "trajlog task ls lists them, trajlog task add --env phone adds some"
        raise UsageError(
            f"{missing} is missing", where="run", mend=tasks if missing == "--task" else "see trajlog run --help"
        )
    _run(env, task, planner, group, parallel, faults, sampling, seed, limits, json)


def _run(
    env: str | None,
    names: list[str],
    planner: str,
    group: int,
    parallel: int,
    faults: Path | None,
    sampling: str | None,
    seed: int,
    limits: Any,
    json: bool,
) -> None:
    from backends import groups, resuming, tasks
    from backends.faults import parse
    from backends.jobs import Job
    from eventlog.writer import Writer

    spec = _planner(planner, sampling)
    added = [] if faults is None else parse(_bytes(faults), where=str(faults))
    with settings().open() as log:
        known = [tasks.load(log, name) for name in dict.fromkeys(names)]
        chosen = env or _only_environment(known)
        jobs: list[Job] = []
        writer = Writer("runner")
        policy = spec.make().policy
        for one in known:
            if not one.admitted:
                why = f" ({one.decided.why})" if one.decided else ""
                raise BadRecord(f"it was not admitted{why}", where=one.task.id, mend=f"trajlog task gate {one.task.id}")
            if one.task.spec.backends and chosen.partition("@")[0] not in one.task.spec.backends:
                allowed = ", ".join(one.task.spec.backends)
                raise BadRecord(f"it may run in {allowed} only, not in {chosen}", where=one.task.id)
            job = Job(
                task=one.task.id,
                spec=one.task.spec,
                digest=one.task.digest,
                seeds={"environment": seed},
                plan=[*added, *parse(one.task.spec.initial.faults, where=one.task.id)],
                versions=_versions(spec),
            )
            begun = [job] if group == 1 else groups.begin(log, job, group, policy, writer)
            if begun[0].group is not None:
                note(f"group {begun[0].group}; if it is interrupted: trajlog run --resume {begun[0].group}")
            jobs += begun
        _play(log, chosen, spec, [(None, job) for job in jobs], parallel, limits, resuming.go_on, json)


def _resume(name: str, env: str | None, planner: str | None, parallel: int, limits: Any, end: bool, json: bool) -> None:
    from backends import groups, resuming
    from cli.reading import reading
    from eventlog.views.named import resolve

    with settings().open() as log:
        with reading(log) as connection:
            of_group = groups.episodes_of(connection, name)
            ids = of_group or [resolve(connection, name).episode]
        open_: list[tuple[str | None, Job]]
        if of_group:
            left, anew = groups.rest(log, name, of_group)
            open_ = list(left)
        else:
            open_, anew = [(ids[0], resuming.job_of(log, ids[0]))], []
        begun = resuming.started(log, ids[0])
        spec = _planner(planner or begun.versions.get("planner", ""), begun.versions.get("sampling"))
        if planner is None and spec.script_digest() != begun.versions.get("script"):
            raise UsageError("its script was changed since", where=spec.text, mend="name the right one by --planner")
        chosen = env or begun.environment or ""
        how: Begun = resuming.go_on
        if end:
            how, anew = _end, []
        todo = [*open_, *((None, job) for job in anew)]
        _play(log, chosen, spec, todo, parallel, limits, how, json)


def _end(episode: Any) -> "Outcome":
    from backends import resuming

    return resuming.end(episode, "left open by a process that was killed")


def _play(log: "Log", env: str, spec: Any, jobs: Any, parallel: int, limits: Any, how: Any, json: bool) -> None:
    """Run the jobs, print what became of them, and exit accordingly."""
    import signal
    from contextlib import closing, suppress

    from backends import environments
    from backends.fleet import Fleet
    from cli.progress import Progress

    make = environments.find(env, settings().home)
    fleet = Fleet(log, make, spec.make, limits=limits, parallel=parallel)

    with suppress(ValueError):  # a thread that is not the main one gets no signals
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    found: list[Outcome] = []
    with (
        Progress("running", total=len(jobs), unit="episodes") as bar,
        closing(fleet.run(jobs, how)) as outcomes,
    ):
        for outcome in outcomes:
            found.append(outcome)
            bar.advance()
    found.sort(key=lambda one: (one.task, one.rollout or 0))
    passed = sum(one.verdict == "pass" for one in found)
    code = 4 if any(one.infrastructure for one in found) else int(passed < len(found))
    if json:
        from cli.output import print_json

        groups = sorted({job.group for _, job in jobs if job.group})
        shown = {"env": env, "planner": spec.shown, "groups": groups, "episodes": found, "passed": passed, "exit": code}
        print_json(shown)
    else:
        _print(found, passed)
    if code:
        raise typer.Exit(code)


def _print(found: "list[Outcome]", passed: int) -> None:
    from cli.output import print_table, print_text

    if not found:
        note("nothing is left to be done")
        return
    heads = ("episode", "task", "rollout", "end", "verdict", "steps", "tokens", "seconds", "failed")
    rows = [
        (
            one.episode,
            one.task,
            one.rollout,
            one.end,
            one.verdict,
            one.steps,
            one.tokens,
            f"{one.wall_s:.2f}",
            ", ".join(one.failed) or None,
        )
        for one in found
    ]
    print_table(heads, rows, right=("rollout", "steps", "tokens", "seconds"))
    for message in dict.fromkeys(one.message for one in found if one.message):
        note(message)
    print_text(f"{passed:,} of {len(found):,} passed")


def _planner(text: str, sampling: str | None) -> Any:
    from msgspec import UNSET, Raw

    from backends.planners import PlannerSpec

    return PlannerSpec(text, UNSET if sampling is None else Raw(sampling.encode()))


def _versions(spec: Any) -> dict[str, str]:
    from msgspec import UNSET

    import trajlog

    said = {"trajlog": trajlog.__version__, "planner": spec.shown}
    if spec.sampling is not UNSET:
        said["sampling"] = bytes(spec.sampling).decode()
    script = spec.script_digest()
    return said if script is None else {**said, "script": script}


def _only_environment(known: Any) -> str:
    named = {backend for one in known for backend in one.task.spec.backends[:1]}
    if len(named) != 1:
        raise UsageError("which environment is not clear", where="--env", mend="name one: trajlog env ls")
    return str(named.pop())


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(file)) from error
