"""What the reading stages write durably in a run without a fault: from that follows at which writes they can be crashed."""

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
    """Stages whose durable writes are written down from now on; of those that cannot be traced, why not."""

    def __init__(self, nodes: Iterable[CommandNode], directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._why_not = {node.name: _why_not(node, directory / f"{node.name}.txt") for node in nodes}
        self._nodes = tuple(nodes)

    def tell(self, history: HistoryWriter, seen: Sequence[Event], load: Load) -> None:
        """Write down what each has written since it was given the target."""
        for node in self._nodes:
            because, since = self._why_not[node.name], given_at(seen, node.name, load.target.id)
            if because is None and since is None:
                because = f"the wire did not see the {node.name} being given {load.target.id}, behind which writes are counted"
            made, files = node.written(since) if because is None and since is not None else ({}, ())
            left = len(load.records) - load.target.position + 1
            history.write(kinds.WRITES, role=node.name, made=made, records=left, because=because, files=[*files])


def _why_not(node: CommandNode, log: Path) -> str | None:
    try:
        node.trace(log)
    except TracingError as error:
        return str(error)
    return None


def given_at(seen: Sequence[Event], role: str, record: str) -> int | None:
    """Return when a record had reached a stage for the first time (wall), as the wire saw it; None where it had not."""
    conns = {e["conn"] for e in seen if e["event"] == kinds.CONN and e["role"] == role}
    given = (e for e in seen if e["event"] == kinds.FETCHED and e["record"] == record and e["reached"] and e["conn"] in conns)
    return next((int(e["w"]) for e in given), None)
