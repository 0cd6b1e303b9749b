"""Create the topic of a pipeline after its reader was started."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.controls import await_met
from harness.model import events as kinds
from harness.model.requests import Request
from harness.model.struck import hits_of
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Action, Direction, FreezeScope, How, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.model.scenario import Role
    from harness.run.controls import WireControls
    from harness.systems.declared.programs.nodes import CommandNode
    from harness.systems.declared.scene import Scene

ASKS_S: Final = 30.0
"""How long a reader may take until it has asked which topics there are."""
AGAIN_S: Final = 3.0
"""How long a reader may take until it asks again. Most do within a second."""
FILLED_S: Final = 20.0
"""How long the first record may take to come into the topic; or longer, where the dry run's
silences were longer.
"""
SECOND: Final = 2
ASKED: Final = "asked-again"
"""The id of the rule that keeps from a reader that its topic is there."""


@dataclass
class CreatedLate:
    """Creates the topic between the first stages, and lets it have a record before its reader hears
    of it: the wire holds the second answer that says which topics there are.
    """

    scene: Scene
    controls: WireControls
    stages: Mapping[Role, CommandNode]
    attribute: Callable[[], None]

    def appear(self, role: Role) -> None:
        """Start the reader, create the topic, and let the reader hear of it when it has a record.

        Raises:
            NotFiredError: the reader does not ask for its topic, or no record came.
        """
        scene, topic, wire = self.scene, self.scene.pipeline.topic, self.controls.wire
        node, observer = self.stages[role], scene.kafka.observer
        wire.arm(
            scene.cell.id,
            Rule(
                ASKED,
                Action.HOLD,
                Api.METADATA,
                direction=Direction.RESPONSE,
                role=str(role),
                occurrence=SECOND,
                freeze=FreezeScope.CLIENT,
            ),
        )
        self.controls.undo(self._disarm)
        node.start()
        await_met(lambda: self._told(role), ASKS_S, f"the {role} to ask for its topic")
        since = time.monotonic()
        await_met(
            lambda: self._held() or time.monotonic() - since > AGAIN_S,
            ASKS_S,
            f"the {role} to ask again",
        )
        scene.kafka.create(
            {topic: scene.pipeline.partitions},
            scene.pipeline.topic_settings,
            scene.pipeline.broker.copies(scene.pipeline.brokers),
        )
        scene.history.write(kinds.Appeared(topic=topic))

        def filled() -> dict[int, int] | None:
            ends = {partition: each.end for partition, each in observer.ends(topic).items()}
            return ends if any(ends.values()) else None

        ends = await_met(filled, scene.still(FILLED_S), f"a record in {topic}")
        scene.history.write(
            kinds.Refilled(topic=topic, ends={str(p): end for p, end in ends.items()})
        )
        if (held := self._held()) is not None:
            wire.resolve(held, How.RELEASE)
        self.controls.watching.supervise()
        node.await_ready()
        self.attribute()

    def _disarm(self) -> None:
        self.controls.wire.disarm(self.scene.cell.id, ASKED)

    def _told(self, role: Role) -> bool:
        """Whether the reader was told once which topics there are."""
        return any(
            (e.role, e.api, e.dir) == (str(role), Request.METADATA, Direction.RESPONSE)
            for e in self.scene.so_far.of(kinds.Frame)
        )

    def _held(self) -> str | None:
        return next((e.held for e in hits_of(self.scene.so_far, (ASKED,))), None)
