"""Open a cell on the wire, with its Toxiproxy proxies behind it if the cell's fault is a bad
network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.proofs.network import NetworkBad
from harness.systems.kafka.broker import INTER_BROKER

if TYPE_CHECKING:
    from harness.systems.kafka.network import CellNetwork
    from harness.systems.kafka.scene import Scene
    from harness.systems.kafka.services import Services


class PlaceOnWire:
    """Opens a cell on the wire, before its topics are created.

    A follower may ask for the first record of a topic as soon as it exists, and its client id does
    not name the cell. So a cell that does not share its brokers claims the routes between them.
    """

    def __init__(self, scene: Scene, services: Services) -> None:
        self._scene = scene
        self._services = services
        self._opened = False
        self._network: CellNetwork | None = None

    @property
    def network(self) -> CellNetwork:
        """The cell's proxies.

        Raises:
            RuntimeError: the cell has no proxies.
        """
        if self._network is None:
            raise RuntimeError(
                f"{self._scene.cell.id} has no proxies: its fault is not a bad network"
            )
        return self._network

    def open(self) -> None:
        """Open the cell on the wire, which records it from now on."""
        cell, transport = self._scene.cell, self._scene.transport
        alone = not cell.scenario.deployment.shared and not cell.scenario.together
        claimed = transport.routes(INTER_BROKER) if alone else ()
        transport.wire.open_cell(
            cell.id,
            cell.key,
            self._scene.history_folder / "wire.jsonl",
            routes=[route.name for route in claimed],
        )
        self._opened = True
        if need := cell.scenario.fault.evidence().proof(NetworkBad):
            self._network = self._services.network(cell, self._scene.history, need.roles)

    def close(self) -> None:
        """Close the cell on the wire, then remove the proxies."""
        try:
            if self._opened:
                self._scene.transport.wire.close_cell(self._scene.cell.id)
        finally:
            if self._network is not None:
                self._network.close()
