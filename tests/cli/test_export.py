"""`trajlog export` and `trajlog atif lint` on a real database."""

import json
from pathlib import Path
from typing import Any

import pytest
from atif import Trajectory

from cli.main import run
from core.vocabulary.contract import Observation
from core.vocabulary.episode import EpisodeRetracted, EpisodeStarted, FeedbackRecorded, MessageRecorded, ModelResponded
from eventlog.blobs import BlobStore
from tests.cli.logs import append, as_json, fill, printed, refused
from tests.databases import Database
from tests.eventlog.interchange.drafting import png
from tests.eventlog.interchange.trajectories import acted, call, result, said, trajectory
from tests.eventlog.samples import raw

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return database.url


@pytest.fixture
def filled(url: str) -> str:
    fill(url)
    return url


def lines(capsys: Capture, *arguments: str) -> list[Json]:
    return [json.loads(line) for line in printed(capsys, "export", *arguments).splitlines()]


def ids(documents: list[Json]) -> list[str]:
    return [document["extra"]["trajlog"]["episode"] for document in documents]


def test_episodes_are_chosen_by_name_by_filter_or_all(filled: str, capsys: Capture) -> None:
    assert ids(lines(capsys, "bb", "@last")) == ["bb33", "cc44"]
    assert ids(lines(capsys, "aa11", "aa11", "--format", "openai")) == ["aa11"]
    assert ids(lines(capsys, "--verdict", "fail", "--split", "dev")) == ["bb33"]
    assert ids(lines(capsys, "--all", "--out", "-")) == ["aa11", "aa22", "bb33", "cc44"]
    for document in lines(capsys, "--all"):
        Trajectory.model_validate(document)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "no episodes are chosen; name some, give a filter, or --all"),
        (("aa11", "--all"), "episodes are chosen by name, or by filters and --all; give one of them"),
        (("aa11@3",), "aa11@3: an episode is exported as a whole; leave out the @N"),
        (("--all", "--format", "csv"), "--format: cannot export as 'csv'; use atif, openai, otlp"),
        (("--verdict", "good"), "--verdict: 'good' is not one of pass, fail"),
    ],
)
def test_a_choice_that_is_none_is_said(filled: str, capsys: Capture, arguments: tuple[str, ...], why: str) -> None:
    assert why in refused(capsys, "export", *arguments, code=2)


def test_an_unknown_or_unclear_name_is_said(filled: str, capsys: Capture) -> None:
    assert "no such episode" in refused(capsys, "export", "zz")
    assert "more than one episode" in refused(capsys, "export", "aa")


def test_nothing_to_export_is_no_failure(filled: str, capsys: Capture) -> None:
    assert run(["export", "--task", "none", "--out", "x.jsonl"]) == 0
    assert capsys.readouterr() == ("", "no episodes\n")
    assert not Path("x.jsonl").exists()


def test_retracted_episodes_stay_unless_asked_for(filled: str, capsys: Capture) -> None:
    append(filled, "episode/aa22", EpisodeRetracted("i1"))
    assert "aa22" not in ids(lines(capsys, "--all"))
    assert "aa22" in ids(lines(capsys, "--all", "--retracted"))


def test_a_folder_takes_files_and_a_file_lines(filled: str, capsys: Capture) -> None:
    report = as_json(capsys, "export", "--all", "--out", "out/")
    assert report == {
        "format": "atif",
        "out": "out/",
        "episodes": 4,
        "inside": 0,
        "refused": [],
        "missing_blobs": 0,
    }
    assert sorted(file.name for file in Path("out").iterdir()) == ["aa11.json", "aa22.json", "bb33.json", "cc44.json"]
    text = printed(capsys, "export", "aa11", "--format", "openai", "--out", "a.jsonl")
    assert text == "1 episode exported as openai to a.jsonl\n"
    assert len(Path("a.jsonl").read_text().splitlines()) == 1
    assert "is there already" in refused(capsys, "export", "aa11", "--out", "a.jsonl", code=2)
    assert "is there already" in refused(capsys, "export", "--all", "--out", "out", code=2)
    assert run(["export", "--all", "--out", "out", "--force", "--quiet"]) == 0
    assert "there is no such folder" in refused(capsys, "export", "--all", "--out", "none/out/")


