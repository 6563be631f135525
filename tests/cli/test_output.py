"""What is printed: JSON that stays JSON, tables that fit, terminals that stay whole."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cli import terminal
from cli.output import print_json, print_json_array, print_table
from tests.cli.process import environment, on_a_terminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Grüße 轨迹 🎉", "Grüße 轨迹 🎉"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x9b2J", "\\x9b2J"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("", ""),
    ],
)
def test_control_characters_are_written_out(text: str, shown: str) -> None:
    assert terminal.clean(text) == shown


def test_lines_may_be_kept() -> None:
    assert terminal.clean("a\n\tb\x1b", lines=True) == "a\n\tb\\x1b"


def test_widths_and_cuts_count_columns() -> None:
    assert terminal.width("轨迹") == 4
    assert terminal.width("e\u0301") == 1
    assert terminal.cut("轨迹轨迹", 5) == "轨迹…"
    assert terminal.cut("short", 5) == "short"
    assert terminal.cut("longer", 5) == "long…"


def test_an_object_is_one_line_even_around_a_raw_payload(capsys: pytest.CaptureFixture[str]) -> None:
    raw = msgspec.Raw(b'{\n  "amount": 1.50,\r\n  "text": "\\u00e9\\n"\n}')
    print_json({"payload": raw})
    assert capsys.readouterr().out == '{"payload":{"amount":1.50,"text":"\\u00e9\\n"}}\n'


@pytest.mark.parametrize(("name", "shown"), [("\udcff.json", "\ufffd.json"), ("\udcc3\udcbc", "ü"), ("\ud800", "?")])
def test_file_names_of_another_encoding_become_text(name: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"sources": [name]})
    assert json.loads(capsys.readouterr().out) == {"sources": [shown]}


@pytest.mark.parametrize("rows", [[], [{"a": 1}], [{"a": 1}, {"a": None}, {"a": "x"}]])
def test_a_list_is_one_array_with_a_row_a_line(
    rows: list[dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    print_json_array(iter(rows))
    printed = capsys.readouterr().out
    assert json.loads(printed) == rows
    assert printed.count("\n") == (len(rows) + 2 if rows else 1)


def test_an_array_is_written_as_its_rows_come(capsys: pytest.CaptureFixture[str]) -> None:
    def rows() -> Iterator[dict[str, int]]:
        yield {"a": 1}
        assert '{"a":1}' in capsys.readouterr().out
        yield {"a": 2}

    print_json_array(rows())


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_whole_in_any_encoding(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding=encoding))
    value = {"text": "Grüße 轨迹 🎉 \x7f\x9b\u202e"}
    print_json(value)
    sys.stdout.flush()
    assert json.loads(buffer.getvalue().decode(encoding)) == value
    assert encoding == "utf-8" or buffer.getvalue().isascii()


def test_a_table_aligns_and_cleans(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "n"), [("轨", 5), ("a\x1b", 123), (None, None)], right=("n",))
    assert capsys.readouterr().out == "name     n\n轨       5\na\\x1b  123\n-        -\n"


TABLE = "from cli.output import print_table; print_table(('a', 'b'), [('x' * 30, 'y' * 30)])"


def test_a_terminal_gets_lines_of_its_width_and_bold_heads(tmp_path: Path) -> None:
    code, shown = on_a_terminal([sys.executable, "-c", TABLE], environment(tmp_path, TERM="xterm"), columns=40)
    assert code == 0
    assert "\x1b[1m" in shown
    assert "x" * 30 + "  " + "y" * 7 + "…" in shown


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_turned_off(variables: dict[str, str], tmp_path: Path) -> None:
    _, shown = on_a_terminal([sys.executable, "-c", TABLE], environment(tmp_path, **variables))
    assert "\x1b" not in shown


def test_json_on_a_terminal_escapes_what_would_steer_it(tmp_path: Path) -> None:
    program = "from cli.output import print_json; print_json({'a': '\\x9b2J\\u202e轨'})"
    _, shown = on_a_terminal([sys.executable, "-c", program], environment(tmp_path, PYTHONUTF8="1"))
    assert shown.strip() == '{"a":"\\u009b2J\\u202e轨"}'


PROGRESS = """
import sys, time
from cli import progress, settings
progress.DELAY = 0.05
if "quiet" in sys.argv: settings.flag("quiet", True)
with progress.Progress("counting", total=3, unit="things") as bar:
    for _ in range(3):
        time.sleep({pause})
        bar.advance()
print("rich" in sys.modules)
"""


@pytest.mark.parametrize(
    ("pause", "argument", "seen"), [("0.3", "", True), ("0.3", "quiet", False), ("0.0", "", False)]
)
def test_progress_shows_on_a_terminal_when_it_takes_long(pause: str, argument: str, seen: bool, tmp_path: Path) -> None:
    program = PROGRESS.replace("{pause}", pause)
    code, shown = on_a_terminal(
        [sys.executable, "-c", program, argument], environment(tmp_path, TERM="xterm", PYTHONUTF8="1")
    )
    assert code == 0
    assert ("counting" in shown) is seen
    assert shown.rstrip().endswith(str(seen))


def test_progress_is_silent_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    from cli.progress import Progress

    with Progress("counting", total=1) as bar:
        bar.advance()
    assert capsys.readouterr() == ("", "")
