"""Hold: a frame is held until something else has happened, and is then sent on over the same
connection.

So an answer can arrive while its client waits for the answer to another request.
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
    Until.EXPELLED: "its client to be removed from its group",
    Until.EXHAUSTED: "the source to be exhausted",
    Until.SETTLED: "everything acknowledged to be recorded",
}


@dataclass(frozen=True, slots=True)
class Hold:
    """The frame ``at``, and all frames behind it on its connection, are held until ``until``. Then
    they are sent on in order.

    ``until`` is another frame, which waits until this one has been sent on, or an event that no
    frame shows (:class:`Until`). The client's other connections are not held. If ``until`` does not
    happen in time, the cell is void. With ``lost`` the frame ``until`` is dropped: its connection
    is cut after the held frame was sent on. ``errors``: the frame ``until`` may tell of an error.
    """

    id: ClassVar[str] = "hold"

    at: OnWire
    until: Event
    lost: bool = False
    errors: bool = False

    def __post_init__(self) -> None:
        if self.lost and not isinstance(self.until, OnWire):
            raise ValueError(f"lost needs a frame in until: {self.until} is none")
        if not isinstance(self.until, OnWire) and self.until not in _WORDS:
            raise ValueError(f"a held frame cannot wait for {self.until}")

    @property
    def words(self) -> str:
        """Name in words the event that the held frame waits for."""
        if not isinstance(self.until, OnWire):
            return _WORDS[self.until]
        return f"the {self.until.role}'s {self.until.api.label} {self.until.direction}"

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, the held frame was
        released, nobody died.
        """
        approached = self.at.since is not None
        return Evidence(
            "rule", at_target=not self.at.offset, approached=approached, proofs=(LetGo(self.words),)
        )

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: for ``Until.EXPELLED`` the system must have consumer
        groups.
        """
        return (Membership,) if self.until is Until.EXPELLED else ()

    def arm(self, controls: Controls) -> None:
        """Arm the rules."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD))
        if isinstance(self.until, OnWire):
            controls.arm(self.until, rule_at(self.until, Action.HOLD, "until", errors=self.errors))
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
