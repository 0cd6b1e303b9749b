"""Published bugs of nats-server: a version or a setting that has one must be convicted, and one
that has it not must be acquitted, by the same cells.
"""

from __future__ import annotations

from typing import Final

from harness.judge.verdict import Kind
from harness.scenarios.regressions import PublishedBug, Trial

ISSUES: Final = "https://github.com/nats-io/nats-server/issues/"
CLIENT: Final = "nats-py"
FIRST: Final = "stream/broker-crash-before-append+first-sequence/at-least-once"
FORGETS: Final = "work-queue/broker-crash-before-ack+acknowledged/exactly-once"
REMEMBERS: Final = "stream/broker-crash-before-ack+acknowledged/exactly-once"
UNFLUSHED: Final = "stream/power-loss+default/at-least-once"
FLUSHED: Final = "stream/power-loss/at-least-once"
THREE_UNFLUSHED: Final = "replicated/power-loss-on-all+default/at-least-once"
THREE_FLUSHED: Final = "replicated/power-loss-on-all/at-least-once"
FLIPPED: Final = "stream/bit-flipped/at-least-once"
WHOLE: Final = "stream/restarted/at-least-once"
OLD, NEWER, NEW = (f"nats=={version}" for version in ("2.10.25", "2.11.11", "2.15.1"))

CORPUS: Final = (
    PublishedBug(
        "nats-server #6753",
        "a stream that begins at a later sequence is empty when its server is back",
        f"{ISSUES.replace('issues', 'pull')}6753",
        convicts=(Trial(FIRST, CLIENT, Kind.BROKEN, system=OLD),),
        acquits=tuple(Trial(FIRST, CLIENT, Kind.KEPT, system=each) for each in (NEWER, NEW)),
    ),
    PublishedBug(
        "nats-server #3272",
        "a work queue forgets the Nats-Msg-Id of what is acknowledged when its server dies",
        f"{ISSUES}3272",
        convicts=tuple(Trial(FORGETS, CLIENT, Kind.BROKEN, system=each) for each in (OLD, NEW)),
        acquits=tuple(Trial(REMEMBERS, CLIENT, Kind.KEPT, system=each) for each in (OLD, NEW)),
    ),
    PublishedBug(
        "nats-server #7564",
        "by default what is answered is written to disk up to two minutes later",
        f"{ISSUES}7564",
        convicts=(
            *(Trial(UNFLUSHED, CLIENT, Kind.BROKEN, system=each) for each in (OLD, NEW)),
            Trial(THREE_UNFLUSHED, CLIENT, Kind.BROKEN, system=NEW),
        ),
        acquits=(
            *(Trial(FLUSHED, CLIENT, Kind.KEPT, system=each) for each in (OLD, NEW)),
            Trial(THREE_FLUSHED, CLIENT, Kind.KEPT, system=NEW),
        ),
    ),
    PublishedBug(
        "nats-server #7549",
        "one bit of a block is another one: all behind it is dropped, without a line in the log",
        f"{ISSUES}7549",
        convicts=tuple(Trial(FLIPPED, CLIENT, Kind.BROKEN, system=each) for each in (OLD, NEW)),
        acquits=tuple(Trial(WHOLE, CLIENT, Kind.KEPT, system=each) for each in (OLD, NEW)),
    ),
)
