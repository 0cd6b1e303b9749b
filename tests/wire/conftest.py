"""A running wire process per test module, and one route with a scripted broker behind
it per test.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, overload

import pytest

from harness.model import events as kinds
from harness.model.history import read_history
from harness.model.tail import SoFar
from harness.model.waiting import wait_until
from harness.protocols import GROUP
from harness.wire.control import WireControl, argv
from harness.wire.door import SECRET, new_secret
from harness.wire.messages import Route
from tests.wire.broker import WITHIN_S, Client, ScriptedBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.model.history import Event
    from harness.wire.rules import Rule

    A = TypeVar("A", bound=Event)

PROTOCOLS = {
    "small": "tests.wire.small:Small",
    "without-its-class": "tests.wire.small:Large",
    "without-its-module": "no.such.module:It",
}
"""The protocols of these tests by name, and two whose packages are broken."""
_NUMBERS = itertools.count(1)


@dataclass
class WireProcess:
    """A wire in its own process."""

    process: subprocess.Popen[str]
    control: WireControl
    directory: Path
    address: str | int
    secret: str

    @staticmethod
    def start(
        directory: Path,
        *words: str,
        run: Path | None = None,
        stderr: int | None = None,
        **more: str,
    ) -> WireProcess:
        """Start one and connect to it.

        ``run``: the folder below which it may write; ``directory`` if it is left out. ``more``:
        variables of its environment.
        """
        secret = new_secret()
        directory.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            (*argv(directory, run or directory), *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            encoding="utf-8",
            env={**os.environ, "TMPDIR": str(directory), SECRET: secret, **more},
        )
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["control"]
        control = WireControl.connect(address, secret)
        return WireProcess(process, control, directory, address, secret)

    def stop(self) -> int:
        """End it by closing its stdin."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(WITHIN_S)
        self.process.stdout.close()
        self.control.close()
        return code


def hit_in(folder: Path, rule: str = "r", number: int = 1) -> kinds.Rule:
    """Wait for the ``number``-th hit of a rule in a cell's history, as those do who control the
    wire.
    """
    hits = SoFar(folder).finder(
        kinds.Rule, lambda event: event.phase is kinds.RulePhase.HIT and event.rule == rule
    )
    wait_until(lambda: len(hits()) >= number, within_s=WITHIN_S, because=f"hit {number} of {rule}")
    return hits()[number - 1]


def hold_of(hit: kinds.Rule) -> str:
    """Return the id of the hold that a hit has begun."""
    assert hit.held is not None
    return hit.held


@dataclass
class Bench:
    """One broker behind one route, and one open cell with key ``key``."""

    wire: WireProcess
    broker: ScriptedBroker
    key: str
    port: int
    route: str
    path: Path
    clients: list[Client] = field(default_factory=list)

    @property
    def control(self) -> WireControl:
        """The control connection."""
        return self.wire.control

    @property
    def cell(self) -> str:
        """The cell's id."""
        return f"cell/{self.key}"

    def name(self, role: str = "producer", incarnation: str = "1") -> str:
        """Return a client id of the cell."""
        return f"{self.key}.{role}.{incarnation}"

    def client(self) -> Client:
        """Connect through the wire."""
        client = Client(self.port)
        self.clients.append(client)
        return client

    def arm(self, rule: Rule) -> None:
        """Arm a rule in the cell."""
        self.control.arm(self.cell, rule)

    @overload
    def events(self) -> list[Event]: ...
    @overload
    def events(self, *wanted: type[A]) -> list[A]: ...

    def events(self, *wanted: type[Event]) -> Sequence[Event]:
        """Return the cell's events so far, of these kinds."""
        return [
            event
            for event in read_history(self.path.parent).events
            if not wanted or isinstance(event, wanted)
        ]

    def phases(self, rule: str) -> list[kinds.RulePhase]:
        """Return what became of a rule."""
        return [event.phase for event in self.events(kinds.Rule) if event.rule == rule]

    def hit(self, rule: str = "r", number: int = 1) -> kinds.Rule:
        """Wait for the ``number``-th hit of a rule."""
        return hit_in(self.path.parent, rule, number)

    def wait_event(self, kind: type[A], **fields: object) -> A:
        """Wait for an event with these fields."""

        def found() -> A | None:
            matching = (
                e
                for e in self.events(kind)
                if all(getattr(e, name) == value for name, value in fields.items())
            )
            return next(matching, None)

        return wait_until(
            found, within_s=WITHIN_S, because=f"{kind.__name__} {fields} in the history"
        )

    def close(self) -> None:
        """Leave everything."""
        for client in self.clients:
            client.close()
        self.broker.close()
        self.control.remove_route(self.route)
        self.control.close_cell(self.cell)


def registered(site: Path, protocols: Mapping[str, str] = PROTOCOLS) -> Path:
    """Register protocols, by name and place, in a folder of packages; return it."""
    told = site / "lostack_tests-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: lostack-tests\nVersion: 1\n")
    lines = "".join(f"{name} = {place}\n" for name, place in protocols.items())
    (told / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")
    return site


@pytest.fixture(scope="session")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WireProcess]:
    """One wire for all tests: cells keep them apart, as they do in real runs."""
    running = WireProcess.start(
        tmp_path_factory.mktemp("wire"),
        run=tmp_path_factory.getbasetemp(),
        PYTHONPATH=os.pathsep.join(
            (
                str(registered(tmp_path_factory.mktemp("site"))),
                *filter(None, (os.environ.get("PYTHONPATH"),)),
            )
        ),
    )
    yield running
    assert running.stop() == 0


@pytest.fixture
def make_bench(wire: WireProcess, tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Make benches on the shared wire."""
    made: list[Bench] = []

    def make(
        broker: ScriptedBroker | None = None, *, role: str = "producer", node: str | None = None
    ) -> Bench:
        number = next(_NUMBERS)
        key, route = f"{number:08x}", f"route-{number}"
        broker = broker or ScriptedBroker()
        state = wire.control.add_route(
            Route(route, node or f"broker-{number}", role, 0, broker.port, protocol="kafka")
        )
        path = tmp_path / f"cell-{number}" / "wire.jsonl"
        wire.control.open_cell(f"cell/{key}", key, path)
        made.append(Bench(wire, broker, key, state.listen_port, route, path))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """One route, one broker that answers everything, one cell."""
    return make_bench()
