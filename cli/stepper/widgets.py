"""The parts of the screen: they paint only the lines that are seen."""

from collections.abc import Iterable
from functools import cache

from rich.segment import Segment
from rich.style import Style
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from cli.stepper.paint import fit, flat, split, wrapped
from cli.stepper.panes import Said
from cli.stepper.walk import Walk
from core.visible import short

MAX_TEXT = 400_000
"""Characters of one line of a page that are wrapped."""

_NUMBERS_FROM = 100
"""The width from which milliseconds and tokens are shown."""

style = cache(Style.parse)


def _strip(text: str, width: int, base: str, needle: str = "") -> Strip:
    """A flat text over the whole width, what was searched for underlined."""
    parts = [
        Segment(part, style(f"{base} bold underline".strip() if hit else base or "none"))
        for part, hit in split(fit(text, width), needle)
    ]
    return Strip(parts, width)


class Bar(Widget):
    """One line."""

    DEFAULT_CSS = "Bar { height: 1; }"

    def __init__(self, *, id: str, look: str = "") -> None:
        super().__init__(id=id)
        self._text = ""
        self._look = look

    def say(self, text: str) -> None:
        if text != self._text:
            self._text = text
            self.refresh()

    def render_line(self, y: int) -> Strip:
        return _strip(flat(self._text), self.size.width, self._look)


class Rows(Widget):
    """The episode, a line an event, one of them chosen."""

    class Chosen(Message):
        """Somebody clicked on an event."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self, walk: Walk) -> None:
        super().__init__(id="rows")
        self._walk = walk
        self._top = 0
        self._index = 0
        self._needle = ""
        self._marks: dict[int, str] = {}

    def choose(self, index: int) -> None:
        """Choose an event, and bring it into sight."""
        self._index = index
        self._settle()

    def mark(self, marks: dict[int, str]) -> None:
        """Put marks before events, by version."""
        self._marks = marks
        self.refresh()

    def search(self, needle: str) -> None:
        self._needle = needle.casefold()
        self.refresh()

    @property
    def page(self) -> int:
        """How many events are seen at once."""
        return max(self.size.height - 1, 1)

    def _settle(self) -> None:
        height = max(self.size.height, 1)
        margin = min(2, (height - 1) // 2)
        self._top = min(self._top, max(self._index - margin, 0))
        self._top = max(self._top, self._index - height + 1 + margin)
        self._top = max(min(self._top, len(self._walk) - height), 0)
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        self._settle()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        self._scroll(3)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        self._scroll(-3)

    def _scroll(self, by: int) -> None:
        self._top = max(min(self._top + by, len(self._walk) - self.size.height), 0)
        self.refresh()

    def on_click(self, event: Click) -> None:
        if self._top + event.y < len(self._walk):
            self.post_message(self.Chosen(self._top + event.y))

    def render_line(self, y: int) -> Strip:
        index, width = self._top + y, self.size.width
        if index >= len(self._walk):
            return Strip.blank(width)
        line = self._walk.line(index)
        mark = self._marks.get(line.version, " ").strip() or ("✗" if line.failed else " ")
        step = "" if line.step is None else str(line.step)
        arrow = "→ " if self._walk.events[index].type == "FeedbackRecorded" else ""
        tail = ""
        if width >= _NUMBERS_FROM:
            ms = "" if line.ms is None else f"{line.ms:,.0f} ms"
            tokens = "" if line.tokens is None else f"{line.tokens:,} tok"
            tail = f" {ms:>10} {tokens:>10}"
        verdict = "" if line.verdict is None else f" {flat(line.verdict)}"
        head = f"{'>' if index == self._index else ' '}{mark}{line.version:>6} {step:>4}  "
        room = max(width - len(head) - len(tail) - len(verdict), 0)
        text = f"{head}{fit(flat(arrow + short(line.action)), room)}{verdict}{tail}"
        look = "red" if line.failed else ""
        return _strip(text, width, f"{look} reverse".strip() if index == self._index else look, self._needle)


class Pane(Widget):
    """A page of text, wrapped to the width, to scroll in."""

    class Moved(Message):
        """Another part of the page is seen."""

    def __init__(self) -> None:
        super().__init__(id="pane")
        self._said: list[Said] = []
        self._lines: list[Said] = []
        self._starts: list[int] = []
        self._width = -1
        self._top = 0
        self._needle = ""

    def show(self, said: Iterable[Said], *, at: int = 0, keep: bool = False) -> None:
        """Show a page, from its line `at` on; `keep`: from where the last one stood."""
        self._said = list(said)
        self._width = -1
        self._wrap()
        wanted = self._top if keep else self._starts[at] if at < len(self._starts) else 0
        self._to(wanted - (self.size.height // 3 if at else 0))

    def search(self, needle: str) -> None:
        self._needle = needle.casefold()
        self.refresh()

    def scroll(self, lines: int) -> None:
        self._to(self._top + lines)

    @property
    def page(self) -> int:
        """How many lines are seen at once."""
        return max(self.size.height - 1, 1)

    @property
    def place(self) -> str:
        """Where in the page one is, if it does not fit."""
        height = max(self.size.height, 1)
        if len(self._lines) <= height:
            return ""
        return f"{min(self._top + height, len(self._lines)):,}/{len(self._lines):,}"

    def _to(self, top: int) -> None:
        self._top = max(min(top, len(self._lines) - self.size.height), 0)
        self.refresh()
        self.post_message(self.Moved())

    def _wrap(self) -> None:
        """Wrap the page, if the width is new."""
        if self._width == self.size.width:
            return
        self._width = self.size.width
        self._lines, self._starts = [], []
        for text, look in self._said:
            self._starts.append(len(self._lines))
            left = len(text) - MAX_TEXT
            self._lines += [Said(line, look) for line in wrapped(flat(text[:MAX_TEXT]), self._width)]
            if left > 0:
                self._lines.append(Said(f"… (+{left:,})", "dim"))

    def on_resize(self, event: Resize) -> None:
        self._wrap()
        self._to(self._top)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        self.scroll(3)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        self.scroll(-3)

    def render_line(self, y: int) -> Strip:
        index = self._top + y
        if index >= len(self._lines):
            return Strip.blank(self.size.width)
        text, look = self._lines[index]
        return _strip(text, self.size.width, look, self._needle)
