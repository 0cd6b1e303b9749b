"""Controls that write down what a fault does and which abilities it asks for, and on which only
some triggers fire.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from harness.abilities import RestartInTurn, Server, Stage, Termination, needs_of
from harness.controls import Fired, InProgram, NotFiredError, OnWire, Stop
from harness.faults import Kill
from harness.model.cell import make_load
from harness.model.takeovers import OneOfSeveral, Takeover
from harness.protocols.kafka.steps import Api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.controls import AtWrite, InjectableOnWire, Trigger
    from harness.model.scenario import Role
    from harness.wire.rules import How, Rule

NODE = "node"
GIVES_NODE = {
    (RestartInTurn, "next_broker"),
    (Takeover, "struck"),
    (Termination, "stage"),
}
"""What of an ability returns a node."""
GIVES_NODES = {(Takeover, "followers")}
"""What of an ability returns several."""
STEPS = {"joins": Api.JOIN_GROUP}
"""What of an ability is a step of a protocol."""


def words(name: str, given: Iterable[object]) -> str:
    """Return a call as it is written down: its name, and the words that it was given."""
    return " ".join([name, *(str(word) for word in given if isinstance(word, str))])


class Calls:
    """Writes down each call of what these protocols have. ``what``: what stands before its name."""

    def __init__(self, controls: Recording, *kinds: type, what: str = "") -> None:
        self._controls = controls
        self._kinds = kinds
        self._what = what
        self.name = NODE

    def __getattr__(self, name: str) -> Any:
        """Return what writes the call down. Raises AttributeError where there is no such call."""
        if not any(hasattr(kind, name) for kind in self._kinds):
            raise AttributeError(f"{self._kinds} have no {name}")

        if name in STEPS:
            return STEPS[name]

        def call(*given: Any, **_: Any) -> Any:
            if any((kind, name) in GIVES_NODE for kind in self._kinds):
                return self._controls.node
            if any((kind, name) in GIVES_NODES for kind in self._kinds):
                return [self._controls.node] * 2
            self._controls.done.append(words(self._what + name, given))
            self._controls.calls.append((self._what + name, given))
            return NODE

        return call


# ruff: noqa: ARG002 - the stand-in takes what the real one takes
class Recording:
    """Controls of a cell with this fault. Implements :class:`harness.controls.Controls`.

    ``fires`` says which triggers fire; ``None``: every one. A hold is named after its API or its
    failpoint, and there is one node. ``hung_up``: the client whose frame is held has not waited. As
    the real ones do, it gives no ability that the fault has not named.
    """

    load = make_load(seed=1, salt="played", count=24, unit=1)

    def __init__(
        self, fault: Any, fires: Iterable[Trigger | AtWrite] | None = None, *, hung_up: bool = False
    ) -> None:
        self.fault = fault
        self.fires = None if fires is None else tuple(fires)
        self.hung_up = hung_up
        self.done: list[str] = []
        self.armed: list[tuple[Trigger, Rule | Stop]] = []
        """What was armed: each trigger, and what is done at it."""
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        """What was asked of nodes and of abilities, with what it was given."""
        self.asked: set[type] = set()
        """The abilities that were asked for."""
        self.node = Calls(self, Server, Stage, OneOfSeveral)

    def arm(self, trigger: Trigger, act: Rule | Stop) -> None:
        """Write it down."""
        self.armed.append((trigger, act))
        self.done.append(f"arm {act if isinstance(act, Stop) else act.id}")

    def say(self, phase: str, **fields: Any) -> None:
        """Write it down."""
        self.done.append(phase)

    def await_fired(
        self, trigger: Trigger | AtWrite, unless: Callable[[], object] | None = None
    ) -> Fired:
        """Return the trigger that fired, where it does; ``unless`` never comes first."""
        if self.fires is not None and trigger not in self.fires:
            raise NotFiredError(trigger)
        held = (
            f"failpoint {trigger.name}"
            if isinstance(trigger, InProgram) and (trigger, Stop.HOLD) in self.armed
            else None
        )
        return Fired("k-1", NODE, trigger.api.label if isinstance(trigger, OnWire) else held)

    def resolve(self, hold: str | None, how: How) -> bool:
        """Write it down."""
        self.done.append(f"resolve {hold} {how}")
        return not self.hung_up

    def target(self, role: Role, node: str | None = None) -> Any:
        """Return the only node there is."""
        return self.node

    def settle(self) -> None:
        """Write it down."""
        self.done.append("settle")

    def await_exhausted(self) -> None:
        """Write it down."""
        self.done.append("await_exhausted")

    def disarm(self) -> None:
        """Write it down."""
        self.done.append("disarm")

    def ability(self, kind: type) -> Any:
        """Return it, where the fault has named it. Raises LookupError where it has not."""
        if kind not in needs_of(self.fault):
            raise LookupError(f"{self.fault} does not name {kind.__name__}")
        self.asked.add(kind)
        return Calls(self, kind, what=f"{kind.__name__}.")


def played(
    fault: Any, fires: Iterable[Trigger | AtWrite] | None = None, *, hung_up: bool = False
) -> Recording:
    """Return the controls of a cell in which a fault was armed, and did what it does where these
    triggers fire.
    """
    controls = Recording(fault, fires, hung_up=hung_up)
    fault.arm(controls)
    with suppress(NotFiredError):
        fault.inject(controls)
    return controls


def kill_on_wire(at: OnWire, *victims: Role) -> InjectableOnWire:
    """Return a kill at a step on the wire: its class has other triggers, too."""
    return cast("InjectableOnWire", Kill(at, victims))


def steps(fault: Any, *fires: Trigger | AtWrite, hung_up: bool = False) -> list[str]:
    """Return what the fault does, once armed, where these triggers fire."""
    done = played(fault, fires, hung_up=hung_up).done
    return done[done.index("armed") + 1 :]
