"""The declaration of the system NATS."""

from __future__ import annotations

from typing import Final

from harness.abilities import BrokerSettings, FilesAtRest, TracedWrites
from harness.interfaces import PointsLine, System
from harness.model.takeovers import Takeover
from harness.provision.known import known_by

SEMANTICS: Final = (
    (
        "core publish, no acknowledgements (`AckNone`); ¹ JetStream publish, no resend, double ack "
        "before the work"
    ),
    "JetStream publish, resend; `ack` after the work; ¹ double ack",
    "the same with `Nats-Msg-Id` and a double ack; the sink absorbs what is delivered twice",
)
SYSTEM = System(
    name="nats",
    launcher="lostack_nats.system:NatsSystem",
    clients=("nats-py",),
    abilities=lambda _: frozenset({BrokerSettings, FilesAtRest, Takeover, TracedWrites}),
    versions=known_by("lostack_nats.install:versions"),
    scenarios="lostack_nats.scenarios_replicated:EVERY",
    corpus="lostack_nats.published:CORPUS",
    knowledge="lostack_nats.knowledge:KNOWLEDGE",
    points=(PointsLine("NATS JetStream 2.15.1", "stream", "nats-py", SEMANTICS),),
    extra="nats",
)
