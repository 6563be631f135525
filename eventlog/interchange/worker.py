"""What a worker does: it maps the records that it is sent, until there are no more.

A worker has neither the log nor the blob store: it takes every record for new. What it would have to
ask for, it leaves to the process that has both.
"""

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from multiprocessing.connection import Connection
from typing import NamedTuple, get_args

import msgspec

from core.vocabulary import BlobRef
from core.vocabulary.base import Split
from eventlog.blobs.media_type import sniff
from eventlog.collector import seldom_collected
from eventlog.interchange import Record, rows
from eventlog.interchange.mapped import Desk, Digested, Drafted, Job, Mapped, drafted, packed
from eventlog.pack import Packed, Packer


class Sent(NamedTuple):
    """A record on its way, without what its bytes say: our formats read the bytes."""

    where: str
    data: bytes
    offset: int
    twin: bool
    digest: bytes


class Answer(msgspec.Struct, frozen=True):
    """What a record became, and the bytes to store for it besides its own, by their addresses."""

    mapped: Mapped
    blobs: dict[str, bytes]


class Answers(msgspec.Struct, frozen=True):
    """What records became, one after the other, None where one was left; their events are `packed` together."""

    records: list[Answer | None]
    packed: Packed


_Known = dict[bytes, tuple[BlobRef, bytes]]
"""References to bytes, and these."""


class _Elsewhere(Exception):
    """The mapping needs what a worker has not."""


def run(descriptors: list[int]) -> None:
    """Serve each of these pipes in a process of its own: this one and others, forked from it once all that they need
    is there."""
    rows.fastest()
    mine, *others = descriptors
    for other in others:
        try:
            if os.fork() == 0:
                mine = other
                break
        except OSError:  # no more processes are to be had: nobody answers there
            break
    for other in descriptors:
        if other != mine:
            os.close(other)
    serve(mine)


def serve(descriptor: int) -> None:
    """Answer each (job, records) that comes through a pipe; None where it went wrong."""
    with seldom_collected(), Connection(descriptor) as pipe, suppress(EOFError, OSError):
        while True:
            job, records = pipe.recv()
            try:
                made = map_all(job, records)
            except Exception:
                made = None
            pipe.send_bytes(pickle.dumps(made, pickle.HIGHEST_PROTOCOL))


def map_all(job: Job, records: list[Sent]) -> Answers:
    """Drafts of all records first, then what they are packed as: either is quicker done many times over."""
    splits = {split: split for split in get_args(Split)}
    job = job._replace(split=splits[job.split])  # msgspec leaves a default out that is the very same object
    known: _Known = {}
    found = [_drafted(job, sent, known) for sent in records]
    packer = Packer()
    answers = [None if each is None else _answer(job, *each, packer) for each in found]
    return Answers(answers, packer.packed())


def _drafted(job: Job, sent: Sent, known: _Known) -> tuple[Drafted, dict[str, bytes]] | None:
    """A record's drafts and the bytes to store for it; None if it needs what a worker has not."""
    digested = Digested(Record(sent.where, sent.data, {}, sent.offset, sent.twin), sent.digest)
    blobs: dict[str, bytes] = {}
    desk = Desk(_keeping(blobs, known), blobs.__setitem__, _elsewhere, lambda _, __: 1)
    try:
        return drafted(job, digested, desk), blobs
    except _Elsewhere:
        return None


def _answer(job: Job, drafted: Drafted, blobs: dict[str, bytes], packer: Packer) -> Answer:
    made = packed(job, drafted, packer)
    blobs.pop(drafted.digested.address, None)
    return Answer(made, blobs)


def _keeping(blobs: dict[str, bytes], known: _Known) -> Callable[[bytes], BlobRef]:
    """Puts bytes among the blobs of a record; what records share is `known` from the first, and sent once."""

    def keep(data: bytes) -> BlobRef:
        found = known.get(data)
        if found is None:
            address = f"sha256:{sha256(data).hexdigest()}"
            found = known[data] = BlobRef(address, len(data), sniff(data)), data
        reference, same = found
        blobs[reference.address] = same
        return reference

    return keep


def _elsewhere(_: str) -> bool:
    raise _Elsewhere
