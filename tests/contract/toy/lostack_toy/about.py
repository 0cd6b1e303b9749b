"""What the toy declares of itself. The entry point of the package names it."""

from __future__ import annotations

from harness.interfaces import System

SYSTEM = System(
    name="toy",
    launcher="lostack_toy.system:ToySystem",
    clients=("toy",),
    runs=lambda scenario: scenario.pipeline.system == "toy",
    abilities=lambda _: frozenset(),
    scenarios="lostack_toy.scenarios:SCENARIOS",
    knowledge="lostack_toy.knowledge:KNOWLEDGE",
)
