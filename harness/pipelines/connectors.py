"""The command of a stage that is a connector: a worker of Kafka Connect, which lostack starts."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from typing import TYPE_CHECKING, Final

from harness.model.secrets import masked_value
from harness.pipelines.refusing import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

LAUNCHER: Final = "lostack_connect.launch"
"""It takes the connector, the worker's properties, and where the jars and plugins are."""
ARCHIVE: Final = "lostack_connect.archive"
"""It makes the class-data archive of workers."""
JARS: Final = "{jars:connect-4.3.0}"
RUNNING: Final = r"the connector \S+ is RUNNING"
"""What the launcher prints when all tasks of the connector run."""
OWN_TOPICS: Final = ".connect/*/topics"
"""The files in which the launcher writes down the topics that a cluster of workers keeps."""
OURS: Final = ("bootstrap.servers", "listeners", "plugin.path", "rest.advertised.host.name")
"""Properties of a worker that lostack must set by itself."""


def connector_command(
    connector: str, plugins: Sequence[str], worker: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the command of a worker with a connector.

    Raises:
        DeclarationError: the package that starts workers is not installed, or a property is one
            that lostack sets, or a secret.
    """
    package = LAUNCHER.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        raise DeclarationError(
            f"connector: {package} is not installed: pip install ./engines/connect of lostack"
        )
    if wrong := next((name for name in OURS if name in worker), None):
        raise DeclarationError(f"worker: {wrong} is set by lostack: take it out")
    for name, value in worker.items():
        if "${" not in value and masked_value(name, value) != value:
            raise DeclarationError(
                f"worker: {name}: every user of this machine can see it: put it into the "
                "environment, and write ${env:NAME} here"
            )
    return (
        *(sys.executable, "-P", "-m", LAUNCHER, connector),
        *(f"{name}={value}" for name, value in worker.items()),
        *("--jars", JARS),
        *(word for each in plugins for word in ("--plugins", each)),
    )


def own_topics(work: Path) -> tuple[str, ...]:
    """Return the topics that the workers of a cell keep for themselves, by names that the launcher
    gave them. ``work``: the folder of the cell's programs.
    """
    files = sorted(work.glob(OWN_TOPICS))
    return tuple(name for file in files for name in file.read_text(encoding="utf-8").split())


def most_tasks(connector: Path) -> int:
    """Return how many tasks a connector may have, as its JSON file says: 1 by default, as in Kafka
    Connect, and if that cannot be read.
    """
    try:
        found = json.loads(connector.read_text(encoding="utf-8"))
        return int(found.get("config", found).get("tasks.max", 1))
    except (OSError, ValueError, TypeError, AttributeError):  # what runs it says what is wrong
        return 1


def prepare_workers(broker: str, say: Callable[[str], None]) -> None:
    """Make the class-data archive of workers, unless it is there. ``broker``: the version of Kafka
    on which it is made. An older ``lostack-connect`` makes none; it only saves time.
    """
    if importlib.util.find_spec(ARCHIVE) is not None:
        importlib.import_module(ARCHIVE).ensure_worker_archive(say, broker)
