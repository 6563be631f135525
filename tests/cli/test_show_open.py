"""`trajlog show --open` on a real database."""

import os
import stat
import sys
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from core.vocabulary import BlobRef
from core.vocabulary.contract import Observation, Point, Ui, Viewport
from core.vocabulary.episode import ActionSubmitted, EpisodeStarted, FeedbackRecorded
from eventlog.blobs import BlobStore
from tests.cli.logs import append, as_json, printed, refused
from tests.cli.process import on_a_terminal
from tests.databases import Database
from tests.eventlog.samples import turn

Capture = pytest.CaptureFixture[str]


def picture(size: tuple[int, int] = (200, 400)) -> bytes:
    out = BytesIO()
    Image.new("RGB", size).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    store = BlobStore(tmp_path / "home" / "blobs")
    seen = store.put(picture())
    other = BlobRef(store.put(b"%PDF-1.7 no picture").address, 19, "image/png")
    gone = BlobRef("sha256:" + "0" * 64, 10, "image/png")
    append(
        database.url,
        "episode/aa11",
        EpisodeStarted(),
        *(
            payload
            for step, blob in enumerate((seen, gone, other), 1)
            for payload in (
                FeedbackRecorded(step, Observation(blobs=[blob], viewport=Viewport(100, 200))),
                turn(step),
                ActionSubmitted(step, Ui("tap", target=Point(0 if step == 1 else 500, 50))),
            )
        ),
        turn(4),
        ActionSubmitted(4, Ui("key", key="back")),
    )
    return database.url


def test_the_screen_is_written_to_a_new_file_whose_path_is_printed(url: str, capsys: Capture, tmp_path: Path) -> None:
    file = Path(printed(capsys, "show", "aa11", "--open", "1").rstrip())
    assert file.parent == tmp_path and file.name.startswith("trajlog-aa11-step1-")
    with Image.open(file) as image:
        assert (image.format, image.size) == ("PNG", (200, 400))
        assert image.getpixel((0, 100)) != (0, 0, 0)
    assert printed(capsys, "show", "aa11", "--open", "1").rstrip() != str(file)


def test_it_is_written_where_it_is_wanted_and_json_says_so(url: str, capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "step one.png"
    found = as_json(capsys, "show", "@last", "--open", "1", "--out", str(out))
    assert found == {"episode": "aa11", "step": 1, "version": 2, "file": str(out), "notes": []}
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["--open", "2"], 1, "there is no such blob"),
        (["--open", "3"], 1, "aa11@8: the blob is no picture that can be drawn on"),
        (["--open", "4"], 1, "aa11: step 4 has no screenshot"),
        (["--open", "9"], 1, "aa11: there is no step 9: the last is 4"),
        (["--open", "1", "--out", "/nowhere/x.png"], 1, "/nowhere/x.png: No such file or directory"),
        (["--open", "1", "--raw"], 2, "leave the other options out"),
        (["--open", "1", "--step", "1"], 2, "leave the other options out"),
        (["--out", "x.png"], 2, "give --open N with it"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    url: str, capsys: Capture, arguments: list[str], code: int, line: str
) -> None:
    assert line in refused(capsys, "show", "aa11", *arguments, code=code)


def test_an_event_is_no_step(url: str, capsys: Capture) -> None:
    assert "leave the @N out" in refused(capsys, "show", "aa11@3", "--open", "1", code=2)


@pytest.mark.parametrize("desktop", [True, False])
def test_at_a_terminal_with_a_desktop_it_is_opened(url: str, tmp_path: Path, desktop: bool) -> None:
    opened = tmp_path / "opened"
    opener = tmp_path / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text(f'#!/bin/sh\necho "$1" > "{opened}.new"\nmv "{opened}.new" "{opened}"\n')
    opener.chmod(opener.stat().st_mode | stat.S_IXUSR)
    variables = {**os.environ, "PATH": f"{opener.parent}:{os.environ['PATH']}", "NO_COLOR": "1"}
    variables |= {"DISPLAY": ":0"} if desktop else {"DISPLAY": "", "WAYLAND_DISPLAY": ""}
    code, shown = on_a_terminal([sys.executable, "-m", "cli", "show", "aa11", "--open", "1"], variables)
    assert code == 0
    if desktop:
        import time

        for _ in range(200):
            if opened.exists():
                break
            time.sleep(0.05)
        assert opened.read_text().strip() == shown.strip()
    else:
        assert not opened.exists()
