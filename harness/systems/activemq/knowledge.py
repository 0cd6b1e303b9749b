"""What the judge must know about histories of ActiveMQ Classic."""

from __future__ import annotations

from typing import Final

from harness.judge.proof import Knowledge
from harness.judge.queue_selections import given_selections
from harness.stages.settings import QUEUE, QUEUE_RECIPES
from harness.systems.activemq.proofs import CarriedOn
from harness.systems.activemq.signs import activemq_signs

KNOWLEDGE: Final = Knowledge(
    proofs={CarriedOn.name: CarriedOn},
    selections=(given_selections,),
    signs=(activemq_signs,),
    recipes={QUEUE: QUEUE_RECIPES},
)
