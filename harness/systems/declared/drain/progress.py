"""Tell how far the load of a cell has come. Waits go on while it comes further, however slowly, and
end when it does not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from harness.model.waiting import WaitTimeoutError
from harness.systems.declared.outputs import OutputError

if TYPE_CHECKING:
    from harness.systems.declared.results.matcher import RecordMatcher
    from harness.systems.declared.scene import Scene

LOOK_S: Final = 1.0
"""How long (seconds), at least, the output is not read again."""
SHARE: Final = 10
"""A read of the output is followed by a pause of SHARE times its duration, so that reading slows
the pipeline down little.
"""


class Progress:
    """Counts what the records of a cell have done for the first time: sent, stored, given,
    acknowledged, recorded.

    The count is bounded by the load. A program that does the same again and again adds nothing to
    it. It reads the pipeline's output, which may lock a user's database: ask for it only while the
    pipeline drains. ``unanswered``: the exceptions that mean that the broker does not answer.
    """

    def __init__(
        self, scene: Scene, matcher: RecordMatcher, unanswered: tuple[type[Exception], ...] = ()
    ) -> None:
        self._scene = scene
        self._matcher = matcher
        self._unread: tuple[type[Exception], ...] = (OutputError, WaitTimeoutError, *unanswered)
        self._size: object = None
        self._recorded: set[str] = set()
        self._next = 0.0

    def count(self) -> int:
        """Return the count. It never falls."""
        self._look()
        return self._scene.records_seen.firsts() + len(self._recorded)

    def told(self) -> str:
        """Say how many records were seen in the output when it was last read; nothing if it has not
        been read yet.
        """
        if self._size is None:
            return ""
        return f"{len(self._recorded)} of {len(self._scene.known)} records are in the output"

    def _look(self) -> None:
        began = time.monotonic()
        if began < self._next:
            return
        try:
            size = self._matcher.size()
            if size != self._size:
                self._recorded |= {
                    record for record in self._matcher.ids() if record in self._scene.known
                }
                self._size = size
        except self._unread:  # it is not there yet, or is being written; a broker may be down
            pass
        ended = time.monotonic()
        self._next = ended + max(LOOK_S, SHARE * (ended - began))
