"""Hold: a frame is held until something else has happened, and is then sent on over the same connection.

So an answer can come when its client waits for another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from harness.abilities import Membership
from harness.controls import OnWire
from harness.faults.network import Until
from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence
from harness.proofs.hold import LetGo
from harness.wire.rules import Action, How

if TYPE_CHECKING:
    from harness.controls import Controls

Event: TypeAlias = OnWire | Until

_WORDS = {
    Until.EXPELLED: "its client to be put out of its group",
    Until.EXHAUSTED: "the source to be exhausted",
    Until.SETTLED: "everything acknowledged to be recorded",
}


@dataclass(frozen=True, slots=True)
class Hold:
    """The frame ``at``, and all frames behind it on its connection, are held until ``until``. Then they are sent on in order.

    ``until`` is another frame, which waits until this one has been sent on, or an event that no frame shows. The client's other
    connections are not held. If ``until`` never comes, the wait ends at its bound, and the cell is void. With ``lost`` the frame
    ``until`` never arrives: its connection ends behind this one.
    """

    id: ClassVar[str] = "hold"

    at: OnWire
    until: Event
    lost: bool = False

    def __post_init__(self) -> None:
        if self.lost and not isinstance(self.until, OnWire):
            raise ValueError(f"{self.until} is no frame that could be lost")
        if not isinstance(self.until, OnWire) and self.until not in _WORDS:
            raise ValueError(f"nobody can wait until {self.until} with a frame in hand")

    @property
    def words(self) -> str:
        """What it waits for."""
        if not isinstance(self.until, OnWire):
            return _WORDS[self.until]
        return f"the {self.until.role}'s {self.until.api.label} {self.until.direction}"

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and what it held has gone on; nobody died."""
        approached = self.at.since is not None
        return Evidence("rule", at_target=not self.at.offset, approached=approached, proofs=(LetGo(self.words),))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: the system must have groups that put a client out, if that is waited for."""
        return (Membership,) if self.until is Until.EXPELLED else ()

    def arm(self, controls: Controls) -> None:
        """Arm the rules."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD))
        if isinstance(self.until, OnWire):
            controls.arm(self.until, rule_at(self.until, Action.HOLD, "until"))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Hold the frame, wait, release it."""
        fired = await_fault(controls, self.at)
        controls.say("applied", node=fired.node)
        if isinstance(self.until, OnWire):
            reached = controls.await_fired(self.until)
            controls.resolve(fired.hold, How.RELEASE)
            controls.resolve(reached.hold, How.DISCARD if self.lost else How.RELEASE)
        else:
            self._await(controls)
            controls.resolve(fired.hold, How.RELEASE)
        controls.say("healed")

    def _await(self, controls: Controls) -> None:
        match self.until:
            case Until.EXPELLED:
                controls.ability(Membership).await_expired(self.at.role)
            case Until.EXHAUSTED:
                controls.await_exhausted()
            case Until.SETTLED:
                controls.settle()
