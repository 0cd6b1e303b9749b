"""How many cells each suite has."""

from __future__ import annotations

from harness import registry
from harness.matrix.selection import choose
from harness.model.scenario import NotApplicable
from tests.docs.markdown import columns

_SUITES = (
    ("core", None, "`core` (the default)"),
    ("core", "kafka", "`core`, of Kafka alone"),
    ("day", None, "`day`"),
    ("night", None, "`night`"),
)


def sizes() -> str:
    """Return a table of how many cells of Kafka and Spark are run, and how many cannot exist."""
    rows = columns("suite", "cells", "that cannot exist, each with its reason")
    for suite, system, title in _SUITES:
        cells = choose(registry.scenarios(), system=system, suite=suite)
        not_run = sum(isinstance(cell.expectation, NotApplicable) for cell in cells)
        rows.append(f"| {title} | {len(cells) - not_run} | {not_run} |")
    return "\n".join(rows)
