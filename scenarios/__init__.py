"""All scenarios, by story. A new one is a declaration in one of these files and stands in its tuple there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenarios.cluster import CLUSTER
from scenarios.network import NETWORK
from scenarios.plain import PLAIN
from scenarios.power_loss import POWER_LOSS
from scenarios.streaming import STREAMING
from scenarios.topic_to_topic import TOPIC_TO_TOPIC
from scenarios.transactions import TRANSACTIONS
from scenarios.variants import VARIANTS
from scenarios.zombies import ZOMBIES

if TYPE_CHECKING:
    from harness.core.scenario import Scenario

ALL: tuple[Scenario, ...] = (
    *PLAIN, *POWER_LOSS, *TOPIC_TO_TOPIC, *VARIANTS, *ZOMBIES, *TRANSACTIONS, *NETWORK, *STREAMING, *CLUSTER,
)  # fmt: skip
