"""A release is what its id says: the same rows, the same bytes."""

from pathlib import Path

import pyarrow as pa

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
    print(table.to_pylist()[0], sorted(contents(folder)))
    assert table.num_rows == 5
