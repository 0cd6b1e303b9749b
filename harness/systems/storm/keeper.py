"""The ZooKeeper with Trident's transactions: the address on the wire for its clients, and the
positions that it keeps.
"""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Final

from harness.model.scenario import Role
from harness.systems.storm.words import root_of
from harness.wire.messages import Route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.systems.kafka.transport import KafkaTransport
    from harness.systems.storm.cluster import Cluster

NAME: Final = "zookeeper"
CURRENT: Final = "/coordinator/currtx"
BATCH: Final = re.compile(r"/user/(?P<topic>[^/]+)@(?P<partition>\d+)/(?P<transaction>\d+)$")
FIRST: Final = 1
"""The number of the first transaction."""


class Keeper:
    """Leads clients to a deployment's ZooKeeper. Safe to use from several threads, one per cell."""

    def __init__(self, transport: KafkaTransport, cluster: Cluster) -> None:
        self._transport = transport
        self._cluster = cluster
        self._port = 0
        self._lock = threading.Lock()

    def address(self) -> tuple[str, int]:
        """Return host and port on the wire; the first call adds the route."""
        with self._lock:
            if not self._port:
                runtime = self._transport.runtime
                route = Route(
                    NAME,
                    NAME,
                    Role.PROCESSOR,
                    0,
                    self._cluster.keeper_port,
                    runtime.bind,
                    runtime.bind,
                    protocol=NAME,
                )
                self._port = self._transport.wire.add_route(route).listen_port
        return self._transport.runtime.address("wire"), self._port

    def positions(self, client: str, topic: str) -> dict[int, int]:
        """Return the position of a client's finished transactions in each partition of a topic."""
        return positions_in(self._cluster.tree(root_of(client)), topic)


def positions_in(tree: Mapping[str, str], topic: str) -> dict[int, int]:
    """Return the position after the last batch with a finished transaction, by partition.

    A spout writes a batch's offsets before its transaction is finished, so only batches before the
    current transaction count.
    """
    current = next((int(data) for path, data in tree.items() if path.endswith(CURRENT)), FIRST)
    last: dict[int, tuple[int, int]] = {}
    for path, data in tree.items():
        found = BATCH.search(path)
        if found and found["topic"] == topic and (number := int(found["transaction"])) < current:
            partition = int(found["partition"])
            last[partition] = max(
                last.get(partition, (0, 0)), (number, json.loads(data)["lastOffset"] + 1)
            )
    return {partition: position for partition, (_, position) in last.items()}
