"""`trajlog events`: the vocabulary, from the code itself."""

import json

import pytest

from cli.main import run
from core.vocabulary import TYPES, catalogue


def test_all_types_as_json_are_one_array(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["events", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["type"] for entry in found] == list(TYPES)
    assert all(list(entry) == ["type", "status", "fields", "example"] for entry in found)


def test_one_type_as_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["events", "NoteAdded", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == next(e for e in catalogue() if e["type"] == "NoteAdded")


def test_types_are_listed_with_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["events"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(TYPES) + 1
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize("type_", ["NoteAdded", "ActionSubmitted", "EpisodeStarted"])
def test_a_type_is_shown_with_its_fields_and_example(type_: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["events", type_]) == 0
    shown = capsys.readouterr().out
    entry = next(e for e in catalogue() if e["type"] == type_)
    assert all(field["name"] in shown for field in entry["fields"])
    assert json.loads(shown[shown.index("\n{") :]) == entry["example"]


def test_an_unknown_type_is_one_line_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["events", "noteadded"]) == 1
    assert "did you mean NoteAdded" in capsys.readouterr().err
    assert run(["events", "Xyzzy\x1b"]) == 1
    assert capsys.readouterr().err == "trajlog: 'Xyzzy\\x1b': no such event type; trajlog events lists them\n"
