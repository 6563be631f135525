"""Runs recorded episodes again, many at a time, and records what came of it."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec import Raw

from backends.contract import Backend, EnvironmentLost, Manifest, Reach, ResetRefused, ResetSpec
from backends.execution.judging import Judged, judge, vary
from backends.execution.outcome import DIVERGED, INCOMPLETE, SAME, Diverged, Executed, line
from backends.execution.recorded import Act, Episode, read
from backends.faults import Faults
from backends.replaying import Plan, Replayed, Replayer, go_on
from backends.resuming import reset_spec
from core.errors import TrajlogError, Unavailable
from core.event import Event
from core.identity import uuid7
from core.times import now
from core.vocabulary import BlobRef
from core.vocabulary.base import UNSET, MaybeRaw
from core.vocabulary.contract import ExecError, Feedback, ToolCall
from core.vocabulary.replay import Divergence, DivergenceFound, EpisodeReexecuted
from eventlog.blobs import BlobStore
from eventlog.large import body
from eventlog.log import Log
from eventlog.views import PREFIX
from eventlog.writer import Writer

CHUNK = 64
RULES = "1"
"""Version of the cosmetic rules."""
UNKNOWN = "unknown_tool"
NO_TOOL = "{env} has none of the tools that were called, so nothing was compared; give the right --env NAME"
_CLOCK_S = 1.1
"""What must pass between two runs so that a clock shows another second."""


class Options(NamedTuple):
    """`masks`: the cosmetic rules; `first`: stop at an episode's first divergence; `env`: where to run,
    if not where it was recorded; `allow`: the effects outside the environment that may happen."""

    masks: tuple[str, ...] = ("time", "ids")
    first: bool = False
    env: str | None = None
    allow: frozenset[Reach] = frozenset()
    deadline: float = 60.0


class Environments:
    """Instances by name, each made when it is first needed."""

    def __init__(self, find: Callable[[str], Callable[[], Backend]]) -> None:
        self._find = find
        self._made: dict[str, Backend | TrajlogError] = {}

    def get(self, name: str) -> Backend:
        """The instance. `NotFound`, `Unavailable`: again each time it is asked for."""
        found = self._made.get(name)
        if found is None:
            try:
                found = self._find(name)()
            except TrajlogError as error:
                found = error
            self._made[name] = found
        if isinstance(found, TrajlogError):
            raise found
        return found

    def drop(self, name: str) -> None:
        """Make a new one next time."""
        found = self._made.pop(name, None)
        if found is not None and not isinstance(found, TrajlogError):
            found.close()

    def close(self) -> None:
        for name in list(self._made):
            self.drop(name)


class _Job(NamedTuple):
    episode: Episode
    acts: list[Act]
    """All that are run, those of the prefix first."""
    refused: list[Act]
    """Calls of tools that the planner was not shown: they reached no environment, and stay what they were."""
    plan: Plan


class Lines(NamedTuple):
    """A result, and its divergences in words."""

    result: Executed
    lines: list[str]


def execute(
    log: Log, episodes: Iterable[str], environments: Environments, options: Options, *, execution: str | None = None
) -> Iterator[Lines]:
    """Run episodes again, in order, by their ids. Each leaves `EpisodeReexecuted` in its stream, and a
    `DivergenceFound` for every action that came out otherwise."""
    keeper = _Keeper(log, execution or uuid7().hex())
    remaining = iter(episodes)
    specs: dict[tuple[str | None, str | None, str], ResetSpec] = {}
    while chunk := list(islice(remaining, CHUNK)):
        found: dict[str, Lines] = {}
        groups: dict[str, list[Episode]] = {}
        for episode in read(log, list(dict.fromkeys(chunk))):
            name = options.env or episode.started.environment
            if episode.wrong is not None or name is None:
                why = episode.wrong or "it does not say which environment it ran in: give --env"
                found[episode.id] = _unrun(episode, name, why)
            else:
                groups.setdefault(name, []).append(episode)
        for name, members in groups.items():
            for lines in _group(log, members, name, environments, options, keeper, specs):
                found[lines.result.episode] = lines
        keeper.flush()
        yield from (found[id] for id in chunk)


def _group(
    log: Log,
    members: list[Episode],
    name: str,
    environments: Environments,
    options: Options,
    keeper: "_Keeper",
    specs: dict[tuple[str | None, str | None, str], ResetSpec],
) -> Iterator[Lines]:
    """The episodes that run in one environment."""
    try:
        manifest = environments.get(name).describe()
    except TrajlogError as error:
        yield from (_unrun(episode, name, str(error)) for episode in members)
        return
    jobs: list[_Job] = []
    for episode in members:
        try:
            job = _job(log, episode, manifest, options, specs)
        except TrajlogError as error:
            yield _unrun(episode, manifest.name, str(error))
            continue
        if strange := _strange(job, manifest):
            yield _unrun(episode, manifest.name, NO_TOOL.format(env=manifest.name), strange)
        else:
            jobs.append(job)
    runs = list(_runs(jobs, name, environments, options))
    begun = time.monotonic()
    judged = [
        None if isinstance(run, str) else judge(job.episode, job.acts, run, options.masks)
        for job, run in zip(jobs, runs, strict=True)
    ]
    doubtful = [place for place, one in enumerate(judged) if one is not None and one.differs]
    if doubtful and manifest.determinism == "D0":
        if any(one is not None and one.by_clock for one in judged):
            time.sleep(max(0.0, begun + _CLOCK_S - time.monotonic()))
        again = _runs([jobs[place] for place in doubtful], name, environments, options)
        for place, second in zip(doubtful, again, strict=True):
            one, first = judged[place], runs[place]
            if one is not None and isinstance(first, Replayed) and isinstance(second, Replayed):
                vary(one, jobs[place].acts, first, second, imported=jobs[place].episode.imported)
    for job, run, one in zip(jobs, runs, judged, strict=True):
        if one is None:
            yield _unrun(job.episode, manifest.name, str(run))
        else:
            lines = _lines(job, one, manifest, options)
            keeper.keep(lines.result, one, manifest)
            yield lines


def _job(
    log: Log,
    episode: Episode,
    manifest: Manifest,
    options: Options,
    specs: dict[tuple[str | None, str | None, str], ResetSpec],
) -> _Job:
    started = episode.started
    if episode.imported:
        spec = ResetSpec(task=started.task, seeds=started.seeds)
    else:
        key = started.task, started.task_digest, msgspec.json.encode(started.seeds).decode()
        if key not in specs:
            specs[key] = reset_spec(log, started)
        spec = specs[key]
    shown = None if started.tools is None or episode.imported else {tool.name for tool in started.tools}
    acts: list[Act] = []
    refused: list[Act] = []
    for act in (*episode.prefix, *episode.acts):
        exposed = shown is None or not isinstance(act.action, ToolCall) or act.action.tool in shown
        (acts if exposed else refused).append(act)
    states = started.state is not None or any(act.after is not None for act in acts)
    return _Job(episode, acts, refused, Plan(spec, [act.action for act in acts], states, verbatim=episode.imported))


def _strange(job: _Job, manifest: Manifest) -> list[str]:
    """The tools that were called, if the environment has none of them and there is nothing else to compare."""
    known = {tool.name for tool in manifest.tools}
    acts = [act for act in job.acts if not (isinstance(act.feedback, ExecError) and act.feedback.class_ == UNKNOWN)]
    if any(not isinstance(act.action, ToolCall) or act.name in known for act in acts):
        return []
    return sorted({act.name for act in acts})


def _runs(jobs: Sequence[_Job], name: str, environments: Environments, options: Options) -> Iterator[Replayed | str]:
    """What came back of each job, or why nothing did."""
    backend = environments.get(name)
    if jobs and isinstance(backend, Replayer) and not any(_by_itself(job, backend, options) for job in jobs):
        done = 0
        try:
            for found in backend.replay((job.plan for job in jobs), options.deadline):
                done += 1
                yield found.refused if found.refused is not None else found
        except EnvironmentLost as error:
            environments.drop(name)
            yield str(error)
            yield from _runs(jobs[done + 1 :], name, environments, options)
        return
    for job in jobs:
        try:
            yield _alone(job, environments.get(name), options)
        except ResetRefused as error:
            yield str(error)
        except EnvironmentLost as error:
            environments.drop(name)
            yield str(error)


def _by_itself(job: _Job, backend: Backend, options: Options) -> bool:
    """Whether an episode has to be run action by action: faults come between, or it must be stopped in time."""
    reaching = backend.describe().open_world
    return job.episode.started.fault_plan is not UNSET or (options.first and bool(reaching))


def _alone(job: _Job, backend: Backend, options: Options) -> Replayed:
    faults = Faults.of(job.episode.started.fault_plan)
    begun = backend.reset(job.plan.spec)
    if not faults.plan and not options.first:
        return go_on(backend, begun, job.plan, options.deadline)
    states = [begun] if job.plan.states and begun is not None else []
    found: list[Feedback] = []
    for number, act in enumerate(job.acts):
        feedback, _ = faults.execute(backend, act.action, options.deadline, f"{number}")
        found.append(feedback)
        state = backend.observe().state if states else None
        states = [*states, state] if state is not None else []
        if options.first and judge(job.episode, [act], Replayed([feedback], []), options.masks).differs:
            break
    return Replayed(found, states)


def _lines(job: _Job, judged: Judged, manifest: Manifest, options: Options) -> Lines:
    """A job's result."""
    episode = job.episode
    first: int | None = None
    diverged: list[Diverged] = []
    lines: list[str] = []
    class_ = _class(episode, manifest)
    for act in job.acts:
        found = judged.material.get(act.version, [])
        if act.version < 0 or not (found or act.version in judged.missing):
            continue
        if not found:
            diverged.append(Diverged(act.version, act.step, act.name, "$", None, None, "missing_observation", first))
            lines.append(f"step={act.step} {act.name} $: nothing was recorded to compare with  missing_observation")
            continue
        one = found[0]
        expected, actual = (None if value is UNSET else value for value in (one.a, one.b))
        diverged.append(Diverged(act.version, act.step, act.name, one.path, expected, actual, class_, first))
        after = "" if first is None else f"  after @{first}"
        lines.append(f"step={act.step} {act.name} {line(diverged[-1], found)}  {class_}{after}")
        first = act.version if first is None else first
        if options.first:
            break
    steps = {act.step for act in job.acts if act.version > 0 and act.version in judged.run}
    steps |= {act.step for act in job.refused if act.version > 0}
    wrong = {act.step for act in job.acts if act.version > 0 and act.version in judged.material.keys() | judged.missing}
    known = {tool.name for tool in manifest.tools}
    result = Executed(
        episode=episode.id,
        env=manifest.name,
        steps=len(steps),
        same=len(steps - wrong),
        masked=sum(judged.cosmetic.values()),
        diverged=diverged,
        exit=DIVERGED if first is not None else INCOMPLETE if any(version > 0 for version in judged.missing) else SAME,
        lacking=sorted(
            {
                act.name
                for act in job.acts
                if isinstance(act.action, ToolCall) and act.name not in known and act.version in judged.material
            }
        ),
        nondeterministic=sorted(judged.varying),
    )
    return Lines(result, lines)


