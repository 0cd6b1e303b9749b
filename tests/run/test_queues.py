"""What a cell with a queue writes of it, and when it is at rest: by broker, journal and wire."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.model.cell import Cell
from harness.model.events import RulePhase
from harness.model.failures import CellFailure
from harness.model.history import HISTORY, SUFFIX
from harness.model.places import Removal, Waiting
from harness.model.scenario import Deployment
from harness.model.semantics import Semantic
from harness.model.writing import LedgerWriter
from harness.run.drain import StageEndedError
from harness.run.queue_broker import BROKER, Count, Message
from harness.run.queue_parts import node_of
from harness.run.queues import Queue, Readers
from harness.run.scene import CellScene
from harness.scenarios.activemq import SCENARIOS
from harness.wire.messages import Route
from tests.judge.scenes import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CELL = Cell(SCENARIOS[0], Semantic.AT_LEAST_ONCE, "activemq", "stomp.py", "process", 1, 24)
IN, ASIDE = f"{CELL.key}.in", f"DLQ.{CELL.key}.in"
ONE, TWO, *_ = CELL.load().records


@dataclass
class Played:
    """A broker whose journal and counts are told."""

    journal: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    counts: dict[str, Count] = field(default_factory=dict)
    asked: int = 0
    names: bool = True

    def queue(self, name: str) -> str:
        """Name the queue."""
        return name

    def dead_letters(self, queue: str) -> str:
        """Name its dead letters."""
        return f"DLQ.{queue}"

    def messages(self, queue: str) -> tuple[Message, ...]:
        """Return what is told."""
        self.asked += 1
        return self.journal.get(queue, ())

    def called(self, name: str) -> str | None:
        """Return it as it is, or that nobody knows it."""
        return name if self.names else None

    def count(self, queue: str) -> Count:
        """Return what is told."""
        return self.counts.get(queue, Count())


@dataclass
class Stand:
    """A queue, and what its wire and its programs write."""

    scene: CellScene
    broker: Played
    queue: Queue
    kept: Kept
    wire: LedgerWriter
    program: LedgerWriter

    def fetched(self, record: str, conn: int, *, reached: bool = True) -> None:
        """Let a message be put on a connection."""
        self.wire.write(kinds.FETCHED, record=record, conn=conn, reached=reached)


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    """Return it."""
    kept, broker = Kept(), Played()
    scene = CellScene(CELL, tmp_path, kept)  # type: ignore[arg-type]  # a history in memory
    writers = [
        LedgerWriter(tmp_path / HISTORY / f"{by}{SUFFIX}", cell=CELL.id, by=by)
        for by in ("wire", "consumer-1")
    ]
    yield Stand(scene, broker, Queue(scene, broker), kept, *writers)  # type: ignore[arg-type]  # what it is asked for it has
    for writer in writers:
        writer.close()


def message(place: str, record: Any = ONE, **more: Any) -> Message:
    """Return a copy of a record."""
    return Message(place, f"ID:{place}", record.encode(CELL.key), **more)


def test_what_waits_keeps_a_queue_from_rest(stand: Stand) -> None:
    """By the broker's count, whatever the journal says; and by the journal, whatever the broker
    counts.
    """
    assert stand.queue.trouble() is None
    stand.broker.counts[IN] = Count(2, 1)
    assert stand.queue.trouble() == "2 messages are ready, 1 in flight, 0 scheduled"
    stand.broker.counts[IN] = Count()
    stand.broker.journal[IN] = (
        message("1:1", removed=Removal.ACK),
        message("1:2", TWO, waiting=Waiting.READY),
    )
    assert stand.queue.trouble() == "in the journal 1 messages wait, the first at 1:2 (ready)"


@pytest.mark.parametrize("alone", [False, True])
def test_a_cell_that_has_its_broker_to_itself_has_its_talk_to_itself_too(
    stand: Stand, *, alone: bool
) -> None:
    opened: list[Any] = []
    need = Deployment.OWN if alone else Deployment.SHARED
    stand.scene.cell = replace(CELL, scenario=replace(CELL.scenario, deployment=need))
    wire = SimpleNamespace(open_cell=lambda *_, routes: opened.extend(routes))
    own = [Route("broker", BROKER, "broker", 1, 2, protocol="pulsar")]
    Queue(stand.scene, SimpleNamespace(wire=wire, own_routes=lambda: own)).open()
    assert opened == (["broker"] if alone else [])


def test_a_frame_of_the_broker_s_own_is_hit_in_the_broker() -> None:
    """Whatever its client calls itself; of others the name says it."""
    hit = partial(kinds.Rule, t=0, rule="fault", phase=RulePhase.HIT)
    assert node_of(hit(role="broker", client="healthcheck")) == BROKER
    with pytest.raises(CellFailure, match=r"must be <key>\.<node>\.<incarnation>"):
        node_of(hit(role="consumer", client="consumer-1"))
    assert node_of(hit(role="consumer", client=f"{CELL.key}.consumer.1")) == "consumer"
    assert node_of(hit(role="processor", client=f"{CELL.key}.worker")) == "worker"


def test_every_copy_and_its_end_are_written(stand: Stand) -> None:
    """What was taken off, what was moved, and what nobody of ours has sent; counts of the queue and
    of its dead letters.
    """
    stranger = Message("1:3", "ID:1:3", b"something else", waiting=Waiting.READY)
    stand.broker.journal = {
        IN: (
            message("1:1", attempt="producer-1.0.1", removed=Removal.ACK),
            message("1:2", TWO, moved="1:9"),
            stranger,
        ),
        ASIDE: (message("1:9", TWO, waiting=Waiting.READY),),
    }
    stand.broker.counts = {IN: Count(1), ASIDE: Count(1)}
    stand.queue.observe()
    assert stand.kept.of("stored", "hop", "place", "record", "waiting", "intact", "attempt") == [
        ("topic", "1:1", ONE.id, None, True, "producer-1.0.1"),
        ("topic", "1:2", TWO.id, None, True, None),
        ("topic", "1:3", None, Waiting.READY, False, None),
        ("aside", "1:9", TWO.id, Waiting.READY, True, None),
    ]
    assert stand.kept.of(kinds.REMOVED, "place", "record", "why") == [("1:1", ONE.id, Removal.ACK)]
    assert stand.kept.of(kinds.MOVED, "place", "to") == [("1:2", "1:9")]
    assert stand.kept.of("counted", "hop", "queue", "ready") == [
        ("topic", IN, 1),
        ("aside", ASIDE, 1),
    ]


def test_what_a_broker_counts_otherwise_is_written(stand: Stand) -> None:
    """For how many a message counts, and what it counts that is no message, whatever that looks
    like.
    """
    stand.broker.journal[IN] = (
        message("1:1", waiting=Waiting.READY, counts=3),
        message("1:2", TWO, waiting=Waiting.READY),
        message("1:4", TWO, waiting=Waiting.READY, whole=False),
    )
    stand.queue.observe()
    stored = [e for e in stand.kept.lines if e["event"] == "stored"]
    assert [(e["record"], e["waiting"], e.get("counts"), e.get("foreign")) for e in stored] == [
        (ONE.id, Waiting.READY, 3, None),
        (TWO.id, Waiting.READY, None, None),
        (None, Waiting.READY, None, True),
    ]


def test_who_has_a_message_the_wire_knows(stand: Stand) -> None:
    """What was put on a connection that is open is in flight, whether it has arrived or not; on a
    closed one nobody has it.
    """
    stand.broker.journal[IN] = (
        message("1:1", waiting=Waiting.READY),
        message("1:2", TWO, waiting=Waiting.READY),
    )
    stand.fetched(ONE.id, 1)
    stand.fetched(TWO.id, 2, reached=False)
    stand.wire.write("conn", phase="close", conn=1)
    stand.queue.observe()
    assert stand.kept.of("stored", "record", "waiting") == [
        (ONE.id, Waiting.READY),
        (TWO.id, Waiting.IN_FLIGHT),
    ]


def test_what_a_consumer_has_refused_it_has_no_more(stand: Stand) -> None:
    """It is the broker's again. A refusal that did not arrive, its answer, and one of a connection
    that is gone do not count.
    """
    stand.broker.journal[IN] = (
        message("1:1", waiting=Waiting.READY),
        message("1:2", TWO, waiting=Waiting.READY),
    )
    for record, conn in ((ONE.id, 1), (TWO.id, 3)):
        stand.fetched(record, conn)
    refusal = {"how": "nack", "outcome": None, "reached": True}
    stand.wire.write(kinds.ACKNOWLEDGED, record=ONE.id, request="1:7", **refusal)
    for request, more in (
        ("3:7", {"reached": False}),
        ("3:8", {"outcome": "taken"}),
        ("3:9", {"how": "ack"}),
        ("2:7", {}),
    ):
        stand.wire.write(kinds.ACKNOWLEDGED, record=TWO.id, request=request, **(refusal | more))
    stand.wire.write("conn", phase="close", conn=2)
    stand.queue.observe()
    assert stand.kept.of("stored", "record", "waiting") == [
        (ONE.id, Waiting.READY),
        (TWO.id, Waiting.IN_FLIGHT),
    ]


def test_a_result_is_placed_by_the_name_of_its_copy(stand: Stand) -> None:
    """The journal is read again only where it may have grown; a name that it does not know stays
    one.
    """
    stand.broker.journal[IN] = (message("1:1"), message("1:2"))
    assert [stand.queue.place_of(f"ID:{place}", ONE.id) for place in ("1:1", "1:2")] == [
        "1:1",
        "1:2",
    ]
    assert stand.broker.asked == 1
    assert stand.queue.place_of("ID:unknown", ONE.id) == "ID:unknown"
    assert stand.broker.asked == 2


def test_results_of_a_broker_that_names_no_copies_are_of_as_many_as_it_has(stand: Stand) -> None:
    """Twice stored is not twice delivered; a third result is. Who asks again is told the same."""
    stand.broker.names = False
    stand.broker.journal[IN] = (message("1:1"), message("1:2", TWO), message("1:3"))
    for _ in range(2):
        places = [stand.queue.place_of("delivery-7", ONE.id) for _ in range(3)]
        assert places == ["1:1", "1:3", "1:3"]
        assert stand.queue.place_of("delivery-8", TWO.id) == "1:2"
        assert stand.queue.place_of("delivery-9", "k9-9") is None
        stand.queue.observe()


def test_what_has_arrived_is_awaited_at_a_reader_that_lives(stand: Stand) -> None:
    """A broker that has forgotten a message cannot say that it is on its way; a closed connection
    brings nothing more.
    """
    ended: list[str] = []

    def trouble() -> None:
        if ended:
            raise StageEndedError(ended[0])

    readers = Readers(stand.scene, SimpleNamespace(trouble=trouble))  # type: ignore[arg-type]  # all that it is asked for
    assert readers.trouble() is None
    stand.fetched(ONE.id, 1)
    stand.fetched(TWO.id, 1, reached=False)
    assert readers.trouble() == f"{ONE.id} has arrived at its reader, which has not reported it"
    stand.program.write(kinds.DELIVERED, record=ONE.id, redelivered=False)
    assert readers.trouble() is None
    stand.fetched(TWO.id, 2)
    assert readers.trouble() is not None
    stand.wire.write("conn", phase="close", conn=2)
    assert readers.trouble() is None
    stand.fetched(TWO.id, 3)
    stand.fetched(TWO.id, 3)
    stand.wire.write(kinds.ACKNOWLEDGED, record=TWO.id, outcome="taken", reached=True)
    assert readers.trouble() is not None, "a library may acknowledge what it has not handed over"
    stand.program.write(kinds.DELIVERED, record=TWO.id, redelivered=False)
    assert readers.trouble() is None, "it has given back the first of the two"
    ended.append("the consumer ended with status 1")
    with pytest.raises(StageEndedError, match="the consumer ended"):
        readers.trouble()
