"""Flink: its TaskManager dies between checkpoints, and inside one; the sink's promise says what that does to records."""

from __future__ import annotations

from harness.faults import NoFault
from harness.judge.signs import ABORTED
from harness.model.prediction import Exactly
from harness.model.scenario import NotApplicable, Predicted, Scenario
from harness.scenarios.plain import ALO, AMO, EOS
from harness.systems.flink.faults import Crash
from harness.systems.flink.settings import JOB
from harness.systems.flink.signs import SINCE_CHECKPOINT

NOT_OFFERED = NotApplicable(
    "the sink offers no at-most-once: NONE waits for nothing, and what a restored job works on again is duplicated"
)
BASELINE = Scenario(
    id="none", failure_point="none", pipeline=JOB, group="flink", fault=NoFault(),
    because="The baseline of the job: one checkpoint at the end.",
    expect={AMO: NOT_OFFERED, ALO: Predicted(), EOS: Predicted()},
)  # fmt: skip
BETWEEN = Scenario(
    id="flink-crash-between-checkpoints", failure_point="flink-crash-between-checkpoints", pipeline=JOB, group="flink",
    fault=Crash(),
    because="All operators go back to the last completed checkpoint, the source among them: what was written since is written "
    "again. A transaction that was not pre-committed is aborted, and nobody has seen it.",
    expect={
        AMO: NOT_OFFERED,
        ALO: Predicted(duplicated=Exactly(SINCE_CHECKPOINT)),
        EOS: Predicted(sign=ABORTED),
    },
)  # fmt: skip
FLINK = (BASELINE, BETWEEN)
