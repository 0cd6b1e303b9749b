"""What the judge must know about histories of Kafka."""

from __future__ import annotations

from typing import Final

from harness.judge.proof import Knowledge
from harness.systems.kafka.selections import growth_selections, lapsed, replication_selections
from harness.systems.kafka.signs import kafka_signs, share_signs

KNOWLEDGE: Final = Knowledge(
    selections=(replication_selections, growth_selections),
    signs=(kafka_signs, share_signs),
    remarks=(lapsed,),
)
