"""`trajlog append` as a process, on a real database."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import environment
from tests.databases import Database

NOTE = {"stream": "episode/a", "type": "NoteAdded", "payload": {"text": "x\0y"}}


@pytest.fixture
def variables(database: Database, tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path, TRAJLOG_DB=database.url)


def append(data: bytes, variables: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "cli", "append"]
    return subprocess.run(command, input=data, env=variables, capture_output=True, timeout=60, check=False)


def test_each_line_is_answered_once_it_is_durable(variables: dict[str, str], database: Database) -> None:
    command = [sys.executable, "-m", "cli", "append"]
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        for n in range(1, 4):
            process.stdin.write(json.dumps(NOTE).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert list(answer) == ["event_id", "stream", "version", "position"]
            assert (answer["stream"], answer["version"], answer["position"]) == ("episode/a", n, n)
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0
    with database.ledger() as log:
        assert b"x\\u0000y" in next(iter(log.read("episode/a"))).body


def test_it_stops_at_the_first_bad_line(variables: dict[str, str], database: Database) -> None:
    note = json.dumps(NOTE).encode() + b"\n"
    done = append(note * 2 + b"nope\n" + note, variables)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("trajlog: line 3: malformed JSON: invalid character")


def test_many_lines_are_few_commits(variables: dict[str, str], database: Database) -> None:
    done = append((json.dumps(NOTE).encode() + b"\n") * 3_000, variables)
    assert [json.loads(line)["position"] for line in done.stdout.splitlines()] == list(range(1, 3_001))
    with database.tampering() as connection:
        assert connection.execute("SELECT count(*) FROM trajlog.segment").fetchone()[0] < 100  # type: ignore[index]


def test_nothing_is_nothing(variables: dict[str, str]) -> None:
    done = append(b"", variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_type_that_is_not_known_is_kept_with_a_note(variables: dict[str, str]) -> None:
    done = append(b'{"stream":"s/1","type":"NoteAded","payload":{}}\n', variables)
    assert done.returncode == 0
    assert b"did you mean NoteAdded?" in done.stderr
