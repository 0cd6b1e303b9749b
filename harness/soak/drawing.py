"""The faults that a stream can have, and the drawing of the next one from the seed and its number
alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Kill
from harness.model.scenario import Predicted, Role
from harness.protocols.kafka.steps import Api
from harness.stages.bulk.telling import CLIENT
from harness.stages.settings import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.controls import Trigger
    from harness.model.scenario import Scenario
    from harness.model.semantics import Semantic

STEPS: Final = frozenset({Api.PRODUCE, Api.FETCH, Api.OFFSET_COMMIT, Api.END_TXN})
"""Frames at which a fault can strike on the wire: each partition has frames of its own of these
kinds.
"""
PLACES: Final = frozenset({"before-send", "before-processing", "before-recording", "before-commit"})
"""Failpoints at which a fault can strike inside the bulk programs."""
MOST_HITS: Final = 20
VICTIMS: Final = frozenset({Role.PRODUCER, Role.CONSUMER, Role.BROKER})


@dataclass(frozen=True, slots=True)
class DrawnFault:
    """A fault, and where it strikes: at the ``hit``-th frame (or pass of a failpoint) of a
    partition after it was armed.
    """

    number: int
    scenario: Scenario
    partition: int
    hit: int

    @property
    def fault(self) -> Kill | Drop:
        """What is done.

        Raises:
            TypeError: no stream can have this fault (:func:`streamable` leaves it out).
        """
        fault = self.scenario.fault
        if not isinstance(fault, Kill | Drop):
            raise TypeError(f"no stream can have the fault {fault.id}")
        return fault


def drawn(
    scenarios: tuple[Scenario, ...], seed: int, number: int, partitions: int, most: int = MOST_HITS
) -> DrawnFault:
    """Draw the fault of a number: its scenario, partition and hit (at most ``most``, and at most
    MOST_HITS).
    """
    dice = random.Random(f"{seed}/{number}")
    scenario, partition = dice.choice(scenarios), dice.randrange(partitions)
    return DrawnFault(
        number, scenario, partition, 1 + int(dice.random() * max(1, min(most, MOST_HITS)))
    )


def streamable(scenarios: Iterable[Scenario], semantic: Semantic) -> tuple[Scenario, ...]:
    """Return the scenarios of the plain pipeline whose fault can strike a stream under a semantic.
    Controls are left out.
    """
    return tuple(one for one in scenarios if _fits(one, semantic))


def _fits(one: Scenario, semantic: Semantic) -> bool:
    if one.pipeline != PLAIN or one.deployment.clustered or one.deployment.security:
        return False
    expected = one.expectation(semantic, CLIENT) if semantic in one.expect else None
    if not isinstance(expected, Predicted) or expected.control or expected.settings is not None:
        return False
    fault = one.fault
    if isinstance(fault, Kill):
        plain = fault == Kill(fault.at, fault.victims)
        return plain and set(fault.victims) <= VICTIMS and _reachable(fault.at)
    return isinstance(fault, Drop) and fault == Drop(fault.at) and _reachable(fault.at)


def _reachable(at: Trigger) -> bool:
    if isinstance(at, InProgram):
        return at.name in PLACES and at.role in {Role.PRODUCER, Role.CONSUMER}
    return (
        at == OnWire(at.role, at.api, at.direction)
        and at.api in STEPS
        and at.role in {Role.PRODUCER, Role.CONSUMER}
    )
