"""Log the durable writes of the reading stages in a run without a fault: at these writes a later
run can crash them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.runtimes.process.durable import TracingError
from harness.systems.declared.programs.tracing import StageWrites

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from harness.model.cell import Load
    from harness.model.history import Event, HistoryWriter
    from harness.systems.declared.programs.nodes import CommandNode


class WriteTracer:
    """Logs the durable writes of stages from now on; for a stage that cannot be traced, it keeps
    the reason.
    """

    def __init__(self, nodes: Iterable[CommandNode], directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self._why_not = {node.name: _why_not(node, self._log(node)) for node in nodes}
        self._nodes = tuple(nodes)

    def _log(self, node: CommandNode) -> Path:
        return self._directory / f"{node.name}.txt"

    def traced(self, node: CommandNode) -> Path | None:
        """Return where the calls of a stage are logged; ``None``: they are not."""
        return None if self._why_not.get(node.name, "") is not None else self._log(node)

    def tell(self, history: HistoryWriter, seen: Sequence[Event], load: Load) -> None:
        """Write down what each stage has written since it was given the target; or, if it gets only
        some of the records, the first one behind the target.
        """
        behind = [record.id for record in load.records[load.target.position - 1 :]]
        for node in self._nodes:
            because, given = self._why_not[node.name], given_at(seen, node.name)
            came = [record for record in behind if record in given]
            if because is None and not came:
                because = (
                    f"the wire did not see that the {node.name} was given {load.target.id}, or a "
                    "record behind it; writes count from then on"
                )
            found = (
                node.tracer.written(given[came[0]], len(came)) if because is None else StageWrites()
            )
            history.write(
                kinds.Writes(
                    role=node.name,
                    made=found.made,
                    records=len(came),
                    because=because,
                    files=found.files,
                    unrepeated=found.unrepeated,
                )
            )


def _why_not(node: CommandNode, log: Path) -> str | None:
    try:
        node.tracer.start(log)
    except TracingError as error:
        return str(error)
    return None


def given_at(seen: Sequence[Event], role: str) -> dict[str, int]:
    """Return when each record first reached a stage (wall ns), as the wire saw it."""
    conns = {e.conn for e in seen if isinstance(e, kinds.Conn) and e.role == role}
    found: dict[str, int] = {}
    for event in seen:
        if isinstance(event, kinds.Fetched) and event.reached and event.conn in conns:
            found.setdefault(str(event.record), event.w)
    return found
