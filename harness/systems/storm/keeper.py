"""The ZooKeeper that keeps Trident's transactions, as its clients come to it: through the wire; and what it says of positions."""

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
    """The one of a deployment. Safe to use from several threads, one per cell."""

    def __init__(self, transport: KafkaTransport, cluster: Cluster) -> None:
        self._transport = transport
        self._cluster = cluster
        self._port = 0
        self._lock = threading.Lock()

    def address(self) -> tuple[str, int]:
        """Return host and port on the wire, which listens there from the first call on."""
        with self._lock:
            if not self._port:
                runtime = self._transport.runtime
                route = Route(NAME, NAME, Role.PROCESSOR, 0, self._cluster.keeper_port, runtime.bind, runtime.bind, protocol=NAME)
                self._port = self._transport.wire.add_route(route).listen_port
        return self._transport.runtime.address("wire"), self._port

    def positions(self, client: str, topic: str) -> dict[int, int]:
        """Return how far a client's transactions have come in each partition of a topic."""
        return positions_in(self._cluster.tree(root_of(client)), topic)


def positions_in(tree: Mapping[str, str], topic: str) -> dict[int, int]:
    """Return the position in each partition behind the last batch whose transaction is over; 0 where that had nothing of it.

    A spout says what a batch has before it is over, too: only those before the current transaction count.
    """
    current = next((int(data) for path, data in tree.items() if path.endswith(CURRENT)), FIRST)
    last: dict[int, tuple[int, int]] = {}
    for path, data in tree.items():
        found = BATCH.search(path)
        if found and found["topic"] == topic and (number := int(found["transaction"])) < current:
            partition = int(found["partition"])
            last[partition] = max(last.get(partition, (0, 0)), (number, json.loads(data)["lastOffset"] + 1))
    return {partition: position for partition, (_, position) in last.items()}
