"""The settings of a stage program: one JSON object in the environment variable
``LOSTACK_STAGE``.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from harness.model import kinds
from harness.model.writing import LedgerWriter
from harness.stages.consumer_settings import (
    ConsumerSettings,
    GroupMetadata,
    GroupProtocol,
    Members,
    SavePosition,
    ShareSettings,
)
from harness.stages.producer_settings import ProducerSettings, SaveCursor
from harness.stages.pushing import (
    Acknowledge,
    AcknowledgeSettings,
    Cursor,
    PushSettings,
    Subscription,
)
from harness.stages.querying import QuerySettings
from harness.stages.settings import PLAIN, Settings, TopicSettings

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE = "LOSTACK_STAGE"
TURN = "LOSTACK_TURN"
"""The variable that names a file. A program that can stand by waits until the file exists, before
it reads any position.
"""
SETTINGS_REFUSED = 78
"""Exit status of a program whose client refused its settings (EX_CONFIG of sysexits.h)."""


class SettingsRefusedError(Exception):
    """The client refuses the settings. The message begins with the client's own name
    for the error.
    """


@dataclass(frozen=True, slots=True)
class Stage:
    """The settings of one stage process. Topics have ``settings.topic.partitions`` partitions, the
    cursor topic has one.
    """

    cell: str
    key: str
    name: str
    """Node name, e.g. ``producer`` or ``consumer-2``."""
    incarnation: int
    bootstrap: str
    topic_in: str
    topic_out: str
    topic_cursor: str
    group: str
    outbox: str
    sink: str
    history: str
    settings: Settings
    pipeline: str = PLAIN.name
    """The name of its pipeline."""
    jitter_ms: tuple[int, int] = (0, 0)
    seed: int = 0
    transactional_id: str = ""
    """The transactional id of its producer, if that is transactional. A producer that starts with
    the same id fences it.
    """
    client: str = "kafka-python"
    """Its client library: a name of :data:`harness.stages.clients.ADAPTERS`."""
    adapter: str = ""
    """The module of its client, if another package brings it; empty: lostack has it itself."""
    gate: str = ""
    """A file that lostack makes when the fault has fired: a producer waits for it before its last
    unit, so that load follows the fault (see :mod:`harness.stages.gate`). Empty: it waits for
    nothing.
    """
    access: str = ""
    """The file with its TLS and log-in settings (see :mod:`harness.stages.access`); empty: none are
    needed.
    """

    @property
    def client_id(self) -> str:
        """The client id by which the wire knows this process."""
        return f"{self.key}.{self.name}.{self.incarnation}"

    @property
    def writer(self) -> str:
        """The name of this incarnation, in attempts and in the history."""
        return f"{self.name}-{self.incarnation}"

    def environment(self) -> dict[str, str]:
        """Return the variables to start the program with."""
        return {VARIABLE: json.dumps(dataclasses.asdict(self))}

    @staticmethod
    def from_environment() -> Stage:
        """Read the settings of this process."""
        return Stage.from_json(os.environ[VARIABLE])

    @staticmethod
    def from_json(text: str) -> Stage:
        """Read the text that :meth:`environment` has written."""
        data = json.loads(text)
        settings = data["settings"]
        producer, consumer = settings["producer"], settings["consumer"]
        push, acknowledging = consumer["push"], consumer["acknowledging"]
        return Stage(
            **data
            | {
                "jitter_ms": tuple(data["jitter_ms"]),
                "settings": Settings(
                    ProducerSettings(**producer | {"cursor": SaveCursor(producer["cursor"])}),
                    ConsumerSettings(
                        **consumer
                        | {
                            "position": SavePosition(consumer["position"]),
                            "members": Members(consumer["members"]),
                            "group_metadata": GroupMetadata(consumer["group_metadata"]),
                            "protocol": GroupProtocol(consumer["protocol"]),
                            "share": ShareSettings(**consumer["share"]),
                            "query": QuerySettings(**consumer["query"]),
                            "acknowledging": AcknowledgeSettings(
                                **acknowledging
                                | {"mode": (mode := acknowledging["mode"]) and Acknowledge(mode)}
                            ),
                            "push": PushSettings(
                                **push
                                | {
                                    "subscription": Subscription(push["subscription"]),
                                    "cursor": Cursor(push["cursor"]),
                                }
                            ),
                        }
                    ),
                    TopicSettings(**settings["topic"]),
                    settings["transaction_timeout_ms"],
                ),
            }
        )


class Writes(Protocol):
    """The settings that a program with a ledger needs."""

    @property
    def cell(self) -> str:
        """The id of its cell."""

    @property
    def history(self) -> str:
        """The folder of its ledger."""

    @property
    def writer(self) -> str:
        """The name of this incarnation in the history."""


S = TypeVar("S", bound=Writes)


def run_stage(
    main: Callable[[S, LedgerWriter], str | None],
    told: Callable[[], S] = Stage.from_environment,  # type: ignore[assignment]  # the default S
) -> None:
    """Run a stage program: open its ledger, and write its end with the reason."""
    status = conduct(told(), main)
    if status:
        sys.exit(status)


def conduct(stage: S, main: Callable[[S, LedgerWriter], str | None]) -> int:
    """Run a stage with its own ledger; return the program's exit status. ``main`` may return the
    reason of its end.
    """
    with LedgerWriter(
        Path(stage.history, f"{stage.writer}.jsonl"), cell=stage.cell, by=stage.writer
    ) as ledger:
        try:
            because = main(stage, ledger) or "the source is exhausted"
        except SettingsRefusedError as error:
            ledger.write(kinds.STOPPED, kind="settings", because=str(error))
            return SETTINGS_REFUSED
        except BaseException as error:  # noqa: BLE001 - whatever ends a program is the last line of its ledger
            ledger.write(kinds.STOPPED, kind="error", because=f"{type(error).__name__}: {error}")
            traceback.print_exc()
            return 1
        ledger.write(kinds.STOPPED, kind="done", because=because)
    return 0
