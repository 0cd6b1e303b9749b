"""All scenarios, by story. A new one is a declaration in one of these files and stands in its tuple there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.core.scenario import Suite
from scenarios.cluster import CLUSTER
from scenarios.containers import CONTAINERS
from scenarios.database import DATABASE
from scenarios.durability import DURABILITY
from scenarios.growing import GROWING
from scenarios.network import NETWORK
from scenarios.offsets import OFFSETS
from scenarios.plain import PLAIN
from scenarios.power_loss import POWER_LOSS
from scenarios.streaming import STREAMING
from scenarios.topic_to_topic import TOPIC_TO_TOPIC
from scenarios.transactions import TRANSACTIONS
from scenarios.variants import VARIANTS
from scenarios.zombies import ZOMBIES

if TYPE_CHECKING:
    from harness.core.scenario import Scenario

MAIN = tuple(replace(scenario, suite=Suite.CORE) for scenario in (*PLAIN, *POWER_LOSS))
ALL: tuple[Scenario, ...] = (
    *MAIN, *TOPIC_TO_TOPIC, *VARIANTS, *ZOMBIES, *TRANSACTIONS, *OFFSETS, *GROWING, *NETWORK, *STREAMING, *CLUSTER, *CONTAINERS,
    *DURABILITY, *DATABASE,
)  # fmt: skip
