"""`trajlog step`: keys and screens, driven without a terminal; then on one."""

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Input

from cli.stepper.app import Stepper
from cli.stepper.panes import Against
from cli.stepper.walk import Walk
from core.errors import NotFound
from core.event import StoredEvent
from core.vocabulary import Payload
from core.vocabulary.contract import MemoryRead
from core.vocabulary.episode import ActionSubmitted, EpisodeStarted, MessageRecorded, ModelResponded, NoteAdded
from eventlog.blobs import BlobStore
from eventlog.comparison import Side, compare
from tests.cli.logs import append, fill, refused
from tests.cli.process import environment, interact, trajlog
from tests.databases import Database
from tests.eventlog import samples, screenshots
from tests.eventlog.samples import raw, stored

SCREENS = Path(__file__).with_name("screens")
NASTY = (
    "a\x1b]0;x\x07b\x9b31m\u202eRTL\u2066 \t| 漢字かな العربية עברית 👩\u200d👩\u200d👧 ❤\ufe0f 🇩🇪 e\u0301 "
    "z\u0300\u0301\u0302\u0303\u0304\u0305\u0306 [bold]x[/]"
)

Script = Callable[["Driven"], Awaitable[None]]


class Driven:
    """A running screen: press keys, and look at it."""

    def __init__(self, app: Stepper, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
        await self.app.workers.wait_for_complete()
        await self.pilot.pause()

    async def resize(self, width: int, height: int) -> None:
        await self.pilot.resize_terminal(width, height)
        await self.pilot.pause()

    @property
    def lines(self) -> list[str]:
        """The screen as text, line by line; each as wide as the terminal."""
        strips = self.app.screen._compositor.render_strips()
        assert {strip.cell_length for strip in strips} == {self.app.size.width}
        assert all(cell_len(strip.text) == self.app.size.width for strip in strips)
        return [strip.text.rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def title(self) -> str:
        """The line between the two halves."""
        return next(line for line in self.lines if re.match(" (@|keys)", line))

    @property
    def foot(self) -> str:
        return self.lines[-1].strip()

    @property
    def version(self) -> int:
        """The chosen event."""
        found = re.match(r" @(\d+)", self.title)
        assert found
        return int(found[1])


def walk(payloads: list[Payload], **row: Any) -> Walk:
    facts = {"task": "alarm", "verdict": "fail", "end": "finished", "steps": 3} | row
    return Walk("aa", facts, stored(("episode/aa", payloads)) if payloads else [])


def drive(
    walked: Walk, store: BlobStore, script: Script, *, size: tuple[int, int] = (80, 24), **options: Any
) -> Stepper:
    """Run the screen and the script in it."""
    options = {"compare": nothing_passed, "open_picture": lambda index: "there is no desktop here"} | options
    app = Stepper(walked, store, **options)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await script(Driven(app, pilot))

    asyncio.run(run())
    return app


def nothing_passed() -> Against:
    raise NotFound("no other episode of task alarm has passed", where="aa", mend="name a second one")


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def phone(store: BlobStore) -> Walk:
    return walk(screenshots.episode(store.put))


def against(events: list[StoredEvent], store: BlobStore) -> Against:
    payloads = screenshots.episode(store.put)
    payloads[7] = screenshots.touched(2, "swipe", 54, 170, (54, 60))
    theirs = stored(("episode/bb", [*payloads[:10], *payloads[12:15], samples.judged("pass")]))
    sides = (Side("aa", "alarm", "finished", "fail"), Side("bb", "alarm", "finished", "pass"))
    return Against("bb", compare((sides[0], events), (sides[1], theirs)), theirs)


def same(name: str, text: str) -> None:
    """Compare a screen with the committed one; TRAJLOG_WRITE_SCREENS=1 writes it instead."""
    file = SCREENS / f"{name}.txt"
    if os.environ.get("TRAJLOG_WRITE_SCREENS"):
        file.write_text(f"{text}\n", "utf-8")
    assert file.read_text("utf-8") == f"{text}\n"


SNAPSHOTS: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "start": ((80, 24), ()),
    "failed": ((80, 24), ("G", "k", "k")),
    "screen": ((80, 24), ("l", "j", "j", "s", "enter")),
    "missing": ((80, 24), ("l", "l", "l", "j", "j", "s")),
    "tree": ((80, 24), ("l", "t")),
    "memory": ((80, 24), ("m",)),
    "diff": ((80, 24), ("l", "l", "j", "d")),
    "help": ((80, 24), ("question_mark",)),
    "find": ((80, 24), ("slash", "c", "l", "o", "c", "k")),
    "wide": ((150, 30), ("l", "j")),
    "small": ((30, 8), ("l",)),
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_screens_are_as_they_were_drawn(name: str, phone: Walk, store: BlobStore) -> None:
    size, keys = SNAPSHOTS[name]

    async def script(screen: Driven) -> None:
        await screen.press(*keys)
        same(name, screen.text)

    drive(phone, store, script, size=size, compare=lambda: against(list(phone.events), store))


def test_j_and_k_go_from_event_to_event_h_and_l_from_step_to_step(phone: Walk, store: BlobStore) -> None:
    async def script(screen: Driven) -> None:
        assert screen.version == 1
        for key, version in (
            ("j", 2),
            ("down", 3),
            ("k", 2),
            ("up", 1),
            ("l", 3),
            ("l", 7),
            ("right", 10),
            ("h", 7),
            ("j", 8),
            ("h", 7),
            ("left", 3),
            ("G", 18),
            ("h", 10),
            ("g", 1),
            ("end", 18),
            ("home", 1),
            ("pagedown", 11),
            ("pageup", 1),
        ):
            await screen.press(key)
            assert screen.version == version, key

    drive(phone, store, script)


def test_the_ends_are_said_and_not_passed(phone: Walk, store: BlobStore) -> None:
    async def script(screen: Driven) -> None:
        for keys, said in (
            ("k", "this is the first event"),
            ("h", "this is the first step"),
            ("Gj", "this is the last event"),
            ("l", "this is the last step"),
        ):
            await screen.press(*keys)
            assert screen.foot == said

    drive(phone, store, script)


def test_a_page_stays_while_stepping_and_its_key_or_esc_leaves_it(phone: Walk, store: BlobStore) -> None:
    async def script(screen: Driven) -> None:
        await screen.press("l", "t")
        assert "UI tree of @3" in screen.text
        await screen.press("l")
        assert screen.title.endswith("UI tree")
        await screen.press("t")
        assert "UI tree" not in screen.title
        await screen.press("r", "escape")
        assert "as stored" not in screen.title

    drive(phone, store, script)


def test_the_lower_half_scrolls_and_takes_the_whole_screen(phone: Walk, store: BlobStore) -> None:
    async def script(screen: Driven) -> None:
        await screen.press("l", "j")
        assert "10/18" in screen.title
        await screen.press("J")
        assert "11/18" in screen.title
        await screen.press("K", "space")
        assert "18/18" in screen.title
        await screen.press("b", "enter")
        assert screen.title.endswith("000")
        assert not any("user:" in line for line in screen.lines)
        await screen.press("enter")
        assert any("user:" in line for line in screen.lines)

    drive(phone, store, script)


def test_the_stored_event_is_shown_verbatim(phone: Walk, store: BlobStore) -> None:
    async def script(screen: Driven) -> None:
        await screen.press("j", "r")
        assert ' {"role":"user","content":"Set an alarm for 7:00"}' in screen.lines
        assert any(line.startswith(" position 2  event ") for line in screen.lines)

    drive(phone, store, script)


def test_searching_finds_any_script_and_says_when_there_is_nothing(store: BlobStore) -> None:
    walked = walk(
        [EpisodeStarted(goal="早上七点"), NoteAdded(text="x"), MessageRecorded(role="user", content=raw("ÄRGER"))]
    )

    async def script(screen: Driven) -> None:
        for text, version, said in (("ärger", 3, None), ("七点", 1, None), ("none", 1, "not found: none")):
            await screen.press("slash")
            screen.app.query_one("#find", Input).value = text
            await screen.press("enter")
            assert screen.version == version
            assert said is None or screen.foot == said
        await screen.press("slash", "q", "escape")
        assert screen.app.is_running
        assert screen.version == 1

    drive(walked, store, script)


def test_n_and_shift_n_go_on_searching_round_the_ends(phone: Walk, store: BlobStore) -> None:
    async def script(screen: Driven) -> None:
        await screen.press("n")
        assert screen.foot == "nothing to search for: / begins a search"
        await screen.press("slash", *"tap", "enter")
        found = [screen.version]
        for _ in range(4):
            await screen.press("n")
            found.append(screen.version)
        assert found == [5, 11, 18, 5, 11]
        await screen.press("N", "N")
        assert screen.version == 18
        assert screen.foot == "searched on from the other end"

    drive(phone, store, script)


def test_the_comparison_follows_and_marks_the_calls(phone: Walk, store: BlobStore) -> None:
    async def script(screen: Driven) -> None:
        await screen.press("d", "l", "l", "j")
        assert "against bb (pass): different: calls, verdict" in screen.text or "first divergence" in screen.text
        assert any(re.match(r">~ +8 ", line) for line in screen.lines)
        assert any(re.match(r" - +11 ", line) for line in screen.lines)

    drive(phone, store, script, compare=lambda: against(list(phone.events), store))


def test_without_an_episode_that_passed_it_says_so(phone: Walk, store: BlobStore) -> None:
    async def script(screen: Driven) -> None:
        await screen.press("d")
        assert screen.foot.startswith("aa: no other episode of task alarm has passed")
        assert "diff" not in screen.title

    drive(phone, store, script)


def test_memory_is_what_was_read_up_to_here(store: BlobStore) -> None:
    walked = walk([EpisodeStarted(), ActionSubmitted(step=1, action=MemoryRead(query="seat")), NoteAdded(text="x")])

    async def script(screen: Driven) -> None:
        await screen.press("m")
        assert "no memory events up to here" in screen.text
        await screen.press("j")
        assert "@2 MemoryRead query=seat" in screen.text

    drive(walked, store, script)


@pytest.mark.parametrize("size", [(80, 24), (150, 40), (40, 12)])
def test_nothing_recorded_can_break_the_screen(size: tuple[int, int], store: BlobStore) -> None:
    tree = store.put(f"<hierarchy><node text='{NASTY.replace(chr(27), '').replace(chr(7), '')}'/></hierarchy>".encode())
    payloads: list[Payload] = [
        EpisodeStarted(task=NASTY, goal=NASTY * 20),
        MessageRecorded(role="user", content=raw(NASTY)),
        screenshots.seen(1, store.put(screenshots.png((1, 2, 3))), tree, flags=[NASTY]),
        ModelResponded(step=1, content=NASTY, thought=NASTY),
        samples.call(1, NASTY, None, **{NASTY: NASTY}),
        samples.failed(1, action=5),
        NoteAdded(text=NASTY),
    ]

    async def script(screen: Driven) -> None:
        for keys in ("jjjjjj", "gr", "llt", "s", "m", "d", "?", "?", "r", "jjj"):
            await screen.press(*keys)
            for line in screen.lines:
                assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200d\ufe0f]", line)
        assert "[bold]x[/]" in walked.line(1).action

    walked = walk(payloads, task=NASTY)
    drive(walked, store, script, size=size)


def test_what_is_odd_is_drawn_as_it_was_drawn(store: BlobStore) -> None:
    async def script(screen: Driven) -> None:
        await screen.press("j")
        same("odd", screen.text)

    drive(walk([EpisodeStarted(), MessageRecorded(role="user", content=raw(NASTY))], steps=0), store, script)


def test_it_is_resized_down_to_nothing_and_back(phone: Walk, store: BlobStore) -> None:
    async def script(screen: Driven) -> None:
        await screen.press("d", "d")
        before = screen.text
        for width, height in ((200, 60), (20, 5), (1, 1), (130, 24), (300, 2), (80, 24)):
            await screen.resize(width, height)
            await screen.press("j", "t", "d", "r", "k", "r")
            assert len(screen.lines) == height
        await screen.press("escape", "g", "escape")
        assert screen.text == before

    drive(phone, store, script, compare=lambda: against(list(phone.events), store))


def test_the_comparison_is_laid_out_anew_for_another_width(phone: Walk, store: BlobStore) -> None:
    def bar(screen: Driven) -> int:
        return next(line.index("│") for line in screen.lines if "@5 tap (54, 210)" in line and "│" in line)

    async def script(screen: Driven) -> None:
        await screen.press("d")
        assert bar(screen) == 40
        await screen.resize(60, 24)
        await screen.pilot.pause()
        assert bar(screen) == 30

    drive(phone, store, script, compare=lambda: against(list(phone.events), store))


def test_an_episode_without_steps_or_events_says_so(store: BlobStore) -> None:
    async def no_steps(screen: Driven) -> None:
        assert "no steps · 1 event" in screen.lines[0]
        await screen.press("l")
        assert screen.foot == "this episode has no steps"

    async def no_events(screen: Driven) -> None:
        assert "this episode has no events" in screen.text
        await screen.press(*"jkhlgGdstrmnJK", "space", "enter", "pagedown", "slash", "x", "enter", "n")
        assert screen.app.is_running

    drive(walk([NoteAdded(text="x")], steps=0), store, no_steps)
    drive(walk([], steps=0), store, no_events)


def test_of_five_thousand_events_only_those_in_sight_are_read(store: BlobStore) -> None:
    walked = walk(samples.episode(steps=1_666), steps=1_666)
    assert len(walked) > 5_000

    async def script(screen: Driven) -> None:
        assert walked.line.cache_info().currsize < 40
        await screen.press("G")
        assert screen.version == len(walked)
        await screen.press("h", "h")
        assert walked.line.cache_info().currsize < 80
        await screen.press("slash", *"tool_1000", "enter")
        assert "tool_1000" in screen.text

    drive(walked, store, script)


def test_the_mouse_chooses_and_scrolls(phone: Walk, store: BlobStore) -> None:
    async def script(screen: Driven) -> None:
        await screen.pilot.click("#rows", offset=(10, 4))
        await screen.pilot.pause()
        assert screen.version == 5

    drive(phone, store, script)


def test_q_leaves_and_ctrl_c_is_an_interruption(phone: Walk, store: BlobStore) -> None:
    async def leave(screen: Driven) -> None:
        await screen.press("question_mark", "q")
        assert screen.app.is_running
        await screen.press("q")

    async def interrupt(screen: Driven) -> None:
        await screen.press("slash", "ctrl+c")

    assert drive(phone, store, leave).return_value == 0
    assert drive(phone, store, interrupt).return_value == 130


# On a terminal


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    fill(database.url)
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    return database.url


def test_without_a_terminal_it_is_one_line(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "step", "bb33", code=2) == (
        "trajlog: step needs a terminal; trajlog show prints an episode anywhere"
    )
    done = trajlog("step", "bb33", home=tmp_path, TRAJLOG_DB=url)
    assert (done.returncode, done.stdout) == (2, b"")


def test_on_a_terminal_it_is_drawn_and_left_as_it_was_found(url: str, tmp_path: Path) -> None:
    append(url, "episode/bb33", ModelResponded(step=3, content=NASTY))
    variables = environment(tmp_path, TRAJLOG_DB=url, TERM="xterm-256color", NO_COLOR="1")
    code, shown = interact([sys.executable, "-m", "cli", "step", "bb33"], variables, ["llG", "d", "?", "q", "q"])
    assert code == 0
    assert "bb33  timer · fail · finished · 3 steps · 11 events" in shown
    assert "no other episode of task timer has passed" in shown
    assert shown.index("\x1b[?1049h") < shown.rindex("\x1b[?1049l")
    assert "\x1b]0;x" not in shown and "\u202e" not in shown and "\x9b" not in shown
    assert not re.search(r"\x1b\[[0-9;]*(3[0-7]|4[0-7]|[34]8;)[0-9;]*m", shown)


def test_ctrl_c_exits_as_interrupted(url: str, tmp_path: Path) -> None:
    variables = environment(tmp_path, TRAJLOG_DB=url, TERM="xterm-256color")
    code, shown = interact([sys.executable, "-m", "cli", "step", "aa22@3"], variables, ["\x03"])
    assert code == 130
    assert shown.endswith("trajlog: interrupted\r\n")


@pytest.mark.parametrize(
    ("arguments", "term", "code", "line"),
    [
        (["bb33"], "dumb", 2, "this terminal cannot show a whole screen (TERM); use trajlog show"),
        (["zz"], "xterm", 1, "zz: no such episode"),
        (["bb33@99"], "xterm", 1, "bb33: there is no event 99: the episode has 10"),
        (["bb33", "--step", "9"], "xterm", 1, "bb33: there is no step 9: it has 2"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    url: str, tmp_path: Path, arguments: list[str], term: str, code: int, line: str
) -> None:
    variables = environment(tmp_path, TRAJLOG_DB=url, TERM=term)
    found, shown = interact([sys.executable, "-m", "cli", "step", *arguments], variables, [])
    assert found == code
    assert line in shown
    assert len(shown.splitlines()) == 1


def test_a_terminal_without_a_size_is_taken_for_80_by_24(url: str, tmp_path: Path) -> None:
    variables = environment(tmp_path, TRAJLOG_DB=url, TERM="xterm-256color")
    code, shown = interact([sys.executable, "-m", "cli", "step", "bb33"], variables, ["j", "q"], size=(0, 0))
    assert code == 0
    assert "bb33  timer" in shown
