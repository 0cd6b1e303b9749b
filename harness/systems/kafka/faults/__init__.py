"""Faults that exist only in Kafka: of groups, transactions, leaders and partitions. Each is a
file, and is named here.
"""

from __future__ import annotations

from harness.systems.kafka.faults.leader_moved import LeaderMoved
from harness.systems.kafka.faults.lock_expired import LockExpired
from harness.systems.kafka.faults.missed_rebalance import MissedRebalance
from harness.systems.kafka.faults.offsets_expired import OffsetsExpired
from harness.systems.kafka.faults.partitions_added import PartitionsAdded
from harness.systems.kafka.faults.rolling_restart import RollingRestart
from harness.systems.kafka.faults.stale_member import StaleMember
from harness.systems.kafka.faults.transaction_timeout import TransactionTimeout
from harness.systems.kafka.faults.zombie import Zombie

__all__ = [
    "LeaderMoved",
    "LockExpired",
    "MissedRebalance",
    "OffsetsExpired",
    "PartitionsAdded",
    "RollingRestart",
    "StaleMember",
    "TransactionTimeout",
    "Zombie",
]
