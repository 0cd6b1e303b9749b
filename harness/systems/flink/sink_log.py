"""Watch the topic that a job writes: what is stored, and what read-committed readers see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.events import FaultPhase
from harness.model.waiting import wait_until
from harness.systems.flink.abilities import Written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.systems.kafka.log_copies import LogEnds
    from harness.systems.kafka.scene import Scene

WRITTEN_S: Final = 30.0
ENDED_S: Final = 60.0
POLL_S: Final = 0.05


class SinkLog(Written):
    """Watches the sink topic of a cell. ``writer``: returns the writer's name of the job's present
    attempt.
    """

    def __init__(self, scene: Scene, writer: Callable[[], str]) -> None:
        self._scene = scene
        self._writer = writer
        self._told: dict[int, int] = {}

    def await_written(self, position: int) -> None:
        """Wait until the wire has seen the broker acknowledge all records up to a position."""
        wanted = {record.id for record in self._scene.load.records if record.position <= position}

        def written() -> bool:
            so_far = self._scene.so_far
            asked = {
                (e.record, e.request) for e in so_far.of(kinds.Sent) if e.topic == self._scene.sink
            }
            answers = {(e.record, e.request) for e in so_far.of(kinds.ProduceAnswer) if not e.error}
            return wanted <= {record for record, _ in asked & answers}

        wait_until(
            written,
            within_s=WRITTEN_S,
            because=f"records before position {position + 1} to be in the sink's log",
        )

    def await_aborted(self) -> None:
        """Wait until the coordinator has aborted the first transaction with the target, and write
        down what readers see.
        """
        self._await_end(self._of_target()[0], "CompleteAbort")
        self._tell_unseen()

    def await_committed(self) -> None:
        """Wait until no partition has an open transaction."""
        wait_until(
            lambda: not self._unseen(),
            within_s=ENDED_S,
            because="the sink's log to be committed",
            poll_s=POLL_S,
        )

    def tell_readers(self) -> None:
        """Wait until this attempt's transaction with the target is committed, then write down what
        readers cannot see.
        """
        self._await_end(self._of_target(f"{self._writer()}.")[-1], "CompleteCommit")
        self._told = {partition: ends.end for partition, ends in self._ends().items()}
        self._tell_unseen()

    def await_readers(self) -> None:
        """Wait until readers see all that was there at :meth:`tell_readers`, and write
        that down.
        """
        wait_until(
            lambda: not self._unseen_of(self._told),
            within_s=ENDED_S,
            poll_s=POLL_S,
            because="readers to see what the job has committed",
        )
        self._tell(self._unseen_of(self._told))

    def _of_target(self, begins: str = "job-") -> list[str]:
        """Return the transactional ids under which the target was written. ``begins``: the prefix
        of the attempts' names.
        """
        target = [
            e for e in self._scene.so_far.of(kinds.Sent) if e.record == self._scene.load.target.id
        ]
        found = [str(e.transactional_id) for e in target if (e.attempt or "").startswith(begins)]
        if not found:
            raise RuntimeError(f"no attempt {begins}... wrote the target in a transaction")
        return found

    def _await_end(self, name: str, state: str) -> None:
        wait_until(
            lambda: self._scene.observer.transaction(name) == state,
            within_s=ENDED_S,
            poll_s=POLL_S,
            because=f"the transaction {name} to be {state}",
        )

    def _tell_unseen(self) -> None:
        self._tell(self._unseen())

    def _tell(self, unseen: int) -> None:
        self._scene.history.write(
            kinds.Fault(
                phase=FaultPhase.READERS,
                fault=self._scene.cell.scenario.fault.id,
                unseen=unseen,
            )
        )

    def _unseen(self) -> int:
        """Return how many offsets readers cannot see because of an open transaction."""
        return sum(ends.end - ends.stable for ends in self._ends().values())

    def _unseen_of(self, told: Mapping[int, int]) -> int:
        """Return how many offsets below ``told`` (partition → end) readers cannot see because of an
        open transaction.
        """
        now = self._ends()
        return sum(max(0, end - now[partition].stable) for partition, end in told.items())

    def _ends(self) -> Mapping[int, LogEnds]:
        return self._scene.observer.ends(self._scene.sink)
