"""The place of a cell on the wire; where its network is to suffer, its proxies behind that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.proofs.network import NetworkBad
from harness.systems.kafka.broker import INTER_BROKER

if TYPE_CHECKING:
    from harness.systems.kafka.network import CellNetwork
    from harness.systems.kafka.scene import Scene
    from harness.systems.kafka.services import Services


class PlaceOnWire:
    """A cell on the wire. A part of its ground: it is opened before there are topics.

    A follower may ask for the first record of a topic at once, and wait; and broker to broker no client id tells whose that is,
    so a cell that has the brokers to itself claims the routes between them.
    """

    def __init__(self, scene: Scene, services: Services) -> None:
        self._scene = scene
        self._services = services
        self._opened = False
        self._network: CellNetwork | None = None

    @property
    def network(self) -> CellNetwork:
        """Its proxies.

        Raises:
            RuntimeError: it has none.
        """
        if self._network is None:
            raise RuntimeError(f"{self._scene.cell.id} has no network of its own")
        return self._network

    def open(self) -> None:
        """Begin to record."""
        cell, transport = self._scene.cell, self._scene.transport
        alone = not cell.scenario.deployment.shared and not cell.scenario.together
        claimed = transport.routes(INTER_BROKER) if alone else ()
        transport.wire.open_cell(cell.id, cell.key, self._scene.history_folder / "wire.jsonl",
                                 routes=[route.name for route in claimed])  # fmt: skip
        self._opened = True
        if need := cell.scenario.fault.evidence().proof(NetworkBad):
            self._network = self._services.network(cell, self._scene.history, need.roles)

    def close(self) -> None:
        """Leave it; then end the proxies."""
        try:
            if self._opened:
                self._scene.transport.wire.close_cell(self._scene.cell.id)
        finally:
            if self._network is not None:
                self._network.close()
