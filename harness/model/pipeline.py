"""What a scenario is run on: a pipeline of one system, with the settings that make up each semantic there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.semantics import Semantic


class SettingsError(ValueError):
    """Settings that contradict each other; the message says which."""


class Settings(Protocol):
    """All that a semantic consists of, on one system: a dataclass, of which nothing else is known to the core."""

    @property
    def unit(self) -> int:
        """Records per send, or per transaction, where there is one."""

    @property
    def patience_s(self) -> float:
        """How long a sender may try before it gives a record up."""

    def logs(self, pipeline: Pipeline) -> Mapping[str, int]:
        """Return how many partitions each log has that is read at the end, by its hop. A queue is none."""

    def check(self, pipeline: Pipeline, *, clustered: bool) -> None:
        """Raise SettingsError where they cannot be on a pipeline, or without a cluster."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The shape of a pipeline, whatever its semantic."""

    name: str
    system: str
    """The system that it is of, by its name."""
    recipes: Mapping[Semantic, Settings] = field(default_factory=dict, compare=False, repr=False)
    """The settings of each semantic, where a scenario has no others."""
    to_topic: bool = False
    """Whether its results land in a topic."""
    on_server: bool = False
    """Whether its results land in a database server."""
    shares_death: bool = False
    """Whether cells of it can share one death of a broker."""

    def __str__(self) -> str:
        """Its name."""
        return self.name
