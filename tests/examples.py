"""How many examples property tests try: few, so that they are run often; many in `make soak`."""

import os

SOAK = "TRAJLOG_TEST_EXAMPLES"


def examples(few: int) -> int:
    """`few`, or as many times that as the environment asks for."""
    return few * int(os.environ.get(SOAK, "1"))