@pytest.mark.parametrize("format", ["atif", "openai", "otlp"])
def test_what_is_exported_can_be_imported(
    filled: str, capsys: Capture, format: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = as_json(capsys, "ls", "--reverse")
    assert run(["export", "--all", "--format", format, "--out", "all.jsonl", "--quiet"]) == 0
    database.empty()
    report = as_json(capsys, "import", "all.jsonl")
    assert (report["format"], report["episodes"]["new"], report["rejected"]) == (format, 4, [])
    after = as_json(capsys, "ls", "--reverse")
    own = ("episode", "source")
    assert [{k: v for k, v in row.items() if k not in own} for row in after] == [
        {k: v for k, v in row.items() if k not in own} for row in before
    ]
    assert as_json(capsys, "import", "all.jsonl")["episodes"] == {"new": 0, "present": 4, "rejected": 0}
    assert as_json(capsys, "verify", "--all")["problems"] == []
    assert "the log ends at position" in refused(capsys, "verify", "--since", "999999")


def test_bare_leaves_out_what_the_format_has_not(filled: str, capsys: Capture) -> None:
    (document,) = lines(capsys, "aa11", "--format", "openai", "--bare")
    assert list(document) == ["messages"]


def test_screens_lie_beside_their_episode_and_come_back(
    url: str, capsys: Capture, database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blob = BlobStore(tmp_path / "home/blobs").put(png())
    append(url, "episode/e1", EpisodeStarted(), ModelResponded(1), FeedbackRecorded(1, Observation([blob])))
    assert run(["export", "@last", "--out", "out/", "--quiet"]) == 0
    (image,) = Path("out/images").iterdir()
    assert image.read_bytes() == png()
    database.empty()
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "elsewhere"))
    assert as_json(capsys, "import", "out/e1.json", "--strict")["episodes"]["new"] == 1
    assert as_json(capsys, "verify", "--all")["problems"] == []
    assert BlobStore(tmp_path / "elsewhere/blobs").get(blob.address) == png()


def test_a_missing_blob_is_said_and_stays_a_reference(url: str, capsys: Capture) -> None:
    reference = {"address": "sha256:" + "0" * 64, "size": 5, "media_type": "text/plain"}
    append(url, "episode/e1", EpisodeStarted(), MessageRecorded("user", raw(reference)), ModelResponded(1))
    assert run(["export", "@last"]) == 3
    captured = capsys.readouterr()
    assert "blobs that are missing, and stand as references: 1 (sha256:0000" in captured.err
    assert "sha256:0000" in captured.out


def test_what_is_no_episode_is_refused_and_the_rest_goes_out(url: str, capsys: Capture) -> None:
    append(url, "episode/e0", ModelResponded(1))
    append(url, "episode/e1", EpisodeStarted(), ModelResponded(1))
    assert run(["export", "e0", "e1"]) == 1
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1
    assert "episode/e0: does not begin with EpisodeStarted" in captured.err
    report = printed(capsys, "export", "e0", "e1", "--out", "x.jsonl", "--json", code=1)
    assert json.loads(report)["refused"] == [
        {"where": "episode/e0", "why": "does not begin with EpisodeStarted: it is no episode"}
    ]


def test_sub_agents_go_out_inside_their_parent_and_once(url: str, capsys: Capture) -> None:
    refs: Json = {"subagent_trajectory_ref": [{"trajectory_id": "t2"}]}
    parent = trajectory(said(), acted(call(), results=[result("ok", **refs)]))
    Path("t.json").write_text(json.dumps(parent | {"subagent_trajectories": [trajectory(trajectory_id="t2")]}))
    as_json(capsys, "import", "t.json")
    report = as_json(capsys, "export", "--all", "--out", "all.jsonl")
    assert (report["episodes"], report["inside"]) == (1, 1)
    names = [row["episode"] for row in as_json(capsys, "ls")]
    assert len(lines(capsys, *names)) == 2


def test_strict_and_lenient_are_told_apart(url: str, capsys: Capture) -> None:
    Path("t.json").write_text(json.dumps(trajectory(said(), acted(call(), results=[result("x", "c9")]))))
    out = printed(capsys, "import", "t.json", "--strict", code=1)
    assert "$.steps[1].observation.results[0].source_call_id no call of the step has the id 'c9'" in out
    assert as_json(capsys, "import", "t.json", "--lenient")["episodes"]["new"] == 1


def test_lint_names_file_path_rule_and_severity(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good, bad = trajectory(), trajectory(steps=[])
    Path("a.jsonl").write_text("\n".join(json.dumps(each) for each in (good, bad, trajectory(said()))) + "\n{\n")
    out = printed(capsys, "atif", "lint", "a.jsonl", "--json", code=1)
    *found, cut = json.loads(out)
    assert [(each["file"], each["path"], each["rule"], each["severity"]) for each in found] == [
        ("a.jsonl:2", "$.steps", "steps", "error"),
        ("a.jsonl:3", "$.steps", "steps", "warning"),
    ]
    assert found[0]["message"] == "is empty: nothing happened in this trajectory"
    assert (cut["file"], cut["path"], cut["rule"], cut["severity"]) == ("a.jsonl:4", "$", "record", "error")
    assert "cut short" in cut["message"]
    text = printed(capsys, "atif", "lint", "a.jsonl", code=1).splitlines()
    assert text[0] == "a.jsonl:2: $.steps: error steps: is empty: nothing happened in this trajectory"


def test_lint_of_sound_files_and_of_no_files(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(json.dumps(trajectory()))
    Path("b.json").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    assert run(["atif", "lint", "a.json"]) == 0
    assert capsys.readouterr() == ("", "nothing found\n")
    assert printed(capsys, "atif", "lint", "a.json", "--json") == "[]\n"
    assert "is binary data" in printed(capsys, "atif", "lint", ".", code=1)
    assert "no such file" in refused(capsys, "atif", "lint", "gone.json")
