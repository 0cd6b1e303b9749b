"""What Kafka Streams tells the judge of its histories."""

from __future__ import annotations

from typing import Final

from harness.judge.proof import Knowledge
from harness.systems.streams.proofs import Restoring
from harness.systems.streams.selections import key_selections
from harness.systems.streams.settings import PIPELINES

KNOWLEDGE: Final = Knowledge(
    proofs={Restoring.name: Restoring},
    selections=(key_selections,),
    recipes={pipeline.name: pipeline.recipes for pipeline in PIPELINES},
)
