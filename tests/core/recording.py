"""A bench that writes down what a fault does, and on which only some triggers fire."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from harness.controls import Fired, InProgram, NotFiredError

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.controls import Trigger
    from harness.wire.rules import How, Rule


# ruff: noqa: ARG002 - the stand-in takes what the real one takes
class Recording:
    """``fires`` says which triggers fire; a hold is named after its API, every node is this bench itself.

    ``hung_up``: the client whose frame is held has not waited.
    """

    hung_up = False

    def __init__(self, *fires: Trigger) -> None:
        self.fires = fires
        self.name = "node"
        self.done: list[str] = []

    def arm(self, trigger: Trigger, rule: Rule) -> None:
        """Write it down."""
        self.done.append(f"arm {rule.id}")

    def say(self, phase: str, **fields: Any) -> None:
        """Write it down."""
        self.done.append(phase)

    def await_fired(self, trigger: Trigger) -> Fired:
        """Return the trigger that fired, where it does."""
        hold = None if isinstance(trigger, InProgram) else trigger.api.label
        if trigger not in self.fires:
            raise NotFiredError(trigger)
        return Fired("k-1", "node", hold)

    def resolve(self, hold: str | None, how: How) -> bool:
        """Write it down."""
        self.done.append(f"resolve {hold} {how}")
        return not self.hung_up

    def target(self, role: Any, node: str | None = None) -> Recording:
        """Return the only node there is."""
        return self

    def stage(self, role: Any, node: str | None = None) -> Recording:
        """Return the only stage there is."""
        return self

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Write down any other call, with the words it was given."""

        def call(*words: Any, **_: Any) -> None:
            self.done.append(" ".join([name, *(str(word) for word in words if isinstance(word, str))]))

        return call


def steps(fault: Any, *fires: Trigger, hung_up: bool = False) -> list[str]:
    """Return what the fault does, once armed, on a bench where these triggers fire."""
    bench: Any = Recording(*fires)
    bench.hung_up = hung_up
    fault.arm(bench)
    done = len(bench.done)
    with suppress(NotFiredError):
        fault.inject(bench)
    return list(bench.done[done:])
