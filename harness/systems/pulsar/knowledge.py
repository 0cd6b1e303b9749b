"""What the judge must know about histories of Pulsar."""

from __future__ import annotations

from typing import Final

from harness.judge.proof import Knowledge
from harness.systems.pulsar.selections import chunk_selections, cursor_selections
from harness.systems.pulsar.settings import SUBSCRIPTION, TRANSFORM
from harness.systems.pulsar.signs import pulsar_signs

KNOWLEDGE: Final = Knowledge(
    selections=(cursor_selections, chunk_selections),
    signs=(pulsar_signs,),
    recipes={each.name: each.recipes for each in (SUBSCRIPTION, TRANSFORM)},
)
