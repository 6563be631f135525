"""Flag, else environment, else config file, else default; `trajlog config` shows which won."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.main import run
from cli.settings import mask, settings
from eventlog.kafka.address import KafkaAddress


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TRAJLOG_DB", "TRAJLOG_LOG", "TRAJLOG_HOME", "TRAJLOG_BLOBS", "TRAJLOG_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "trajlog" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    assert run(arguments) == 0, capsys.readouterr().err
    return {setting["name"]: setting for setting in json.loads(capsys.readouterr().out)["settings"]}


def test_nothing_set_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys, "config", "--json")
    assert {setting["source"] for setting in found.values()} == {"default"}
    assert found["db"]["value"] is None
    assert Path(found["home"]["value"]).is_absolute()
    assert found["blobs"]["value"] == found["home"]["value"] + "/blobs"


@pytest.mark.parametrize("name", ["db", "log", "home"])
def test_flag_beats_environment_beats_file(
    name: str, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(f'{name} = "/from/file"')
    assert shown(capsys, "config", "--json")[name] == {
        "name": name,
        "value": "/from/file",
        "source": "file",
        "where": str(config),
    }
    monkeypatch.setenv(f"TRAJLOG_{name.upper()}", "/from/environment")
    found = shown(capsys, "config", "--json")[name]
    assert (found["value"], found["source"], found["where"]) == (
        "/from/environment",
        "environment",
        f"TRAJLOG_{name.upper()}",
    )
    before = shown(capsys, f"--{name}", "/from/flag", "config", "--json")[name]
    after = shown(capsys, "config", "--json", f"--{name}", "/from/flag")[name]
    assert before == after == {"name": name, "value": "/from/flag", "source": "flag", "where": f"--{name}"}


def test_the_flag_nearest_the_end_wins(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "--db", "postgresql://one/a", "config", "--db", "postgresql://two/b", "--json")["db"][
        "value"
    ] == ("postgresql://two/b")


def test_flags_are_accepted_before_within_and_after_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    url = "postgresql://somebody@db.example/log"
    for arguments in (["--db", url, "db", "url"], ["db", "--db", url, "url"], ["db", "url", "--db", url]):
        assert run(arguments) == 0
        assert capsys.readouterr().out == f"{url}\n"


def test_flags_are_forgotten_between_command_lines(capsys: pytest.CaptureFixture[str]) -> None:
    shown(capsys, "--db", "postgresql://one/a", "config", "--json")
    assert shown(capsys, "config", "--json")["db"]["source"] == "default"


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TRAJLOG_DB", "")
    assert shown(capsys, "config", "--json")["db"]["source"] == "default"


def test_paths_in_the_file_are_relative_to_it(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text('home = "data"\nblobs = "s3://bucket/x"')
    found = shown(capsys, "config", "--json")
    assert found["home"]["value"] == str(config.parent / "data")
    assert found["blobs"]["value"] == "s3://bucket/x"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("db = ", "not TOML"),
        ("\xff", "not TOML"),
        ('host = "x"', "unknown setting 'host'; known ones are db, log, home, blobs, keys"),
        ("db = 5", "db must be a text"),
        ('db = ""', "db must be a text"),
    ],
)
def test_a_bad_config_file_is_one_line(text: str, why: str, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_bytes(text.encode("latin-1"))
    assert run(["config"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"trajlog: {config}: ")
    assert why in error
    assert error.count("\n") == 1


def test_a_config_file_that_was_named_must_exist(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAJLOG_CONFIG", "/nowhere/trajlog.toml")
    assert run(["config"]) == 2
    assert capsys.readouterr().err.startswith("trajlog: /nowhere/trajlog.toml: no such config file; ")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:SECRET@host:5432/db",
        "postgresql://user:SEC@RET@host/db",
        "postgresql://user@/db?host=/run&password=SECRET",
        "host=h user=u password=SECRET dbname=d",
        "host=h password='SECRET it is' dbname=d",
        "postgresql://u@h/d?sslpassword=SECRET",
        "s3://AKIA:SECRET@bucket/x",
    ],
)
def test_secrets_are_masked(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "SEC" not in mask(url)
    assert "***" in mask(url)
    assert run(["config", "--db", url]) == 0
    assert "SEC" not in capsys.readouterr().out


def test_a_url_without_secrets_is_shown_whole() -> None:
    url = "postgresql://user@host:5432/db?sslmode=require"
    assert mask(url) == url


def test_options_of_kafka_stand_in_a_table_and_the_environment_goes_before(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(
        'log = "kafka://broker/events?client_id=me"\n[kafka]\nsecurity_protocol = "SSL"\nlinger_ms = 7\n'
        'ssl_check_hostname = true\nsasl_plain_password = "hush-in-the-file"\n'
    )
    monkeypatch.setenv("TRAJLOG_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("TRAJLOG_KAFKA_SSL_PASSWORD", "hush-in-the-environment")
    found = shown(capsys, "config", "--json")
    told = {name: (setting["value"], setting["source"]) for name, setting in found.items() if name.startswith("kafka.")}
    assert told == {
        "kafka.security_protocol": ("SASL_SSL", "environment"),
        "kafka.linger_ms": ("7", "file"),
        "kafka.ssl_check_hostname": ("true", "file"),
        "kafka.sasl_plain_password": ("***", "file"),
        "kafka.ssl_password": ("***", "environment"),
    }
    assert run(["config"]) == 0
    assert "hush" not in capsys.readouterr().out
    chosen = settings()
    assert chosen.log is not None
    options = KafkaAddress.parse(chosen.log, chosen.kafka).options
    assert (options["security_protocol"], options["linger_ms"], options["client_id"]) == ("SASL_SSL", "7", "me")
    assert options["sasl_plain_password"] == "hush-in-the-file"


@pytest.mark.parametrize("text", ['kafka = "x"\n', "[kafka]\nssl = ['a']\n", "[kafka.deep]\na = 1\n"])
def test_a_wrong_kafka_table_is_refused(config: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    config.write_text(text)
    assert run(["config"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "kafka" in line and str(config) in line
