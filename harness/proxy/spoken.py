"""The protocols that a proxy can stand in, and the steps that a test may name. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.model.failures import UsageError
from harness.plugins import load
from harness.protocols import PROTOCOLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.wire.protocol import Step
    from harness.wire.rules import Direction

KAFKA: Final = "kafka"


@dataclass(frozen=True, slots=True)
class ProxiedProtocol:
    """A protocol. ``name``: what the wire calls it. ``follows``: its answers name other servers.
    ``records``: the wire reads which records its frames are about. ``called``: other names of
    steps.
    """

    name: str
    follows: bool = False
    records: bool = True
    called: Mapping[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> Mapping[tuple[str, Direction], Step]:
        """What is known of each step, by its name and direction."""
        steps: Mapping[tuple[str, Direction], Step] = load(PROTOCOLS[self.name]).steps
        return steps

    def step(self, named: str) -> str:
        """Return the name of a step.

        Raises:
            UsageError: there is none of this name.
        """
        names = dict.fromkeys(step for step, _ in self.steps)
        wanted = self.called.get(named.lower(), named).lower()
        for name in names:
            if name.lower() == wanted:
                return name
        there = ", ".join(dict.fromkeys((*map(str.upper, self.called), *names)))
        raise UsageError(f"there is no API {named!r}: there are {there}")


SPOKEN: Final = {
    KAFKA: ProxiedProtocol("kafka", follows=True),
    "postgres": ProxiedProtocol(
        "others-postgres", records=False, called={"commit": "DatabaseCommit"}
    ),
    "stomp": ProxiedProtocol("stomp"),
    "amqp": ProxiedProtocol("amqp"),
}


def spoken(named: str) -> ProxiedProtocol:
    """Return a protocol.

    Raises:
        UsageError: a proxy cannot stand in it.
    """
    if named not in SPOKEN:
        raise UsageError(f"there is no protocol {named!r}: there are {', '.join(SPOKEN)}")
    return SPOKEN[named]
