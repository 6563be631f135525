"""`trajlog kafka init` and `check` against a real broker."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cli import checks
from cli.main import run
from eventlog import database
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import connect
from eventlog.persister.source import register
from tests.broker import Cluster
from tests.databases import Database
from tests.eventlog.kafka.topics import Topics

NOBODY = "kafka://127.0.0.1:1/events"


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TRAJLOG_DB", "TRAJLOG_LOG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.fixture
def topics(broker: Cluster) -> Iterator[Topics]:
    with Topics(broker) as found:
        yield found


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert run(["kafka", *arguments, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_init_makes_the_topic_once(capsys: pytest.CaptureFixture[str], topics: Topics) -> None:
    log = topics.name()
    first = said(capsys, "init", "--log", log, "--partitions", "3", "--open")
    assert (first["created"], first["partitions"], first["open"]) == (True, 3, True)
    assert first["settings"]["retention.ms"] == "-1"
    assert said(capsys, "init", "--log", log) == first | {"created": False}


def test_init_says_that_the_log_is_open(capsys: pytest.CaptureFixture[str], topics: Topics) -> None:
    log = topics.name()
    assert run(["kafka", "init", "--log", log]) == 0
    out = capsys.readouterr().out
    assert "created: 12 partitions, 1 replica" in out
    assert "the log is open" in out


def test_init_refuses_a_topic_of_other_settings(capsys: pytest.CaptureFixture[str], topics: Topics) -> None:
    log = topics.fresh(2, settings={"cleanup.policy": "compact"})
    assert run(["kafka", "init", "--log", log]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("trajlog: ") and err.count("\n") == 1
    assert "cleanup.policy is compact and not delete" in err


def test_check_finds_nothing_wrong_with_what_init_made(capsys: pytest.CaptureFixture[str], topics: Topics) -> None:
    log = topics.name()
    said(capsys, "init", "--log", log, "--partitions", "2")
    found = said(capsys, "check", "--log", log)
    assert found["ok"] and found["open"] and found["rebuild"]["complete"]
    assert found["topic"]["partitions"] == 2
    assert {f["name"] for f in found["findings"] if f["status"] != "ok"} == {"replication"}
    assert run(["kafka", "check", "--log", log]) == 0
    out = capsys.readouterr().out
    assert "rebuild from Kafka alone: every event" in out


def test_check_fails_where_a_promise_is_broken(capsys: pytest.CaptureFixture[str], topics: Topics) -> None:
    log = topics.fresh(2, settings={"cleanup.policy": "compact"})
    found = said(capsys, "check", "--log", log, code=1)
    assert not found["ok"] and not found["rebuild"]["complete"]
    (finding,) = (f for f in found["findings"] if f["name"] == "cleanup.policy")
    assert (
        finding["status"] == "fail"
        and finding["why"]
        and "--alter --add-config cleanup.policy=delete" in finding["mend"]
    )


def test_check_of_a_topic_that_is_not_there(capsys: pytest.CaptureFixture[str], topics: Topics) -> None:
    found = said(capsys, "check", "--log", topics.name(), code=1)
    assert found["topic"] is None
    assert not found["rebuild"]["complete"]
    assert any("kafka init" in (f["mend"] or "") for f in found["findings"])


def test_check_compares_with_what_the_ledger_took(
    capsys: pytest.CaptureFixture[str], topics: Topics, database_of_kafka: Database
) -> None:
    log = topics.name()
    given = ("--log", log, "--db", database_of_kafka.url)
    said(capsys, "init", "--partitions", "2", *given)
    assert any("nothing from Kafka yet" in f["what"] for f in said(capsys, "check", *given)["findings"])
    address = KafkaAddress.parse(log)
    admin = connect(address).admin()
    topic = admin.topic(address.topic)
    assert topic is not None
    with database.connect(database_of_kafka.url) as connection:
        register(connection, topic)
        assert any("0 offsets wait" in f["what"] for f in said(capsys, "check", *given)["findings"])
        admin.delete(address.topic)
        said(capsys, "init", "--partitions", "2", *given)
        found = said(capsys, "check", *given, code=1)
        (finding,) = (f for f in found["findings"] if f["name"] == "ledger")
        assert finding["status"] == "fail" and "deleted and made anew" in finding["what"]
        assert not found["rebuild"]["complete"]
    admin.close()


@pytest.fixture
def database_of_kafka(database: Database) -> Iterator[Database]:
    def empty() -> None:
        with database.tampering() as connection:
            connection.execute("TRUNCATE trajlog.ingest_cursor, trajlog.ingest_topic")

    empty()
    yield database
    empty()


def test_no_broker_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    quick = f"{NOBODY}?bootstrap_timeout_ms=300"
    assert run(["kafka", "init", "--log", quick]) == 4
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "no broker answers" in err
    found = said(capsys, "check", "--log", quick, code=4)
    assert (found["ok"], found["topic"], found["rebuild"]) == (False, None, None)
    assert found["findings"][0]["name"] == "broker"


def test_a_database_that_is_away_is_said_and_the_topic_checked(
    capsys: pytest.CaptureFixture[str], topics: Topics
) -> None:
    log = topics.name()
    said(capsys, "init", "--log", log)
    found = said(capsys, "check", "--log", log, "--db", "postgresql://127.0.0.1:1/none")
    assert found["findings"][-1]["name"] == "ledger" and found["findings"][-1]["status"] == "warn"


def test_both_need_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("init", "check"):
        assert run(["kafka", command]) == 2
        assert "--log" in capsys.readouterr().err
        assert run(["kafka", command, "--log", "postgresql://x/y"]) == 2
        assert "kafka://host" in capsys.readouterr().err


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    run(["doctor", "--json", *arguments])
    (found,) = (check for check in json.loads(capsys.readouterr().out)["checks"] if check["name"] == "kafka")
    return dict(found)


def test_doctor_looks_at_the_broker_too(
    capsys: pytest.CaptureFixture[str], topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAJLOG_KAFKA_SSL_PASSWORD", "hush")
    log, bad = topics.name(), topics.fresh(1, settings={"cleanup.policy": "compact"})
    said(capsys, "init", "--log", log)
    good = doctor(capsys, "--log", log, "--db", database.url)
    assert good["status"] == "warn" and "replication" in good["detail"]
    assert doctor(capsys, "--log", bad, "--db", database.url)["status"] == "fail"
    away = doctor(capsys, "--log", f"{NOBODY}?bootstrap_timeout_ms=300", "--db", database.url)
    assert away["status"] == "fail" and "no broker answers" in away["detail"]
    assert "hush" not in f"{good}{away}"


def test_doctor_says_whether_the_inner_loops_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "eventlog.native", ModuleType("eventlog.native"))
    assert checks.native().status == "ok"
    monkeypatch.setitem(sys.modules, "eventlog.native", None)
    found = checks.native()
    assert found.status == "warn" and found.mend


def test_a_password_is_shown_nowhere(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAJLOG_KAFKA_SASL_PLAIN_PASSWORD", "hush")
    log = (
        f"{NOBODY}?bootstrap_timeout_ms=300&security_protocol=SASL_PLAINTEXT&sasl_mechanism=PLAIN&sasl_plain_username=u"
    )
    for command in (["kafka", "check"], ["kafka", "init"], ["config"], ["--debug", "kafka", "init"]):
        run([*command, "--log", log])
        out, err = capsys.readouterr()
        assert "hush" not in out + err
