"""Two faults: the second strikes before anybody waits for who begins again after the first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness.abilities import Membership, Termination
from harness.controls import OnWire, Role
from harness.faults import Drop, Kill, Pause, Terminate, Twice
from harness.proofs.second import InSuccessor
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.events import a_history, events_of
from tests.judge.recording import Recording, kill_on_wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.controls import Fired, Trigger
    from harness.model.history import History
    from harness.wire.rules import How

DONE = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.RESPONSE)
ASKS = OnWire(Role.CONSUMER, Api.FIND_COORDINATOR, Direction.REQUEST, since=DONE)
SENDS = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST, offset=1)


@dataclass
class _Program:
    """A program whose successors ask before they are ready; what they ask is held until the second
    fault has struck.
    """

    controls: _Held
    name: str
    role: Role
    life: int = 1
    did: list[str] = field(default_factory=list)

    def _note(self, what: str) -> None:
        self.did.append(f"{what} {self.life}")

    def kill(self) -> None:
        self._note("kill")

    def pause(self) -> None:
        self._note("pause")

    def resume(self) -> None:
        self._note("resume")

    def tell_to_end(self) -> None:
        self._note("tell")

    def await_end(self) -> None:
        self._note("end")

    def restart(self) -> None:
        self.begin_again()
        self.await_back()

    def begin_again(self) -> None:
        self.life += 1

    def await_back(self) -> None:
        assert not self.controls.holds, (
            "it is waited for while what it asks is held: it ends by itself"
        )
        self._note("ready")


class _Held(Recording):
    """Controls that hold the second trigger's frame from when its rule is armed until it is
    resolved, or lost.
    """

    def __init__(self, fault: Any) -> None:
        super().__init__(fault)
        self.programs = {
            role: _Program(self, str(role), role) for role in (Role.CONSUMER, Role.PRODUCER)
        }
        self.holds = False

    def arm(self, trigger: Trigger, act: Any) -> None:
        """Hold what the second fault is at."""
        super().arm(trigger, act)
        self.holds |= trigger == self.fault.second.at

    def await_fired(self, trigger: Any, unless: Any = None) -> Fired:
        """Let a frame fall that is not held."""
        self.holds &= not (trigger == self.fault.second.at and isinstance(self.fault.second, Drop))
        return super().await_fired(trigger, unless)

    def resolve(self, hold: str | None, how: How) -> bool:
        """Hold it no more."""
        self.holds &= hold != self.fault.second.at.api.label
        return super().resolve(hold, how)

    def target(self, role: Role, node: str | None = None) -> Any:
        """Return its program."""
        del node
        return self.programs[role]

    def ability(self, kind: type) -> Any:
        """Return what gives the program whole."""
        assert kind in {Termination, Membership}
        return self

    def await_expired(self, role: Role) -> None:
        """Nothing to wait for: no group."""

    def stage(self, role: Role, node: str | None = None) -> Any:
        """Return its program."""
        return self.target(role, node)


@pytest.mark.parametrize(
    ("first", "second", "did"),
    [
        (
            Kill(DONE, (Role.CONSUMER,)),
            Kill(ASKS, (Role.CONSUMER,)),
            ["kill 1", "kill 2", "ready 3"],
        ),
        (Kill(DONE, (Role.CONSUMER,)), Drop(ASKS), ["kill 1", "ready 2"]),
        (Kill(DONE, (Role.CONSUMER,)), Kill(SENDS, (Role.PRODUCER,)), ["kill 1", "ready 2"]),
        (Terminate(DONE), Kill(ASKS, (Role.CONSUMER,)), ["tell 1", "end 1", "kill 2", "ready 3"]),
        (Kill(DONE, (Role.CONSUMER,)), Pause(ASKS), ["kill 1", "pause 2", "resume 2", "ready 2"]),
        (Terminate(DONE), Terminate(ASKS), ["tell 1", "end 1", "tell 2", "end 2", "ready 3"]),
    ],
)
def test_the_second_strikes_while_the_first_ones_successor_gets_ready(
    first: Any, second: Any, did: list[str]
) -> None:
    fault = Twice(first, second)
    controls = _Held(fault)
    fault.arm(controls)
    fault.inject(controls)
    assert controls.programs[Role.CONSUMER].did == did
    assert controls.done[-1] == "healed"
    assert controls.done.count("fired") == 2


@dataclass
class _RunSeen:
    """What a proof reads of a run."""

    history: History
    killed: Sequence[Any]


@pytest.mark.parametrize(
    ("hit", "died", "proved"), [(20, 10, True), (9, 10, False), (9, None, False), (None, 10, True)]
)
def test_the_second_must_strike_a_successor(
    hit: int | None, died: int | None, proved: bool
) -> None:
    """A trigger that the first process hit itself, before it was killed, says nothing of a
    recovery.
    """
    rules = (
        [{"event": "rule", "phase": "hit", "rule": "second-fault", "t": hit}]
        if hit is not None
        else []
    )
    dead = {"event": "node", "phase": "exited", "role": "consumer", "t": died}
    killed = [] if died is None else events_of([dead])
    fault = Twice(kill_on_wire(DONE, Role.CONSUMER), kill_on_wire(ASKS, Role.CONSUMER))
    [proof] = [each for each in fault.evidence().proofs if isinstance(each, InSuccessor)]
    assert (
        proof.trouble(cast("Any", _RunSeen(a_history(tuple(rules), ()), killed))) is None
    ) is proved


@pytest.mark.parametrize(("hit", "proved"), [(20, True), (9, False)])
def test_who_is_told_to_end_must_have_been_told(hit: int, proved: bool) -> None:
    """A program that ends by SIGTERM is in no list of the killed."""
    events = [
        {"event": "rule", "phase": "hit", "rule": "second-fault", "t": hit},
        {"event": "node", "phase": "told", "role": "consumer", "t": 10},
    ]
    fault = Twice(Terminate(DONE), kill_on_wire(ASKS, Role.CONSUMER))
    [proof] = [each for each in fault.evidence().proofs if isinstance(each, InSuccessor)]
    assert (
        proof.trouble(cast("Any", _RunSeen(a_history(tuple(events), ()), []))) is None
    ) is proved


def test_another_roles_fault_needs_no_death() -> None:
    fault = Twice(kill_on_wire(DONE, Role.CONSUMER), kill_on_wire(SENDS, Role.PRODUCER))
    assert not [each for each in fault.evidence().proofs if isinstance(each, InSuccessor)]
