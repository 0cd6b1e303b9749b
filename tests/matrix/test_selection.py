"""Which cells are meant, and what is said where none is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness import registry
from harness.matrix.selection import SelectionError, select
from harness.model.scenario import Suite


def test_a_system_whose_scenarios_are_all_of_the_night_says_so() -> None:
    night = [
        replace(scenario, suite=Suite.NIGHT)
        for scenario in registry.scenarios()
        if registry.runs("flink", scenario)
    ]
    with pytest.raises(
        SelectionError,
        match=r"flink has \d+ scenarios, none of them in the suite core: use --suite night",
    ):
        select(night, system="flink", suite=Suite.CORE)
