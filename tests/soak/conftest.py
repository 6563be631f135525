"""The same promises, tried for longer."""

import os

from tests.examples import SOAK

os.environ.setdefault(SOAK, "40")  # read when the tests are imported
