"""`trajlog project` runs this room's projections, and workers find its folds."""

from pathlib import Path

import pytest

from eventlog.ledger import Ledger
from eventlog.projection import is_first, is_second, shards
from eventlog.projection.beside import Beside, module_of
from eventlog.projection.registry import BadPlugin, named, projections
from eventlog.projection.runner import catch_up
from learners.views import ROLLOUT_GROUPS, ROLLOUTS, SFT_ROWS
from learners.views.folds import PROJECTIONS
from tests.eventlog import samples
from tests.eventlog.projection.folds import folded, rows
from tests.eventlog.projection.plugins import install

PLUGIN = """
from tests.eventlog.projection.folds import Counter

class Mine(Counter):
    name = "sft_row"
"""


def test_they_are_among_the_projections_sources_first() -> None:
    found = [(projection.name, projection.version) for projection in projections(more=PROJECTIONS)]
    places = [found.index((view.name, view.version)) for view in (ROLLOUTS, SFT_ROWS, ROLLOUT_GROUPS)]
    assert places[0] < places[2] and places[1] < places[2]
    assert [is_second(projection) for projection in PROJECTIONS] == [False, False, True]


def test_their_names_are_no_plug_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "mine", PLUGIN, "[trajlog.projections]\nmine = mine:Mine\n")
    with pytest.raises(BadPlugin, match="trajlog's own"):
        projections(more=PROJECTIONS)


def test_a_worker_finds_the_folds_also_while_they_are_rebuilt() -> None:
    for projection in PROJECTIONS:
        if is_first(projection):
            assert named(projection.name, projection.version, module_of(projection)) is projection
            beside = Beside.of(projection)
            found = named(beside.name, beside.version, module_of(beside))
            assert (found.name, list(found.columns)) == (beside.name, list(projection.columns))


def test_processes_fold_them_as_one_does(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "BULK", 20)
    for number in range(8):
        ledger.append_many(samples.events(f"episode/e{number}", samples.episode(verdict="pass")))
    with ledger.reader.borrow() as connection:
        catch_up(ledger, connection, PROJECTIONS, processes=2)
        for projection in PROJECTIONS:
            if is_first(projection):
                assert rows(connection, projection) == folded(ledger, projection)
                assert rows(connection, projection)
