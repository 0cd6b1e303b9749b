"""A machine that starts nothing, and remembers what it was told to start."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from harness.systems.storm.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

    from harness.runtimes.interface import Runtime
    from harness.systems.storm.install import StormInstall


class Machine:
    """A runtime that remembers its commands."""

    here = True
    bind = "127.0.0.1"

    def __init__(self) -> None:
        self.commands: dict[str, tuple[str, ...]] = {}

    def start(self, spec: Any) -> None:
        """Remember it."""
        self.commands[spec.role] = spec.argv


def started(
    install: StormInstall, folder: Path, *, alone: bool = False
) -> tuple[dict[str, tuple[str, ...]], dict[str, Any]]:
    """Return the command of each daemon, and Storm's settings."""
    machine = Machine()
    cluster = Cluster(cast("Runtime", machine), install, folder, alone=alone)
    cluster.start()
    cluster._lease.close()
    lines = (
        line.partition(": ") for line in (folder / "conf" / "storm.yaml").read_text().splitlines()
    )
    return machine.commands, {name: json.loads(value) for name, _, value in lines}
