"""Published bugs of Redis: a version that has one must be convicted, and one that has it not must
be acquitted, by the same cells.
"""

from __future__ import annotations

from typing import Final

from harness.judge.verdict import Kind
from harness.scenarios.regressions import PublishedBug, Trial

TRIMMED: Final = "streams/commit-lost+trimmed/at-most-once"

CORPUS: Final = (
    PublishedBug(
        "redis #10227",
        "XAUTOCLAIM gives out nil for an entry that was deleted, and keeps it pending for ever",
        "https://github.com/redis/redis/pull/10227",
        convicts=(Trial(TRIMMED, "redis", Kind.STUCK, system="redis==6.2.14"),),
        acquits=tuple(
            Trial(TRIMMED, "redis", Kind.KEPT, system=f"redis=={version}")
            for version in ("8.1.8", "9.1.2")
        ),
    ),
)
