"""What Redis declares of itself."""

from __future__ import annotations

from harness.abilities import BrokerSettings, FilesAtRest, Retention, TracedWrites
from harness.interfaces import PointsLine, System
from harness.provision.known import known_by

SYSTEM = System(
    name="redis",
    launcher="lostack_redis.system:RedisSystem",
    clients=("redis",),
    extra="redis",
    abilities=lambda _: frozenset({BrokerSettings, FilesAtRest, Retention, TracedWrites}),
    versions=known_by("lostack_redis.install:versions"),
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
