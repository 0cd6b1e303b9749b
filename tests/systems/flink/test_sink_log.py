"""What the log of a sink says of its readers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from harness.model import events as kinds
from harness.systems.flink.sink_log import SinkLog
from harness.systems.kafka.log_copies import LogEnds
from tests.events import told as line_told

if TYPE_CHECKING:
    from harness.systems.kafka.scene import Scene

TARGET = kinds.Sent(
    t=1, record="k-1", request="1:1", attempt="job-2.1", transactional_id="other-0-1"
)


def test_readers_are_waited_for_to_the_end_of_what_was_there_first() -> None:
    """The job goes on writing: its next transaction is open, and nobody waits for that."""
    then = {0: LogEnds(0, 2, 9), 1: LogEnds(0, 4, 4)}
    held_up = {0: LogEnds(0, 2, 14), 1: LogEnds(0, 4, 4)}
    later = {0: LogEnds(0, 9, 14), 1: LogEnds(0, 4, 7)}
    ends = iter((then, then, held_up, later, later))
    told: list[dict[str, Any]] = []
    scene = SimpleNamespace(
        observer=SimpleNamespace(
            transaction=lambda name: {"other-0-1": "CompleteCommit"}[name],
            ends=lambda _: next(ends),
        ),
        so_far=SimpleNamespace(of=lambda *_: [TARGET]),
        sink="out",
        load=SimpleNamespace(target=SimpleNamespace(id="k-1")),
        history=SimpleNamespace(write=lambda event: told.append(line_told(event))),
        cell=SimpleNamespace(scenario=SimpleNamespace(fault=SimpleNamespace(id="fault"))),
    )
    log = SinkLog(cast("Scene", scene), lambda: "job-2")

    log.tell_readers()
    log.await_readers()

    assert [event["unseen"] for event in told] == [7, 0]
    assert not list(ends)
