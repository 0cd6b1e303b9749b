"""What faults and systems tell the judge: proofs, selections, signs, remarks and details, one line for each that knows some."""

from __future__ import annotations

from typing import Final

from harness.judge.proof import Knowledge
from harness.proofs.engine import EngineSaid
from harness.proofs.forgotten import Forgot
from harness.proofs.growth import Grown
from harness.proofs.input import InputEnded
from harness.proofs.leadership import LeadershipMoved, PartHad, PreferredElected, Rolled
from harness.proofs.network import NetworkBad
from harness.services.postgres.signs import database_signs
from harness.stages.settings import PIPELINES
from harness.systems.kafka.selections import growth_selections, lapsed, replication_selections
from harness.systems.kafka.signs import kafka_signs
from harness.systems.spark.batches import batch_selections
from harness.systems.spark.rollback import rollback_detail
from harness.systems.spark.signs import spark_signs

PROOFS: Final = (EngineSaid, Forgot, Grown, InputEnded, LeadershipMoved, NetworkBad, PartHad, PreferredElected, Rolled)
KNOWLEDGE: Final = Knowledge(
    proofs={proof.name: proof for proof in PROOFS},
    selections=(batch_selections, replication_selections, growth_selections),
    signs=(kafka_signs, spark_signs, database_signs),
    remarks=(lapsed,),
    details={"rollback": rollback_detail},
    recipes={name: pipeline.recipes for name, pipeline in PIPELINES.items()},
)
