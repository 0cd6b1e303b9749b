"""The fault ``late``: the order of its steps, and what it says where its sender never goes on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import Fired, NotFiredError, OnWire
from harness.core.scenario import Role
from harness.faults import Late
from harness.wire.rules import Api, Direction

if TYPE_CHECKING:
    from harness.controls import Trigger
    from harness.wire.rules import How, Rule

AT = OnWire(Role.PRODUCER, Api.END_TXN, Direction.REQUEST)
INTO = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.RESPONSE, offset=1)


# ruff: noqa: ARG002 - the stand-in takes what the real one takes
class Bench:
    """Writes down what a fault does; ``fires`` says which triggers fire."""

    def __init__(self, *fires: OnWire) -> None:
        self.fires = fires
        self.done: list[str] = []

    def arm(self, trigger: OnWire, rule: Rule) -> None:
        """Write it down."""
        self.done.append(f"arm {rule.id}")

    def say(self, phase: str, **fields: Any) -> None:
        """Write it down."""
        self.done.append(phase)

    def await_fired(self, trigger: Trigger) -> Fired:
        """Return a hold that is named after its API, where it fires."""
        assert isinstance(trigger, OnWire)
        if trigger not in self.fires:
            raise NotFiredError(trigger)
        return Fired("k-1", "producer", trigger.api.label)

    def resolve(self, hold: str | None, how: How) -> None:
        """Write it down."""
        self.done.append(f"{how} {hold}")

    def target(self, role: Role, node: str | None = None) -> Bench:
        """Return the only node there is."""
        return self

    def kill(self) -> None:
        """Write it down."""
        self.done.append("kill")

    def restart(self) -> None:
        """Write it down."""
        self.done.append("restart")


def steps(fault: Late, *fires: OnWire) -> list[str]:
    """Return what the fault does on a bench where these triggers fire."""
    bench: Any = Bench(*fires)
    fault.arm(bench)
    with suppress(NotFiredError):
        fault.inject(bench)
    return list(bench.done[3:])


def test_it_arrives_while_what_it_comes_into_waits() -> None:
    """Cut off first, delivered second; only then its sender goes on."""
    assert steps(Late(AT, INTO), AT, INTO) == [
        "fired", "release-later EndTxn", "deliver EndTxn", "applied", "release Produce", "healed",
    ]  # fmt: skip


def test_with_kill_its_sender_never_learns_of_it() -> None:
    """It dies where it waits, and what it waited for goes with it."""
    assert steps(Late(AT, INTO, kill=True), AT, INTO)[2:] == [
        "deliver EndTxn", "applied", "kill", "discard Produce", "restart", "healed",
    ]  # fmt: skip


def test_what_never_comes_into_anything_is_not_healed() -> None:
    """The judge then calls the cell void; and what was never held is no fault."""
    assert steps(Late(AT, INTO), AT) == ["fired", "release-later EndTxn"]
    assert steps(Late(AT, INTO), INTO) == []


def test_only_a_request_can_be_late_and_only_for_its_own_sender() -> None:
    """A response belongs to its connection."""
    with pytest.raises(ValueError, match="only a request"):
        Late(replace(AT, direction=Direction.RESPONSE), INTO)
    with pytest.raises(ValueError, match="its own sender"):
        Late(AT, replace(INTO, role=Role.CONSUMER))
