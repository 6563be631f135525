"""The screen of `trajlog step`: the episode above, what the chosen event says below."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Input

from cli.stepper import panes
from cli.stepper.paint import fit, flat
from cli.stepper.panes import Against, Said
from cli.stepper.walk import Walk
from cli.stepper.widgets import Bar, Pane, Rows
from core.errors import TrajlogError
from core.times import to_text
from eventlog.blobs import BlobStore

KEYS = "jk event hl step · d diff s screen t tree r raw m memory · / find ? help q quit"

_PAGES = {"event": "", "raw": "as stored", "diff": "diff", "screen": "screen", "tree": "UI tree", "memory": "memory"}


def _key(keys: str, action: str) -> Binding:
    return Binding(keys, action, show=False)


class Stepper(App[int]):
    """`compare` finds the episode to compare with and may take a while; `open_picture` writes the picture
    of a screen (index of the event) and opens it, and says what came of it. Returns 130 if interrupted.
    """

    CSS = """
    #body { height: 1fr; }
    #rows { height: 1fr; }
    #side { height: 1fr; }
    #pane { height: 1fr; padding: 0 1; }
    .-wide #body { layout: horizontal; }
    .-wide #rows { width: 11fr; height: 100%; }
    .-wide #side { width: 10fr; height: 100%; }
    .whole #rows { display: none; }
    #find { display: none; height: 1; border: none; padding: 0; background: ansi_default; }
    .finding #find { display: block; }
    .finding #foot { display: none; }
    """
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-narrow"),
        (130, "-wide"),
    ]
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [
        _key("j,down", "move(1)"),
        _key("k,up", "move(-1)"),
        _key("l,right", "step(1)"),
        _key("h,left", "step(-1)"),
        _key("g,home", "edge(False)"),
        _key("G,end", "edge(True)"),
        _key("pagedown", "leaf(1)"),
        _key("pageup", "leaf(-1)"),
        _key("J", "scroll(1)"),
        _key("K", "scroll(-1)"),
        _key("space", "page(1)"),
        _key("b", "page(-1)"),
        _key("enter", "whole"),
        _key("d", "diff"),
        _key("s", "screen"),
        _key("t", "show('tree')"),
        _key("r", "show('raw')"),
        _key("m", "show('memory')"),
        _key("slash", "find"),
        _key("n", "again(1)"),
        _key("N", "again(-1)"),
        _key("question_mark", "help"),
        _key("escape", "leave_page"),
        _key("q", "leave"),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]

    def __init__(
        self,
        walk: Walk,
        store: BlobStore,
        *,
        index: int = 0,
        compare: Callable[[], Against],
        open_picture: Callable[[int], str],
    ) -> None:
        super().__init__(ansi_color=True)
        self.walk = walk
        self._store = store
        self._index = index
        self._compare = compare
        self._open_picture = open_picture
        self._page = "event"
        self._helping = False
        self._whole = False
        self._needle = ""
        self._against: Against | None = None
        self._comparing = False
        self._diff_width = 0

    def compose(self) -> ComposeResult:
        yield Bar(id="head", look="bold")
        with Container(id="body"):
            yield Rows(self.walk)
            with Container(id="side"):
                yield Bar(id="title", look="reverse")
                yield Pane()
        yield Bar(id="foot", look="dim")
        yield Input(id="find", placeholder="find", compact=True)

    def on_mount(self) -> None:
        self.set_focus(None)
        self.query_one("#head", Bar).say(self._heading())
        self._say()
        self._show()

    @property
    def failure(self) -> Exception | None:
        """What ended the screen, if that was a fault."""
        return self._exception

    def _print_error_renderables(self) -> None:
        """Nothing: the fault is told as those of every other command are."""
        self._exit_renderables.clear()

    # What is on the screen

    def _heading(self) -> str:
        row = self.walk.row
        said = [
            f"{row[name]:g}" if isinstance(row[name], float) else str(row[name])
            for name in ("task", "verdict", "end")
            if row.get(name) is not None
        ]
        steps = row.get("steps") or 0
        said.append("no steps" if not steps else "1 step" if steps == 1 else f"{steps:,} steps")
        said.append("1 event" if len(self.walk) == 1 else f"{len(self.walk):,} events")
        if row.get("retracted"):
            said.append("retracted")
        return f"{self.walk.episode}  {' · '.join(said)}"

    def _show(self, *, keep: bool = False) -> None:
        """Paint what depends on the chosen event and the page."""
        whole = self._whole or self._helping
        if self.screen.has_class("whole") != whole:
            self.screen.set_class(whole, "whole")
            self.call_after_refresh(self._show, keep=keep)
            return
        pane = self.query_one(Pane)
        if not len(self.walk):
            pane.show([Said("this episode has no events")])
        elif self._helping:
            pane.show(panes.help_page())
        elif self._page == "diff":
            self._show_diff(pane)
        else:
            pane.show(self._said(), keep=keep)
        self.query_one(Rows).choose(self._index)

    def _said(self) -> Iterable[Said]:
        match self._page:
            case "raw":
                return panes.raw(self.walk, self._index)
            case "screen":
                return panes.screen(self.walk, self._index, self._store)
            case "tree":
                return panes.tree(self.walk, self._index, self._store)
            case "memory":
                return panes.memory(self.walk, self._index)
            case _:
                return panes.event(self.walk, self._index)

    def _show_diff(self, pane: Pane) -> None:
        if self._against is None:
            pane.show([Said("comparing…")])
            return
        version = self.walk.events[self._index].version
        self._diff_width = pane.size.width
        lines = list(panes.comparison(self.walk, self._against, self._diff_width, _cut))
        at = max((number for number, (_, ours) in enumerate(lines) if 0 < ours <= version), default=0)
        first = next((number for number, (_, ours) in enumerate(lines) if ours == lines[at][1]), at)
        pane.show((said for said, _ in lines), at=first)

    def _title(self) -> None:
        if not len(self.walk) or self._helping:
            self.query_one("#title", Bar).say(" keys" if self._helping else "")
            return
        event = self.walk.events[self._index]
        step = self.walk.step(self._index)
        said = [f"@{event.version}"]
        said += [] if step is None else [f"step {step}"]
        said.append(event.type)
        said += [] if event.occurred_at is None else [to_text(event.occurred_at)[:23].replace("T", " ")]
        said += [part for part in (_PAGES[self._page], self.query_one(Pane).place) if part]
        self.query_one("#title", Bar).say(f" {' · '.join(said)}")

    def _say(self, text: str = "") -> None:
        """A message instead of the keys, until the next one."""
        self.query_one("#foot", Bar).say(f" {text}" if text else f" {KEYS}")

    def on_pane_moved(self) -> None:
        if self._page == "diff" and self._diff_width not in (0, self.query_one(Pane).size.width):
            self._show()
        self._title()

    # Keys

    def _go(self, index: int | None, otherwise: str) -> None:
        self._helping = False
        if index is None or not 0 <= index < len(self.walk):
            self._say(otherwise)
            return
        self._index = index
        self._say()
        self._show()

    def action_move(self, by: int) -> None:
        self._go(self._index + by, "this is the last event" if by > 0 else "this is the first event")

    def action_step(self, way: int) -> None:
        if not len(self.walk):
            return
        found = self.walk.next_step(self._index) if way > 0 else self.walk.previous_step(self._index)
        if found is None and not self.walk.row.get("steps"):
            self._say("this episode has no steps")
            return
        self._go(found, "this is the last step" if way > 0 else "this is the first step")

    def action_edge(self, last: bool) -> None:
        self._go(len(self.walk) - 1 if last else 0, "this episode has no events")

    def action_leaf(self, way: int) -> None:
        if len(self.walk):
            self._go(min(max(self._index + way * self.query_one(Rows).page, 0), len(self.walk) - 1), "")

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        self._go(message.index, "")

    def action_scroll(self, lines: int) -> None:
        self.query_one(Pane).scroll(lines)

    def action_page(self, way: int) -> None:
        self.action_scroll(way * self.query_one(Pane).page)

    def action_whole(self) -> None:
        self._whole = not self._whole
        self._show()

    def action_show(self, page: str) -> None:
        self._helping = False
        self._page = "event" if self._page == page else page
        self._say()
        self._show()

    def action_help(self) -> None:
        self._helping = not self._helping
        self._show()

    def action_leave_page(self) -> None:
        if self._helping:
            self._helping = False
        elif self._page != "event":
            self._page = "event"
        elif self._whole:
            self._whole = False
        else:
            self._search("")
        self._say()
        self._show()

    def action_leave(self) -> None:
        if self._helping:
            self.action_help()
        else:
            self.exit(0)

    def action_interrupt(self) -> None:
        self.exit(130)

    def action_screen(self) -> None:
        self._helping = False
        if not len(self.walk):
            return
        self._page = "screen"
        self._say(self._open_picture(self._index))
        self._show()

    def action_diff(self) -> None:
        self.action_show("diff")
        if self._page == "diff" and self._against is None and not self._comparing and len(self.walk):
            self._comparing = True
            self.run_worker(self._find, thread=True)

    def _find(self) -> None:
        """Compare, beside the screen."""
        try:
            found: Against | TrajlogError = self._compare()
        except TrajlogError as error:
            found = error
        self.call_from_thread(self._compared, found)

    def _compared(self, found: Against | TrajlogError) -> None:
        self._comparing = False
        if isinstance(found, TrajlogError):
            self._page = "event" if self._page == "diff" else self._page
            self._say(str(found))
        else:
            self._against = found
            self.query_one(Rows).mark(panes.marks(found))
        self._show()

    # Search

    def action_find(self) -> None:
        self.screen.add_class("finding")
        find = self.query_one("#find", Input)
        find.value = ""
        find.focus()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        self._close_find()
        if message.value:
            self._search(message.value)
            self.action_again(1)

    def on_key(self, event: Any) -> None:
        if event.key == "escape" and self.screen.has_class("finding"):
            self._close_find()
            event.stop()
            event.prevent_default()

    def _close_find(self) -> None:
        self.screen.remove_class("finding")
        self.set_focus(None)

    def _search(self, text: str) -> None:
        self._needle = text
        self.query_one(Rows).search(text)
        self.query_one(Pane).search(text)

    def action_again(self, way: int) -> None:
        if not self._needle or not len(self.walk):
            self._say("nothing to search for: / begins a search")
            return
        found = self.walk.find(self._needle, self._index, way)
        if found is None:
            self._say(f"not found: {self._needle}")
            return
        before = self._index
        self._go(found, "")
        if found == before:
            self._say("it is only here")
        elif (found > before) != (way > 0):
            self._say("searched on from the other end")


def _cut(text: str, width: int) -> str:
    return fit(flat(text), width)
