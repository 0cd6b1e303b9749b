"""The instrument, broken on purpose: one function for each thing that it could get wrong, at four
named seams.

A mutation is loaded by one variable, ``LOSTACK_MUTATION=<seam>.<name>``, into a session of pytest
that has the plugin ``tests.mutations.plugin``; nothing of it is in the product. Each says which
tests must turn red and what they say then, and ``test_mutations.py`` holds it to that: of the fast
tests each has one, and most have a cell on a real Kafka besides. Three have none, and this is why:

- ``observer.stable_is_the_end``: to be noticed in a run, a transaction must be open at the end of
  its drain, and no stage of ours leaves one; what the judge then says is tried on histories
  (``tests/judge/test_broken_logs.py``).
- ``wire.what_is_held_goes_on``: a rule that holds freezes the client, too, and the freeze holds the
  frame.
- those of the accounting: saved histories say all that a run would.

To see one by hand::

    LOSTACK_MUTATION=sink.a_row_twice .venv/bin/python -m pytest -p tests.mutations.plugin \
        --lostack-suite core \
        'scenarios/test_scenarios.py::test_cell[plain/none/exactly-once/s1]'
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE = "LOSTACK_MUTATION"
SEAMS = ("observer", "wire", "sink", "accounting")
"""A module each: what reads the logs, what stands between, what reads the results, what counts."""
WIRE = "wire"
"""The seam that is a process of its own."""
CELLS = "scenarios/test_scenarios.py::test_cell"
_FOUND: dict[str, dict[str, Mutation]] = {seam: {} for seam in SEAMS}


@dataclass(frozen=True)
class Mutation:
    """One. ``red``: tests that must fail, each with what it must say then (a regular
    expression).
    """

    name: str
    apply: Callable[[], None]
    red: dict[str, str]

    @property
    def breaks(self) -> str:
        """What it breaks, in one line."""
        return " ".join((self.apply.__doc__ or "").split())


def mutation(red: dict[str, str]) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a function that breaks something; ``red``: by the id of a test, what it
    says then.
    """

    def register(apply: Callable[[], None]) -> Callable[[], None]:
        seam = apply.__module__.rpartition(".")[2]
        _FOUND[seam][apply.__name__] = Mutation(f"{seam}.{apply.__name__}", apply, red)
        return apply

    return register


def cell(name: str) -> str:
    """Return the id of the test of a core cell on a real Kafka."""
    return f"{CELLS}[plain/{name}/s1]"


def golden(name: str) -> str:
    """Return the id of the test of a saved history."""
    return f"tests/judge/test_golden.py::test_a_golden_history_is_judged_as_before[{name}]"


def story(name: str) -> str:
    """Return the id of the test of a story of a queue."""
    return (
        f"tests/judge/test_queue_stories.py::test_a_queue_is_counted_as_a_person_counts_it[{name}]"
    )


def all_of(seam: str) -> dict[str, Mutation]:
    """Return the mutations of a seam, by their names within it."""
    importlib.import_module(f"tests.mutations.{seam}")
    return _FOUND[seam]


def asked_for() -> Mutation | None:
    """Return the one that the environment names, if it names one. Raises KeyError where there is
    none of that name.
    """
    seam, _, name = os.environ.get(VARIABLE, "").partition(".")
    return all_of(seam)[name] if seam else None


def table() -> str:
    """Return a table of all mutations: what each breaks, and who says what then."""
    lines = [
        "| mutation | what it breaks | what turns red | and says |",
        "| --- | --- | --- | --- |",
    ]
    for found in (one for seam in SEAMS for one in all_of(seam).values()):
        first = [f"`{found.name}`", found.breaks]
        for test, said in found.red.items():
            text = said.replace("|", "\\|")
            lines.append(f"| {' | '.join(first)} | `{test.rpartition('::')[2]}` | `{text}` |")
            first = ["", ""]
    return "\n".join(lines)
