"""Scenarios, by story. A new one is a declaration in one of these files and stands in its tuple
there.

The tuples of Kafka are put together here; each other system names its own (``System.scenarios``).

These files are :mod:`harness.scenarios`: by a link in the repository, and as they are in what is
installed. There nothing is called ``scenarios``, so that a folder of that name is its owner's.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.model.scenario import Suite
from harness.scenarios.cluster import CLUSTER
from harness.scenarios.containers import CONTAINERS
from harness.scenarios.database import DATABASE
from harness.scenarios.durability import DURABILITY
from harness.scenarios.errors import ERRORS
from harness.scenarios.growing import GROWING
from harness.scenarios.network import NETWORK
from harness.scenarios.offsets import OFFSETS
from harness.scenarios.plain import PLAIN_SCENARIOS
from harness.scenarios.power_loss import POWER_LOSS
from harness.scenarios.secured import SECURED
from harness.scenarios.share_groups import SHARE_GROUPS
from harness.scenarios.topic_to_topic import TOPIC_SCENARIOS
from harness.scenarios.transactions import TRANSACTIONS
from harness.scenarios.variants import VARIANTS
from harness.scenarios.zombies import ZOMBIES

if TYPE_CHECKING:
    from harness.model.scenario import Scenario

MAIN = tuple(replace(scenario, suite=Suite.CORE) for scenario in (*PLAIN_SCENARIOS, *POWER_LOSS))
KAFKA: tuple[Scenario, ...] = (
    *MAIN,
    *TOPIC_SCENARIOS,
    *VARIANTS,
    *ZOMBIES,
    *TRANSACTIONS,
    *OFFSETS,
    *GROWING,
    *NETWORK,
    *CLUSTER,
    *CONTAINERS,
    *DURABILITY,
    *DATABASE,
    *ERRORS,
    *SECURED,
    *SHARE_GROUPS,
)

if (
    __name__ == "scenarios"
):  # imported from the repository by its short name: the same modules, not a second set of them
    found = importlib.import_module("harness.scenarios")
    for module in pkgutil.walk_packages(found.__path__):
        if not module.name.startswith("test_"):
            sys.modules[f"scenarios.{module.name}"] = importlib.import_module(
                f"harness.scenarios.{module.name}"
            )
    sys.modules["scenarios"] = found
