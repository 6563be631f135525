"""`trajlog report` on a real database: files, blobs, exit codes."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from core.vocabulary.episode import EpisodeRetracted
from eventlog.blobs import BlobStore
from tests.cli.logs import append, as_json, fill, printed, refused
from tests.cli.process import trajlog
from tests.databases import Database
from tests.eventlog import screenshots

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    fill(database.url)
    store = BlobStore(tmp_path / "blobs")
    append(database.url, "episode/ee55", *screenshots.episode(store.put))
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return database.url


def test_a_page_is_written_and_what_is_in_it_said(url: str, capsys: Capture) -> None:
    line = printed(capsys, "report", "bb33", "-o", "out.html")
    text = Path("out.html").read_text("utf-8")
    assert line == "out.html: 0.0 MB, 10 events, 0 pictures\n"
    assert text.startswith("<!doctype html>")
    assert text.rstrip().endswith("</html>")
    assert "tool_2(at=&#34;07:00&#34;)" in text
    assert Path("out.html").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in Path().iterdir() if ".tmp" in path.name] == []


def test_pictures_come_from_the_blob_store_and_missing_ones_are_said(url: str, capsys: Capture) -> None:
    found = as_json_with(capsys, 3, "report", "ee55", "-o", "out.html")
    assert found | {"bytes": 0} == {
        "file": "out.html",
        "bytes": 0,
        "episodes": ["ee55"],
        "events": 18,
        "pictures": 3,
        "picture_bytes": found["picture_bytes"],
        "missing": [f"sha256:{'a' * 64}"],
    }
    assert found["bytes"] == Path("out.html").stat().st_size
    assert Path("out.html").read_text().count("data:image/png;base64,") == 3


def as_json_with(capsys: Capture, code: int, *arguments: str) -> dict[str, object]:
    import json

    found: dict[str, object] = json.loads(printed(capsys, *arguments, "--json", code=code))
    return found


def test_two_episodes_are_compared(url: str, capsys: Capture) -> None:
    found = as_json(capsys, "report", "aa22", "aa11", "-o", "out.html")
    assert found["episodes"] == ["aa22", "aa11"]
    assert 'id="comparison"' in Path("out.html").read_text()


def test_no_images_leaves_them_out(url: str, capsys: Capture) -> None:
    found = as_json_with(capsys, 3, "report", "ee55", "-o", "out.html", "--no-images")
    assert found["pictures"] == 0
    assert "base64" not in Path("out.html").read_text().replace("sha256-", "")


def test_stdout_is_a_place_too(url: str, tmp_path: Path) -> None:
    done = trajlog("report", "ee55", "-o", "-", home=tmp_path, TRAJLOG_DB=url)
    assert done.returncode == 3
    assert done.stdout.startswith(b"<!doctype html>")
    assert done.stderr.decode() == f"1 blob is missing or corrupt, and shown as missing: sha256:{'a' * 64}\n"


def test_a_file_is_not_replaced_unasked(url: str, capsys: Capture) -> None:
    Path("out.html").write_text("mine")
    assert "is there already; name another place, or replace it with --force" in refused(
        capsys, "report", "bb33", "-o", "out.html", code=2
    )
    assert Path("out.html").read_text() == "mine"
    printed(capsys, "report", "bb33", "-o", "out.html", "--force")
    assert Path("out.html").read_text().startswith("<!doctype")


def test_what_fails_leaves_no_file_and_the_old_one_whole(url: str, capsys: Capture) -> None:
    Path("old.html").write_text("mine")
    refused(capsys, "report", "nobody", "-o", "new.html")
    refused(capsys, "report", "nobody", "-o", "old.html", "--force")
    assert not Path("new.html").exists()
    assert Path("old.html").read_text() == "mine"
    assert [path.name for path in Path().iterdir() if ".tmp" in path.name] == []


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["bb33", "-o", "no/such/out.html"], 1, "there is no such folder; make it, or name another"),
        (["bb33", "-o", "."], 2, "is a folder; name a file in it"),
        (["bb33@4", "-o", "x.html"], 2, "whole episodes are reported; leave the @N out"),
        (["bb33"], 2, "-o"),
        (["zz", "-o", "x.html"], 1, "zz: no such episode"),
        (["bb33", "aa", "-o", "x.html"], 1, "aa: more than one episode starts with it"),
        (["bb33", "-o", "x" * 300], 1, "ame too long"),
    ],
)
def test_what_cannot_be_done_is_one_line(url: str, capsys: Capture, arguments: list[str], code: int, line: str) -> None:
    assert line in refused(capsys, "report", *arguments, code=code)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_one_line_and_nothing_is_left(url: str, tmp_path: Path, capsys: Capture) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", small], check=False).returncode:
        pytest.skip("this machine may not mount")
    try:
        line = refused(capsys, "report", "bb33", "-o", str(small / "out.html"), code=4)
        assert "No space left on device" in line
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_pipe_is_written_to_and_stays_a_pipe(url: str, tmp_path: Path, capsys: Capture) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    printed(capsys, "report", "bb33", "-o", str(pipe))
    reader.join(30)
    assert read[0].startswith(b"<!doctype html>")
    assert pipe.is_fifo()


def test_a_retracted_episode_says_so(url: str, capsys: Capture) -> None:
    append(url, "episode/aa22", EpisodeRetracted(import_id="i1"))
    printed(capsys, "report", "aa22", "-o", "out.html")
    assert "This episode was retracted with its import." in Path("out.html").read_text()


def test_the_template_is_imported_by_this_command_alone(tmp_path: Path) -> None:
    code = "import sys; from cli.main import run; run(['report', '--help']); sys.exit('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == 0
