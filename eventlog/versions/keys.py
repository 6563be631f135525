"""The key folder: an instance's Ed25519 key, never in the database nor in its backup.

keys/  (mode 0700)  <instance id>.key   32 bytes in hex (mode 0600)
                    <instance id>.next  its successor, until its rotation stands in the log
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.errors import Unavailable, UsageError
from core.tag import unhex
from eventlog import disk

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class KeyLost(Unavailable):
    """The key that signed for this instance is not in the key folder."""

    retryable = False

    def __init__(self, key: bytes, folder: Path) -> None:
        super().__init__(
            f"the key {key.hex()[:16]}… that signs for this log is not here",
            where=str(folder),
            mend="restore the key folder, set TRAJLOG_KEYS to it, or start anew with: trajlog key rotate --lost",
        )


class Signer:
    """Signs with one private key."""

    def __init__(self, private: "Ed25519PrivateKey") -> None:
        self._private = private
        self.key: bytes = private.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        """The signature, 64 bytes."""
        return self._private.sign(data)


def signed(key: bytes, data: bytes, signature: bytes) -> bool:
    """Whether the holder of the public key signed the data."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


class Keys:
    """A key folder. `UsageError` for the URL of a key service."""

    def __init__(self, place: str | Path) -> None:
        if "://" in str(place):
            raise UsageError(
                "keys in a key service are not supported yet", where="TRAJLOG_KEYS", mend="name a folder instead"
            )
        self.folder = Path(place)

    def signer(self, instance_id: bytes) -> Signer | None:
        """The instance's key, or None. `Unavailable` where its file cannot be used."""
        return self._read(self._file(instance_id))

    def successor(self, instance_id: bytes) -> Signer | None:
        """The key that a rotation under way has made, or None."""
        return self._read(self._next(instance_id))

    def make(self, instance_id: bytes) -> Signer:
        """The instance's key, made now if there is none. Several at once make one."""
        return self._made(self._file(instance_id))

    def make_successor(self, instance_id: bytes) -> Signer:
        """The key that shall replace it, made now if there is none."""
        return self._made(self._next(instance_id))

    def succeed(self, instance_id: bytes) -> None:
        """The successor becomes the key; the old one is gone."""
        with self._alone(), disk.faults(self.folder):
            if self._next(instance_id).exists():
                self._next(instance_id).replace(self._file(instance_id))
                disk.sync_folder(self.folder)

    def held(self) -> set[bytes]:
        """The public keys of every instance that has its key here."""
        with disk.faults(self.folder):
            files = sorted(self.folder.glob("*.key"))
        return {signer.key for file in files if (signer := self._read(file))}

    def _file(self, instance_id: bytes) -> Path:
        return self.folder / f"{instance_id.hex()}.key"

    def _next(self, instance_id: bytes) -> Path:
        return self.folder / f"{instance_id.hex()}.next"

    def _read(self, file: Path) -> Signer | None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        with disk.faults(file):
            try:
                with file.open("rb") as opened:
                    mode = os.fstat(opened.fileno()).st_mode
                    text = opened.read(100).decode("ascii", "replace").strip()
            except FileNotFoundError:
                return None
        if mode & _OTHERS:
            raise Unavailable("others may read this key", where=str(file), mend=f"run: chmod 600 {file}")
        try:
            return Signer(Ed25519PrivateKey.from_private_bytes(unhex(text, 32)))
        except ValueError:
            raise Unavailable("this is not a key", where=str(file), mend="restore it from its own backup") from None

    def _made(self, file: Path) -> Signer:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        with self._alone():
            found = self._read(file)
            if found is None:
                private = Ed25519PrivateKey.generate()
                with disk.faults(file):
                    disk.write_atomic(file, private.private_bytes_raw().hex().encode() + b"\n")
                found = Signer(private)
        return found

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else changes the folder meanwhile; it is made if there is none."""
        with disk.faults(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.folder.stat().st_mode & _OTHERS:
                raise Unavailable(
                    "others may enter the key folder", where=str(self.folder), mend=f"run: chmod 700 {self.folder}"
                )
            descriptor = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def read_key(text: str) -> bytes:
    """A public key as people give it: 64 hex digits, or a file that holds them. `UsageError` if it is none."""
    try:
        return unhex(text, 32)
    except ValueError:
        pass
    try:
        with Path(text).open("rb") as file:
            return unhex(file.read(200).decode("ascii").strip(), 32)
    except FileNotFoundError:
        what = "not a public key, and no such file"
    except (OSError, ValueError) as error:
        what = f"not a file with a public key ({error.strerror if isinstance(error, OSError) else 'not 64 hex digits'})"
    raise UsageError(what, where=repr(text[:80]), mend="give the 64 hex digits that trajlog key show prints")
