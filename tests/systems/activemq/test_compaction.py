"""A journal that is compacted, and an index that is made anew: what the fault does, what it asks
for, and what proves it.
"""

from __future__ import annotations

from base64 import b64encode
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.model import events as kinds
from harness.model.record import Record
from harness.model.scenario import Role
from harness.protocols.acts import Act
from harness.systems.activemq.compaction import Compacting
from harness.systems.activemq.faults import IndexRebuilt
from harness.systems.activemq.proofs import CarriedOn
from harness.systems.activemq.signs import REMEMBERED, activemq_signs
from harness.wire.rules import Action, Direction
from tests.events import a_history
from tests.judge.recording import played
from tests.systems.activemq.test_journal import add, end, remove

if TYPE_CHECKING:
    from pathlib import Path

    from tests.judge.histories import Row

COMMIT = OnWire(Role.CONSUMER, Act.COMMIT, Direction.REQUEST)
QUEUE = "k.in"


def test_the_commit_is_written_in_a_file_that_is_compacted_before_the_broker_dies() -> None:
    """Else it stands beside its message, in a file that stays; and the index goes while nobody has
    it open.
    """
    controls = played(IndexRebuilt(COMMIT))
    assert [rule.action for _, rule in controls.armed] == [Action.HOLD]  # type: ignore[union-attr]  # on the wire
    assert controls.done[1:] == [
        "armed",
        "fired",
        "Compaction.begin_file",
        f"resolve {COMMIT.api.label} release",
        "await_exhausted",
        "settle",
        "Compaction.compact",
        "carried-on",
        "kill",
        "applied",
        "Compaction.lose_index",
        "unindexed",
        "restart",
        "healed",
    ]


def test_only_what_is_on_its_way_to_the_broker_can_be_kept_from_its_file() -> None:
    """An answer cannot."""
    with pytest.raises(ValueError, match="at must be a request"):
        IndexRebuilt(OnWire(Role.CONSUMER, Act.COMMITTED, Direction.RESPONSE))


class Broker:
    """A broker with a journal of files, which compacts the second one at the third clean-up."""

    def __init__(self, data: Path, entries: list[dict[str, Any]]) -> None:
        self.data = data
        self.entries = entries
        self.asked: list[str] = []
        self._files = [1]

    def ask(self, *words: str) -> list[dict[str, Any]]:
        """Answer as ``ClassicBroker`` does."""
        self.asked.append(" ".join(words))
        match words[0]:
            case "rotate":
                self._files.append(self._files[-1] + 1)
                return [{"file": self._files[-2]}]
            case "clean":
                if self.asked.count("clean") == 3:
                    self._files.remove(2)
                return [{"file": each} for each in self._files]
            case "journal":
                return self.entries
            case _:
                return []


def test_what_was_committed_in_the_file_that_is_gone_is_told(tmp_path: Path) -> None:
    """The clean-up is asked for until the file is gone; then the journal is read, with what was
    archived.
    """
    body = b64encode(Record("k0-1", "k0", 1).encode("c0ffee")).decode()
    entries = [
        add("1:1", "a") | {"body": body},
        remove("a", tx="t") | {"at": "1:2"},
        end("commit") | {"at": "2:1"},
    ]
    broker: Any = Broker(tmp_path, entries)
    journal = Compacting(broker, QUEUE)
    journal.begin_file()
    assert broker.asked == ["keep", "rotate"]
    assert journal.compact() == ("k0-1",)
    assert broker.asked[2:] == [
        "rotate",
        "keep",
        "clean",
        "clean",
        "clean",
        "clean",
        f"journal {QUEUE}",
    ]


def test_an_index_is_lost_with_what_belongs_to_it_and_the_journal_stays(tmp_path: Path) -> None:
    """One that is not there cannot be lost."""
    for name in ("db.data", "db.redo", "db-1.log", "lock"):
        (tmp_path / name).touch()
    broker: Any = Broker(tmp_path, [])
    Compacting(broker, QUEUE).lose_index()
    assert {each.name for each in tmp_path.iterdir()} == {"db-1.log", "lock"}
    with pytest.raises(FileNotFoundError):
        Compacting(broker, QUEUE).lose_index()


def said(phase: str, **more: Any) -> Row:
    """What a fault said."""
    return {"event": kinds.FAULT, "phase": phase, **more}


CARRIED = said("carried-on", records=["k-1", "k-2"])


@pytest.mark.parametrize(
    ("events", "trouble"),
    [
        ([CARRIED, said("applied"), said("unindexed")], None),
        (
            [said("carried-on", records=["k-2"]), said("unindexed")],
            "the acknowledgement of k-1 was not in the file that the broker has compacted",
        ),
        (
            [said("unindexed")],
            "the acknowledgement of k-1 was not in the file that the broker has compacted",
        ),
        ([CARRIED, said("applied")], "the index was not deleted after the compaction"),
        ([said("unindexed"), CARRIED], "the index was not deleted after the compaction"),
    ],
)
def test_the_fault_is_proved_by_what_was_carried_on_and_removed(
    events: list[Row], trouble: str | None
) -> None:
    course: Any = SimpleNamespace(
        history=a_history(tuple(events)), plan=SimpleNamespace(target="k-1")
    )
    assert CarriedOn().trouble(course) == trouble


def test_what_is_given_again_was_not_remembered() -> None:
    """Nor what was not carried on; what did not reach anybody was given to nobody."""
    given = [("k-1", True), ("k-1", False), ("k-2", True), ("k-2", True), ("k-3", True)]
    fetched = [
        {"event": kinds.FETCHED, "record": record, "reached": reached} for record, reached in given
    ]
    assert activemq_signs(a_history((*fetched, CARRIED))) == {REMEMBERED: {"k-1"}}
