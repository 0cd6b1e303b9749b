"""How far the load of a cell has come: what waits go by; without a broker, and with a clock of its
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.systems.declared.drain import progress as advancing
from harness.systems.declared.drain.progress import LOOK_S, SHARE, Progress
from harness.systems.declared.outputs import OutputError
from tests.judge.growing import tell
from tests.pipelines.scenes import Clock

if TYPE_CHECKING:
    from harness.systems.declared.scene import Scene
    from tests.pipelines.scenes import Scenes


class Output:
    """An output that a test fills. ``takes_s``: how long it takes to be read; ``reads``: how often
    it was.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.rows: list[str | None] = []
        self.takes_s = 0.0
        self.reads = 0
        self.broken: Exception | None = None

    def size(self) -> object:
        """Return what changes with each row."""
        return len(self.rows)

    def ids(self) -> list[str | None]:
        """Return the rows."""
        self.reads += 1
        self._clock.now += self.takes_s
        if self.broken is not None:
            raise self.broken
        return self.rows


class Load:
    """The load of a cell, and what is counted of it."""

    def __init__(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self._scene = Clock(), scene
        monkeypatch.setattr(advancing, "time", self.clock)
        self.output = Output(self.clock)
        found: Any = self.output
        self.advance = Progress(scene, found, (ConnectionError,))
        self.ids = [record.id for record in scene.load.records]
        self.says("conn", phase="open", conn=1, role="producer")
        self.says("conn", phase="open", conn=2, role="consumer")

    def says(self, event: str, **fields: Any) -> None:
        """Write a line of the wire."""
        tell(self._scene.history_folder, {"event": event, **fields})

    def count(self) -> int:
        """Return how far it has come, when the output may be read again."""
        self.clock.now += 60
        return self.advance.count()


@pytest.fixture
def load(scenes: Scenes, monkeypatch: pytest.MonkeyPatch) -> Load:
    """The load of the orders, of which nothing has happened."""
    return Load(scenes("orders"), monkeypatch)


def test_each_first_step_of_a_record_counts_and_no_other(load: Load) -> None:
    """A program that sends, reads and records the same again and again brings the load
    no further.
    """
    one, two = load.ids[:2]

    def all_of(record: str, offset: int) -> None:
        load.says("sent", record=record, topic="orders", request=f"1:{offset}")
        load.says("produce_answer", record=record, request=f"1:{offset}", error=0, reached=True)
        load.says(
            "fetched",
            record=record,
            topic="orders",
            partition=0,
            offset=offset,
            conn=2,
            reached=True,
        )
        load.says(
            "committed",
            group="billing",
            topic="orders",
            partition=0,
            offset=offset + 1,
            request="2:1",
        )
        load.output.rows.append(record)

    counts = [load.count()]
    for record, offset in ((one, 0), (one, 0), (two, 1), (one, 0), (two, 1)):
        all_of(record, offset)
        counts.append(load.count())
    assert counts == [0, 5, 5, 10, 10, 10]


def test_what_came_to_nothing_is_no_step(load: Load) -> None:
    """A refusal, a delivery that was lost, a position that goes back, a row of no record."""
    one = load.ids[0]
    load.says("committed", group="billing", topic="orders", partition=0, offset=5, request="2:1")
    before = load.count()
    load.says("produce_answer", record=one, request="1:1", error=7, reached=True)
    load.says("fetched", record=one, topic="orders", partition=0, offset=0, conn=2, reached=False)
    load.says("committed", group="billing", topic="orders", partition=0, offset=3, request="2:1")
    load.output.rows += [None, "of another run"]
    assert load.count() == before == 1


def test_acknowledgements_of_a_queue_are_steps(load: Load) -> None:
    """By their record: the same one may be acknowledged again."""
    for _ in range(2):
        load.says(
            "acknowledged", record=load.ids[0], request="2:1", how="ack", outcome=None, reached=True
        )
    assert load.count() == 1


def test_nothing_is_told_of_an_output_that_was_not_read(load: Load) -> None:
    """It may have rows: none were counted."""
    load.output.rows = [*load.ids[:3]]
    assert load.advance.told() == ""


def test_a_row_that_goes_and_comes_again_is_the_same(load: Load) -> None:
    load.output.rows = [*load.ids[:3]]
    assert load.count() == 3
    load.output.rows = []
    assert load.count() == 3
    load.output.rows = [*load.ids[:2]]
    assert (load.count(), load.advance.told()) == (3, "3 of 48 records are in the output")


@pytest.mark.parametrize("error", [OutputError("no such table"), ConnectionError("no broker")])
def test_what_cannot_be_read_now_is_read_later(load: Load, error: Exception) -> None:
    load.output.broken, load.output.rows = error, [load.ids[0]]
    assert load.count() == 0
    load.output.broken = None
    assert load.count() == 1


def test_an_output_is_read_rarely_where_that_takes_long(load: Load) -> None:
    """Once a second at most, and for a tenth of the time at most; not at all where it has not
    changed.
    """
    for takes_s, every_s in ((0.0, LOOK_S), (3.0, 3.0 * SHARE)):
        load.output.takes_s, load.output.reads = takes_s, 0
        load.clock.now += 100
        began = load.clock.now
        while load.clock.now < began + 100:
            load.output.rows.append(load.ids[0])
            load.advance.count()
            load.clock.now += 0.1
        assert load.output.reads <= 100 / every_s + 1
    load.count()
    load.output.reads = 0
    load.count()
    assert load.output.reads == 0


def test_who_sends_what_it_reads_for_ever_comes_no_further(load: Load) -> None:
    """A requeue loop, with the same ids or with new ones: what it does is bounded by the load."""
    one = load.ids[0]

    def goes_round(times: range) -> int:
        for offset in times:
            for record in (one, f"made-up-{offset}"):
                load.says("sent", record=record, topic="orders", request=f"1:{offset}")
                load.says(
                    "fetched",
                    record=record,
                    topic="orders",
                    partition=0,
                    offset=offset,
                    conn=2,
                    reached=True,
                )
            load.says(
                "committed",
                group="billing",
                topic="orders",
                partition=0,
                offset=offset + 1,
                request="2:1",
            )
        return load.count()

    records = len(load.ids)
    once = goes_round(range(records))
    assert once == 2 + records
    assert goes_round(range(records, 3 * records)) == once


def test_who_writes_into_new_topics_for_ever_comes_no_further(load: Load) -> None:
    def goes_on(times: range) -> int:
        for number in times:
            topic = f"retry-{number}"
            load.says("sent", record=load.ids[0], topic=topic, request="1:1")
            load.says(
                "committed", group="billing", topic=topic, partition=0, offset=1, request="2:1"
            )
        return load.count()

    assert goes_on(range(20)) == 40
    assert goes_on(range(20, 200)) == goes_on(range(200, 400)) == 200


def test_each_topic_that_a_stage_drains_is_a_load_of_its_own(load: Load) -> None:
    """The same records go from topic to topic: every step in each of them counts."""
    for topic in ("orders", "paid", "shipped"):
        for offset, record in enumerate(load.ids):
            seen = [load.count()]
            load.says("sent", record=record, topic=topic, request=f"1:{offset}")
            seen.append(load.count())
            load.says("produce_answer", record=record, request=f"1:{offset}", error=0, reached=True)
            seen.append(load.count())
            load.says(
                "fetched",
                record=record,
                topic=topic,
                partition=0,
                offset=offset,
                conn=2,
                reached=True,
            )
            seen.append(load.count())
            load.says(
                "committed",
                group="billing",
                topic=topic,
                partition=0,
                offset=offset + 1,
                request="2:1",
            )
            seen.append(load.count())
            assert seen == list(range(seen[0], seen[0] + 5))


def test_each_queue_is_acknowledged_for_itself(load: Load) -> None:
    """A client fetches from all queues ahead and then works for long: its acknowledgements, which
    name no queue, are its steps. A redelivery is none.
    """
    one = load.ids[0]
    for queue in ("orders", "paid"):
        load.says("fetched", record=one, topic=queue, conn=2, reached=True)
    counts = [load.count()]
    for _ in range(4):
        load.says("acknowledged", record=one, request="2:1", how="ack", outcome=None, reached=True)
        counts.append(load.count())
    assert counts == [2, 3, 4, 4, 4]
