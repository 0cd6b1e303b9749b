"""What the judge must know about histories of Kafka Streams."""

from __future__ import annotations

from typing import Final

from harness.judge.proof import Knowledge
from harness.systems.streams.proofs import Restoring, SentUnfed, unfed_signs
from harness.systems.streams.selections import key_selections
from harness.systems.streams.settings import PIPELINES

KNOWLEDGE: Final = Knowledge(
    proofs={Restoring.name: Restoring, SentUnfed.name: SentUnfed},
    selections=(key_selections,),
    signs=(unfed_signs,),
    recipes={pipeline.name: pipeline.recipes for pipeline in PIPELINES},
)
