"""Settings of one invocation: flag, else environment, else config file, else default.

The config file is TOML with the setting names as keys, in the platform's config folder or where
`TRAJLOG_CONFIG` says. Relative paths in it are relative to the file.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.log import Log

NAMES = ("db", "log", "home", "blobs")

_flags: dict[str, Any] = {}


class Setting(NamedTuple):
    """One setting's value and what set it: `source` is flag, environment, file or default."""

    name: str
    value: str | None
    source: str
    where: str | None


class Settings(NamedTuple):
    """What this invocation runs with. `db` and `log` None mean the embedded database."""

    db: str | None
    log: str | None
    home: Path
    blobs: str
    quiet: bool
    debug: bool

    def open(self) -> "Log":
        """The log these settings name."""
        import eventlog

        return eventlog.open(self.db, self.log, home=self.home, blobs=self.blobs)


def flag(name: str, value: Any) -> None:
    """Remember a flag of the command line; the one nearest the end wins."""
    _flags[name] = value


def forget() -> None:
    """Forget every flag (a new invocation begins)."""
    _flags.clear()


def debug() -> bool:
    return bool(_flags.get("debug"))


def quiet() -> bool:
    return bool(_flags.get("quiet"))


def settings() -> Settings:
    """The settings of this invocation."""
    values = {setting.name: setting.value for setting in explain()}
    home, blobs = values["home"], values["blobs"]
    assert home is not None and blobs is not None
    return Settings(values["db"], values["log"], Path(home), blobs, quiet(), debug())


def explain() -> list[Setting]:
    """Each setting with what set it."""
    file = config_file()
    written = _read(file)
    found = [_explain(name, file, written) for name in ("db", "log", "home")]
    blobs = _explain("blobs", file, written)
    return [*found, blobs._replace(value=blobs.value or str(Path(found[-1].value or "") / "blobs"))]


def config_file() -> Path:
    """The config file, whether it exists or not."""
    named = os.environ.get("TRAJLOG_CONFIG")
    if named:
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_config_path("trajlog") / "config.toml"


def _explain(name: str, file: Path, written: dict[str, str]) -> Setting:
    variable = f"TRAJLOG_{name.upper()}"
    if _flags.get(name):
        return Setting(name, _normal(name, _flags[name], Path.cwd), "flag", f"--{name}")
    if os.environ.get(variable):
        return Setting(name, _normal(name, os.environ[variable], Path.cwd), "environment", variable)
    if name in written:
        return Setting(name, _normal(name, written[name], lambda: file.absolute().parent), "file", str(file))
    return Setting(name, _default(name), "default", None)


def _normal(name: str, value: str, base: Any) -> str:
    """Paths are made absolute; URLs stay as they are."""
    if name == "home" or (name == "blobs" and "://" not in value):
        return str(base() / Path(value).expanduser())
    return value


def _default(name: str) -> str | None:
    if name != "home":
        return None
    from eventlog.embedded import default_home

    return str(default_home())


def _read(file: Path) -> dict[str, str]:
    try:
        text = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if os.environ.get("TRAJLOG_CONFIG"):
            raise UsageError("no such config file", where=str(file), mend="create it or unset TRAJLOG_CONFIG") from None
        return {}
    except OSError as error:
        raise UsageError(f"config file cannot be read: {error.strerror}", where=str(file)) from error
    import tomllib

    try:
        found = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"not TOML: {error}", where=str(file)) from error
    for name, value in found.items():
        if name not in NAMES:
            raise UsageError(f"unknown setting {name!r}", where=str(file), mend=f"known ones are {', '.join(NAMES)}")
        if not isinstance(value, str) or not value:
            raise UsageError(f"{name} must be a text in quotes", where=str(file))
    return found


_PASSWORD = re.compile(r"(?P<scheme>[a-zA-Z][\w+.-]*://[^:/@\s]*:)(?P<secret>[^/\s]*)@")
_PARAMETER = re.compile(
    r"\b(?P<name>\w*(?:password|passwd|secret|token|key))\s*=\s*(?P<secret>'(?:[^'\\]|\\.)*'|[^&;,\s]+)", re.IGNORECASE
)


def mask(url: str) -> str:
    """The URL or connection string with its secrets as `***`."""
    return _PARAMETER.sub(r"\g<name>=***", _PASSWORD.sub(r"\g<scheme>***@", url))
