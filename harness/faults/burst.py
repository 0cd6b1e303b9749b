"""In a burst: a fault strikes while a client has two requests under way, or works on a backlog."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from harness.abilities import Beginning
from harness.faults.kill import Kill
from harness.faults.triggers import Needing, await_fault, rule_at
from harness.model.bursts import Backlog, Overlap, Strike
from harness.model.scenario import Evidence, Role
from harness.proofs.answer import Answered
from harness.proofs.burst import AGAIN, FromBacklog, TwoUnderWay
from harness.wire.rules import Action, After, Direction, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire

FEWEST: Final = 5
"""How many records of the target's partition make a batch."""
REFUSAL: Final = "NOT_ENOUGH_REPLICAS"
"""How the first of two requests is refused: clients send it again as it is."""
REFUSED_S: Final = 1.0
"""How late (seconds) it is refused: the second request comes meanwhile."""


@dataclass(frozen=True, slots=True)
class InBurst(Needing):
    """The frame ``at``, a request with the target or its answer, goes no further until its client
    has sent another request to the same partition over the same connection. Then ``strike``.

    If the client sends none, nothing more is done, and the cell proves nothing.
    """

    id: ClassVar[str] = "in-a-burst"
    abilities: ClassVar[tuple[type, ...]] = (Overlap,)

    at: OnWire
    strike: Strike

    def __post_init__(self) -> None:
        asked = self._loses or self.strike is Strike.FIRST_REFUSED
        if asked is not (self.at.direction is Direction.REQUEST):
            raise ValueError(f"{self.strike}: at must be the {'request' if asked else 'answer'}")

    @property
    def _loses(self) -> bool:
        return self.strike in (Strike.REQUESTS_LOST, Strike.LOST_THEN_REFUSED)

    @property
    def _again(self) -> OnWire:
        """The request with the target, when it is sent again."""
        return replace(self.at, occurrence=2)

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and two requests were
        under way when the fault struck.
        """
        role = self.at.role
        dies = {Strike.SENDER_DIES: (role,), Strike.BROKER_DIES: (Role.BROKER,)}
        proofs: tuple[object, ...] = (TwoUnderWay(str(role), str(self.strike)),)
        if self.strike in (Strike.FIRST_REFUSED, Strike.LOST_THEN_REFUSED):
            proofs += (Answered(REFUSAL),)
        return Evidence("rule", may_kill=dies.get(self.strike, ()), proofs=proofs)

    def arm(self, controls: Controls) -> None:
        """Arm the rule: an answer is held, and its client goes on.

        A request that is to be lost falls into a black hole with all that follow on its connection.
        One that is to be refused is answered late.
        """
        match self.strike:
            case Strike.REQUESTS_LOST | Strike.LOST_THEN_REFUSED:
                rule = rule_at(self.at, Action.DROP, after=After.BLACK_HOLE)
            case Strike.FIRST_REFUSED:
                rule = rule_at(self.at, Action.ANSWER, error=REFUSAL, delay_s=REFUSED_S)
            case _:
                rule = rule_at(self.at, Action.HOLD)
        controls.arm(self.at, rule)
        if self.strike is Strike.LOST_THEN_REFUSED:
            again = rule_at(self._again, Action.ANSWER, AGAIN, error=REFUSAL, delay_s=REFUSED_S)
            controls.arm(self._again, again)
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Wait until two requests are under way; then strike."""
        fired = await_fault(controls, self.at)
        overlap = controls.ability(Overlap)
        if overlap.await_second(self.at.role):
            controls.say("applied", node=fired.node)
            self._strike(controls, fired.hold, fired.node)
        elif self._loses:
            overlap.cut(self.at.role)
        elif fired.hold is not None:
            controls.resolve(fired.hold, How.RELEASE)
        controls.say("healed")

    def _strike(self, controls: Controls, hold: str | None, node: str | None) -> None:
        match self.strike:
            case Strike.NOTHING:
                controls.resolve(hold, How.RELEASE)
            case Strike.ANSWERS_LOST:
                controls.resolve(hold, How.DISCARD)
            case Strike.REQUESTS_LOST:
                controls.ability(Overlap).cut(self.at.role)
            case Strike.LOST_THEN_REFUSED:
                controls.ability(Overlap).cut(self.at.role)
                controls.await_fired(self._again)
            case Strike.FIRST_REFUSED:
                pass  # the wire does
            case Strike.SENDER_DIES | Strike.BROKER_DIES:
                sender = self.strike is Strike.SENDER_DIES
                victim = controls.target(*((self.at.role, node) if sender else (Role.BROKER,)))
                victim.kill()
                controls.resolve(hold, How.DISCARD)
                victim.restart()


@dataclass(frozen=True, slots=True)
class InBacklog(Needing):
    """The stage that ``at`` names is started for the first time when many records are there. It is
    killed at ``at``, a request about the target, or its answer, which never arrives.
    """

    id: ClassVar[str] = "in-a-backlog"
    abilities: ClassVar[tuple[type, ...]] = (Backlog, Beginning)

    at: OnWire

    @property
    def reader(self) -> Role:
        """The stage that is started late."""
        return self.at.role

    @property
    def _kill(self) -> Kill:
        return Kill(self.at, (self.reader,), held=How.DISCARD)

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, the stage was killed,
        and had been given the target in the middle of a batch.
        """
        proof = FromBacklog(str(self.reader), FEWEST)
        return Evidence("rule", killed=(self.reader,), proofs=(proof,))

    def arm(self, controls: Controls) -> None:
        """Arm the rule at which the stage is killed."""
        self._kill.arm(controls)

    def inject(self, controls: Controls) -> None:
        """Start the stage when the records are there; kill it, and start it again."""
        controls.ability(Backlog).await_gathered()
        controls.ability(Beginning).begin(self.reader)
        self._kill.inject(controls)
