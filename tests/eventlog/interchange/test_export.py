"""Episodes that any recorder could have written go out and come back; and the files they go to."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.errors import BadRecord, NotFound, UsageError
from core.event import StoredEvent
from core.identity import uuid7
from core.vocabulary import Payload, body, payload
from core.vocabulary.contract import Observation
from core.vocabulary.episode import (
    ActionDispatched,
    ActionSubmitted,
    BudgetCharged,
    ContextAssembled,
    EpisodeEnded,
    EpisodeRetracted,
    EpisodeStarted,
    FaultInjected,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    NoteAdded,
    VerificationRecorded,
)
from eventlog.interchange.export import carried
from eventlog.interchange.export.exporter import EXPORTS, Library, find, names, referring
from eventlog.interchange.export.outlet import Folder, Lines, outlet
from tests.core.strategies import structs
from tests.eventlog import samples
from tests.eventlog.interchange.drafting import Imports, png
from tests.eventlog.interchange.exporting import arguments, as_drafted, as_told, exported, sound, taken
from tests.examples import examples

TYPES: list[type[Payload]] = [
    MessageRecorded,
    ModelResponded,
    ActionSubmitted,
    ActionDispatched,
    FeedbackRecorded,
    EpisodeEnded,
    VerificationRecorded,
    NoteAdded,
    ContextAssembled,
    FaultInjected,
    BudgetCharged,
]
REFERENCES: dict[type, str] = {FeedbackRecorded: "action", VerificationRecorded: "supersedes", NoteAdded: "target"}

times = st.none() | st.integers(0, 4 * 10**15)
actors = st.sampled_from([None, "planner", "executor", "user", "reviewer"])
conversations = st.sampled_from([None, "talk-1", "talk-2"])


@st.composite
def episodes(draw: st.DrawFn) -> list[StoredEvent]:
    """Events of any types and contents, in any order, after a start."""
    kinds = [EpisodeStarted, *draw(st.lists(st.sampled_from(TYPES), max_size=8))]
    made = [draw(structs(kind)) for kind in kinds]
    events = []
    for version, said in enumerate(made, 1):
        name = REFERENCES.get(type(said), "")
        old = getattr(said, name, None)
        if isinstance(old, int):
            said = replace(said, **{name: old % len(made) + 1})
        events.append(_stored(version, said, draw(times), draw(actors), draw(conversations)))
    return events


def _stored(version: int, said: Payload, *envelope: Any) -> StoredEvent:
    occurred_at, actor, conversation = envelope
    return StoredEvent(
        event_id=uuid7(),
        stream="episode/e1",
        writer="w",
        run=uuid7(),
        seq=version,
        type=type(said).__name__,
        body=body(said),
        occurred_at=occurred_at,
        actor=actor,
        conversation=conversation,
        version=version,
        position=version,
        digest=b"",
        committed_at=0,
    )


@pytest.mark.parametrize("format", ["atif", "openai"])
@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(events=episodes())
def test_any_episode_comes_back_as_it_went_out(format: str, events: list[StoredEvent]) -> None:
    document = exported(format, events)
    if format == "atif":
        sound(document)
    drafted = taken(format, document)
    assert as_drafted(drafted) == as_told(events)
    assert arguments([event.payload for event in drafted]) == arguments([payload(event) for event in events])


@pytest.mark.parametrize("format", sorted(EXPORTS))
def test_what_begins_with_no_start_is_refused(format: str) -> None:
    events = samples.stored(("episode/e1", [ModelResponded(1)]))
    with pytest.raises(BadRecord, match=r"episode/e1: does not begin with EpisodeStarted"):
        exported(format, events)


@pytest.mark.parametrize("format", sorted(EXPORTS))
def test_a_document_is_one_line_and_says_nothing_of_a_retraction(format: str) -> None:
    events = samples.stored(("episode/e1", [*samples.episode(), EpisodeRetracted("i1", "a mistake")]))
    document = exported(format, events)
    assert b"\n" not in document
    assert b"a mistake" not in document
    assert "EpisodeRetracted" not in [type(event.payload).__name__ for event in taken(format, document)]


def test_the_split_of_an_episode_survives_so_that_none_is_trained_on_by_mistake() -> None:
    events = samples.stored(("episode/e1", samples.episode(split="audit")))
    for format in names():
        assert taken(format, exported(format, events))[0].payload.split == "audit"  # type: ignore[attr-defined]


@pytest.mark.parametrize("format", ["atif", "openai"])
def test_what_a_newer_version_wrote_is_carried_though_it_is_not_taken_back(format: str) -> None:
    first, note, strange = samples.stored(("episode/e1", [EpisodeStarted(), NoteAdded("n"), NoteAdded("n")]))
    newer = [replace(note, body=b'{"text":"n","mood":"good"}'), replace(strange, type="MoodChanged")]
    document = exported(format, [first, *newer])
    found = json.loads(document)["extra"]["trajlog"]["events"]
    entries = {entry["type"]: entry["payload"] for entry in found if "type" in entry}
    assert entries == {"NoteAdded": {"text": "n", "mood": "good"}, "MoodChanged": {"text": "n"}}
    assert [type(event.payload).__name__ for event in taken(format, document)] == ["EpisodeStarted", "NoteAdded"]


@pytest.mark.parametrize("format", ["atif", "openai"])
@pytest.mark.parametrize(
    "forged",
    [
        {"version": 2, "type": "EpisodeRetracted", "payload": {"import_id": "i"}},
        {"version": 2, "type": "ImportEnded", "payload": {"episodes": {}, "events": 0}},
        {"version": 2, "type": "EpisodeStarted", "payload": {}},
        {"version": 2, "type": "NoteAdded", "payload": {"text": 5}},
        {"version": 2, "type": "NoteAdded", "payload": {"text": "n"}, "occurred_at": "never"},
        {"version": 1, "fits": "0", "set": {"split": "dev"}},
        {"version": 1, "type": "NoteAdded", "payload": {"text": "n"}},
        {"version": 99, "fits": "0", "set": {}},
        {"version": -1, "type": "NoteAdded", "payload": {"text": "n"}},
    ],
)
def test_a_forged_entry_brings_nothing_in_that_an_episode_may_not_hold(format: str, forged: Any) -> None:
    document = json.loads(exported(format, samples.stored(("episode/e1", samples.episode()))))
    document["extra"]["trajlog"]["events"].append(forged)
    drafted = [event.payload for event in taken(format, json.dumps(document).encode())]
    types = [type(payload).__name__ for payload in drafted]
    assert types[0] == "EpisodeStarted"
    assert types.count("EpisodeStarted") == 1
    assert not {"EpisodeRetracted", "ImportEnded"} & set(types)
    assert drafted[0].split == "train"  # type: ignore[attr-defined]


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.integers(-2, 9) | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["version", "events", "order", "drop", "filled", "set", "fits", "type"]), inner
            )
        ),
    )
)
def test_any_trajlog_in_a_file_is_taken_or_left(found: Any) -> None:
    given = found if isinstance(found, dict) else {"events": found}
    for format in ("atif", "openai"):
        document = json.loads(exported(format, samples.stored(("episode/e1", samples.episode()))))
        document["extra"] = {"trajlog": {"version": carried.VERSION} | given}
        assert isinstance(taken(format, json.dumps(document).encode())[0].payload, EpisodeStarted)


@pytest.mark.parametrize("format", ["atif", "openai"])
def test_texts_that_an_episode_refers_to_come_along(tmp_path: Path, format: str) -> None:
    header, binary = referring(b"a header"), referring(b"\0\1")
    extra = samples.raw({"log": {"address": header.address, "size": header.size, "media_type": "text/plain"}})
    started = EpisodeStarted(extra=extra)
    seen = FeedbackRecorded(1, Observation([binary], text="seen"))
    events = samples.stored(("episode/e1", [started, ModelResponded(1), seen]))
    blobs = {header.address: b"a header", binary.address: b"\0\1"}
    imports = Imports(tmp_path)
    report = imports.take(exported(format, events, Library(blobs.get)))
    assert imports.blobs.get(header.address) == b"a header"
    first, _, last = imports.payloads()
    assert first.extra == extra
    assert last.feedback.blobs == []
    assert report.unmapped["extra.trajlog: a blob that is not here"] == 1


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="cannot export as 'csv'; use atif, openai, otlp"):
        find("csv")


def nothing(_: str) -> bytes | None:
    return None


@pytest.fixture
def blobs() -> dict[str, bytes]:
    return {referring(png()).address: png()}


def test_a_folder_takes_a_file_for_each_episode_and_its_images(tmp_path: Path, blobs: dict[str, bytes]) -> None:
    with outlet(f"{tmp_path}/out/", ".json", ["e1", "e2"], blobs.get, force=False) as place:
        assert isinstance(place, Folder)
        path = place.image(referring(png()))
        place.put("e1", b"{}")
        place.put("a/../b", b"[]")
        assert place.image(referring(b"gone")) is None
    assert path is not None
    assert (tmp_path / "out" / path).read_bytes() == png()
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["a_.._b.json", "e1.json", "images"]
    assert (tmp_path / "out/e1.json").read_bytes() == b"{}\n"


def test_nothing_is_replaced_unless_asked_for(tmp_path: Path) -> None:
    (tmp_path / "e2.json").write_text("mine")
    (tmp_path / "lines.jsonl").write_text("mine")
    for out in (str(tmp_path), f"{tmp_path}/lines.jsonl"):
        with pytest.raises(UsageError, match=r"is there already; name another place, or replace it with --force"):
            outlet(out, ".json", ["e1", "e2"], nothing, force=False)
        with outlet(out, ".json", ["e1", "e2"], nothing, force=True) as place:
            place.put("e2", b"{}")
    assert (tmp_path / "e2.json").read_text() == (tmp_path / "lines.jsonl").read_text() == "{}\n"
    assert not list(tmp_path.glob(".*"))


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), outlet(f"{tmp_path}/a.jsonl", "", [], nothing, force=False) as place:
        assert isinstance(place, Lines)
        place.put("e1", b"{}")
        assert not (tmp_path / "a.jsonl").exists()
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with outlet(str(pipe), ".json", [], nothing, force=True) as place:
        place.put("e1", b"{}")
    assert os.read(reader, 100) == b"{}\n"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_link_leads_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "real.jsonl").write_text("mine")
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    with outlet(f"{tmp_path}/link.jsonl", "", [], nothing, force=True) as place:
        place.put("e1", b"{}")
    assert (tmp_path / "real.jsonl").read_text() == "{}\n"
    assert (tmp_path / "link.jsonl").is_symlink()


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no such folder"):
        outlet(f"{tmp_path}/gone/a.jsonl", "", [], nothing, force=False)


def test_a_library_without_anything_finds_nothing() -> None:
    library = Library()
    assert (library.fetch("sha256:0"), library.image(referring(b"")), library.events("e")) == (None, None, ())
