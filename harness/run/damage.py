"""Damage to a file of a dead broker, at the bytes of a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from harness.abilities import FilesAtRest
from harness.model import events as kinds
from harness.model.failures import CellFailure
from harness.model.harms import Damage

if TYPE_CHECKING:
    from pathlib import Path

    from harness.run.scene import CellScene
    from harness.runtimes.interface import Node


@runtime_checkable
class BrokerFiles(Protocol):
    """A broker with its data in a folder."""

    @property
    def data(self) -> Path:
        """The folder, which outlives its process."""

    def process(self) -> Node:
        """Return its process, dead or alive."""


@dataclass
class Files(FilesAtRest):
    """The files of a cell's broker."""

    scene: CellScene
    broker: BrokerFiles

    def damage(self, damage: Damage, before: int) -> None:
        """Damage the one file that has a record: the ``before``-th before the target in the source.

        Raises:
            CellFailure: the broker lives, or the record is not in one place of one file.
        """
        node, key, load = self.broker.process(), self.scene.cell.key, self.scene.load
        if node.exit is None:
            raise CellFailure(f"{node.name} lives: its files are not at rest")
        position = load.target.position - before
        record = next((each for each in load.records if each.position == position), load.target)
        mark = record.encode(key)
        found = [
            (file, at)
            for file in sorted(self.broker.data.rglob("*"))
            if file.is_file()
            for at in _places(file.read_bytes(), mark)
        ]
        if len(found) != 1:
            raise CellFailure(
                f"not applicable: {record.id} is in {len(found)} places of {node.name}'s files"
            )
        [(file, at)] = found
        whole = file.read_bytes()
        if damage is Damage.TAIL:
            changed = whole[:at]
        else:
            last = at + len(mark) - 1
            changed = whole[:last] + bytes([whole[last] ^ 1]) + whole[last + 1 :]
        file.write_bytes(changed)
        left = file.read_bytes()
        self.scene.history.write(
            kinds.Damaged(
                node=node.name,
                damage=damage,
                path=str(file.relative_to(self.broker.data)),
                record=record.id,
                at=at,
                before=len(whole),
                after=len(left),
                bits=sum((a ^ b).bit_count() for a, b in zip(whole, left, strict=False)),
                behind=tuple(
                    each.id for each in load.records if whole.find(each.encode(key), at) >= 0
                ),
            )
        )


def _places(data: bytes, mark: bytes) -> list[int]:
    found, at = [], data.find(mark)
    while at >= 0:
        found.append(at)
        at = data.find(mark, at + 1)
    return found
