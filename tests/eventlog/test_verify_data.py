"""What verification says beyond the tree: writers' numbers, what episodes state, blobs."""

from uuid import UUID

import pytest

from core.errors import Corrupt, NotFound
from core.event import MAX_SEQ
from core.identity import uuid7
from core.vocabulary.contract import Finished
from core.vocabulary.episode import EpisodeEnded
from eventlog.ledger import Ledger
from eventlog.testing import an_event
from eventlog.verify import Problem, verify, verify_stream
from eventlog.writer import Writer
from tests.databases import Database
from tests.eventlog.damage import damaging


def test_a_gap_in_a_writers_numbers_is_data_not_damage(ledger: Ledger) -> None:
    run, other = uuid7(), uuid7()
    ledger.append_many([an_event("a", run=run, seq=seq) for seq in (1, 2, 5, 6, 9)])
    ledger.append_many([an_event("b", run=run, seq=seq) for seq in (2, 1)])
    ledger.append_many([an_event("a", run=other, seq=seq) for seq in (2, 3)])
    for report in (verify(ledger.reader), verify_stream(ledger.reader, "a")):
        assert report.ok
        assert sorted(report.problems, key=lambda p: p.detail) == sorted(
            [
                Problem("seq", None, "a", None, f"run {UUID(bytes=run)} lacks seq 3-4, 7-8"),
                Problem("seq", None, "a", None, f"run {UUID(bytes=other)} lacks seq 1"),
            ],
            key=lambda p: p.detail,
        )


def test_numbers_far_apart_cost_nothing(ledger: Ledger) -> None:
    run = uuid7()
    ledger.append_many([an_event("a", run=run, seq=seq) for seq in (1, MAX_SEQ)])
    (problem,) = verify(ledger.reader).problems
    assert problem.detail == f"run {UUID(bytes=run)} lacks seq 2-{MAX_SEQ - 1}"


def test_a_number_used_twice_is_no_gap(ledger: Ledger) -> None:
    run = uuid7()
    ledger.append_many([an_event("a", run=run, seq=seq) for seq in (1, 1, 2, 3, 3)])
    assert verify(ledger.reader).problems == []


def test_an_episode_that_states_its_last_number_shows_a_lost_tail(ledger: Ledger) -> None:
    run, lost = uuid7(), uuid7()
    runs = {str(UUID(bytes=run)): 3, str(UUID(bytes=lost)): 2, "no uuid": 7}
    ledger.append_many([an_event("a", run=run, seq=1)])
    ledger.append(
        an_event(
            "a",
            run=run,
            seq=2,
            type="EpisodeEnded",
            body=b'{"end":{"kind":"finished"},"runs":{"%b":3,"%b":2,"no uuid":7}}'
            % tuple(name.encode() for name in runs if name != "no uuid"),
        )
    )
    report = verify(ledger.reader)
    assert report.ok
    assert {(p.kind, p.stream, p.detail) for p in report.problems} == {
        ("seq", "a", f"run {UUID(bytes=run)} lacks seq 3"),
        ("seq", "a", f"run {UUID(bytes=lost)} lacks seq 1-2"),
    }


def test_an_episode_whose_numbers_are_all_there_is_whole(ledger: Ledger) -> None:
    writer = Writer("recorder")
    ledger.append(writer.event("episode/a", EpisodeEnded(end=Finished(), runs={str(UUID(bytes=writer.run)): 1})))
    assert verify(ledger.reader).problems == []


def test_an_ending_of_another_shape_states_nothing(ledger: Ledger) -> None:
    for body in (b"{}", b'{"runs":5}', b'{"runs":{"x":"y"}}', b'{"runs":null}'):
        ledger.append(an_event("a", run=uuid7(), type="EpisodeEnded", body=body))
    assert verify(ledger.reader).problems == []


@pytest.mark.parametrize("column", ["seq", "run"])
def test_a_deleted_or_altered_event_explains_the_gap_in_its_writers_numbers(
    ledger: Ledger, database: Database, column: str
) -> None:
    run = uuid7()
    ledger.append_many([an_event("a", run=run, seq=seq) for seq in (1, 2, 3, 4, 8)])
    ledger.seal()
    with damaging(database) as log:
        log.do("DELETE FROM trajlog.event WHERE position = 3")
        problems = log.verify().problems
        assert [(p.kind, p.position, p.version) for p in problems if p.kind != "seq"] == [("missing", 3, 3)]
        assert [p.detail for p in problems if p.kind == "seq"] == [f"run {UUID(bytes=run)} lacks seq 5-7"]
    with damaging(database) as log:
        value = "seq + 1" if column == "seq" else "gen_random_uuid()"
        log.do(f"UPDATE trajlog.event SET {column} = {value} WHERE position = 2")
        assert [(p.kind, p.position) for p in log.verify().problems] == [("column", 2), ("seq", None)]


# -- blobs ------------------------------------------------------------------------------------------


class Shelf:
    """A blob store in which some are missing and some damaged."""

    def __init__(self, **faults: Exception) -> None:
        self.asked: list[str] = []
        self._faults = faults

    def check(self, address: str) -> None:
        self.asked.append(address)
        fault = self._faults.get(address[7])
        if fault is not None:
            raise fault


def reference(digit: str) -> bytes:
    return b'{"address":"sha256:%b","size":3,"media_type":"image/png"}' % (digit.encode() * 64)


def test_a_blob_that_is_missing_or_damaged_is_named_by_the_first_event_that_names_it(ledger: Ledger) -> None:
    ledger.append_many(
        [
            an_event("a", body=b'{"x":[' + reference("a") + b"," + reference("b") + b"]}"),
            an_event("b", body=b'{"x":' + reference("c") + b',"y":{"z":' + reference("b") + b"}}"),
            an_event("b", seq=2, body=b'{"x":' + reference("c") + b"}"),
        ]
    )
    shelf = Shelf(b=NotFound("is gone"), c=Corrupt("is damaged"))
    report = verify(ledger.reader, blobs=shelf)
    assert not report.ok
    assert report.problems == [
        Problem("blob", 1, "a", 1, f"sha256:{'b' * 64}: is gone"),
        Problem("blob", 2, "b", 1, f"sha256:{'c' * 64}: is damaged"),
    ]
    assert sorted(shelf.asked) == [f"sha256:{digit * 64}" for digit in "abc"]
    assert verify(ledger.reader).ok
    assert verify_stream(ledger.reader, "a", blobs=shelf).problems == report.problems[:1]
    assert [p.position for p in verify_stream(ledger.reader, "b", blobs=shelf).problems] == [2, 2]


def test_blobs_of_a_damaged_body_are_not_looked_for(ledger: Ledger, database: Database) -> None:
    ledger.append(an_event("a", body=b'{"x":' + reference("a") + b"}"))
    shelf = Shelf(a=NotFound("is gone"))
    with damaging(database) as log:
        log.do("UPDATE trajlog.event SET body = set_byte(body, 0, 0)")
        assert [p.kind for p in log.verify(blobs=shelf).problems] == ["body"]
    assert shelf.asked == []
