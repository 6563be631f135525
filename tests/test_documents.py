"""The Python in the documents runs as it stands."""

import asyncio
import re
from pathlib import Path
from textwrap import indent

import pytest

import eventlog

ROOT = Path(__file__).parents[1]


def snippets(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = eventlog.open
    monkeypatch.setattr(eventlog, "open", lambda db=None, **given: real("memory://"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "screen.png").write_bytes(b"\x89PNG\r\n\x1a\n")


def test_the_readme_records_and_reads_an_episode(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = snippets("README.md")
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "1 EpisodeStarted"
    assert printed[-1].endswith("EpisodeEnded")


@pytest.mark.parametrize("number", range(len(snippets("docs/api.md"))))
def test_each_piece_of_the_api_page_runs(number: int, tmp_path: Path) -> None:
    code = snippets("docs/api.md")[number].replace("log.follow()", "()")
    with eventlog.open("memory://") as log:
        names = {"log": log, "eventlog": eventlog}
        if "await" in code:
            exec(compile(f"async def page():\n{indent(code, '    ')}", "api.md", "exec"), names)
            asyncio.run(names["page"]())  # type: ignore[operator]
        else:
            exec(
                compile(code.replace("log.episode(", f"log.episode(blobs={str(tmp_path)!r}, "), "api.md", "exec"), names
            )
