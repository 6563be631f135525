"""Every log holds the shipped contract."""

from collections.abc import Iterator

import pytest

from eventlog.inmemory import InMemoryLog
from eventlog.ledger import Ledger
from eventlog.log import Log
from eventlog.testing import DirectLogContract


class TestInMemoryLog(DirectLogContract):
    @pytest.fixture
    def log(self) -> Iterator[Log]:
        with InMemoryLog() as log:
            yield log


class TestLedger(DirectLogContract):
    @pytest.fixture
    def log(self, ledger: Ledger) -> Log:
        return ledger
