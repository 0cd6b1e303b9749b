"""What Redis declares of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.abilities import BrokerSettings, FilesAtRest, Retention, TracedWrites
from harness.interfaces import PointsLine, System

if TYPE_CHECKING:
    from collections.abc import Collection


def versions() -> Collection[str]:
    """Return the versions that can be chosen."""
    from lostack_redis import install  # noqa: PLC0415 - what fetches is imported when it is asked

    return install.versions()


SYSTEM = System(
    name="redis",
    launcher="lostack_redis.system:RedisSystem",
    clients=("redis",),
    extra="redis",
    abilities=lambda _: frozenset({BrokerSettings, FilesAtRest, Retention, TracedWrites}),
    versions=versions,
    scenarios="lostack_redis.scenarios:SCENARIOS",
    corpus="lostack_redis.published:CORPUS",
    knowledge="lostack_redis.knowledge:KNOWLEDGE",
    points=(
        PointsLine(
            "Valkey 9.1.2, streams",
            "streams",
            "redis",
            (
                "XADD once; `XREADGROUP … NOACK`; ¹ XACK before the work",
                "XADD, resend; XACK after the work, XAUTOCLAIM by the next program",
                "a script that adds a record's id once; the sink absorbs duplicates",
            ),
        ),
    ),
)
