"""A progress bar on stderr, for whatever takes more than a second at a terminal."""

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

from cli import settings
from cli.terminal import clean, interactive

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

DELAY = 1.0


class Progress:
    """`with Progress("importing", total=100, unit="episodes") as bar: bar.advance()`.

    Nothing is shown (and rich is not imported) before a second has passed, with `--quiet`, or
    where stderr is not a terminal. `total` may be unknown.
    """

    def __init__(self, title: str, *, total: int | None = None, unit: str = "") -> None:
        self.title = title
        self.total = total
        self.unit = unit
        self.done = 0
        self._shown: tuple[Bar, TaskID] | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()

    def advance(self, count: int = 1) -> None:
        """So many more are done."""
        self.update(self.done + count)

    def update(self, done: int, total: int | None = None) -> None:
        """So many are done, of so many if that is known only now."""
        self.done = done
        self.total = total or self.total
        if self._shown:
            bar, task = self._shown
            bar.update(task, completed=done, total=self.total)

    def __enter__(self) -> Self:
        if interactive(sys.stderr) and not settings.quiet():
            threading.Thread(target=self._show_late, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        with self._lock:
            if self._shown:
                self._shown[0].stop()
                self._shown = None

    def _show_late(self) -> None:
        if self._over.wait(DELAY):
            return
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        with self._lock:
            if self._over.is_set():
                return
            bar = Bar(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                *([BarColumn()] if self.total is not None else []),
                MofNCompleteColumn(),
                TextColumn(escape(self.unit)),
                TimeElapsedColumn(),
                console=Console(file=sys.stderr),
                transient=True,
            )
            task = bar.add_task(escape(clean(self.title)), total=self.total, completed=self.done)
            bar.start()
            self._shown = bar, task
