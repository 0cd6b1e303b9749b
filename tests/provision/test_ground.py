"""A broker as a process: formatted by Kafka's own tool in a real JVM, started with a folder of its
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.provision.kafka import ensure_kafka
from harness.runtimes.process.runtime import ProcessRuntime
from harness.systems.kafka.launcher import ProcessGround

if TYPE_CHECKING:
    from pathlib import Path

DASHED = "-kqWcadMn2J9AwpkJ5HYxw"
"""One id in sixty-four begins like an option."""


@pytest.mark.kafka
def test_a_cluster_id_is_no_option(tmp_path: Path) -> None:
    """The tool takes it for what it is, and the storage belongs to that cluster."""
    ground = ProcessGround(ensure_kafka(lambda _: None))
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@127.0.0.1:19999",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(tmp_path / "data"),
        "listeners": "PLAINTEXT://127.0.0.1:19998,CONTROLLER://127.0.0.1:19999",
    }
    with ProcessRuntime(directory=tmp_path) as runtime:
        node = runtime.start(ground.format("broker-1", settings, tmp_path, DASHED))
        end = node.wait(60)
        assert end is not None
        assert end.status == 0, node.log_tail(3)
    assert f"cluster.id={DASHED}" in (tmp_path / "data" / "meta.properties").read_text()


@pytest.mark.kafka
def test_what_a_killed_broker_has_unpacked_stays_in_its_own_folder(tmp_path: Path) -> None:
    """A JVM unpacks a library under a new name at each start, and SIGKILL leaves it: not in /tmp,
    and one at most.
    """
    ground = ProcessGround(ensure_kafka(lambda _: None))
    specs = []
    for start in range(2):
        specs.append(ground.broker("broker-1", {}, tmp_path, ()))
        assert list((tmp_path / "tmp").iterdir()) == []
        (tmp_path / "tmp" / f"lib-{start}.so").write_bytes(b"left behind")
    assert all(
        f"-Djava.io.tmpdir={tmp_path / 'tmp'}" in spec.argv[: spec.argv.index("-cp")]
        for spec in specs
    )
