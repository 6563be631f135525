"""The views that releases are made of, in every version that one was made with: those stay."""

from typing import TYPE_CHECKING, Final

from learners.views.rollout_group import ROLLOUT_GROUP
from learners.views.sft_row import SFT_ROW

if TYPE_CHECKING:
    from learners.rows import RowView

RELEASED: Final[tuple["RowView", ...]] = (SFT_ROW, ROLLOUT_GROUP)
