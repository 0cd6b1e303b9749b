"""The settings of a bulk program: one JSON object in the environment variable ``LOSTACK_STAGE``."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass

from harness.model.semantics import Semantic
from harness.stages.stage import VARIABLE

CLIENT = "confluent-kafka"
"""The client of bulk programs."""


@dataclass(frozen=True, slots=True)
class BulkStage:
    """The settings of one bulk program. Its records are the positions from ``begin`` to before
    ``end`` of one partition.
    """

    cell: str
    key: str
    name: str
    """Node name, e.g. ``producer-0``."""
    incarnation: int
    bootstrap: str
    topic: str
    group: str
    partition: int
    begin: int
    end: int
    unit: int
    """The number of records in a send, a transaction or a poll."""
    record_bytes: int
    semantic: Semantic
    marks: str
    """The file of :class:`~harness.stages.bulk.marks.Marks`."""
    results: str
    """The file of :class:`~harness.stages.bulk.results.Results`."""
    history: str
    """The folder of its ledger."""
    client: str = CLIENT

    @property
    def client_id(self) -> str:
        """The client id by which the wire knows this process."""
        return f"{self.key}.{self.name}.{self.incarnation}"

    @property
    def writer(self) -> str:
        """The name of this incarnation in the history."""
        return f"{self.name}-{self.incarnation}"

    @property
    def transactional_id(self) -> str:
        """Its producer's transactional id. A producer that starts with the same id fences it."""
        return f"{self.key}-{self.name}"

    @property
    def place(self) -> str:
        """The text that it passes to failpoints: its partition, because records have no ids at full
        speed.
        """
        return f"partition-{self.partition}"

    def environment(self) -> dict[str, str]:
        """Return the variables to start the program with."""
        return {VARIABLE: json.dumps(dataclasses.asdict(self))}

    @staticmethod
    def from_environment() -> BulkStage:
        """Read the settings of this process."""
        data = json.loads(os.environ[VARIABLE])
        return BulkStage(**data | {"semantic": Semantic(data["semantic"])})
