"""What is known of a system's cells before any runs, of each system that there is: nothing is
needed to ask.
"""

from __future__ import annotations

from harness import systems
from harness.contract.suite_plans import *  # noqa: F403 - the suite itself
from tests.contract.systems import SYSTEMS


def test_every_system_there_is_has_its_line() -> None:
    assert set(SYSTEMS) == {*systems.SYSTEMS, "declared"}
