"""What ActiveMQ tells the judge: against which settings those of its cells are shown."""

from __future__ import annotations

from typing import Final

from harness.judge.proof import Knowledge
from harness.stages.settings import QUEUE, QUEUE_RECIPES

KNOWLEDGE: Final = Knowledge(recipes={QUEUE: QUEUE_RECIPES})
