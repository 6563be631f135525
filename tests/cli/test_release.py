"""`trajlog release` on a real database."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from cli.main import run
from core.vocabulary.episode import EpisodeStarted, ToolSpec
from tests.cli.logs import as_json, printed, refused
from tests.databases import Database, Databases
from tests.eventlog import samples
from tests.learners.releases.making import another, append, episodes

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def home(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Six passing episodes and a failed one."""
    with database.ledger() as log:
        append(log, episodes(6))
        append(log, episodes(1, first=6, verdict="fail"))
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def build(capsys: Capture, *arguments: str) -> dict[str, object]:
    found: dict[str, object] = as_json(capsys, "release", "build", "sft", "--view", "sft_row", *arguments)
    return found


def test_a_release_from_first_to_last(home: Path, database: Database, capsys: Capture, tmp_path: Path) -> None:
    made = build(capsys)
    folder = home / "releases" / "sft@v1"
    assert list(made) == ["name", "version", "id", "view", "rows", "shards", "excluded", "manifest"]
    assert made | {"id": "", "manifest": ""} == {
        "name": "sft",
        "version": 1,
        "id": "",
        "view": "sft_row@1",
        "rows": 6,
        "shards": 1,
        "excluded": {"verdict fail": 1},
        "manifest": "",
    }
    assert made["manifest"] == str(folder / "manifest.json")
    assert printed(capsys, "release", "build", "sft", "--view", "sft_row").startswith(
        "sft@v1: 6 rows of sft_row@1, as it was built before (draft)\n"
    )
    assert as_json(capsys, "release", "rebuild", "sft") == {"id": made["id"], "identical": True, "reason": None}
    verified = as_json(capsys, "release", "verify", "sft")
    assert (verified["ok"], verified["files"], verified["faults"]) == (True, 4, [])
    shown = as_json(capsys, "release", "show", "sft")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (shown["state"], shown["origins"], shown["seed"]) == ("draft", {"model": 6}, 0)
    assert 0 < shown["measures"]["near_duplicates"]["threshold"] < 1
    assert shown["measures"]["near_duplicates"]["measured"]["missed"]
    both = shown.keys() & manifest.keys()
    assert len(both) > 10
    assert {name: shown[name] for name in both} == {name: manifest[name] for name in both}
    assert "draft" in printed(capsys, "release", "show", "sft@v1")
    decided = ("--by", "reviewer-2", "--why", "looked at 6 rows")
    assert as_json(capsys, "release", "approve", "sft", *decided)["state"] == "approved"
    assert "reviewer-2 approved it" in refused(capsys, "release", "approve", "sft", *decided)
    (row,) = as_json(capsys, "release", "ls")
    assert (row["name"], row["version"], row["state"], row["by"]) == ("sft", 1, "approved", "reviewer-2")
    assert printed(capsys, "release", "ls").splitlines()[0].split()[:4] == ["release", "view", "rows", "state"]
    assert as_json(capsys, "release", "reject", "sft", *decided)["state"] == "rejected"
    line = refused(capsys, "release", "export", "sft", "--to", str(home / "x"))
    assert "was rejected by reviewer-2: looked at 6 rows" in line and "build another release" in line


def test_nothing_is_listed_before_the_first_release(home: Path, capsys: Capture) -> None:
    assert as_json(capsys, "release", "ls") == []
    assert "no such release" in refused(capsys, "release", "show", "sft")
    assert "not the name of a release" in refused(capsys, "release", "show", "SFT!", code=2)


def test_what_is_not_approved_is_not_exported_for_training(home: Path, capsys: Capture, tmp_path: Path) -> None:
    build(capsys)
    line = refused(capsys, "release", "export", "sft", "--to", str(tmp_path / "out"))
    assert "is a draft; it is not exported for training" in line
    assert not (tmp_path / "out").exists()
    seen = as_json(capsys, "release", "export", "sft", "--to", str(tmp_path / "out"), "--review")
    assert (seen["rows"], seen["state"]) == (6, "draft")


