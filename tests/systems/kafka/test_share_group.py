"""What is told of a share group's queue: by the share coordinator's log, and by the broker's own
count.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.model.cell import Cell
from harness.model.record import Record
from harness.model.semantics import Semantic
from harness.protocols.kafka import messages
from harness.protocols.kafka.sharing import ACKNOWLEDGED, ARCHIVED, AVAILABLE
from harness.scenarios.share_groups import LIMIT_REACHED, NONE
from harness.systems.kafka.log_copies import LogCopy, LogEnds, WholeLog
from harness.systems.kafka.share_group import OffsetState, ShareGroup, fates
from tests.judge.scenes import Kept, scene_of

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.scenario import Scenario

TOPIC_ID = uuid.UUID(int=7)
Said = tuple[int, int, int, int]
"""First offset, last offset, state, deliveries."""


def entry(kind: int, group: str, *said: Said, partition: int = 0) -> LogCopy:
    """Return a record of the share coordinator's log. ``kind``: 0 of a snapshot, 1 of an update."""
    of: Any = (messages.ShareSnapshotValue, messages.ShareUpdateValue)[kind]
    batches = [
        of.StateBatch(
            first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
        )
        for first, last, state, count in said
    ]
    more = {"state_epoch": 0, "create_timestamp": 0, "write_timestamp": 0} if kind == 0 else {}
    value = of(
        version=0, snapshot_epoch=0, leader_epoch=0, start_offset=0, state_batches=batches, **more
    ).encode()
    key = messages.ShareUpdateKey(
        version=0, group_id=group, topic_id=TOPIC_ID, partition=partition
    ).encode(header=False)
    return LogCopy(0, 0, 0, kind.to_bytes(2, "big") + key, bytes(value), None, None, True)


def test_what_was_written_down_last_of_an_offset_counts() -> None:
    """An update or a snapshot; of this group, and of each partition for itself."""
    journal = [
        entry(1, "g", (0, 1, AVAILABLE, 1)),
        entry(1, "g", (1, 1, ACKNOWLEDGED, 2)),
        entry(0, "g", (2, 2, ARCHIVED, 5)),
        entry(1, "other", (0, 9, ARCHIVED, 1)),
        entry(1, "g", (0, 0, ACKNOWLEDGED, 1), partition=1),
    ]
    assert fates(journal, "g") == {
        (0, 0): OffsetState(AVAILABLE, 1),
        (0, 1): OffsetState(ACKNOWLEDGED, 2),
        (0, 2): OffsetState(ARCHIVED, 5),
        (1, 0): OffsetState(ACKNOWLEDGED, 1),
    }


def copies(key: str, visible: str) -> tuple[LogCopy, ...]:
    """Return a log: ``v`` a record that is seen, ``a`` one that was aborted, ``-`` a marker."""
    return tuple(
        LogCopy(
            0,
            0,
            at,
            b"k",
            Record(f"k0-{at + 1}", "k0", at + 1, "").encode(key),
            None,
            None,
            what == "v",
        )
        for at, what in enumerate(visible)
        if what != "-"
    )


def told(
    folder: Path,
    *journal: Said,
    left: int,
    log: str = "vvvv",
    scenario: Scenario = NONE,
    stable: int | None = None,
) -> Kept:
    """Return what is written of a queue with such a log."""
    cell = Cell(scenario, Semantic.AT_LEAST_ONCE, "kafka", "java", "process", 1, 24)
    kept = Kept()
    group, end = f"{cell.key}.group", len(log)
    whole = WholeLog({0: LogEnds(0, end if stable is None else stable, end)}, copies(cell.key, log))
    scene = scene_of(
        folder,
        cell=cell,
        history=kept,
        left_to=lambda *_: {0: left},
        log=lambda _: whole,
        copies=lambda _: [entry(1, group, *journal)],
    )
    ShareGroup(scene).observe(lambda: None)
    return kept


