"""What the judge must know about histories of Artemis."""

from __future__ import annotations

from typing import Final

from harness.judge.proof import Knowledge
from harness.stages.settings import QUEUE_BY_ID, QUEUE_RECIPES_BY_ID
from harness.systems.artemis.signs import artemis_signs

KNOWLEDGE: Final = Knowledge(signs=(artemis_signs,), recipes={QUEUE_BY_ID: QUEUE_RECIPES_BY_ID})
