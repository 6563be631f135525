"""Where records come from: files, folders, globs and stdin, each opened once and read front to back."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from glob import glob, has_magic
from pathlib import Path
from typing import NamedTuple

from core.errors import BadRecord, NotFound
from eventlog.interchange.split import Reader

STDIN = "-"
HEAD = 1 << 16


class Source(NamedTuple):
    """One input. `name` is what messages call it; `path` is None for stdin."""

    name: str
    path: Path | None

    @property
    def suffix(self) -> str:
        """The file's suffixes, lower case, such as `.jsonl` or `.traj.json`."""
        return "".join(self.path.suffixes).lower() if self.path else ""

    @property
    def size(self) -> int | None:
        return self.path.stat().st_size if self.path and self.path.is_file() else None

    @contextmanager
    def open(self) -> Iterator[Reader]:
        """A reader behind the byte order mark. BadRecord if the file is empty."""
        if self.path is None:
            yield self._begin(Reader(sys.stdin.buffer))
            return
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise BadRecord(f"cannot be read: {error.strerror}", where=self.name) from error
        with file:
            yield self._begin(Reader(file))

    def _begin(self, reader: Reader) -> Reader:
        if reader.peek(HEAD).startswith(b"\xef\xbb\xbf"):
            reader.skip(3)
        if not reader.peek(1):
            raise BadRecord("is empty", where=self.name, mend="check how the file was written")
        return reader


def expand(names: Sequence[str], suffixes: Iterable[str]) -> list[Source]:
    """The sources behind file names, folders (searched for `suffixes`, hidden files left out), globs
    and `-`, each once, in order. NotFound if one of them names nothing."""
    found: dict[str, Source] = {}
    for name in names:
        for source in _expand(name, tuple(suffixes)):
            found.setdefault(str(source.path.resolve()) if source.path else STDIN, source)
    return list(found.values())


def _expand(name: str, suffixes: tuple[str, ...]) -> list[Source]:
    if name == STDIN:
        return [Source("stdin", None)]
    if not name:
        raise NotFound("an empty name names no file or folder", mend="check the path, and the variable it came from")
    path = Path(name).expanduser()
    if path.is_dir():
        return _folder(name, path, suffixes)
    if path.exists():
        return [Source(name, path)]
    if has_magic(name):
        matches = sorted(file for file in glob(str(path), recursive=True) if Path(file).is_file())  # noqa: PTH207
        if matches:
            return [Source(file, Path(file)) for file in matches]
        raise NotFound("no file matches", where=name, mend="check the pattern")
    raise NotFound("no such file or folder", where=name, mend="check the path")


def _folder(name: str, path: Path, suffixes: tuple[str, ...]) -> list[Source]:
    files = sorted(
        file
        for file in path.rglob("*")
        if file.name.lower().endswith(suffixes)
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if files:
        return [Source(str(file), file) for file in files]
    raise NotFound(
        f"holds no file that ends in {', '.join(sorted(suffixes))}", where=name, mend="name the files themselves"
    )
