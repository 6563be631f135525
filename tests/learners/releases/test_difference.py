"""Every row of a difference stands under its cause."""

from pathlib import Path

from msgspec.structs import replace

from core.vocabulary import Payload
from core.vocabulary.curation import TurnMarked
from core.vocabulary.episode import EpisodeRetracted, EpisodeStarted
from learners.recipe import Filters, Recipe
from learners.releases.difference import compare, explain
from tests.databases import Database
from tests.eventlog import samples
from tests.learners.releases.making import append, episodes, released


def test_each_change_has_its_cause(database: Database, tmp_path: Path) -> None:
    streams = list(episodes(8))
    with database.ledger() as log:
        append(log, episodes(8))
        old = released(log, tmp_path).release
        append(log, episodes(1, first=8))
        late = [
            (streams[0], samples.judged("fail", source="human")),
            (streams[1], samples.judged("fail")),
            (streams[2], TurnMarked(step=1, erroneous=True, source="rule", rule="schema@1")),
            (streams[3], EpisodeRetracted(import_id="i1")),
        ]
        for stream, payload in late:
            log.append_many(samples.events(stream, [payload]))
        append(log, {"episode/ffff": _held_out("task-4")})
        new = released(log, tmp_path, recipe=Recipe(filters=Filters(not_task=["task-5"]))).release
        found = explain(compare(log, old, new), old, new, [log])
    causes = {change.key.stream: (change.kind, change.cause) for change in found.changes}
    added = next(iter(episodes(1, first=8)))
    assert causes.pop(streams[2], None) in (("changed", "new events"), ("removed", "new events"))
    assert causes == {
        streams[0]: ("removed", "reviewer"),
        streams[1]: ("removed", "superseded verdict"),
        streams[3]: ("removed", "retraction"),
        streams[4]: ("removed", "split"),
        streams[5]: ("removed", "recipe"),
        added: ("added", "new events"),
    }
    assert found.same == 2


def _held_out(task: str) -> list[Payload]:
    started, *rest = samples.episode(task=task, verdict="pass", split="dev")
    assert isinstance(started, EpisodeStarted)
    return [replace(started, goal="Order flowers for Wednesday"), *rest]


def test_a_release_does_not_differ_from_itself(database: Database, tmp_path: Path) -> None:
    with database.ledger() as log:
        append(log, episodes(3))
        release = released(log, tmp_path).release
        found = compare(log, release, release)
    assert (found.changes, found.same) == ([], 3)
