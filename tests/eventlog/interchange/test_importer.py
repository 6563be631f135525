import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.errors import BadRecord, DiskFull, NotFound
from core.event import StoredEvent
from core.vocabulary import payload
from core.vocabulary.episode import EpisodeEnded, EpisodeStarted, ImportEnded, ImportStarted, NoteAdded
from eventlog.blobs import BlobStore
from eventlog.inmemory import InMemoryLog
from eventlog.interchange import importer as import_
from eventlog.interchange.importer import Report, run
from eventlog.interchange.retract import resolve, retract
from eventlog.interchange.sources import Source
from eventlog.interchange.tau_bench import TauBench
from eventlog.writer import Writer
from tests.eventlog.interchange.results import result, text


class Place:
    """A log, its blobs, and files to import."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = InMemoryLog()
        self.blobs = BlobStore(folder / "blobs")

    def file(self, data: bytes, name: str = "a.json") -> Source:
        path = self.folder / name
        path.write_bytes(data)
        return Source(name, path)

    def take(self, data: bytes, **options: Any) -> Report:
        return run(self.log, [self.file(data)], self.blobs, **options)

    def events(self) -> list[StoredEvent]:
        return list(self.log.read_all())

    def episodes(self) -> list[str]:
        return [event.stream for event in self.events() if event.type == "EpisodeStarted"]

    def started(self) -> list[EpisodeStarted]:
        made = [payload(event) for event in self.events() if event.type == "EpisodeStarted"]
        return [started for started in made if isinstance(started, EpisodeStarted)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_an_import_brings_whole_episodes_between_its_start_and_its_end(place: Place) -> None:
    report = place.take(text(result(0), result(1)), split="dev")
    assert (report.format, report.sources, report.events) == ("tau-bench", ["a.json"], 20)
    assert report.episodes == {"new": 2, "present": 0, "rejected": 0}
    events = place.events()
    assert [events[0].type, events[-1].type] == ["ImportStarted", "ImportEnded"]
    assert {events[0].stream, events[-1].stream} == {f"import/{report.import_id}"}
    assert payload(events[0]) == ImportStarted("tau-bench", 1, ["a.json"], "dev")
    assert payload(events[-1]) == ImportEnded(report.episodes, 20, report.unmapped)
    assert [started.split for started in place.started()] == ["dev", "dev"]
    first = [event for event in events if event.stream == events[1].stream]
    assert [event.seq for event in first] == [event.version for event in first] == list(range(1, 11))
    assert len({event.run for event in first}) == 1


def test_the_report_is_the_documented_json(place: Place) -> None:
    report = place.take(text(result(), {"a": 1}))
    assert json.loads(msgspec.json.encode(report)) == {
        "import": report.import_id,
        "format": "tau-bench",
        "sources": ["a.json"],
        "episodes": {"new": 1, "present": 0, "rejected": 1},
        "events": 10,
        "unmapped": {"info.source: kept in extra": 1, "info.task.actions: kept in extra": 1},
        "rejected": [{"where": "a.json[1]", "why": "task_id is missing: this is no tau-bench result"}],
    }


def test_the_same_file_twice_adds_nothing(place: Place) -> None:
    first = place.take(text(result(0), result(1)))
    before = place.log.head()
    again = place.take(text(result(0), result(1)))
    assert place.log.head() == before
    assert again.episodes == {"new": 0, "present": 2, "rejected": 0}
    assert (again.events, again.import_id) == (0, first.import_id)


def test_ids_follow_from_the_record_alone(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "other")
    other.folder.mkdir()
    place.take(text(result(0), result(1)))
    run(other.log, [other.file(text(result(1)), "b.json")], other.blobs, split="dev")
    assert other.episodes() == place.episodes()[1:]
    assert {event.event_id for event in other.events()[1:-1]} < {event.event_id for event in place.events()}
    assert all(len(stream) == len("episode/") + 16 for stream in place.episodes())


def test_a_record_twice_in_a_file_is_one_episode(place: Place) -> None:
    report = place.take(text(result(), result()))
    assert report.episodes == {"new": 1, "present": 1, "rejected": 0}


def test_the_bytes_of_the_record_are_kept(place: Place) -> None:
    place.take(b"[" + json.dumps(result(1)).encode() + b",  " + json.dumps(result(), indent=3).encode() + b" ]")
    _, started = place.started()
    assert started.origin
    assert started.origin.where == "a.json[1]"
    assert started.origin.record.media_type == "application/json"
    assert place.blobs.get(started.origin.record.address) == json.dumps(result(), indent=3).encode()


def test_the_end_states_the_last_number_of_its_run(place: Place) -> None:
    place.take(text(result()))
    (event,) = (event for event in place.events() if event.type == "EpisodeEnded")
    ended = payload(event)
    assert isinstance(ended, EpisodeEnded)
    assert list(ended.runs.values()) == [event.seq]


def test_large_texts_become_blobs_and_small_ones_stay(place: Place) -> None:
    words = "wörd " * 20_000
    place.take(
        text(
            result(
                traj=[
                    {"role": "user", "content": words},
                    {"role": "assistant", "content": words, "tool_calls": []},
                    {"role": "user", "content": [{"type": "text", "text": words}, {"type": "text", "text": "short"}]},
                    {"role": "user", "content": [{"numbers": list(range(200_000))}]},
                ]
            )
        )
    )
    said = [json.loads(event.body) for event in place.events() if event.type in ("MessageRecorded", "ModelResponded")]
    blob = said[0]["content"]
    assert place.blobs.get(blob["address"]).decode() == words
    assert (blob["size"], blob["media_type"]) == (len(words.encode()), "text/plain")
    assert said[1]["content"] == blob
    assert said[2]["content"] == [{"type": "text", "text": blob}, {"type": "text", "text": "short"}]
    assert json.loads(place.blobs.get(said[3]["content"]["address"])) == [{"numbers": list(range(200_000))}]
    assert max(len(event.body) for event in place.events()) < 10_000


def test_an_event_that_stays_too_large_rejects_its_record(place: Place) -> None:
    report = place.take(text(result(info={"task": {"instruction": "x" * 1_100_000}}), result()))
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert "more than 1,000,000" in report.rejected[0].why


def test_what_is_nested_too_deep_for_an_event_rejects_its_record(place: Place) -> None:
    deep: Any = None
    for _ in range(200):
        deep = [deep]
    report = place.take(text(result(note=deep), result()))
    assert report.episodes["new"] == 1
    assert "nested more than" in report.rejected[0].why


@pytest.mark.parametrize("size", [1, 10, 25, 5_000])
def test_an_episode_lies_in_one_commit(place: Place, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("eventlog.interchange.commits.EVENTS", size)
    place.take(text(*(result(trial) for trial in range(7))))
    commits: dict[str, set[int]] = {}
    for event in place.events():
        commits.setdefault(event.stream, set()).add(event.committed_at)
    assert len(commits) == 8
    assert all(len(found) == 1 for stream, found in commits.items() if stream.startswith("episode/"))


class Stopped(InMemoryLog):
    """A log during whose nth commit somebody presses Ctrl-C."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def append_many(self, events: Any, **options: Any) -> Any:
        self.left -= 1
        if self.left == -1:
            raise KeyboardInterrupt
        return super().append_many(events)


