"""What a bulk program is told: one JSON object in the environment variable ``LOSTACK_STAGE``."""

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
    """The environment of one bulk program. It has one partition; positions from ``begin`` to before ``end`` are its records."""

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
    """Records of a send, a transaction, a poll."""
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
        """What the wire knows this process by."""
        return f"{self.key}.{self.name}.{self.incarnation}"

    @property
    def writer(self) -> str:
        """The name of this incarnation in the history."""
        return f"{self.name}-{self.incarnation}"

    @property
    def transactional_id(self) -> str:
        """Of its producer: whoever begins with the same one fences it."""
        return f"{self.key}-{self.name}"

    @property
    def place(self) -> str:
        """What its failpoints are called with: the partition, for no record is named at full speed."""
        return f"partition-{self.partition}"

    def environment(self) -> dict[str, str]:
        """Return the variables to start the program with."""
        return {VARIABLE: json.dumps(dataclasses.asdict(self))}

    @staticmethod
    def from_environment() -> BulkStage:
        """Read the stage of this process."""
        data = json.loads(os.environ[VARIABLE])
        return BulkStage(**data | {"semantic": Semantic(data["semantic"])})
