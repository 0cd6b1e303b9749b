"""What the judge must know about histories of Flink."""

from __future__ import annotations

from typing import Final

from harness.judge.proof import Knowledge
from harness.systems.flink.proofs import Aligned, CheckpointRefused, CheckpointWas, ReadersWaited
from harness.systems.flink.rollback import rollback_detail
from harness.systems.flink.settings import JOB
from harness.systems.flink.signs import checkpoint_selections, flink_signs

KNOWLEDGE: Final = Knowledge(
    proofs={
        proof.name: proof for proof in (Aligned, CheckpointRefused, CheckpointWas, ReadersWaited)
    },
    selections=(checkpoint_selections,),
    signs=(flink_signs,),
    details={"rollback": rollback_detail},
    recipes={JOB.name: JOB.recipes},
)
