"""Make one source of a job stand still at a record, in the thread that passes barriers on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.waiting import wait_until
from harness.systems.flink.abilities import StandingInput
from harness.systems.flink.settings import FlinkSettings

if TYPE_CHECKING:
    from pathlib import Path

    from harness.systems.kafka.scene import Scene

GIVEN_S: Final = 30.0


def failpoint_of(scene: Scene) -> Path:
    """Return the file that names the record at which a source stands still."""
    return scene.failpoints / "source"


class Inputs(StandingInput):
    """Controls the sources of a cell's job."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def arm(self, position: int) -> None:
        """Write the file that makes a source stand still at a record."""
        self._scene.failpoints.mkdir(exist_ok=True)
        failpoint_of(self._scene).write_text(
            next(each.id for each in self._scene.load.records if each.position == position)
        )

    def await_stand(self) -> str:
        """Wait for the source's history line that it stands still; return the record's id."""
        return str(self._stand().record)

    def await_beside(self, *, given: bool) -> None:
        """Wait until the wire has seen the other sources fetch their records; with ``given``, until
        the job's lines show them.
        """
        stands, inputs = self._stand(), FlinkSettings.of(self._scene.cell.settings).job.inputs
        lines = [e for e in self._scene.so_far.of(kinds.Sent) if e.topic == self._scene.source]
        stood = (stands.partition or 0) % inputs
        wanted = {e.record for e in lines if (e.partition or 0) % inputs != stood}

        def seen() -> bool:
            so_far = self._scene.so_far
            if given:
                return wanted <= {e.record for e in so_far.of(kinds.Delivered)}
            return wanted <= {e.record for e in so_far.of(kinds.Fetched) if e.reached}

        wait_until(seen, within_s=GIVEN_S, because="the other inputs to read all their records")

    def _stand(self) -> kinds.Failpoint:
        stands = self._scene.so_far.finder(kinds.Failpoint, lambda e: e.by == "source")
        return wait_until(stands, within_s=GIVEN_S, because="a source to stand still")[-1]