@pytest.mark.parametrize("after", [0, 1, 3])
def test_an_interrupted_import_leaves_whole_episodes_and_is_completed_by_another(
    place: Place, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr("eventlog.interchange.commits.EVENTS", 10)
    place.log = Stopped(after)
    data = text(*(result(trial) for trial in range(5)))
    with pytest.raises(KeyboardInterrupt):
        place.take(data)
    assert len(place.episodes()) == after
    kinds = [event.type for event in place.events() if event.stream.startswith("import/")]
    assert kinds == (["ImportStarted", "ImportEnded"] if after else [])
    report = place.take(data)
    assert report.episodes == {"new": 5 - after, "present": after, "rejected": 0}
    assert len(place.episodes()) == len(set(place.episodes())) == 5


def test_a_blob_that_cannot_be_stored_stops_the_import_before_its_events(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise DiskFull("no space left", where="blobs")

    monkeypatch.setattr(BlobStore, "keep_all", full)
    with pytest.raises(DiskFull):
        place.take(text(result()))
    assert place.events() == []


def test_a_retracted_import_can_come_again(place: Place) -> None:
    data = text(result(0), result(1))
    first = place.take(data)
    assert first.import_id
    done = retract(place.log, first.import_id, "wrong file")
    assert (done.episodes, done.why) == (2, "wrong file")
    retracted = [event for event in place.events() if event.type == "EpisodeRetracted"]
    assert {event.stream for event in retracted} == set(place.episodes())
    assert place.events()[-1].type == "ImportRetracted"

    second = place.take(data)
    assert second.episodes == {"new": 2, "present": 0, "rejected": 0}
    assert [started.origin and started.origin.generation for started in place.started()] == [1, 1, 2, 2]
    assert len(set(place.episodes())) == 4
    assert place.take(data).episodes == {"new": 0, "present": 2, "rejected": 0}


def test_a_retraction_twice_changes_nothing(place: Place) -> None:
    first = place.take(text(result()))
    assert first.import_id
    retract(place.log, first.import_id)
    head = place.log.head()
    assert retract(place.log, first.import_id, "another reason").episodes == 0
    assert place.log.head() == head


def test_only_what_the_import_brought_is_retracted(place: Place) -> None:
    place.take(text(result(0)))
    second = place.take(text(result(0), result(1)))
    assert second.import_id
    assert retract(place.log, second.import_id).episodes == 1


def test_an_unknown_import_is_said(place: Place) -> None:
    with pytest.raises(NotFound, match="no such import"):
        resolve(place.log, "0192")
    with pytest.raises(NotFound):
        retract(place.log, "0192")


def test_the_only_source_that_is_none_is_an_error(place: Place) -> None:
    for data in (b"", b"[]", b'{"a": 1}', b"<html>"):
        with pytest.raises(BadRecord):
            place.take(data)
    with pytest.raises(BadRecord, match="holds no records"):
        place.take(b"[]", format="tau-bench")
    assert place.events() == []


def test_a_bad_source_among_several_is_reported(place: Place) -> None:
    sources = [place.file(b"", "none.json"), place.file(text(result())), place.file(b'[{"a":1}]', "b.json")]
    report = run(place.log, sources, place.blobs)
    assert report.episodes == {"new": 1, "present": 0, "rejected": 2}
    assert [refused.where for refused in report.rejected] == ["none.json", "b.json"]


def test_a_stream_that_holds_something_else_is_not_written_into(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path)
    other.take(text(result()))
    (stream,) = other.episodes()
    place.log.append(Writer("x").event(stream, NoteAdded("first")))
    report = place.take(text(result(), result(1)))
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert report.rejected[0].why == f"its stream {stream} holds other events"


def test_what_came_before_a_source_failed_is_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    records = TauBench.records

    def fail(*given: Any) -> Iterator[Any]:
        yield from records(*given)
        raise BadRecord("the archive is cut short", where="a.json")

    monkeypatch.setattr(TauBench, "records", fail)
    report = run(place.log, [place.file(text(result())), place.file(text(result(1)), "b.json")], place.blobs)
    assert report.episodes == {"new": 2, "present": 0, "rejected": 2}
    assert {refused.why for refused in report.rejected} == {"the archive is cut short"}


def test_an_import_is_of_one_format(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(TauBench):
        name = "other"

    found: Iterator[Any] = iter([TauBench(), Other()])
    monkeypatch.setattr(import_, "detect", lambda *_: next(found))
    report = run(place.log, [place.file(text(result())), place.file(text(result(1)), "b.json")], place.blobs)
    assert report.rejected[0].why == "is other, and this import is of tau-bench; import it on its own"


def test_an_importer_that_fails_rejects_the_record(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr(TauBench, "episodes", fail)
    report = place.take(text(result()))
    assert report.rejected[0].why == "the importer of tau-bench cannot read it: KeyError('x')"


def test_rejections_beyond_a_thousand_are_only_counted(place: Place) -> None:
    report = place.take(b"[" + b"1," * 1_499 + text(result())[1:-1] + b"]", format="tau-bench")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1_499}
    assert len(report.rejected) == 1_000


def test_progress_is_in_bytes_of_all_sources(place: Place) -> None:
    seen: list[int] = []
    sources = [place.file(text(result(0), result(1))), place.file(text(result(2)), "b.json")]
    run(place.log, sources, place.blobs, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == sum(source.size or 0 for source in sources) - 1
