"""Files that no format expects: each gives one clear line, and whatever can be read is imported."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import BadRecord, TrajlogError
from eventlog.interchange import Reader, Record, Rejected, Source, names
from eventlog.interchange.openai.importer import OpenAIChat
from tests.eventlog.interchange.drafting import Imports, lines
from tests.eventlog.interchange.test_openai import chat, user
from tests.eventlog.interchange.trajectories import said, trajectory

CSV = b"id,task,reward\n1,alarm,1.0\n2,timer,0.0\n"


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path)


def test_a_csv_is_said_to_be_a_table(imports: Imports) -> None:
    with pytest.raises(BadRecord, match=r"^a\.csv: is a table \(CSV or the like\), not JSON; import the JSON it was"):
        imports.take(CSV, "a.csv")


@pytest.mark.parametrize("format", names())
def test_a_csv_is_refused_by_every_format(imports: Imports, format: str) -> None:
    with pytest.raises(TrajlogError) as raised:
        imports.take(CSV, "a.csv", format=format)
    assert str(raised.value).startswith("a.csv: ")
    assert "\n" not in str(raised.value)
    assert imports.events() == []


def test_two_files_of_the_same_ids_are_two_episodes_and_that_is_said(imports: Imports) -> None:
    one, other = trajectory(trajectory_id="t1"), trajectory(said("Find y."), trajectory_id="t1")
    report = imports.take([one, other, one])
    assert report.episodes == {"new": 2, "present": 1, "rejected": 0}
    assert report.unmapped["trajectory_id of an earlier trajectory, which says other things"] == 1


def test_strict_takes_the_first_of_two_files_of_the_same_ids(imports: Imports) -> None:
    one, other = trajectory(trajectory_id="t1"), trajectory(said("Find y."), trajectory_id="t1")
    report = imports.take(lines(one, one, other), "a.jsonl", strict=True)
    assert report.episodes == {"new": 1, "present": 1, "rejected": 1}
    assert [(refusal.where, refusal.why) for refusal in report.rejected] == [
        ("a.jsonl:3", "trajectory_id 't1' is that of an earlier trajectory, which says other things")
    ]


def test_a_file_that_grows_while_it_is_read_is_said_and_its_rest_comes_with_the_next_import(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = imports.folder / "a.jsonl"
    path.write_text(lines(chat(), chat(user("b"))))
    read = OpenAIChat.records

    def growing(self: OpenAIChat, source: Source, reader: Reader) -> Iterator[Record | Rejected]:
        found = list(read(self, source, reader))
        with path.open("a") as file:
            file.write(lines(chat(user("c"))))
        yield from found

    monkeypatch.setattr(OpenAIChat, "records", growing)
    report = imports.take_file(path)
    assert report.episodes == {"new": 2, "present": 0, "rejected": 1}
    assert [(refusal.where, refusal.why) for refusal in report.rejected] == [
        ("a.jsonl", "changed while it was read: import it again once it is written")
    ]
    monkeypatch.setattr(OpenAIChat, "records", read)
    assert imports.take_file(path).episodes == {"new": 1, "present": 2, "rejected": 0}


def test_a_file_cut_inside_its_last_line_keeps_what_came_before(imports: Imports) -> None:
    whole = lines(chat(), chat(user("b")))
    report = imports.take(whole[:-20], "a.jsonl")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert "cut short" in report.rejected[0].why
    assert imports.take(whole, "a.jsonl").episodes == {"new": 1, "present": 1, "rejected": 0}


def test_the_same_record_laid_out_in_other_ways_is_told_by_its_bytes(imports: Imports) -> None:
    imports.take(trajectory())
    assert imports.take(json.dumps(trajectory(), indent=2)).episodes["new"] == 1