def test_exports_hold_the_same_rows(home: Path, database: Database, capsys: Capture, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    tools = [ToolSpec("tool_1", "one", samples.raw({"type": "object"}))]
    with database.ledger() as log:
        started, *rest = samples.episode(verdict="pass", task="with tools")
        assert isinstance(started, EpisodeStarted)
        append(log, {"episode/ffffff": [EpisodeStarted(task="with tools", tools=tools), *rest]})
    build(capsys)
    run(["release", "approve", "sft", "--by", "r", "--why", "w"])
    for format in ("parquet", "hf", "openai", "atif"):
        assert (
            as_json(capsys, "release", "export", "sft", "--format", format, "--to", str(tmp_path / format))["rows"] == 7
        )
    shard = pa.ipc.open_stream((home / "releases/sft@v1/data-00000.arrow").read_bytes()).read_all()
    assert pq.read_table(tmp_path / "parquet" / "data").to_pylist() == shard.to_pylist()
    datasets = pytest.importorskip("datasets")
    assert datasets.load_from_disk(str(tmp_path / "hf")).to_list() == shard.to_pylist()
    for format in ("parquet", "openai"):
        loaded = datasets.load_dataset(str(tmp_path / format), cache_dir=str(tmp_path / "cache"))
        assert {split: part.num_rows for split, part in loaded.items()} == {"train": 7}
    direct = datasets.Dataset.from_file(str(home / "releases/sft@v1/data-00000.arrow"))
    assert direct.to_list() == shard.to_pylist()
    lines = [json.loads(line) for line in (tmp_path / "openai" / "train.jsonl").read_text().splitlines()]
    assert [line["messages"][0]["role"] for line in lines] == ["user"] * 7
    assert lines[-1]["tools"] == [
        {"type": "function", "function": {"name": "tool_1", "description": "one", "parameters": {"type": "object"}}}
    ]
    assert {message["weight"] for line in lines for message in line["messages"] if message["role"] == "assistant"} <= {
        0,
        1,
    }
    assert len(list((tmp_path / "atif").glob("*.json"))) == 7 + 1
    assert "is there already" in refused(capsys, "release", "export", "sft", "--to", str(tmp_path / "hf"), code=2)


@pytest.mark.parametrize("name", ["data-00000.arrow", "order.arrow", "rows.arrow", "manifest.json"])
def test_an_edited_folder_names_the_file(home: Path, capsys: Capture, name: str) -> None:
    build(capsys)
    path = home / "releases/sft@v1" / name
    data = bytearray(path.read_bytes())
    if name == "manifest.json":
        path.write_bytes(bytes(data).replace(b'"rows": 6', b'"rows": 7', 1))
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    assert run(["release", "verify", "sft", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], next(fault["file"] for fault in report["faults"])) == (False, name)
    assert name in printed(capsys, "release", "verify", "sft", code=1)
    for command in (
        ("export", "sft", "--to", str(home / "x"), "--review"),
        ("build", "sft", "--view", "sft_row"),
        ("rebuild", "sft"),
    ):
        line = refused(capsys, "release", *command)
        assert name in line and "was edited" in line and "release rebuild sft@v1 --force" in line
    assert sorted(path.name for path in (home / "releases").iterdir()) == ["sft@v1"]
    assert not (home / "x").exists()
    assert printed(capsys, "release", "rebuild", "sft", "--force")
    assert as_json(capsys, "release", "verify", "sft")["ok"]


def test_a_lost_or_added_file_is_named(home: Path, capsys: Capture) -> None:
    build(capsys)
    folder = home / "releases/sft@v1"
    (folder / "order.arrow").unlink()
    (folder / "data-00001.arrow").write_bytes(b"")
    run(["release", "verify", "sft", "--json"])
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert faults == [
        {"file": "order.arrow", "why": "is missing"},
        {"file": "data-00001.arrow", "why": "does not belong to the release"},
    ]
    (folder / "manifest.json").write_text("{")
    assert "was edited: it is no manifest any more" in refused(capsys, "release", "verify", "sft")


def test_bad_recipes_are_one_line(home: Path, capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    command = ("release", "build", "sft", "--view", "sft_row", "--recipe", str(file))
    assert "no such file" in refused(capsys, *command, code=2)
    for text, said in (
        ("seeed = 1", "did you mean seed?"),
        ("view = 'sft_rows'", "did you mean sft_row?"),
        ("view = 'rollout_group'", "the recipe is for rollout_group"),
        ("[", "is no TOML"),
    ):
        file.write_text(text)
        assert said in refused(capsys, *command, code=2)
    assert "no such view" in refused(capsys, "release", "build", "sft", "--view", "nothing", code=2)
    file.write_text("[filters]\ntask = ['none']")
    assert "no row is chosen; left out: filter: task 6, verdict fail 1" in refused(capsys, *command)
    assert "$schema" in as_json(capsys, "release", "recipe", "--schema")
    assert as_json(capsys, "release", "recipe", str(file)) == {"filters": {"task": ["none"]}}
    assert as_json(capsys, "release", "ls") == []


def test_a_cut_before_what_the_view_reads_is_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    command = ("release", "build", "sft", "--view", "sft_row")
    assert "the log has nothing that sft_row reads" in refused(capsys, *command)
    with database.ledger() as log:
        append(log, {"note/x": [samples.judged("pass")]})
        append(log, episodes(1))
    line = refused(capsys, *command, "--as-of", "1")
    assert "the cut at position 1 is older than the first event that sft_row reads, at position 2" in line


def test_held_out_tasks_and_what_is_near_them_stay_out(home: Path, database: Database, capsys: Capture) -> None:
    with database.ledger() as log:
        append(log, {"episode/dd": next(iter(episodes(1, first=2, split="final").values()))})
    line = refused(capsys, "release", "build", "sft", "--view", "sft_row")
    assert "held out: task of final 1" in line
    assert "near-duplicate: task of final 5" in line


def test_a_difference_says_why(home: Path, database: Database, capsys: Capture) -> None:
    build(capsys)
    with database.ledger() as log:
        append(log, episodes(1, first=9))
        log.append_many(samples.events(next(iter(episodes(1))), [samples.judged("fail", source="human")]))
    assert build(capsys)["version"] == 2
    found = as_json(capsys, "release", "diff", "sft@v1", "sft@v2", "--why")
    assert {name: found[name] for name in ("a", "b", "same", "added", "removed", "changed")} == {
        "a": "sft@v1",
        "b": "sft@v2",
        "same": 5,
        "added": 1,
        "removed": 1,
        "changed": 0,
    }
    assert found["causes"] == {"reviewer": 1, "new events": 1}
    text = printed(capsys, "release", "diff", "sft@v1", "sft@v2", "--why")
    assert "reviewer: 1\n  - episode/0000000000000000@1#0" in text
    assert "sft@v1 → sft@v1: 0 added" in printed(capsys, "release", "diff", "sft@v1", "sft@v1")


def test_a_release_draws_on_another_log(home: Path, databases: Databases, capsys: Capture, tmp_path: Path) -> None:
    other = another(databases)
    with other.ledger() as log:
        append(log, episodes(3, first=20))
        head = log.head().position
    made = build(capsys, "--cut", f"{other.url}={head}")
    assert made["rows"] == 9
    assert "give --cut DB for it" in refused(capsys, "release", "rebuild", "sft", code=2)
    assert as_json(capsys, "release", "rebuild", "sft", "--cut", other.url)["identical"]
    run(["release", "approve", "sft", "--by", "r", "--why", "w"])
    out = str(tmp_path / "out")
    arguments = ("--format", "atif", "--to", out, "--cut", other.url)
    assert "give its database" in refused(capsys, "release", "export", "sft", *arguments[:4], code=2)
    assert not list(tmp_path.glob("*out*")) and not list(tmp_path.glob(".making-*"))
    assert as_json(capsys, "release", "export", "sft", *arguments)["rows"] == 9


def test_groups_are_released_too(home: Path, database: Database, capsys: Capture, tmp_path: Path) -> None:
    with database.ledger() as log:
        for rollout in range(4):
            started, *rest = samples.episode(verdict="pass" if rollout else "fail", task="g")
            assert isinstance(started, EpisodeStarted)
            append(log, {f"episode/ab{rollout}": [EpisodeStarted(task="g", group="g", rollout=rollout), *rest]})
    made = as_json(capsys, "release", "build", "rl", "--view", "rollout_group")
    assert (made["rows"], made["view"]) == (1, "rollout_group@1")
    assert as_json(capsys, "release", "rebuild", "rl")["identical"]
    run(["release", "approve", "rl", "--by", "r", "--why", "w"])
    line = refused(capsys, "release", "export", "rl", "--format", "openai", "--to", str(tmp_path / "o"), code=2)
    assert "rollout_group@1 has no messages" in line
    traced = as_json(capsys, "lineage", "rl@v1#0")
    assert len({event["event"].partition("@")[0] for event in traced["events"]}) == 4
