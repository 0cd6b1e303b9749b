"""Its pipeline, the settings of each semantic, and its scenarios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Forget, Kill, NoFault
from harness.judge.signs import ABSORBED, DELIVERED_AGAIN, NOT_RESENT, SENT_ANEW
from harness.model.pipeline import Pipeline
from harness.model.prediction import AtLeast, Exactly, Permitted
from harness.model.scenario import Deployment, Predicted, Role, Scenario
from harness.model.semantics import Semantic
from harness.wire.rules import Direction
from lostack_toy.knowledge import DONE_WITH
from lostack_toy.protocol import Verb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.scenario import Fault

AMO, ALO, EOS = Semantic.AT_MOST_ONCE, Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE


@dataclass(frozen=True, slots=True)
class ToySettings:
    """What makes up a semantic. Implements :class:`harness.model.pipeline.Settings`."""

    resend: bool = True
    ack_first: bool = False
    absorb: bool = False
    unit: int = 1
    patience_s: float = 5.0

    def logs(self, pipeline: Pipeline) -> Mapping[str, int]:
        """A queue is no log."""
        del pipeline
        return {}

    def check(self, pipeline: Pipeline, *, clustered: bool) -> None:
        """Find nothing wrong."""


LINE = Pipeline(
    "toy-line",
    "toy",
    {
        AMO: ToySettings(resend=False, ack_first=True),
        ALO: ToySettings(),
        EOS: ToySettings(absorb=True),
    },
)
LOSES, DUPLICATES = Predicted(lost=Exactly()), Predicted(duplicated=Exactly())


def scenario(name: str, fault: Fault, because: str, *predicted: Predicted, **more: Any) -> Scenario:
    """Declare one; ``predicted``: at most once, at least once, exactly once."""
    return Scenario(
        id=name,
        failure_point=name,
        fault=fault,
        because=because,
        pipeline=LINE,
        expect=dict(zip((AMO, ALO, EOS), predicted, strict=True)),
        **more,
    )


def at(role: Role, verb: Verb, way: Direction) -> OnWire:
    """Name a step."""
    return OnWire(role, verb, way)


SCENARIOS = (
    scenario(
        "none", NoFault(), "Nothing is done to anybody.", Predicted(), Predicted(), Predicted()
    ),
    scenario(
        "request-lost",
        Drop(at(Role.PRODUCER, Verb.PUT, Direction.REQUEST)),
        "The request never arrives: it is lost, unless it is sent again.",
        LOSES,
        Predicted(sign=SENT_ANEW),
        Predicted(sign=SENT_ANEW),
    ),
    scenario(
        "ack-lost",
        Drop(at(Role.PRODUCER, Verb.PUT, Direction.RESPONSE)),
        "It is stored, and nobody says so: what is sent again is stored twice.",
        Predicted(sign=NOT_RESENT),
        DUPLICATES,
        Predicted(sign=ABSORBED),
    ),
    scenario(
        "delivery-lost",
        Drop(at(Role.CONSUMER, Verb.GET, Direction.RESPONSE)),
        (
            "It was given, and did not arrive. The server has it still, and gives it again when "
            "the connection has ended."
        ),
        *[Predicted(sign=DELIVERED_AGAIN)] * 3,
    ),
    scenario(
        "consumer-crash-before-commit",
        Kill(InProgram(Role.CONSUMER, "before-commit"), (Role.CONSUMER,)),
        (
            "It is recorded, and its consumer dies. What is not acknowledged is given again: "
            "recorded twice, unless absorbed."
        ),
        Predicted(sign=DONE_WITH),
        DUPLICATES,
        Predicted(sign=ABSORBED),
    ),
    scenario(
        "broker-crash-before-ack",
        Kill(at(Role.PRODUCER, Verb.PUT, Direction.RESPONSE), (Role.BROKER,)),
        "It is in the journal, and the server dies before it says so: what is sent again is "
        "stored twice. While it is away, who does not send again goes on losing; and what the "
        "consumer could not acknowledge is given again.",
        Predicted(lost=Permitted(), sign=NOT_RESENT),
        Predicted(duplicated=AtLeast()),
        Predicted(sign=ABSORBED),
        deployment=Deployment.OWN,
    ),
    scenario(
        "power-loss",
        Kill(at(Role.PRODUCER, Verb.PUT, Direction.RESPONSE), (Role.BROKER,), forget=Forget.TOPIC),
        (
            "What was not flushed would be gone: not applicable, for the toy's files are "
            "nobody's to revert."
        ),
        *[Predicted(lost=AtLeast(), control=True)] * 3,
        deployment=Deployment.OWN,
    ),
)
