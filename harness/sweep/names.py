"""The steps that a rule can name, by protocol and label."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from harness.plugins import load
from harness.protocols.listing import listed
from harness.wire.protocol import PLAIN
from harness.wire.protocol import Step as Known
from harness.wire.rules import Direction, StepName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.sweep.steps import Step


def _below(kind: type[StepName]) -> Iterator[type[StepName]]:
    """Yield the enumerations of steps that are loaded: they come with the protocols."""
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


@functools.cache
def step_names() -> Mapping[str, Mapping[str, StepName]]:
    """Return the steps that a rule can name, of each protocol by their labels: the enumeration that
    has all of its steps.
    """
    labels = {name: {label for label, _ in load(where).steps} for name, where in listed().items()}
    kinds = [{each.label: each for each in kind} for kind in _below(StepName)]
    return {
        name: next((kind for kind in kinds if of and kind.keys() >= of), {})
        for name, of in labels.items()
    }


def step_named(protocol: str, label: str) -> StepName | None:
    """Return the step that a rule can name, or ``None``. Without a protocol: that of the only one
    that has such a step.
    """
    of = [
        names[label]
        for name, names in step_names().items()
        if label in names and protocol in (name, "")
    ]
    return of[0] if len(of) == 1 else None


def shared(label: str) -> bool:
    """Say whether several protocols have a step of this name."""
    return sum(label in names for names in step_names().values()) > 1


def protocol_of(name: StepName) -> str:
    """Return the protocol of a step."""
    return next(
        protocol for protocol, names in step_names().items() if names.get(name.label) is name
    )


def known_of(step: Step, direction: Direction) -> Known:
    """Return the facts about a step in one direction, from its protocol's table."""
    name = step_named(step.protocol, step.api)
    return (
        PLAIN
        if name is None
        else load(listed()[protocol_of(name)]).steps.get((step.api, direction), PLAIN)
    )
