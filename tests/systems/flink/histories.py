"""Histories of a job, written by hand: what its attempts, the wire and the JobManager say."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from tests.events import a_history

if TYPE_CHECKING:
    from harness.model.history import History

SINK = "c.out"


class HistoryBuilder:
    """Writes events one after the other."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._times = count(1)

    def tell(self, kind: str, by: str = "runner", **fields: Any) -> None:
        """Write one."""
        self.events.append({"t": next(self._times), "by": by, "event": kind, **fields})

    def resumed(self, by: str, checkpoint: int, **positions: int) -> None:
        """An attempt begins; ``positions``: ``p0=3``."""
        for name, position in positions.items():
            self.tell(
                "resumed",
                by,
                where="job",
                partition=int(name[1:]),
                position=position,
                batch=checkpoint,
            )

    def given(
        self, by: str, record: str, at: tuple[int, int], state: list[str], news: list[str]
    ) -> None:
        """A record is given to an attempt, ``at`` an interval and an offset; the state of its key
        then, and what is new of it.
        """
        self.tell("delivered", by, record=record, partition=0, epoch=0, offset=at[1])
        self.tell("state", by, batch=at[0], key=record.partition("-")[0], records=state, news=news)

    def snapshot(self, by: str, number: int, begin: int, end: int) -> None:
        """The job takes its part of a checkpoint."""
        self.tell(
            "batch", by, phase="snapshot", batch=number, partition=0, offset=begin, position=end
        )

    def checkpoint(self, number: int, status: str, acknowledged: int = 2) -> None:
        """What the JobManager says of one."""
        self.tell(
            "fault",
            phase="checkpoint",
            number=number,
            status=status,
            acknowledged=acknowledged,
            of=2,
        )

    def readers(self, unseen: int) -> None:
        """How many offsets readers of the sink do not see."""
        self.tell("fault", phase="readers", unseen=unseen)

    def source(self, *records: str, partitions: int = 1) -> None:
        """What was offered, and where it stands in the log: one record after the other in each of
        the partitions.
        """
        for place, record in enumerate(records):
            at: dict[str, Any] = {
                "partition": place % partitions,
                "epoch": 0,
                "offset": place // partitions,
            }
            self.tell("offered", record=record, position=place + 1)
            self.tell("stored", hop="topic", topic="c.in", record=record, visible=True, **at)
        self.tell("log", hop="sink", topic=SINK, partition=0, start=0, stable=9, end=9)

    def died(self) -> None:
        """The TaskManager is killed."""
        self.tell(
            "node", node="task-manager", role="task-manager", phase="exited", signal=9, status=None
        )

    def history(self) -> History:
        """Return what was told."""
        return a_history(tuple(self.events))


def rolled_back() -> HistoryBuilder:
    """Tell of a job with two keys that died behind checkpoint 2: a-3 and b-4 had come since, a-3
    comes first again.
    """
    told = HistoryBuilder()
    told.resumed("job-1-1", 0, p0=0)
    told.given("job-1-1", "a-1", (1, 0), ["a-1"], ["a-1"])
    told.given("job-1-1", "b-2", (1, 1), ["b-2"], ["b-2"])
    told.snapshot("job-1-1", 2, 0, 2)
    told.tell("sent", "wire", transactional_id="c-job-0-2", topic=SINK, record="a-1")
    told.tell("end_txn", "wire", transactional_id="c-job-0-2", commit=True, reached=True)
    told.given("job-1-1", "a-3", (2, 2), ["a-1", "a-3"], ["a-3"])
    told.given("job-1-1", "b-4", (2, 3), ["b-2", "b-4"], ["b-4"])
    told.tell("sent", "wire", transactional_id="c-job-0-3", topic=SINK, record="a-3")
    told.died()
    told.tell("init_producer", "wire", transactional_id="c-job-0-3", timeout_ms=1, reached=True)
    told.resumed("job-1-2", 2, p0=2)
    told.given("job-1-2", "a-3", (2, 2), ["a-1", "a-3"], ["a-3"])
    told.given("job-1-2", "b-4", (2, 3), ["b-2", "b-4"], ["b-4"])
    told.given("job-1-2", "a-5", (2, 4), ["a-1", "a-3", "a-5"], ["a-3", "a-5"])
    told.snapshot("job-1-2", 3, 2, 5)
    told.source("a-1", "b-2", "a-3", "b-4", "a-5")
    return told


def standing(*, given: tuple[str, ...] = ()) -> HistoryBuilder:
    """Tell of a job with two inputs that died while one stood at c-3; ``given``: what it was given
    of d-4 and f-6 meanwhile.

    The first input has a-1, c-3, e-5, the second one b-2, d-4, f-6.
    """
    told = HistoryBuilder()
    told.resumed("job-1-1", 1, p0=0)
    told.snapshot("job-1-1", 2, 0, 1)
    told.given("job-1-1", "b-2", (2, 0), ["b-2"], ["b-2"])
    told.tell("failpoint", "source", name="before-reading", record="c-3", partition=0)
    for record in ("d-4", "f-6"):
        told.tell("fetched", "wire", record=record, reached=True)
    for record in given:
        told.given("job-1-1", record, (3, 1), [record], [record])
    told.checkpoint(3, "IN_PROGRESS", 1)
    told.died()
    for record in ("d-4", "f-6"):
        told.given("job-1-2", record, (2, 1), [record], [record])
    told.source("a-1", "b-2", "c-3", "d-4", "e-5", "f-6", partitions=2)
    return told
