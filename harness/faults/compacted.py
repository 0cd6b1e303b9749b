"""Compacted: while a reader is down, its topic is compacted: it loses the record that the reader
would be given next, for a later one of its key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import LogCompaction
from harness.faults.triggers import AtTrigger, await_fault, kill_at
from harness.model.scenario import Evidence
from harness.proofs.compaction import CompactedAway

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class Compacted(AtTrigger):
    """At ``at``, the target's way to its reader, the frame is held until the reader has recorded
    what it was given before. It is killed, and the frame discarded.

    The reader starts again when the topic has later records and is compacted. Offsets are missing
    behind its position then, the target's among them.
    """

    id: ClassVar[str] = "compacted"
    abilities: ClassVar[tuple[type, ...]] = (LogCompaction,)

    at: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, the reader died by
        SIGKILL, and the log had no target any more, but a later record of its key, when it came
        back.
        """
        proof = CompactedAway(str(self.at.role))
        return Evidence("rule", killed=(self.at.role,), proofs=(proof,))

    def inject(self, controls: Controls) -> None:
        """Wait for what is recorded, kill the reader, compact its topic, start the reader again."""
        fired, topic = await_fault(controls, self.at), controls.ability(LogCompaction)
        topic.await_recorded()
        reader = kill_at(controls, self.at.role, fired)
        topic.compact()
        reader.restart()
        controls.say("healed")
