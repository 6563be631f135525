"""How releases are called: `NAME@vN`, and their rows `NAME@vN#I`."""

import re
from typing import Final, NamedTuple

from core.errors import UsageError

PREFIX: Final = "release/"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_FULL = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]{0,63})(?:@v(?P<version>[1-9][0-9]{0,8}))?(?:#(?P<row>[0-9]{1,18}))?")


class Named(NamedTuple):
    """A release; `version` None is the newest of that name. `row` is an index in canonical order."""

    name: str
    version: int | None = None
    row: int | None = None

    @property
    def stream(self) -> str:
        return PREFIX + self.name

    def __str__(self) -> str:
        version = "" if self.version is None else f"@v{self.version}"
        return f"{self.name}{version}" + ("" if self.row is None else f"#{self.row}")


def check_name(name: str) -> str:
    """The name of a release to be built. `UsageError`."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            "a release's name is 1 to 64 small letters, digits and ._-, and begins with a letter or digit",
            where=repr(name[:80]),
        )
    return name


def parse(text: str) -> Named:
    """A release as a command names it. `UsageError`."""
    found = _FULL.fullmatch(text)
    if found is None:
        raise UsageError("not the name of a release", where=repr(text[:80]), mend="write NAME or NAME@v2")
    version, row = found["version"], found["row"]
    return Named(found["name"], None if version is None else int(version), None if row is None else int(row))


def is_release(text: str) -> bool:
    """Whether only a release can be meant: it has a version or a row."""
    found = _FULL.fullmatch(text)
    return found is not None and (found["version"] is not None or found["row"] is not None)


def is_name(text: str) -> bool:
    """Whether a release could be called that."""
    return _NAME.fullmatch(text) is not None
