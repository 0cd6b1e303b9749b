"""The names of a pipeline's steps on NATS, for declared pipelines."""

from __future__ import annotations

from typing import Final

from harness.pipelines.dialects import of_queues
from lostack_nats.steps import ACTS, Op

NATS: Final = of_queues(
    "NATS",
    ACTS,
    Op.PULL,
    own=("listen*", "host", "port", "jetstream*", "store_dir", "server_name", "cluster*", "http*"),
)
