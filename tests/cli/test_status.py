"""`trajlog status` on a real database."""

from pathlib import Path

import pytest

from eventlog.ledger import Ledger
from eventlog.views import VIEWS
from tests.cli.logs import as_json, fill, printed
from tests.databases import Database


def test_status_says_where_everything_stands(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = database.url
    fill(url)
    monkeypatch.setenv("TRAJLOG_DB", url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    found = as_json(capsys, "status")
    assert found.pop("log")
    with Ledger(url) as log:
        assert found.pop("root") == log.root().hex()
    assert "trajlog_app:" not in found["db"]
    assert found.pop("db").startswith("postgresql://trajlog_app@/")
    assert found == {
        "position": 39,
        "sealed": 0,
        "lag": 0,
        "quarantined": 0,
        "kafka": None,
        "writers": None,
        "partitions": [],
        "projections": [{"name": view.name, "version": 1, "position": 0, "lag": 39} for view in VIEWS],
    }
    as_json(capsys, "ls")
    lags = {p["name"]: p["lag"] for p in as_json(capsys, "status")["projections"]}
    assert (lags["episode"], lags["step"]) == (0, 39)
    assert "position  39" in printed(capsys, "status")
