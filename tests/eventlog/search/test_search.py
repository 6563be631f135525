"""Searching: by way of the index, by looking at everything, among few episodes: the same is found."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import eventlog.search as search
from core.vocabulary import BlobRef, Payload
from core.vocabulary.episode import EpisodeRetracted, EpisodeStarted, MessageRecorded, ModelResponded, NoteAdded
from eventlog.database import Connection
from eventlog.ledger import Ledger
from eventlog.search import Hit, Pattern, Scope, Search, index
from eventlog.views import reading
from eventlog.views.listing import Filters
from eventlog.writer import Writer
from tests.eventlog import samples
from tests.eventlog.samples import call, judged, ok, raw, turn


@pytest.fixture
def connection(ledger: Ledger) -> Iterator[Connection]:
    with reading(ledger) as connection:
        yield connection


def record(log: Ledger, name: str, *payloads: Payload, at: int | None = samples.START) -> None:
    log.append_many(samples.events(f"episode/{name}", payloads, at=at))


ANYWHERE = Scope()


def find(
    log: Ledger, pattern: str, scope: Scope = ANYWHERE, fetch: Any = lambda address: None, **options: bool
) -> list[Hit]:
    with reading(log) as connection:
        found = Search(log, connection, Pattern(pattern, **options), scope, fetch)
        found.prepare()
        return [hit for page in found.pages() for hit in page]


def places(hits: Sequence[Hit]) -> list[str]:
    return [f"{hit.episode}@{hit.version}" for hit in hits]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "BLOCK_EVENTS", 2)
    monkeypatch.setattr(index, "TAIL", 3)


def test_a_hit_names_its_event_and_shows_its_line(ledger: Ledger) -> None:
    record(
        ledger, "a", EpisodeStarted(goal="fly"), turn(1, "line one\nHAT136 is full"), call(1, "book", flight="HAT136")
    )
    hits = find(ledger, "HAT136")
    assert [hit._replace(position=0) for hit in hits] == [
        Hit("a", 3, 1, "ActionSubmitted", "action", 0, samples.START + 2_000_000, "flight: HAT136", [(8, 14)]),
        Hit("a", 2, 1, "ModelResponded", "message", 0, samples.START + 1_000_000, "HAT136 is full", [(0, 6)]),
    ]


def test_escapes_are_resolved(ledger: Ledger) -> None:
    ledger.append(Writer("w").raw("episode/a", "NoteAdded", b'{"text":"\\u4e88\\u7d04 \\"ok\\" a\\\\b\\/c"}'))
    for pattern in ("予約", '"ok"', "a\\b/c"):
        assert places(find(ledger, pattern)) == ["a@1"], pattern


@pytest.mark.usefixtures("small")
def test_the_newest_come_first_from_what_is_indexed_and_what_is_not(ledger: Ledger) -> None:
    for number in range(9):
        record(ledger, f"e{number}", NoteAdded("needle here"))
    with reading(ledger) as connection:
        assert index.catch_up(ledger, connection, lambda address: None) == 8
    record(ledger, "e9", NoteAdded("needle here"))
    assert places(find(ledger, "needle")) == [f"e{number}@1" for number in range(9, -1, -1)]


WORDS = [
    "alpha",
    "beta",
    "Gamma",
    "HAT136",
    "予約済み",
    "straße",
    "no such flight",
    "07:00",
    "a1b2c3d4e5f6",
    "x",
    "漢字",
]


@pytest.mark.usefixtures("small")
def test_the_index_finds_what_looking_at_everything_finds(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(5)
    for number in range(60):
        texts = [" ".join(chance.choices(WORDS, k=3)) for _ in range(3)]
        payloads = [EpisodeStarted(goal=texts[0]), turn(1, texts[1]), call(1, "t", q=texts[2]), judged("fail")]
        record(ledger, f"e{number:02}", *payloads)
    for pattern in (
        "alpha beta",
        "Gamma",
        "gamma",
        "HAT136",
        "予約",
        "済み",
        "straße HAT",
        "flight",
        "07:00",
        "3d4e5",
        "漢字 x",
    ):
        for options in ({}, {"ignore_case": True}, {"regex": True}):
            narrowed = find(ledger, pattern, ANYWHERE, **options)
            with monkeypatch.context() as without:
                without.setattr(Search, "prepare", lambda self: setattr(self, "_ranges", search._split(0, 10_000)))
                assert find(ledger, pattern, ANYWHERE, **options) == narrowed, pattern


def test_patterns_too_short_for_the_index_are_looked_for_everywhere(ledger: Ledger) -> None:
    record(ledger, "a", NoteAdded("SFO"), NoteAdded("字"), NoteAdded("nothing"))
    assert places(find(ledger, "SFO")) == ["a@1"]
    assert places(find(ledger, "字")) == ["a@2"]
    assert Pattern("SFO").required == Pattern("字").required == []


def test_a_search_is_kept_to_parts_of_events(ledger: Ledger) -> None:
    record(ledger, "a", EpisodeStarted(goal="needle"), ModelResponded(1, "needle", thought="needle too"))
    record(ledger, "a", call(1, "needle"), ok(1, "needle"), NoteAdded("needle"), MessageRecorded("user", raw("needle")))
    for parts, versions in (
        (("thought",), [2]),
        (("message",), [6, 2]),
        (("action",), [3]),
        (("feedback",), [4]),
        (("note",), [5]),
        (("note", "action"), [5, 3]),
        ((), [6, 5, 4, 3, 2, 2, 1]),
    ):
        assert [hit.version for hit in find(ledger, "needle", Scope(parts=parts))] == versions  # type: ignore[arg-type]


@pytest.mark.parametrize("few", [0, 100])
def test_a_search_is_kept_to_episodes(ledger: Ledger, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(search, "FEW", few)
    record(ledger, "a", EpisodeStarted(task="t1", policy="p"), NoteAdded("needle"), judged("pass"))
    record(ledger, "b", EpisodeStarted(task="t2"), NoteAdded("needle"), judged("fail"))
    record(ledger, "c", EpisodeStarted(task="t2"), NoteAdded("needle"), judged("fail"), EpisodeRetracted("i"))
    for scope, found in (
        (Scope(), ["b@2", "a@2"]),
        (Scope(Filters(verdict="fail")), ["b@2"]),
        (Scope(Filters(task="t1", policy="p")), ["a@2"]),
        (Scope(Filters(task="t1", verdict="fail")), []),
        (Scope(Filters(retracted=True)), ["c@2", "b@2", "a@2"]),
        (Scope(Filters(task="t2", retracted=True)), ["c@2", "b@2"]),
        (Scope(episode="c"), ["c@2"]),
    ):
        assert places(find(ledger, "needle", scope)) == found


def test_a_search_is_kept_to_a_time_the_events_own_or_their_commits(ledger: Ledger) -> None:
    record(ledger, "a", NoteAdded("needle"), NoteAdded("needle"))
    record(ledger, "b", NoteAdded("needle"), at=None)
    assert places(find(ledger, "needle", Scope(since=samples.START + 1))) == ["b@1", "a@2"]
    assert places(find(ledger, "needle", Scope(since=samples.START + 1_000_001))) == ["b@1"]
    assert find(ledger, "needle", Scope(since=4_000_000_000_000_000)) == []


def test_events_that_no_list_knows_are_searched_too(ledger: Ledger) -> None:
    writer = Writer("w")
    ledger.append(writer.raw("episode/a", "EpisodeStarted", b'{"task":7}'))
    ledger.append(writer.raw("episode/a", "HologramShown", b'{"beam":"needle"}'))
    ledger.append(writer.raw("import/1", "HologramShown", b'{"beam":"needle"}'))
    hits = find(ledger, "needle")
    assert (places(hits), hits[0].part, hits[0].step) == (["a@2"], "other", None)


def test_large_texts_are_searched_where_they_lie(ledger: Ledger) -> None:
    stored = {"sha256:aa": "x\nthe needle\ny"}
    record(ledger, "a", turn(1, None), ModelResponded(1, BlobRef("sha256:aa", 70_000, "text/plain")))
    assert [hit.line for hit in find(ledger, "needle", fetch=stored.get)] == ["the needle"]
    assert find(ledger, "needle") == []


def test_pages_are_bounded_in_bytes(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_PAGE_BYTES", 3_000)
    record(ledger, "a", *[NoteAdded("needle " + "x" * 1_000) for _ in range(7)])
    with reading(ledger) as connection:
        found = Search(ledger, connection, Pattern("needle"), Scope(), lambda address: None)
        found.prepare()
        assert [len(page) for page in found.pages()] == [2, 2, 2, 1]


def test_progress_reaches_its_end(ledger: Ledger) -> None:
    record(ledger, "a", *[NoteAdded("x") for _ in range(700)])
    seen: list[tuple[int, int]] = []
    with reading(ledger) as connection:
        found = Search(ledger, connection, Pattern("zz"), Scope(), lambda address: None)
        found.prepare()
        assert list(found.pages(lambda done, total: seen.append((done, total)))) == []
    assert seen[-1] == (700, 700)


def test_an_empty_log_holds_nothing(ledger: Ledger) -> None:
    assert find(ledger, "needle") == []
    assert find(ledger, "zz") == []
