"""Faults of any system: what is done at a failure point. Each is a file, and is named here."""

from __future__ import annotations

from harness.faults.answer import Answer
from harness.faults.appears import TopicAppears
from harness.faults.burst import InBacklog, InBurst
from harness.faults.compacted import Compacted
from harness.faults.container import ContainerFault
from harness.faults.crash_at_write import CrashAtWrite
from harness.faults.damaged import Damaged
from harness.faults.drop import Drop
from harness.faults.end_input import EndInput
from harness.faults.frozen import Frozen
from harness.faults.hold import Hold
from harness.faults.in_turn import InTurn
from harness.faults.kill import Forget, Kill
from harness.faults.late import Late
from harness.faults.made_anew import TopicMadeAnew
from harness.faults.network import Network, Until
from harness.faults.none import NoFault
from harness.faults.overtake import CommitOvertakesWork, MarkOvertakesAcknowledgement
from harness.faults.parted import PartedFromWork
from harness.faults.partition_filled import PartitionFilled
from harness.faults.pause import Pause
from harness.faults.rebalance import ChangesGroup, PutOutWhileJoining, Rebalanced, ToldLate
from harness.faults.refuse import Refuse
from harness.faults.retention import RetentionPasses
from harness.faults.silent import Silent
from harness.faults.stall import Stall
from harness.faults.start_late import StartLate
from harness.faults.takeover import TakenOver
from harness.faults.terminate import Terminate
from harness.faults.torn import Torn
from harness.faults.twice import Twice
from harness.faults.unanswered import Unanswered
from harness.faults.withheld import Withheld
from harness.faults.work_fails import WorkFails

__all__ = [
    "Answer",
    "ChangesGroup",
    "CommitOvertakesWork",
    "Compacted",
    "ContainerFault",
    "CrashAtWrite",
    "Damaged",
    "Drop",
    "EndInput",
    "Forget",
    "Frozen",
    "Hold",
    "InBacklog",
    "InBurst",
    "InTurn",
    "Kill",
    "Late",
    "MarkOvertakesAcknowledgement",
    "Network",
    "NoFault",
    "PartedFromWork",
    "PartitionFilled",
    "Pause",
    "PutOutWhileJoining",
    "Rebalanced",
    "Refuse",
    "RetentionPasses",
    "Silent",
    "Stall",
    "StartLate",
    "TakenOver",
    "Terminate",
    "ToldLate",
    "TopicAppears",
    "TopicMadeAnew",
    "Torn",
    "Twice",
    "Unanswered",
    "Until",
    "Withheld",
    "WorkFails",
]
