"""What a cell on Pulsar is made of: where its topics are, and a topic as its sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.model.cell import Cell
from harness.model.history import HISTORY, HistoryWriter, read_history
from harness.model.places import Waiting
from harness.model.semantics import Semantic
from harness.run.queue_broker import Message
from harness.run.scene import CellScene
from harness.scenarios.pulsar import SCENARIOS
from harness.stages.pushing import Cursor
from harness.systems.pulsar.broker import DEDUPLICATING, NAMESPACES, PLAIN, namespace_of
from harness.systems.pulsar.settings import ALO, EOS, IN_TRANSACTION, with_cursor
from harness.systems.pulsar.sink import TopicSink
from tests.run.test_queues import Played

if TYPE_CHECKING:
    from pathlib import Path

CELL = Cell(
    next(each for each in SCENARIOS if each.id == "transform-none"),
    Semantic.EXACTLY_ONCE,
    "pulsar",
    "pulsar-java",
    "process",
    1,
    24,
)


def test_topics_are_where_the_broker_does_what_the_settings_say() -> None:
    found = {
        namespace_of(each)
        for each in (ALO, EOS, IN_TRANSACTION, *(with_cursor(ALO, cursor) for cursor in Cursor))
    }
    assert found == NAMESPACES.keys()
    assert (namespace_of(ALO), namespace_of(EOS)) == (PLAIN, DEDUPLICATING)


def test_a_topic_as_a_sink_tells_results_of_what_can_be_seen(tmp_path: Path) -> None:
    """Each with the place that it was made of; what was aborted is stored and no result, what is
    open is waited for.
    """
    one, two, three = CELL.load().records[:3]
    with HistoryWriter(tmp_path / HISTORY / "runner.jsonl", cell=CELL.id, by="runner") as history:
        scene, played = CellScene(CELL, tmp_path, history), Played()
        broker: Any = played
        sink = TopicSink(scene, broker)
        told = [
            Message("9:0:0", "9:0:0", one.encode(CELL.key), "a-1", Waiting.READY, origin="7:0:0"),
            Message("9:1:0", "9:1:0", two.encode(CELL.key), "a-2", visible=False),
            Message("9:3:0", "9:3:0", three.encode(CELL.key), "a-3", Waiting.OPEN, visible=False),
        ]
        broker.journal[sink.name] = tuple(told)
        assert sink.size() == (3, 1)
        assert sink.trouble() == "1 results are in open transactions"
        sink.observe()
        broker.journal[sink.name] = tuple(told[:2])
        assert sink.trouble() is None
    events = read_history(tmp_path / HISTORY, CELL.id)
    assert [(e.record, e.place) for e in events.of(kinds.Recorded)] == [(one.id, "7:0:0")]
    assert [(e.record, e.visible, e.waiting) for e in events.of(kinds.Stored)] == [
        (one.id, True, None),
        (two.id, False, None),
        (three.id, False, Waiting.OPEN),
    ]
    assert not list(events.of(kinds.Removed))
