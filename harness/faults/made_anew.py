"""TopicMadeAnew: a topic is deleted and made anew while everybody who uses it is down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import NewTopic
from harness.faults.triggers import AtTrigger, await_fault
from harness.model.scenario import Evidence
from harness.proofs.made_anew import MadeAnew
from harness.wire.rules import FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire
    from harness.model.scenario import Role


@dataclass(frozen=True, slots=True)
class TopicMadeAnew(AtTrigger):
    """At ``at``, where the sender sends the target, its request is held until the ``reader`` has
    recorded everything before it. Both are killed, the request is discarded, and the topic is
    deleted and made anew.

    The sender starts again, and the reader when the new topic has records. Wherever its position
    comes from, it is one of the deleted topic.

    ``longer``: whether a log of the new topic must be longer than the reader's position says, so
    that it is not out of range, or shorter; ``None``: either.
    """

    id: ClassVar[str] = "topic-made-anew"
    abilities: ClassVar[tuple[type, ...]] = (NewTopic,)
    freezes: ClassVar[FreezeScope | None] = FreezeScope.CLIENT

    at: OnWire
    reader: Role
    longer: bool | None = None

    def __post_init__(self) -> None:
        if self.at.role is self.reader:
            raise ValueError("at must be a frame of the stage that sends, and reader another stage")

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, both stages died by
        SIGKILL, and the new topic had records when the reader came back.
        """
        killed = (self.at.role, self.reader)
        return Evidence("rule", killed=killed, proofs=(MadeAnew(str(self.reader), self.longer),))

    def inject(self, controls: Controls) -> None:
        """Kill both, make the topic anew, start the sender again, and when the topic has records
        the reader.
        """
        fired, topic = await_fault(controls, self.at), controls.ability(NewTopic)
        topic.await_done()
        sender, reader = controls.target(self.at.role, fired.node), controls.target(self.reader)
        reader.kill()
        sender.kill()
        controls.say("applied", node=sender.name)
        controls.resolve(fired.hold, How.DISCARD)
        topic.make_anew()
        sender.restart()
        topic.await_filled(longer=self.longer)
        reader.restart()
        controls.say("healed")
