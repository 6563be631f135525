"""What is held out can never enter."""

from pathlib import Path

import pytest

from core.errors import TrajlogError
from learners.releases import register
from learners.releases.register import HeldOut
from tests.databases import Database
from tests.learners.releases.making import append, episodes, released


@pytest.mark.parametrize("split", ["dev", "audit", "final"])
def test_the_database_refuses_a_held_out_episode(database: Database, split: str) -> None:
    with database.ledger() as log:
        append(log, {"episode/aa": next(iter(episodes(1, split=split).values()))})
        append(log, {"episode/bb": next(iter(episodes(1).values()))})
        good = (log.log_id, "episode/bb", 1, 0, bytes(32), None)
        with pytest.raises(HeldOut, match=f"episode/aa is of the split {split}"):
            register.enter(log, "x", 1, bytes(32), 2, [good, (log.log_id, "episode/aa", 1, 0, bytes(32), None)])
        with pytest.raises(HeldOut, match="episode/aa"):
            group = (log.log_id, "group/g", 0, 0, bytes(32), ["episode/bb", "episode/aa"])
            register.enter(log, "x", 1, bytes(32), 1, [group])
        register.enter(log, "x", 1, bytes(32), 1, [good])
        assert register.last(log, "x") == 1


def test_what_is_in_a_release_stays_on_record(database: Database, tmp_path: Path) -> None:
    import psycopg

    with database.ledger() as log:
        append(log, episodes(2))
        released(log, tmp_path)
    for statement in ("DELETE FROM trajlog.release_row", "UPDATE trajlog.release SET rows = 0"):
        with psycopg.connect(database.owner) as connection, pytest.raises(psycopg.Error, match="immutable"):
            connection.execute(statement)


def test_parked_events_before_the_cut_refuse_a_release(database: Database, tmp_path: Path) -> None:
    with database.ledger() as log:
        append(log, episodes(2))
        released(log, tmp_path)
        with database.tampering() as connection:
            connection.execute("INSERT INTO trajlog.parked VALUES ('sft_row', 1, 'episode/x', 3, 'bad')")
        with pytest.raises(TrajlogError, match="1 stream stops at an event before the cut"):
            released(log, tmp_path)