def _class(episode: Episode, manifest: Manifest) -> Divergence:
    """Our own code is not the one that recorded it, or the world is another."""
    recorded = (episode.started.environment or "").partition("@")
    ours = manifest.backend == "sandbox" and recorded[0] == manifest.environment
    return "code_change" if ours and recorded[2] not in ("", manifest.version) else "environment_drift"


def _unrun(episode: Episode, env: str | None, why: str, lacking: Sequence[str] = ()) -> Lines:
    return Lines(Executed(episode=episode.id, env=env, exit=INCOMPLETE, lacking=list(lacking), why=why), [])


class _Keeper:
    """Writes what was found into the episodes' streams."""

    def __init__(self, log: Log, execution: str) -> None:
        self._log = log
        self._execution = execution
        self._writer = Writer("exec")
        self._events: list[Event] = []

    def keep(self, result: Executed, judged: Judged, manifest: Manifest) -> None:
        for one in result.diverged:
            found = judged.material.get(one.version, [None])[0]
            expected, actual = (UNSET, UNSET) if found is None else (_raw(found.a), _raw(found.b))
            self._add(
                result.episode,
                DivergenceFound(
                    self._execution,
                    one.version,
                    one.step,
                    one.path,
                    one.class_,
                    tool=one.tool,
                    expected=expected,
                    actual=actual,
                    after=one.after,
                ),
            )
        cosmetic = {f"{rule}@{RULES}": count for rule, count in sorted(judged.cosmetic.items())}
        material = sum(one.class_ != "missing_observation" for one in result.diverged)
        self._add(
            result.episode,
            EpisodeReexecuted(
                self._execution,
                manifest.name,
                compared=len(judged.run) - len(judged.missing),
                divergences=material,
                cosmetic=cosmetic,
                versions=manifest.versions,
            ),
        )

    def flush(self) -> None:
        if self._events:
            self._log.append_many(self._events)
        self._events = []

    def _add(self, episode: str, payload: DivergenceFound | EpisodeReexecuted) -> None:
        self._events.append(
            self._writer.raw(
                PREFIX + episode,
                type(payload).__name__,
                body(payload, self._blob),
                schema=payload.schema_number,
                occurred_at=now(),
                actor="executor",
            )
        )

    def _blob(self, data: bytes) -> BlobRef:
        if self._log.blobs is None:
            raise Unavailable("a divergence is too large for an event, and the log has no blob store", where="exec")
        return BlobStore(self._log.blobs).put(data)


def _raw(value: object) -> MaybeRaw:
    return UNSET if value is UNSET else Raw(msgspec.json.encode(value))
