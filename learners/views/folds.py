"""The projections of this room, sources first: what `trajlog project` runs besides those of `eventlog.views`."""

from typing import Final

from eventlog.projection import AnyProjection
from learners.views.rollout import ROLLOUT
from learners.views.rollout_group import ROLLOUT_GROUP
from learners.views.sft_row import SFT_ROW

PROJECTIONS: Final[tuple[AnyProjection, ...]] = (SFT_ROW.projection, ROLLOUT, ROLLOUT_GROUP.projection)
