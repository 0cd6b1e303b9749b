"""The settings of a Connect worker and of lostack's connectors, and their pipelines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from harness.interfaces import PointsLine
from harness.model.pipeline import Pipeline, SettingsError
from harness.model.semantics import Semantic
from harness.stages.consumer_settings import SESSION_MS
from harness.stages.settings import AT_LEAST_ONCE, Settings

NAME: Final = "connect"


TRANSACTION_MS: Final = 6000
"""A short transaction time-out: a worker that starts reads its topic of offsets up to the end, and
waits there for a dead task's open transaction.
"""


class Writes(StrEnum):
    """How lostack's sink connector writes rows."""

    INSERT = "insert"
    """One row for each delivery, before the framework may commit its position."""
    UPSERT = "upsert"
    """The same, but a record that is there already is absorbed."""
    LATE = "late"
    """Two seconds after the delivery, and so after the framework has committed its position: a
    wrong connector.
    """


class Aside(StrEnum):
    """How the target comes into the dead letters of a sink connector."""

    NONE = "none"
    """It does not."""
    REPORTED = "reported"
    """The connector reports it (``ErrantRecordReporter``), and the framework waits for that."""
    REFUSED = "refused"
    """A transformation refuses it, and the framework does not wait."""


@dataclass(frozen=True, slots=True)
class Connect:
    """Settings of a worker and of lostack's connectors."""

    exactly_once: bool = False
    """``exactly.once.source.support``: each source record and its offset in one transaction.
    Without it the source waits until the offset of one record is saved, and then gives the next.
    """
    flush_ms: int = 50
    """``offset.flush.interval.ms``: how often a worker saves the offsets of its source records."""
    ahead: int = 0
    """By how many records the offset of each source record is too far. Above 0: a wrong connector.
    """
    writes: Writes = Writes.INSERT
    aside: Aside = Aside.NONE
    workers: int = 1
    """How many workers the cluster has."""
    session_ms: int = SESSION_MS
    """``session.timeout.ms`` of the workers in their cluster."""


@dataclass(frozen=True, slots=True)
class ConnectSettings(Settings):
    """The settings of lostack's stages and of Kafka Connect. Implements
    :class:`harness.model.pipeline.Settings`.
    """

    connect: Connect = field(default_factory=Connect)

    def check(self, pipeline: Pipeline, *, clustered: bool) -> None:
        """Raise SettingsError if the settings do not fit the pipeline or the number of brokers."""
        if pipeline.system != NAME:
            raise SettingsError(f"settings of Kafka Connect do not fit the pipeline {pipeline}")
        if clustered or self.topic.replicas > 1:
            raise SettingsError("a worker runs on one broker")
        if self.connect.workers < 1:
            raise SettingsError("a cluster has at least one worker")


_PLAIN: Final = ConnectSettings(AT_LEAST_ONCE.producer, AT_LEAST_ONCE.consumer)


def told(settings: ConnectSettings, **more: object) -> ConnectSettings:
    """Return the settings with changes to the part of Kafka Connect."""
    return replace(settings, connect=replace(settings.connect, **more))  # type: ignore[arg-type]  # fields by their names


SOURCE_ONCE: Final = replace(
    told(_PLAIN, exactly_once=True),
    consumer=replace(_PLAIN.consumer, isolation="read_committed"),
    transaction_timeout_ms=TRANSACTION_MS,
)
SOURCE: Final = Pipeline(
    "connect-source",
    NAME,
    {
        Semantic.AT_MOST_ONCE: _PLAIN,
        Semantic.AT_LEAST_ONCE: _PLAIN,
        Semantic.EXACTLY_ONCE: SOURCE_ONCE,
    },
)
"""file → source connector → topic → lostack's consumer → database. Faults strike the worker."""
SINK: Final = Pipeline(
    "connect-sink",
    NAME,
    {
        Semantic.AT_MOST_ONCE: _PLAIN,
        Semantic.AT_LEAST_ONCE: _PLAIN,
        Semantic.EXACTLY_ONCE: told(_PLAIN, writes=Writes.UPSERT),
    },
)
"""outbox → lostack's producer → topic → sink connector → database. Faults strike the worker."""
PIPELINES: Final = (SOURCE, SINK)


_NOT: Final = "not offered"
POINTS: Final = (
    PointsLine(
        "Kafka Connect 4.3.0, a source connector",
        "connect-source",
        "connect",
        (_NOT, "as by default", "`exactly.once.source.support`, a transaction for each poll"),
        {
            "commit-lost": "connect-crash-before-offset-flush",
            "commit-ack-lost": "connect-crash-after-offset-flush",
        },
    ),
    PointsLine(
        "Kafka Connect 4.3.0, a sink connector",
        "connect-sink",
        "connect",
        (_NOT, "rows are inserted before the position is committed", "rows are upserted by id"),
    ),
)
"""Its lines in the table of the points that all systems have."""
