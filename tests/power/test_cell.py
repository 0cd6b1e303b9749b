"""A loss of power as a fault of a cell: what it must have done, what it writes down, and when it
says that it proves nothing.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.abilities import TracedWrites
from harness.controls import OnWire
from harness.faults import Forget, Kill
from harness.judge.verdict import Kind
from harness.model import cell as model
from harness.model.failures import CellFailure
from harness.model.record import Record
from harness.model.scenario import Evidence, Role
from harness.model.semantics import Semantic
from harness.model.waiting import wait_until
from harness.proofs.power import PowerWent
from harness.run.parts import ReadersStart
from harness.run.power import Power
from harness.run.queue_parts import parts_of
from harness.runtimes.interface import NodeSpec
from harness.runtimes.power.tracer import PowerTrace
from harness.runtimes.process.runtime import ProcessRuntime
from harness.scenarios.activemq import POINTS
from tests.events import fields_of
from tests.judge.runs import first, judged, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.model.events import Event
    from harness.runtimes.interface import Node
    from tests.judge.histories import Story

WITHIN_S = 30.0
PROGRAM = """
import os, signal, sys
log = os.open(sys.argv[1] + "/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
for number, record in enumerate(sys.argv[2:]):
    os.write(log, record.encode())
    if not number:
        os.fsync(log)
print("done", flush=True)
signal.pause()
"""
RECORDS = (Record("k0-1", "k0", 1, "x"), Record("k0-11", "k0", 2, "y"))


@dataclass
class Cell:
    """The key of a cell."""

    key: str = "c0ffee00"


@dataclass
class Load:
    """Two records: the first is flushed."""

    records: tuple[Record, ...] = RECORDS


@dataclass
class Scene:
    """What the ability knows of a cell, and what it writes."""

    cell: Cell = field(default_factory=Cell)
    load: Load = field(default_factory=Load)
    told: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def history(self) -> Scene:
        """Return what is written to."""
        return self

    def write(self, event: Event) -> None:
        """Keep an event."""
        self.told.append((event.event, fields_of(event)))


@dataclass
class Broker:
    """A program that is traced, or not."""

    node: Node
    power: PowerTrace | None

    def process(self) -> Node:
        """Return its process."""
        return self.node


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[ProcessRuntime]:
    """Return a runtime that is closed afterwards."""
    with ProcessRuntime(directory=tmp_path / "nodes") as made:
        yield made


def started(runtime: ProcessRuntime, tmp_path: Path, *, traced: bool = True) -> Broker:
    """Start the program, and wait until it has written everything."""
    trace = PowerTrace(tmp_path / "data", tmp_path / "log")
    trace.folder.mkdir()
    words = (record.encode("c0ffee00").decode() for record in RECORDS)
    argv = (sys.executable, "-I", "-S", "-c", PROGRAM, str(trace.folder), *words)
    node = runtime.start(
        NodeSpec(name="broker-1", role="broker", argv=trace.start(argv) if traced else argv)
    )
    wait_until(
        lambda: "done" in node.log_tail(), within_s=WITHIN_S, because="the program to have written"
    )
    return Broker(node, trace if traced else None)


def power_of(broker: Broker) -> tuple[Power, Scene]:
    """Return the ability on this broker, and what it writes into."""
    scene = Scene()
    there: Any = scene
    return Power(there, lambda: (broker,)), scene


@pytest.mark.strace
def test_a_dead_broker_has_what_it_flushed(runtime: ProcessRuntime, tmp_path: Path) -> None:
    """The first of two records; the history names it, and the file that was cut."""
    broker = started(runtime, tmp_path)
    power, scene = power_of(broker)
    power.check()
    power.lose()
    assert not scene.told, "it lives: nothing of it is lost"
    broker.node.kill()
    power.lose()
    one, two = (len(record.encode("c0ffee00")) for record in RECORDS)
    [(event, told)] = scene.told
    assert event == "power"
    assert told.pop("calls") > 3
    assert told == {
        "node": "broker-1",
        "names": "ext4",
        "flushes": 1,
        "files": [["log", one + two, one]],
        "records": ["k0-1"],
        "posix": ["log"],
    }
    assert (tmp_path / "data" / "log").read_bytes() == RECORDS[0].encode("c0ffee00")


@pytest.mark.strace
def test_a_broker_whose_tracer_died_proves_nothing(runtime: ProcessRuntime, tmp_path: Path) -> None:
    """What it did since was not seen."""
    broker = started(runtime, tmp_path)
    [tracer] = [each for each in broker.node.members() if each.command.startswith("strace")]
    os.kill(tracer.pid, signal.SIGKILL)
    wait_until(
        lambda: tracer.pid not in [each.pid for each in broker.node.members()],
        within_s=WITHIN_S,
        because="the tracer to be gone",
    )
    broker.node.kill()
    power, scene = power_of(broker)
    with pytest.raises(CellFailure, match="the tracer of broker-1 did not live until"):
        power.lose()
    assert not scene.told


def test_a_broker_that_is_not_traced_is_said_so(runtime: ProcessRuntime, tmp_path: Path) -> None:
    power, _ = power_of(started(runtime, tmp_path, traced=False))
    with pytest.raises(CellFailure, match=r"^not applicable: .*(not started traced|strace)"):
        power.check()


@pytest.mark.parametrize(
    ("scenario", "when"), [("power-loss", ReadersStart.AFTER_FAULT), ("none", None)]
)
def test_a_queue_is_read_when_the_power_is_back(
    scenario: str, when: ReadersStart | None, tmp_path: Path
) -> None:
    """What was read before cannot be lost any more."""
    cell = model.Cell(
        next(each for each in POINTS if each.id == scenario),
        Semantic.AT_LEAST_ONCE,
        "activemq",
        "stomp.py",
        "process",
        seed=1,
        records=24,
    )
    broker: Any = SimpleNamespace(
        address=lambda _: "nowhere",
        queue=str,
        process=str,
        **dict.fromkeys(("runtime", "wire", "kill", "restart", "power")),
    )
    history: Any = Scene()
    parts = parts_of(cell, tmp_path, history, broker=broker)
    assert parts.when is (when or ReadersStart.BEFORE_LOAD)
    controls: Any = parts.controls
    assert isinstance(controls.abilities[TracedWrites], Power)


FAULT = Kill(OnWire(Role.PRODUCER, "SEND", "request"), (Role.BROKER,), forget=Forget.UNFLUSHED)  # type: ignore[arg-type]


def test_the_fault_needs_a_traced_broker_and_a_proof() -> None:
    assert FAULT.needs() == (TracedWrites,)
    evidence = FAULT.evidence()
    assert evidence.proofs == (PowerWent(),)
    assert evidence.forgotten
    with pytest.raises(ValueError, match="forget needs a dead broker"):
        Kill(FAULT.at, (Role.PRODUCER,), forget=Forget.UNFLUSHED)


def powerless(story: Story, *events: tuple[str, int, int]) -> None:
    """A broker dies; power goes at these nodes, so long after that, with so many calls seen."""
    death = story.tell(
        "node", "runner", node="broker-1", role="broker", incarnation=1, phase="exited", signal=9
    )
    death["t"] = death["w"] = first(story, "rule")["t"] + 1
    for node, later, calls in events:
        story.tell("power", "runner", node=node, names="ext4", calls=calls, flushes=0)
        story.events[-1]["t"] = death["t"] + later


WRONG: dict[str, tuple[tuple[tuple[str, int, int], ...], str]] = {
    "disarmed": ((), "the power of broker-1 was not lost after its death"),
    "another's": ((("broker-2", 1, 5),), "the power of broker-1 was not lost after its death"),
    "while it lived": ((("broker-1", -1, 5),), "the power of broker-1 was not lost after its"),
    "nothing seen": ((("broker-1", 1, 0),), "the tracer saw no call of broker-1"),
}


@pytest.mark.parametrize(("events", "why"), WRONG.values(), ids=WRONG)
def test_without_its_loss_of_power_a_cell_is_void(
    events: tuple[tuple[str, int, int], ...], why: str
) -> None:
    story = run()
    powerless(story, *events)
    evidence = Evidence("rule", killed=(Role.PRODUCER, Role.BROKER), forgotten=True)
    found = judged(story, evidence=evidence, proofs={"power-went": {}})
    assert found.verdict.kind is Kind.VOID
    assert why in found.verdict.reason


def test_with_it_that_is_no_reason() -> None:
    """It was lost right after the death."""
    story = run()
    powerless(story, ("broker-1", 1, 5))
    evidence = Evidence("rule", killed=(Role.PRODUCER, Role.BROKER), forgotten=True)
    found = judged(story, evidence=evidence, proofs={"power-went": {}})
    assert "power" not in found.verdict.reason
