"""What becomes of an event, whatever came before it. Pure."""

from msgspec.structs import replace

from core.digest import event_digest
from core.event import Event
from core.identity import uuid8
from eventlog.commit import Known
from eventlog.pack import pack
from eventlog.persister.settle import Settled, Unsure, settle
from eventlog.testing import an_event


def there(event: Event, version: int = 1) -> Known:
    return Known(event.stream, version, version, event.owner, event_digest(event))


def settled(
    events: list[Event],
    heads: dict[str, int] | None = None,
    known: dict[bytes, Known] | None = None,
    refused: dict[bytes, str] | None = None,
) -> Settled:
    return settle(pack(events), {} if heads is None else heads, known, {} if refused is None else refused, {})


def test_versions_follow_the_heads() -> None:
    heads = {"a": 4}
    events = [an_event("a"), an_event("b"), an_event("a"), an_event("b", expected_version=1)]
    assert settled(events, heads).versions == [5, 1, 6, 2]
    assert heads == {"a": 6, "b": 2}


def test_a_wrong_expected_version_is_refused_only_once_it_is_sure_that_the_event_is_new() -> None:
    event = an_event("a", expected_version=3)
    try:
        settled([event])
    except Unsure:
        pass
    else:
        raise AssertionError
    fates = settled([event, an_event("a")], known={})
    ((place, fault),) = fates.faults
    assert (place, fault.reason, fault.event_id) == (0, "refused", event.event_id)
    assert fault.detail == "expected version 3, but the stream was at 0"
    assert (fates.kept, fates.versions) == ([1], [1])


def test_a_known_event_is_a_duplicate_whatever_it_expected() -> None:
    event = an_event("a", expected_version=0)
    fates = settled([event, an_event("a", expected_version=1)], {"a": 1}, {event.event_id: there(event)})
    assert (fates.kept, fates.versions, fates.duplicates, fates.faults) == ([1], [2], 1, ())


def test_an_id_that_stands_for_something_else_is_taken() -> None:
    event = an_event("a")
    for other in (replace(event, stream="b"), replace(event, body=b'{"text":"other"}')):
        fates = settled([other], {"a": 1}, {event.event_id: there(event)})
        assert [fault.reason for _, fault in fates.faults] == ["id_taken"]
        assert fates.versions == []


def test_an_imported_event_in_other_words_is_the_same_event() -> None:
    event = an_event("a", event_id=uuid8(b"source"))
    other = replace(event, body=b'{"text":"mapped anew"}')
    assert settled([other], {"a": 1}, {event.event_id: there(event)}).duplicates == 1
    assert settled([replace(other, stream="b")], {}, {event.event_id: there(event)}).faults


def test_a_repeat_within_the_batch_is_a_duplicate_of_its_first() -> None:
    event = an_event("a", expected_version=0)
    fates = settled([event, event, replace(event, body=b'{"text":"z"}')], known={})
    assert (fates.kept, fates.duplicates) == ([0], 1)
    assert [(place, fault.reason) for place, fault in fates.faults] == [(2, "id_taken")]


def test_what_was_refused_stays_refused() -> None:
    event = an_event("a", expected_version=2)
    heads = {"a": 2}  # it would fit now
    fates = settled([event], heads, {}, {event.event_id: "expected version 2, but the stream was at 1"})
    assert [fault.detail for _, fault in fates.faults] == ["expected version 2, but the stream was at 1"]
    assert heads == {"a": 2}


def test_what_is_refused_in_a_batch_is_refused_again_in_it() -> None:
    event = an_event("a", expected_version=1)
    fates = settled([event, an_event("a"), event], known={})
    assert [place for place, _ in fates.faults] == [0, 2]
    assert fates.versions == [1]
