"""Settings of one invocation: flag, else environment, else config file, else default.

The config file is TOML with the setting names as keys, in the platform's config folder or where
`TRAJLOG_CONFIG` says. Relative paths in it are relative to the file. Its table `[kafka]` holds options
of the Kafka client, which the environment (`TRAJLOG_KAFKA_…`) and the address in `log` go before.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.log import Log

NAMES = ("db", "log", "home", "blobs", "keys")

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
    keys: str
    kafka: dict[str, str]
    quiet: bool
    debug: bool

    def open(self) -> "Log":
        """The log these settings name."""
        import eventlog

        return eventlog.open(self.db, self.log, home=self.home, blobs=self.blobs, kafka=self.kafka)


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
    home, blobs, keys = values["home"], values["blobs"], values["keys"]
    assert home is not None and blobs is not None and keys is not None
    _, kafka = _read(config_file())
    return Settings(values["db"], values["log"], Path(home), blobs, keys, kafka, quiet(), debug())


def explain() -> list[Setting]:
    """Each setting with what set it, but for the options of Kafka."""
    file = config_file()
    written, _ = _read(file)
    found = [_explain(name, file, written) for name in ("db", "log", "home")]
    home = Path(found[-1].value or "")
    folders = [_explain(name, file, written) for name in ("blobs", "keys")]
    return [*found, *(folder._replace(value=folder.value or str(home / folder.name)) for folder in folders)]


def explain_kafka() -> list[Setting]:
    """The options of the Kafka client that are set outside the address, secrets as `***`."""
    file = config_file()
    _, written = _read(file)
    if not written and not any(name.startswith("TRAJLOG_KAFKA_") for name in os.environ):
        return []
    from eventlog.kafka.address import PREFIX, environment, secret

    given = environment()
    sources = {name: ("file", str(file)) for name in written}
    sources |= {name: ("environment", PREFIX + name.upper()) for name in given}
    return [
        Setting(f"kafka.{name}", "***" if secret(name) else value, *sources[name])
        for name, value in sorted((written | given).items())
    ]


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
    if name == "home" or (name in ("blobs", "keys") and "://" not in value):
        return str(base() / Path(value).expanduser())
    return value


def _default(name: str) -> str | None:
    if name != "home":
        return None
    from eventlog.embedded import default_home

    return str(default_home())


def _read(file: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The file's settings, and those of its table `[kafka]`."""
    try:
        text = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if os.environ.get("TRAJLOG_CONFIG"):
            raise UsageError("no such config file", where=str(file), mend="create it or unset TRAJLOG_CONFIG") from None
        return {}, {}
    except OSError as error:
        raise UsageError(f"config file cannot be read: {error.strerror}", where=str(file)) from error
    import tomllib

    try:
        found = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"not TOML: {error}", where=str(file)) from error
    kafka = found.pop("kafka", {})
    for name, value in found.items():
        if name not in NAMES:
            mend = f"known ones are {', '.join(NAMES)} and the table [kafka]"
            raise UsageError(f"unknown setting {name!r}", where=str(file), mend=mend)
        if not isinstance(value, str) or not value:
            raise UsageError(f"{name} must be a text in quotes", where=str(file))
    if not isinstance(kafka, dict):
        raise UsageError("kafka must be a table", where=str(file), mend="write [kafka] and its options below")
    for name, value in kafka.items():
        if not isinstance(value, str | int | float):
            raise UsageError(f"kafka.{name} must be a text, a number, true or false", where=str(file))
    return found, {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in kafka.items()}


_PASSWORD = re.compile(r"(?P<scheme>[a-zA-Z][\w+.-]*://[^:/@\s]*:)(?P<secret>[^/\s]*)@")
_PARAMETER = re.compile(
    r"\b(?P<name>\w*(?:password|passwd|secret|token|key))\s*=\s*(?P<secret>'(?:[^'\\]|\\.)*'|[^&;,\s]+)", re.IGNORECASE
)


def mask(url: str) -> str:
    """The URL or connection string with its secrets as `***`."""
    return _PARAMETER.sub(r"\g<name>=***", _PASSWORD.sub(r"\g<scheme>***@", url))
