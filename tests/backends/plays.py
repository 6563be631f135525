"""What tests of running episodes share: the phone's tasks, backends that misbehave, logs that die."""

from collections.abc import Callable
from typing import Any

from backends.contract import Health
from backends.faults import Fault
from backends.jobs import Job, Limits, Outcome
from backends.phone import TASKS, Phone
from backends.planners import Planner, ScriptPlanner
from backends.running import Episode
from backends.tasks import Task, read
from core.event import Event, StoredEvent
from core.vocabulary import Payload, payload
from core.vocabulary.contract import Action, ExecError, Feedback
from eventlog.inmemory import InMemoryLog
from eventlog.log import Appended, Log

ALL = {task.id.removeprefix("phone/"): task for task in read(TASKS)}


def job(task: Task, plan: list[Fault] | None = None, **more: Any) -> Job:
    return Job(task=task.id, spec=task.spec, digest=task.digest, plan=plan or [], **more)


def gold(task: Task) -> Planner:
    return ScriptPlanner(task.plans.gold, "script:gold")


def play(
    task: Task,
    *,
    log: Log | None = None,
    backend: Any = None,
    planner: Planner | None = None,
    plan: list[Fault] | None = None,
    limits: Limits | None = None,
) -> tuple[Outcome, list[StoredEvent]]:
    """Run the task's gold plan; the outcome and the episode's events."""
    log = log or InMemoryLog()
    episode = Episode(log, backend or Phone(), planner or gold(task), job(task, plan), limits=limits)
    outcome = episode.run()
    return outcome, list(log.read(f"episode/{outcome.episode}"))


def of_type(events: list[StoredEvent], type_: type[Payload]) -> list[Any]:
    return [said for said in map(payload, events) if isinstance(said, type_)]


def hidden(log: Log, episode: str | None) -> Any:
    """What the verifier read."""
    return payload(next(iter(log.read(f"hidden/episode/{episode}"))))


class Wayward(Phone):
    """A phone that `meddles` with what comes back: given the number of the call (from 1), the action and
    what really happens. `well` is what it says of its health."""

    def __init__(
        self,
        meddle: Callable[[int, Action, Callable[[], Feedback]], Feedback],
        *,
        determinism: Any = "D0",
        well: bool = True,
    ) -> None:
        super().__init__()
        from msgspec.structs import replace

        self._manifest = replace(self._manifest, determinism=determinism)
        self._meddle = meddle
        self._well = well
        self.calls = 0

    def execute(self, action: Action, deadline: float, idempotency_key: str) -> Feedback:
        self.calls += 1
        return self._meddle(self.calls, action, lambda: super(Wayward, self).execute(action, deadline, idempotency_key))

    def health(self) -> Health:
        return Health(self._well, "" if self._well else "the link is down")


def lost() -> ExecError:
    return ExecError("transport_lost", True, "unknown", message="the link broke")


class Killed(BaseException):
    """The process is gone."""


class Mortal:
    """A log whose process dies at its `at`-th append: before it is stored, or right after."""

    def __init__(self, log: Log, at: int, *, stored: bool) -> None:
        self._log = log
        self._left = at
        self._stored = stored

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, event: Event, **options: Any) -> Appended:
        self._left -= 1
        if self._left < 0:
            raise Killed
        if self._left == 0:
            if self._stored:
                self._log.append(event)
            raise Killed
        return self._log.append(event)
