"""What the judge must know about histories of Storm."""

from __future__ import annotations

from typing import Final

from harness.judge.proof import Knowledge
from harness.systems.storm.settings import TOPOLOGY, TRIDENTS
from harness.systems.storm.signs import storm_signs

KNOWLEDGE: Final = Knowledge(
    signs=(storm_signs,), recipes={each.name: each.recipes for each in (TOPOLOGY, *TRIDENTS)}
)
