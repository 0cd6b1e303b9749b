"""What the judge must know about histories of Spark."""

from __future__ import annotations

from typing import Final

from harness.judge.proof import Knowledge
from harness.stages.queries import STREAMING
from harness.systems.spark.batches import batch_selections
from harness.systems.spark.rollback import rollback_detail
from harness.systems.spark.signs import spark_signs

KNOWLEDGE: Final = Knowledge(
    selections=(batch_selections,),
    signs=(spark_signs,),
    details={"rollback": rollback_detail},
    recipes={pipeline.name: pipeline.recipes for pipeline in STREAMING},
)
