"""What the page about projections says runs as it stands."""

import re

from eventlog.ledger import Ledger
from tests.eventlog.projection.folds import fill
from tests.eventlog.projection.plugins import PAGE


def test_reading_as_of_a_cut_from_python(ledger: Ledger) -> None:
    fill(ledger, "a", verdict="pass")
    codes = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (code,) = [code for code in codes if "as_of=" in code]
    found: dict[str, object] = {"log": ledger}
    exec(compile(code.replace("1200", "10").replace("    connection", "    rows = connection"), "page", "exec"), found)
    assert found["rows"] == [("alarm", 1.0)]