def test_each_copy_is_ready_or_gone_and_says_why(tmp_path: Path) -> None:
    """Acknowledged, rejected, delivered too often; or neither, and then it is ready."""
    kept = told(
        tmp_path,
        (0, 0, ACKNOWLEDGED, 1),
        (1, 1, ARCHIVED, 1),
        (2, 2, ARCHIVED, 2),
        (3, 3, AVAILABLE, 1),
        left=1,
        scenario=LIMIT_REACHED,
    )
    assert kept.of("stored", "place", "record", "waiting") == [
        ("0:0:0", "k0-1", None),
        ("0:0:1", "k0-2", None),
        ("0:0:2", "k0-3", None),
        ("0:0:3", "k0-4", "ready"),
    ]
    assert kept.of(kinds.REMOVED, "place", "record", "why") == [
        ("0:0:0", "k0-1", "ack"),
        ("0:0:1", "k0-2", "reject"),
        ("0:0:2", "k0-3", "limit"),
    ]
    assert kept.of("counted", "queue", "ready") == [(kept.lines[0]["queue"], 1)]


@pytest.mark.parametrize(("left", "ready"), [(2, 2), (1, 1), (3, 3), (0, 0)])
def test_the_broker_s_own_count_is_told_whatever_the_log_says(
    tmp_path: Path, left: int, ready: int
) -> None:
    """Two are ready by its log: where it counts others the judge sees both."""
    kept = told(tmp_path, (0, 1, ACKNOWLEDGED, 1), left=left)
    assert kept.of("counted", "ready") == [(ready,)]
    assert [waiting for (waiting,) in kept.of("stored", "waiting")].count("ready") == 2


def test_markers_and_what_was_aborted_are_no_messages(tmp_path: Path) -> None:
    """The broker counts offsets; nobody is given those, and they wait for nothing."""
    kept = told(tmp_path, (0, 1, ACKNOWLEDGED, 1), left=4, log="v-a-vv")
    assert kept.of("stored", "record", "visible", "waiting") == [
        ("k0-1", True, None),
        ("k0-3", False, None),
        ("k0-5", True, "ready"),
        ("k0-6", True, "ready"),
    ]
    assert kept.of("counted", "ready") == [(2,)]


def test_a_copy_in_a_transaction_that_is_open_waits_for_its_end(tmp_path: Path) -> None:
    kept = told(tmp_path, (0, 0, ACKNOWLEDGED, 1), left=1, log="va", stable=1)
    assert kept.of("stored", "record", "waiting") == [("k0-1", None), ("k0-2", "open")]


@pytest.mark.parametrize(
    ("left", "journal", "trouble"),
    [
        ({0: 0}, [], None),
        ({0: 2}, [(0, 0, ACKNOWLEDGED, 1)], "2 records are left to the group, the first at 2"),
        ({0: 1}, [(0, 0, ACKNOWLEDGED, 1), (2, 3, ACKNOWLEDGED, 1)], None),
        ({}, [], "partition 0: the broker does not know how many records the group has left"),
    ],
)
def test_a_queue_is_empty_where_no_record_is_left_to_its_group(
    tmp_path: Path, left: dict[int, int], journal: list[Said], trouble: str | None
) -> None:
    """A partition that the group has not begun is not done; a marker that nobody has acknowledged
    is nothing to wait for.
    """
    cell = Cell(NONE, Semantic.AT_LEAST_ONCE, "kafka", "java", "process", 1, 24)
    ends = {0: LogEnds(0, 4, 4), 1: LogEnds(0, 0, 0)}
    scene = scene_of(
        tmp_path,
        cell=cell,
        left_to=lambda *_: left,
        ends=lambda _: ends,
        log=lambda _: WholeLog(ends, copies(cell.key, "v-vv")),
        copies=lambda _: [entry(1, f"{cell.key}.group", *journal)],
    )
    assert ShareGroup(scene).trouble() == trouble
