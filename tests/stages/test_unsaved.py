"""A position whose commit fails is saved later: also one behind the last record of a partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.model.history import read_history
from harness.model.writing import LedgerWriter
from harness.stages.clients.interface import ClientError, Delivered, Meaning
from harness.stages.consuming import Unsaved, save, save_until_confirmed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


@dataclass
class Client:
    """A consumer whose commits fail as often as ``fails`` has something."""

    fails: list[Meaning] = field(default_factory=list)
    mine: frozenset[int] = frozenset({0, 1})
    goes_on: dict[int, int] = field(default_factory=dict)
    committed: list[dict[int, int]] = field(default_factory=list)

    def commit(self, _topic: str, positions: Mapping[int, int], _within_s: float) -> None:
        """Commit, or fail."""
        if self.fails:
            raise ClientError("KafkaTimeoutError", "no answer", self.fails.pop())
        self.committed.append(dict(positions))

    def assignment(self) -> frozenset[int]:
        """Return what is its own."""
        return self.mine

    def position(self, _topic: str, partition: int) -> int | None:
        """Return where it goes on."""
        return self.goes_on.get(partition)


class Stage:
    """The little that is asked of a stage."""

    topic_in = "in"


def unsaved(folder: Path, client: Client) -> Unsaved:
    """Return what is tested, with a ledger."""
    ledger = LedgerWriter(folder / "consumer.jsonl", cell="c", by="consumer")
    stage: Any = Stage()
    return Unsaved(stage, ledger, client)  # type: ignore[arg-type]  # it has what is needed


def at(partition: int, offset: int) -> Delivered:
    """Return a record at a place."""
    return Delivered("in", partition, 0, offset, None, b"")


def test_what_was_not_saved_is_saved_with_the_next_batch_or_poll(tmp_path: Path) -> None:
    """Once; and nothing is asked for where nothing is left."""
    client = Client([Meaning.UNKNOWN])
    one = unsaved(tmp_path, client)
    one.save([at(0, 4)])
    assert client.committed == []
    one.again()
    one.again()
    assert client.committed == [{0: 5}]
    client.fails.append(Meaning.UNKNOWN)
    one.save([at(1, 7)])
    one.save([at(0, 5)])
    assert client.committed == [{0: 5}, {1: 8, 0: 6}]
    told = [(e.partition, e.error is None) for e in read_history(tmp_path).of(kinds.Saved)]
    assert told == [(0, False), (0, True), (1, False), (1, True), (0, True)]


def test_a_position_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    """Who was put out, or got the partition anew, reads again from where it was saved last."""
    client = Client([Meaning.PUT_OUT])
    one = unsaved(tmp_path, client)
    one.save([at(0, 4)])
    one.again()
    assert client.committed == []
    client.fails.append(Meaning.UNKNOWN)
    one.save([at(0, 4)])
    one.given_anew([0])
    one.again()
    assert client.committed == []
    client.fails.append(Meaning.UNKNOWN)
    one.save([at(0, 4), at(1, 1)])
    client.mine = frozenset({1})
    one.again()
    assert client.committed == [{1: 2}]


@pytest.mark.parametrize("place", [5, 6], ids=["behind it", "behind the mark of its transaction"])
def test_who_goes_on_behind_it_all_the_same_saves_it(place: int, tmp_path: Path) -> None:
    """A client that keeps its place through a rebalance never reads the record again. That place is
    saved, and so no other one is touched. A mark has an offset, and is no record.
    """
    client = Client([Meaning.PUT_OUT], goes_on={0: place})
    one = unsaved(tmp_path, client)
    one.save([at(0, 4)])
    one.given_anew([0, 1])
    one.again()
    one.again()
    assert client.committed == [{0: place}]
    client.fails.append(Meaning.PUT_OUT)
    one.save([at(0, place), at(1, 1)])
    one.again()
    assert client.committed == [{0: place}]
    client.fails.append(Meaning.UNKNOWN)
    one.save([at(1, 2)])
    one.save([])
    assert client.committed == [{0: place}, {1: 3}]


@pytest.mark.parametrize(
    ("save", "what"), [(save, {0: 5}), (save_until_confirmed, [at(0, 4)])], ids=["once", "until"]
)
def test_who_is_fenced_ends(save: Callable[..., object], what: object, tmp_path: Path) -> None:
    """Another process has taken its place, and no client goes on: it is told, instead of being
    tried for ever.
    """
    client = Client([Meaning.FENCED])
    ledger = LedgerWriter(tmp_path / "consumer.jsonl", cell="c", by="consumer")
    with pytest.raises(ClientError, match="no answer"):
        save(Stage(), ledger, client, what)
    assert client.committed == []
    assert [e.error for e in read_history(tmp_path).of(kinds.Saved)] == [
        "KafkaTimeoutError: no answer"
    ]
