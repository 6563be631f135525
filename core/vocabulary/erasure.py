"""Erasing an owner: the key is destroyed, what was derived is removed, every store is searched."""

from __future__ import annotations

from typing import Annotated, ClassVar

from core.vocabulary.base import Open, Provisional


class _Erasure(Provisional, frozen=True):
    home: ClassVar[str] = "erasure/x-1"


class ErasureRequested(_Erasure, frozen=True):
    """An owner's private data is to go."""

    of: Annotated[str, Open("opaque id of the owner", "owner-7")]
    by: Annotated[str, Open("opaque id of who asked", "operator-1")]
    reason: Annotated[str | None, Open("as a code")] = None


class ErasureExecuted(_Erasure, frozen=True):
    """The key is destroyed and what was derived from it removed."""

    of: Annotated[str, Open("opaque id of the owner", "owner-7")]
    keys: Annotated[list[str], Open("ids of the destroyed keys", ["k-7"])]
    removed: Annotated[dict[str, int], Open("what was removed, by store")] = {}
    releases: Annotated[list[str], Open("releases that held the owner")] = []
    backups_until: Annotated[str | None, Open("when the last backup from before is gone, RFC 3339")] = None


class ErasureVerified(_Erasure, frozen=True):
    """Every store was searched for what must be gone."""

    of: Annotated[str, Open("opaque id of the owner", "owner-7")]
    searched: Annotated[list[str], Open("stores that are clean", ["ledger", "indexes", "blobs"])]
    missing: Annotated[list[str], Open("hosts that have not answered")] = []
