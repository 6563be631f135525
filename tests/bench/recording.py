"""Recording a run against appending the same events: what environment, planner and recorder cost besides."""

import msgspec
from msgspec import Raw

from backends.conversation import Situation
from backends.jobs import Job
from backends.phone import TASKS, Phone
from backends.planners import ScriptPlanner, Turn
from backends.running import Episode
from backends.script import Step
from backends.tasks import read
from core.event import Event
from core.identity import uuid7
from eventlog.ledger import Ledger
from tests.bench.harness import Row, fresh, row, seconds, server

STEPS = 60
ROUNDS = 20


class _Busy(ScriptPlanner):
    """Calls a tool at every step, one that reads and one that writes in turn."""

    def __init__(self) -> None:
        super().__init__([], "bench")

    def plan(self, situation: Situation, deadline: float) -> Turn:
        number = situation.step
        step = Step(tool="list_notes", args=Raw(b'{"query":"milk"}'))
        if number % 2:
            step = Step(
                tool="edit_note", args=Raw(b'{"note_id":"n1","text":"bread, eggs, oat milk, number %d"}' % number)
            )
        return Turn(actions=step.actions(number), content="I look after the list.")


def run() -> list[Row]:
    """Row `record.steps`: steps/s recorded, against as many single appends of the same events."""
    task = next(task for task in read(TASKS) if task.id == "phone/shopping-list")
    spec = msgspec.structs.replace(task.spec, budget={"steps": STEPS})
    job = Job(task=task.id, spec=spec, digest=task.digest)
    ours, limit = [], []
    with server() as embedded:
        url, _ = fresh(embedded, "record")
        with Ledger(url, blobs="memory://trajlog/bench") as log:
            Episode(log, Phone(), _Busy(), job).run()  # what is loaded once is no step's
            for _ in range(ROUNDS):
                episode = Episode(log, Phone(), _Busy(), job)
                ours.append(STEPS / seconds(episode.run))
                events = [_again(event) for event in log.read(episode.track.stream)]
                limit.append(STEPS / seconds(_append_each, log, events))
    return [row("record.steps", ours, limit, "steps/s")]


def _append_each(log: Ledger, events: list[Event]) -> None:
    for event in events:
        log.append(event)


def _again(event: Event) -> Event:
    """The same event as a new one, in a stream of its own."""
    fields = {name: getattr(event, name) for name in Event.__struct_fields__}
    return Event(**fields | {"event_id": uuid7(), "stream": f"{event.stream}-again", "expected_version": None})
