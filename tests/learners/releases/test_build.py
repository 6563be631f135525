"""A release is what its id says: the same rows, the same bytes."""

from pathlib import Path

import pyarrow as pa
import pytest

from learners.releases import arrow, register, states
from tests.databases import Database
from tests.learners.releases.making import append, contents, episodes, released


def test_the_same_content_again_is_the_same_version(database: Database, tmp_path: Path) -> None:
    with database.ledger() as log:
        append(log, episodes(5))
        first = released(log, tmp_path)
        again = released(log, tmp_path)
    assert (first.release.version, first.fresh) == (1, True)
    assert (again.release, again.fresh) == (first.release, False)
    assert first.release.built.rows == 5


def test_shards_load_with_pyarrow_as_they_are(database: Database, tmp_path: Path) -> None:
    with database.ledger() as log:
        append(log, episodes(5))
        folder = released(log, tmp_path).folder
    table = pa.ipc.open_stream((folder / "data-00000.arrow").read_bytes()).read_all()
    table.validate(full=True)
    assert table.num_rows == 5
    assert sorted(contents(folder)) == ["data-00000.arrow", "manifest.json", "order.arrow", "rows.arrow"]


def test_a_shard_that_cannot_be_written_leaves_nothing(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(arrow.Written, "add", full)
    with database.ledger() as log:
        append(log, episodes(5))
        with pytest.raises(OSError, match="No space left"):
            released(log, tmp_path)
        assert (states.releases(log, "sft"), register.last(log, "sft")) == ([], 0)
    assert not list(tmp_path.iterdir())
