"""Whether a stage of a declared pipeline is ready, and what may explain that it is not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.model.logs import last_lines
from harness.systems.declared.programs.errors import StageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.systems.declared.programs.hints import Hints
    from harness.systems.declared.programs.process import StageProcesses

MANY = 1000
"""How many lines of a log are searched for its last messages, which may be repeated many times."""


class Readiness:
    """Tells whether the present incarnation of a stage or service is ready."""

    def __init__(
        self,
        processes: StageProcesses,
        *,
        fetches: Callable[[int], bool],
        is_open: Callable[[], bool],
        hints: Hints | None,
    ) -> None:
        """``fetches``, ``is_open``: as :class:`.CommandNode` has them."""
        self._processes = processes
        self._stage = processes.command.stage
        self.fetches = fetches
        self._is_open = is_open
        self._hints = hints

    def is_ready(self, since: int) -> bool:
        """Say whether the incarnation that was started at a time (monotonic ns) is ready."""
        if self._stage.ready:
            tail = self._processes.alive().log_tail(MANY)
            return re.search(self._stage.ready, tail) is not None
        return self.fetches(since) if self._stage.reads else self._is_open()

    @property
    def wanted(self) -> str:
        """What was not seen, if it is not ready."""
        if self._stage.ready:
            return f"its output never showed {self._stage.ready!r}"
        if self._stage.reads:
            return "it never fetched from a topic of the run"
        return "nothing listens at its port"

    def is_unread(self) -> bool:
        """Say whether the stage speaks what the wire does not read."""
        return self._hints is not None and self._hints.unread()

    def error(self, what: str, *, ended: bool) -> StageError:
        """Return an error about the stage, with what the wire saw that may explain it and the last
        lines of its log.
        """
        tail = " | ".join(last_lines(self._processes.alive().log_tail(MANY)))
        said = f"; it last said: {tail}" if tail else "; it printed nothing"
        hint = self._hints.why_unready(ended=ended) if self._hints else ""
        name = self._processes.command.name
        return StageError(f"the {name} {what}{f' ({hint})' if hint else ''}{said}", name)
