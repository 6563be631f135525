"""Property tests of the log with many more examples."""

from tests.eventlog.conftest import database, ledger
from tests.eventlog.test_pack import test_any_event_that_passes_the_door_comes_back
from tests.eventlog.test_stateful import test_the_ledger_and_the_oracle_never_differ
from tests.eventlog.test_verify_cells import (
    log,
    test_any_changed_cell_of_a_head_is_found,
    test_any_changed_cell_of_a_segment_is_found,
    test_any_changed_cell_of_a_tile_is_found,
    test_any_changed_cell_of_an_event_is_found,
    test_any_deleted_row_is_found,
    written,
)

__all__ = [
    "database",
    "ledger",
    "log",
    "test_any_changed_cell_of_a_head_is_found",
    "test_any_changed_cell_of_a_segment_is_found",
    "test_any_changed_cell_of_a_tile_is_found",
    "test_any_changed_cell_of_an_event_is_found",
    "test_any_deleted_row_is_found",
    "test_any_event_that_passes_the_door_comes_back",
    "test_the_ledger_and_the_oracle_never_differ",
    "written",
]
