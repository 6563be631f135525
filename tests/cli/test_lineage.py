"""`trajlog lineage` both ways."""

import json
from pathlib import Path

import pytest

from cli.main import run
from tests.cli.logs import as_json, printed, refused
from tests.databases import Database
from tests.learners.releases.making import append, episodes

Capture = pytest.CaptureFixture[str]

FIRST = "episode/0000000000000000"


@pytest.fixture
def released(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture) -> Database:
    """A release of three episodes, approved."""
    with database.ledger() as log:
        append(log, episodes(3))
        append(log, episodes(1, first=3, verdict="fail"))
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    assert run(["release", "build", "sft", "--view", "sft_row"]) == 0
    assert run(["release", "approve", "sft", "--by", "reviewer 2", "--why", "fine"]) == 0
    capsys.readouterr()
    return database


def test_a_row_leads_to_its_events(released: Database, capsys: Capture) -> None:
    found = as_json(capsys, "lineage", "sft@v1#0")
    assert (found["kind"], found["of"], found["more"]) == ("row", "sft@v1#0", 0)
    (row,) = found["rows"]
    assert (row["row"], row["release"], row["exact"]) == (f"{FIRST}@1#0", "sft@v1", True)
    assert (
        [event["event"] for event in found["events"]] == row["events"] == [f"{FIRST}@{n}" for n in (1, 2, 3, 4, 5, 7)]
    )
    assert found["events"][0]["record"] is None
    assert f"    {FIRST}@1  EpisodeStarted  position 1\n" in printed(capsys, "lineage", "sft@v1#0")
    assert "it has 3 rows" in refused(capsys, "lineage", "sft@v1#9")


def test_a_release_leads_to_its_rows(released: Database, capsys: Capture) -> None:
    found = as_json(capsys, "lineage", "sft", "--limit", "2")
    assert (found["kind"], len(found["rows"]), found["more"]) == ("release", 2, 1)
    assert len(as_json(capsys, "lineage", "sft@v1", "--limit", "0")["rows"]) == 3


def test_an_event_leads_to_rows_and_releases(released: Database, capsys: Capture) -> None:
    found = as_json(capsys, "lineage", f"{FIRST}@2")
    assert [release["release"] for release in found["releases"]] == ["sft@v1"]
    assert [row["row"] for row in found["rows"]] == [f"{FIRST}@1#0"]
    assert as_json(capsys, "lineage", f"{FIRST}@1#0")["rows"] == found["rows"]
    ended = as_json(capsys, "lineage", f"{FIRST}@6")
    assert (ended["events"][0]["type"], ended["releases"]) == ("EpisodeEnded", [])
    failed = next(iter(episodes(1, first=3))).removeprefix("episode/")
    assert as_json(capsys, "lineage", failed)["releases"] == []
    assert as_json(capsys, "lineage", FIRST)["releases"][0]["state"] == "approved"
    assert "sft@v1  approved by reviewer 2, 3 rows" in printed(capsys, "lineage", FIRST)
    assert "it has 7 events" in refused(capsys, "lineage", f"{FIRST}@99")
    assert "no such episode" in refused(capsys, "lineage", "ffff")


def test_an_event_leads_to_its_record_in_kafka(released: Database, capsys: Capture) -> None:
    topic = "0192d3c4-0000-7000-8000-0000000000cc"
    with released.tampering() as connection:
        connection.execute(
            "INSERT INTO trajlog.ingest_topic (topic_id, topic, partitions, since) VALUES (%s, 'trips', 3, now())",
            (topic,),
        )
        connection.execute(
            "UPDATE trajlog.segment SET topic_id = %s, partition = 2, first_offset = 40, "
            "next_offset = 40 + last_position - first_position + 1 WHERE first_position = 1",
            (topic,),
        )
    (event,) = as_json(capsys, "lineage", f"{FIRST}@3")["events"]
    assert event["record"]["offset"] == 42
    assert (event["record"]["topic"], event["record"]["partition"]) == ("trips", 2)
    assert "trips/2@42" in printed(capsys, "lineage", f"{FIRST}@3")
    with released.tampering() as connection:
        connection.execute("UPDATE trajlog.segment SET next_offset = next_offset + 1 WHERE first_position = 1")
    (event,) = as_json(capsys, "lineage", f"{FIRST}@3")["events"]
    assert (event["record"]["offset"], event["record"]["first_offset"]) == (None, 40)


@pytest.mark.parametrize("name", ["sft@v1", "sft@v1#1", FIRST, f"{FIRST}@2"])
def test_prov_is_read_by_others(released: Database, capsys: Capture, name: str) -> None:
    prov = pytest.importorskip("prov.model")
    text = printed(capsys, "lineage", name, "--prov")
    document = prov.ProvDocument.deserialize(content=text, format="json")
    assert json.loads(document.serialize(format="json"))["entity"].keys() == json.loads(text)["entity"].keys()
    kinds = {type(record).__name__ for record in document.get_records()}
    assert {"ProvEntity", "ProvDerivation", "ProvGeneration", "ProvMembership", "ProvAgent"} <= kinds
    assert "one of --json and --prov" in refused(capsys, "lineage", name, "--prov", "--json", code=2)
