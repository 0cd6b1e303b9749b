"""What faults and systems tell the judge: every proof, every selection and every remark there is, one line each."""

from __future__ import annotations

from typing import Final

from harness.core.proof import Knowledge
from harness.proofs.engine import EngineSaid
from harness.proofs.forgotten import Forgot
from harness.proofs.growth import Grown
from harness.proofs.input import InputEnded
from harness.proofs.leadership import LeaderMoved, PartHad, PreferredElected, Rolled
from harness.proofs.network import NetworkBad
from harness.systems.kafka.selections import growth_selections, lapsed, replication_selections
from harness.systems.spark.batches import batch_selections

PROOFS: Final = (EngineSaid, Forgot, Grown, InputEnded, LeaderMoved, NetworkBad, PartHad, PreferredElected, Rolled)
KNOWLEDGE: Final = Knowledge(
    proofs={proof.name: proof for proof in PROOFS},
    selections=(batch_selections, replication_selections, growth_selections),
    remarks=(lapsed,),
)
