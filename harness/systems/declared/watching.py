"""Log the durable writes of the reading stages in a run without a fault: at these writes a later
run can crash them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.runtimes.process.durable import TracingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from harness.model.cell import Load
    from harness.model.history import Event, HistoryWriter
    from harness.systems.declared.nodes import CommandNode


class Watch:
    """Logs the durable writes of stages from now on; for a stage that cannot be traced, it keeps
    the reason.
    """

    def __init__(self, nodes: Iterable[CommandNode], directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._why_not = {
            node.name: _why_not(node, directory / f"{node.name}.txt") for node in nodes
        }
        self._nodes = tuple(nodes)

    def tell(self, history: HistoryWriter, seen: Sequence[Event], load: Load) -> None:
        """Write down what each stage has written since it was given the target."""
        for node in self._nodes:
            because, since = self._why_not[node.name], given_at(seen, node.name, load.target.id)
            if because is None and since is None:
                because = (
                    f"the wire did not see that the {node.name} was given {load.target.id}; "
                    "writes count from then on"
                )
            made, files = node.written(since) if because is None and since is not None else ({}, ())
            left = len(load.records) - load.target.position + 1
            history.write(
                kinds.WRITES,
                role=node.name,
                made=made,
                records=left,
                because=because,
                files=[*files],
            )


def _why_not(node: CommandNode, log: Path) -> str | None:
    try:
        node.trace(log)
    except TracingError as error:
        return str(error)
    return None


def given_at(seen: Sequence[Event], role: str, record: str) -> int | None:
    """Return when a record first reached a stage (wall ns), as the wire saw it; ``None`` if it
    never did.
    """
    conns = {e.conn for e in seen if isinstance(e, kinds.Conn) and e.role == role}
    given = (
        e
        for e in seen
        if isinstance(e, kinds.Fetched) and e.record == record and e.reached and e.conn in conns
    )
    return next((e.w for e in given), None)
