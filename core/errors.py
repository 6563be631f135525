"""The one family of errors: each says what is wrong, where, and what to do about it.

The command line prints `str(error)` as its one line and exits with `exit_code`; library callers
branch on the class and on `retryable`.
"""

from typing import ClassVar


class TrajlogError(Exception):
    """Root of every error trajlog raises on purpose.

    `what` is wrong, `where` it is (a file, stream, address), `mend` is what to do.
    """

    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str | None = None, mend: str | None = None) -> None:
        super().__init__(what, where, mend)
        self.what = what
        self.where = where
        self.mend = mend

    def __str__(self) -> str:
        line = f"{self.where}: {self.what}" if self.where else self.what
        return f"{line}; {self.mend}" if self.mend else line


class UsageError(TrajlogError):
    """The command or call itself is wrong (exit 2)."""

    exit_code = 2


class BadEvent(TrajlogError):
    """An event that the log will never accept as it is."""


class BadRecord(TrajlogError):
    """An imported record or file that cannot be read as what it claims to be."""


class DuplicateEvent(TrajlogError):
    """The event id is already in the log, with the same content."""


class EventIdTaken(TrajlogError):
    """The event id is already in the log, with other content."""


class WrongExpectedVersion(TrajlogError):
    """The stream's head is not where the writer expected it."""

    def __init__(self, stream: str, expected: int, actual: int) -> None:
        super().__init__(
            f"expected version {expected}, but the stream is at {actual}",
            where=stream,
            mend="read the stream again and decide anew",
        )
        self.stream = stream
        self.expected = expected
        self.actual = actual


class NotFound(TrajlogError):
    """Nothing by that name: an episode, stream, blob, tag."""


class Ambiguous(TrajlogError):
    """A partial name fits more than one thing."""


class Corrupt(TrajlogError):
    """Stored data contradicts its own digests."""


class Incomplete(TrajlogError):
    """What was asked for is only partly there, or was erased (exit 3)."""

    exit_code = 3


class Unavailable(TrajlogError):
    """The database, broker, disk or environment cannot be used now (exit 4)."""

    retryable = True
    exit_code = 4


class DiskFull(Unavailable):
    """No space left where the database or the blobs are."""


class SchemaMismatch(Unavailable):
    """The database's schema is older or newer than this code."""

    retryable = False
