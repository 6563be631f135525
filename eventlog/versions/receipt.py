"""A receipt: a tag kept elsewhere, by which the log can be held to what it was.

Without one nobody can see that the end of a log was lost.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BadRecord, Corrupt, NotFound, UsageError
from core.identity import uuid_text
from core.merkle import consistency_proof, verify_consistency
from core.tag import Receipt, read_receipt, tag_bytes
from core.times import to_text
from eventlog.versions.keys import signed

if TYPE_CHECKING:
    from eventlog.database import Connection

_MAX_BYTES = 1 << 20
_SEAL = "SELECT seal FROM trajlog.segment WHERE last_position <= %s ORDER BY last_position DESC LIMIT 1"
_STAMP = "SELECT committed_at FROM trajlog.segment WHERE last_position >= %s ORDER BY last_position LIMIT 1"
_LEFT = "SELECT coalesce(max(last_position), 0) FROM trajlog.segment WHERE committed_at <= to_timestamp(%s / 1e6)"


def load(path: str | Path) -> Receipt:
    """A receipt from its file, if it is as it was signed. `NotFound`, `BadRecord`."""
    try:
        with Path(path).open("rb") as file:
            receipt = read_receipt(file.read(_MAX_BYTES))
    except FileNotFoundError:
        raise NotFound("no such receipt", where=str(path)) from None
    except OSError as error:
        raise UsageError(f"the receipt cannot be read: {error.strerror}", where=str(path)) from error
    except BadRecord as error:
        raise BadRecord(error.what, where=str(path), mend=error.mend) from None
    if not signed(receipt.key, tag_bytes(receipt.tag), receipt.signature):
        raise BadRecord(
            "the receipt was altered: the signature is not that of what it says",
            where=str(path),
            mend="use it as it was made",
        )
    return receipt


def refuse_other_log(receipt: Receipt, log_id: bytes, where: str) -> None:
    """`BadRecord` for a receipt of another log."""
    if receipt.tag.log_id != log_id:
        raise BadRecord(
            f"a receipt of another log, {uuid_text(receipt.tag.log_id)}; this is {uuid_text(log_id)}",
            where=where,
            mend="give the receipt of this log, or the --db or --home of that one",
        )


def fault(connection: "Connection", receipt: Receipt, head: int, root: bytes) -> str | None:
    """Why the log that ends at `head` with this root does not extend the receipt, or None: a consistency
    proof (RFC 9162, 2.1.4) made from the ledger must hold between the receipt's root and this one."""
    tag = receipt.tag
    if tag.position > head:
        return (
            f"the receipt covers positions 1 to {tag.position}, but the log ends at {head}: "
            f"the last {tag.position - head} events it covers were lost"
        )
    if not _extends(connection, receipt, head, root):
        (stamp,) = connection.execute(_STAMP, (tag.position,), binary=True).fetchone() or (0,)
        if stamp <= tag.created_at:
            return f"history was rewritten: positions 1 to {tag.position} are not those that the receipt covers"
        (left,) = connection.execute(_LEFT, (tag.created_at,)).fetchone() or (0,)
        return (
            f"the log went back to before the receipt, by a failover or a restore: position {tag.position} was "
            f"committed at {to_text(stamp)}, after the receipt of {to_text(tag.created_at)}; of what it covers, "
            f"positions {left + 1} to {tag.position} were lost"
        )
    row = connection.execute(_SEAL, (tag.position,)).fetchone()
    if (row[0] if row else None) != tag.seal:
        return f"the commits up to position {tag.position}, their times or offsets, are not those of the receipt"
    return None


def _extends(connection: "Connection", receipt: Receipt, head: int, root: bytes) -> bool:
    from eventlog.versions.tree import Tree  # a receipt is read where there is no database, too

    tag = receipt.tag
    try:
        proof = consistency_proof(tag.position, head, Tree(connection).node)
    except Corrupt:  # events are missing
        return False
    return verify_consistency(tag.position, head, tag.root, root, proof)
