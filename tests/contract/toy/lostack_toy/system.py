"""The toy launched, deployed, and what a cell of it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.places import Removal, Waiting
from harness.model.record import decode
from harness.model.scenario import Deployment, Role
from harness.model.states import Hop
from harness.model.waiting import wait_until
from harness.run.cell import CellRun
from harness.run.controls import Watching, WireControls
from harness.run.drain import Check, Checks, QuietSink
from harness.run.nodes import ServerNode, StageNode
from harness.run.parts import Opened, Parts
from harness.run.scene import CellScene
from harness.run.sinks import Database
from harness.run.stages import Producing, Reading
from harness.run.who import CellNodes
from harness.run.wire import start_wire
from harness.runtimes.interface import NodeSpec
from harness.runtimes.ports import PortLease
from harness.runtimes.process.runtime import ProcessRuntime
from harness.wire.messages import Route
from lostack_toy.scenarios import ToySettings
from lostack_toy.server import read_journal
from lostack_toy.stages import Connection, ToyStage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.runtimes.interface import Exit

ROLES = (Role.PRODUCER, Role.CONSUMER)
UP_S = 10.0


class ToySystem:
    """The toy, as it is prepared and deployed. Implements :class:`harness.interfaces.Launcher`."""

    name = "toy"

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        del runtime, version

    def prepare(self, say: Callable[[str], None]) -> None:
        """Nothing is fetched."""

    def deploy(self, need: Deployment, directory: Path) -> ToyDeployed:
        """Start a server, and a wire before it."""
        del need
        deployed = ToyDeployed(directory)
        try:
            deployed.start()
        except BaseException:
            deployed.close()
            raise
        return deployed

    def versions(self) -> dict[str, str]:
        """Return its version."""
        return {"toy": "0.1"}


class ToyDeployed:
    """A running server. Implements :class:`harness.interfaces.Deployed`."""

    def __init__(self, directory: Path) -> None:
        self.runtime = ProcessRuntime(directory=directory)
        self.directory = directory
        self.journal = directory / "journal"
        self._lease = PortLease(1 + len(ROLES))
        self.port, *self._ports = self._lease.ports

    def start(self) -> None:
        """Start both."""
        routes = [
            Route(role, "broker-1", role, port, self.port, protocol="toy")
            for role, port in zip(ROLES, self._ports, strict=True)
        ]
        self._running = start_wire(self.runtime, self.directory, routes)
        self.wire = self._running.control
        self.start_server()

    def start_server(self) -> None:
        """Start the server, and wait until it answers."""
        self.server = self.runtime.start(
            NodeSpec(
                name="broker-1",
                role="broker",
                log=self.directory / "server.log",
                argv=(
                    self.runtime.python,
                    "-m",
                    "lostack_toy.server",
                    str(self.port),
                    str(self.journal),
                ),
            )
        )
        wait_until(self.answers, within_s=UP_S, because="the toy's server to answer")

    def answers(self) -> bool:
        """Whether the server is there."""
        try:
            return self.count("nothing") == (0, 0)
        except OSError:
            return False

    def count(self, queue: str) -> tuple[int, ...]:
        """Ask the server, past the wire, how many messages of a queue are ready, and
        with a client.
        """
        return tuple(map(int, Connection(self.port, "observer").ask("COUNT", queue)))

    def kill(self) -> Exit:
        """SIGKILL the server; the wire refuses connections until it is back."""
        end = self.server.kill()
        for role in ROLES:
            self.wire.close_route(role)
        return end

    def restart(self) -> None:
        """Start it on the same journal."""
        self.start_server()
        for role in ROLES:
            self.wire.open_route(role)

    def together(self, cells: Sequence[Cell]) -> None:
        """No two cells share a death."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell."""
        return CellRun(cell, history, parts_of(cell, directory, history, self))

    def check(self) -> None:
        """Raise EnvironmentFailure where guardian or wire have died."""
        self.runtime.check()
        self._running.check()

    def close(self) -> None:
        """End everything."""
        if hasattr(self, "_running"):
            self._running.close()
        self.runtime.close()
        self._lease.close()


def parts_of(cell: Cell, directory: Path, history: HistoryWriter, toy: ToyDeployed) -> Parts:
    """Return what one cell is made of."""
    scene = CellScene(cell, directory, history)
    database, queue, settings = Database(scene), f"{cell.key}.in", cell.settings
    assert isinstance(settings, ToySettings)

    def make(role: Role, name: str) -> StageNode:
        stage = ToyStage(
            cell.id,
            cell.key,
            name,
            toy._ports[ROLES.index(role)],
            str(scene.outbox),
            database.there,
            str(scene.history_folder),
            settings.resend,
            settings.ack_first,
            settings.absorb,
        )
        return StageNode(
            role,
            "lostack_toy.stages",
            stage,
            toy.runtime,
            history,
            scene.so_far,
            scene.logs,
            scene.failpoints,
        )

    producing = Producing(history, make(Role.PRODUCER, "producer"))
    reading = Reading(make, Role.CONSUMER)
    server = ServerNode(
        history, lambda: toy.server, toy.kill, toy.restart, serves_at=lambda: [toy.port]
    )
    servers = {} if cell.scenario.deployment is Deployment.SHARED else {Role.BROKER: lambda: server}

    def trouble() -> str | None:
        waiting = sum(toy.count(queue))
        return f"{waiting} messages are in the queue" if waiting else None

    def observe_queue() -> None:
        lines = read_journal(toy.journal)
        gone = {number for what, number, *_ in lines if what == "gone"}
        for what, number, *more in lines:
            if what == "put" and more[0] == queue:
                payload, place = decode(bytes.fromhex(more[2])), f"toy:{number}"
                record = payload.record if payload else None
                waits = None if number in gone else Waiting.READY
                history.write(
                    kinds.Stored(
                        hop=Hop.TOPIC,
                        queue=queue,
                        place=place,
                        waiting=waits,
                        visible=True,
                        attempt=more[1],
                        record=record,
                        intact=bool(payload and payload.intact),
                    )
                )
                if number in gone:
                    history.write(kinds.Removed(place=place, record=record, why=Removal.ACK))
        ready, held = toy.count(queue)
        history.write(
            kinds.Counted(hop=Hop.TOPIC, queue=queue, ready=ready, in_flight=held, scheduled=0)
        )

    opened: list[str] = []

    def open_on_wire() -> None:
        file = scene.history_folder / "wire.jsonl"
        toy.wire.open_cell(cell.id, cell.key, file, routes=[])
        opened.append(cell.id)

    nodes = CellNodes(scene, lambda: (producing.node, *reading.nodes), servers)
    watching = Watching(scene.progress, lambda: trouble() is None, producing.has_ended, (OSError,))
    checks = [
        Check("source", producing.trouble),
        Check("consumer", reading.trouble),
        Check("queue", trouble, costly=True),
    ]
    return Parts(
        ground=(
            Opened(scene.make_folders),
            Opened(open_on_wire, lambda: toy.wire.close_cell(cell.id) if opened else None),
            Opened(scene.make_outbox),
            database,
            reading,
            producing,
        ),
        feed=producing,
        stages=reading,
        controls=WireControls(scene, toy.wire, nodes, watching, {}),
        drain=lambda: QuietSink(Checks(checks, (OSError,)), database.size),
        authorities=(scene.observe_offered, scene.observe_cursor, database.observe, observe_queue),
    )
