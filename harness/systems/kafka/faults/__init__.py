"""Faults that only Kafka's words can say: groups, transactions, leaders, partitions. One small file and one line here each."""

from __future__ import annotations

from harness.systems.kafka.faults.leader_moved import Move
from harness.systems.kafka.faults.missed_rebalance import Absent
from harness.systems.kafka.faults.offsets_expired import Expire
from harness.systems.kafka.faults.partitions_added import Grow
from harness.systems.kafka.faults.rolling_restart import Roll
from harness.systems.kafka.faults.stale_member import Overtake
from harness.systems.kafka.faults.transaction_timeout import Outlive
from harness.systems.kafka.faults.zombie import Usurp

FAULTS = {fault.id: fault for fault in (Absent, Expire, Grow, Move, Outlive, Overtake, Roll, Usurp)}
"""The registry: each of them by its name."""

__all__ = ["FAULTS", "Absent", "Expire", "Grow", "Move", "Outlive", "Overtake", "Roll", "Usurp"]
