"""A loss of power in a cell: the broker's files become what it told the kernel to flush."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from harness.abilities import TracedWrites
from harness.model import events as kinds
from harness.model.failures import CellFailure
from harness.runtimes.power.replay import NotSeenError
from harness.runtimes.power.tracer import STRACE, PowerTrace, why_no_power_loss
from harness.runtimes.power.tree import Names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.run.scene import CellScene
    from harness.runtimes.interface import Node


@runtime_checkable
class Powered(Protocol):
    """A broker whose power can be lost, if its calls are traced."""

    @property
    def power(self) -> PowerTrace | None:
        """The trace of its present life; ``None``: it is not traced."""

    def process(self) -> Node:
        """Return its process, dead or alive."""


@dataclass
class Power(TracedWrites):
    """Loses the power of a cell's brokers."""

    scene: CellScene
    brokers: Callable[[], Sequence[Powered]]

    def check(self) -> None:
        """Make sure that each broker is traced.

        Raises:
            CellFailure: one is not. The message says why.
        """
        for broker in self.brokers():
            if broker.power is None:
                name = broker.process().name
                raise CellFailure(
                    f"not applicable: {why_no_power_loss() or f'{name} was not started traced'}"
                )

    def lose(self) -> None:
        """Make the files of each dead broker what it told the kernel to flush.

        Raises:
            CellFailure: what was flushed cannot be told from what the tracer saw.
        """
        self.check()
        for broker in self.brokers():
            if broker.process().exit is not None and broker.power is not None:
                self._lose(broker.process(), broker.power)

    def _lose(self, node: Node, power: PowerTrace) -> None:
        end = node.exit
        if end is None or not any(one.command.startswith(STRACE) for one in end.members):
            raise CellFailure(f"the tracer of {node.name} did not live until the broker was killed")
        try:
            cut = power.cut(cwd=node.spec.cwd)
        except NotSeenError as error:
            raise CellFailure(f"not applicable: of {node.name}, {error}") from error
        kept = [content for content in cut.kept.values() if content]
        key = self.scene.cell.key
        self.scene.history.write(
            kinds.Power(
                node=node.name,
                names=Names.EXT4,
                calls=cut.calls,
                flushes=cut.flushes,
                files=tuple((each.path, each.before, each.after) for each in cut.files),
                records=tuple(
                    record.id
                    for record in self.scene.load.records
                    if any(record.encode(key) in content for content in kept)
                ),
                posix=cut.posix,
            )
        )
