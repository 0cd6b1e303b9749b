"""The command of a stage that is a connector: a worker of Kafka Connect, which lostack starts."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
from dataclasses import dataclass
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
RUNNING: Final = r"the connector .+ is RUNNING"
"""What the launcher prints when all tasks of the connector run."""
OWN_TOPICS: Final = ".connect/*/topics"
"""The files in which the launcher writes down the topics that a cluster of workers keeps."""
ICEBERG_SINK: Final = frozenset(
    package + name
    for package in ("", "org.apache.iceberg.connect.", "io.tabular.iceberg.connect.")
    for name in ("IcebergSinkConnector", "IcebergSink")
)
"""What the class of Iceberg's sink is called: Kafka Connect also knows it without its package, and
without its last word. Others have sinks of that name, with other settings.
"""
FROM_ENVIRONMENT: Final = re.compile(r"\$\{env:(\w+)\}")
_OF_A_PROVIDER: Final = re.compile(r"config\.providers\.[^.]*\.(param\.)?")
"""What comes before a provider's own setting: a provider of secrets has settings that are none."""
OURS: Final = (
    *(f"{client}bootstrap.servers" for client in ("", "consumer.", "producer.", "admin.")),
    *(f"{topic}.storage.replication.factor" for topic in ("offset", "config", "status")),
    *("listeners", "plugin.path"),
    *("rest.advertised.host.name", "rest.advertised.port", "rest.advertised.listener"),
    *("group.id", "offset.storage.topic", "config.storage.topic", "status.storage.topic"),
)
"""Properties of a worker that lostack must set by itself. Each cell has a cluster of its own: with
the group or topics of another it would go on from the offsets of that.
"""


def connector_command(
    connector: str, plugins: Sequence[str], worker: Mapping[str, str], stage: str
) -> tuple[str, ...]:
    """Return the command of a worker with a connector. ``stage``: the name of its stage, whose
    workers are one cluster.

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
        own = _OF_A_PROVIDER.sub("", name)
        if "${" not in value and masked_value(own, value) != value:
            raise DeclarationError(
                f"worker: {name}: every user of this machine can see it: put it into the "
                "environment, and write ${env:NAME} here"
            )
    return (
        *(sys.executable, "-P", "-m", LAUNCHER, connector),
        *(f"{name}={value}" for name, value in worker.items()),
        *("--stage", stage, "--jars", JARS),
        *(word for each in plugins for word in ("--plugins", each)),
    )


def own_topics(work: Path) -> tuple[str, ...]:
    """Return the topics that the workers of a cell keep for themselves, by names that the launcher
    gave them. ``work``: the folder of the cell's programs.
    """
    files = sorted(work.glob(OWN_TOPICS))
    return tuple(name for file in files for name in file.read_text(encoding="utf-8").split())


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector, as its JSON file says."""

    name: str
    config: Mapping[str, str | None]

    @classmethod
    def read(cls, file: Path) -> Connector:
        """Read what is POSTed to ``/connectors``, or its settings alone, in
        which there may be a ``name``.

        Raises:
            DeclarationError: the file cannot be read, or is not such an object.
        """
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DeclarationError(f"the connector {file} cannot be read: {error}") from error
        config = found.get("config", found) if isinstance(found, dict) else None
        if not isinstance(config, dict) or "connector.class" not in config:
            raise DeclarationError(
                f'the connector {file} is no object with "connector.class", or with "name" and '
                '"config"'
            )
        for key, value in config.items():
            if key.endswith(".override.bootstrap.servers") and "${" not in str(value):
                raise DeclarationError(
                    f"the connector {file}: {key} leads its tasks past lostack: take it out"
                )
        name = str(found.get("name", file.stem))
        return cls(name, {key: _text(value) for key, value in config.items()} | {"name": name})

    @property
    def tasks(self) -> int:
        """How many tasks it may have: 1 by default, as in Kafka Connect, and where only its worker
        can read the number.
        """
        return int(self._number("tasks.max", 1, {}) or 1)

    def commits_within_s(self, environment: Mapping[str, str]) -> float:
        """Return how long (seconds) after a record its sink may put it into the table; 0 if lostack
        does not know that. ``environment``: that of its worker.

        Iceberg's commits at each interval, and waits then for what its tasks say, up to a time-out.
        Source of the defaults: Iceberg's documentation of its sink connector.
        """
        if self.config["connector.class"] not in ICEBERG_SINK:
            return 0.0
        interval = self._number("iceberg.control.commit.interval-ms", 300_000, environment)
        late = self._number("iceberg.control.commit.timeout-ms", 30_000, environment)
        return 0.0 if interval is None or late is None else (interval + late) / 1000

    def _number(self, name: str, default: float, environment: Mapping[str, str]) -> float | None:
        """Return a setting, or its default; ``None`` if only the worker can read it."""
        text = self.config.get(name) or str(default)
        if variable := FROM_ENVIRONMENT.fullmatch(text):
            text = environment.get(variable[1], "")
        try:
            return float(text)
        except ValueError:
            return None


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def check_patience(connector: Connector, environment: Mapping[str, str], patience_s: float) -> None:
    """Raise :class:`DeclarationError` if a sink may commit later than a run waits for a record."""
    if patience_s < (within := connector.commits_within_s(environment)):
        raise DeclarationError(
            f"patience_s: the connector {connector.name} may commit a record only after "
            f"{within:g} s, and a run waits {patience_s:g} s for one that is "
            "missing: lower iceberg.control.commit.interval-ms (300000 by default) and "
            "iceberg.control.commit.timeout-ms (30000), or raise patience_s to their sum"
        )


def prepare_workers(broker: str, say: Callable[[str], None]) -> None:
    """Make the class-data archive of workers, unless it is there. ``broker``: the version of Kafka
    on which it is made. An older ``lostack-connect`` makes none; it only saves time.
    """
    if importlib.util.find_spec(ARCHIVE) is not None:
        importlib.import_module(ARCHIVE).ensure_worker_archive(say, broker)
