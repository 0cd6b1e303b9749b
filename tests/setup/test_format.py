"""Formatting a broker's storage, by Kafka's own tool in a real JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.runtimes.process.runtime import ProcessRuntime
from harness.setup.kafka import ensure_kafka
from harness.systems.kafka.ground import ProcessGround

if TYPE_CHECKING:
    from pathlib import Path

DASHED = "-kqWcadMn2J9AwpkJ5HYxw"
"""One id in sixty-four begins like an option."""


@pytest.mark.kafka
def test_a_cluster_id_is_no_option(tmp_path: Path) -> None:
    """The tool takes it for what it is, and the storage belongs to that cluster."""
    ground = ProcessGround(ensure_kafka(lambda _: None))
    settings = {
        "process.roles": "broker,controller", "node.id": "1", "controller.quorum.voters": "1@127.0.0.1:19999",
        "controller.listener.names": "CONTROLLER", "log.dirs": str(tmp_path / "data"),
        "listeners": "PLAINTEXT://127.0.0.1:19998,CONTROLLER://127.0.0.1:19999",
    }  # fmt: skip
    with ProcessRuntime(directory=tmp_path) as runtime:
        node = runtime.start(ground.format("broker-1", settings, tmp_path, DASHED))
        end = node.wait(60)
        assert end is not None
        assert end.status == 0, node.log_tail(3)
    assert f"cluster.id={DASHED}" in (tmp_path / "data" / "meta.properties").read_text()
