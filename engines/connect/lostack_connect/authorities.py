"""Ask the topic in which workers keep source offsets how far a source connector is, and that of the
dead letters which records a sink connector set aside.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.states import Hop
from harness.systems.kafka.authorities import observe_log
from lostack_connect.words import letters_of, topic_of

if TYPE_CHECKING:
    from harness.systems.kafka.scene import Scene


def saved_positions(scene: Scene) -> tuple[int, ...]:
    """Return the source offsets that were saved, each the number of a next record. A restarted task
    is given the last one; 1: none is saved.
    """
    saved = (
        json.loads(copy.value)["position"]
        for copy in scene.observer.copies(topic_of(scene.cell.key, "offset"))
        if copy.visible and copy.value is not None
    )
    return (1, *map(int, saved))


def observe_source(scene: Scene) -> None:
    """Write the offered records, and the saved source offset."""
    scene.observe_offered()
    scene.history.write(kinds.Cursor(position=saved_positions(scene)[-1], where="topic"))


def observe_letters(scene: Scene) -> None:
    """Write the dead letters of a sink connector, which nobody has read."""
    observe_log(scene, Hop.ASIDE, letters_of(scene.cell.key), {})
