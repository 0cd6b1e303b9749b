"""The pipeline that a scenario runs on: of one system, with the settings that implement each
semantic there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.semantics import Semantic


class SettingsError(ValueError):
    """Settings contradict each other. The message says which."""


class Settings(Protocol):
    """The settings that implement a semantic on one system: a dataclass. The core knows nothing
    else of it.
    """

    @property
    def unit(self) -> int:
        """How many records go into one transaction; without transactions, into one send."""

    @property
    def patience_s(self) -> float:
        """After how many seconds the producer gives up sending a record."""

    def logs(self, pipeline: Pipeline) -> Mapping[str, int]:
        """Return how many partitions each log has that the observer reads at the end, by its hop.
        Queues are left out.
        """

    def check(self, pipeline: Pipeline, *, clustered: bool) -> None:
        """Raise SettingsError if these settings are not possible on a pipeline, or without a
        cluster.
        """


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The shape of a pipeline, which all its semantics share."""

    name: str
    system: str
    """The name of its system."""
    recipes: Mapping[Semantic, Settings] = field(default_factory=dict, compare=False, repr=False)
    """The settings of each semantic. A scenario may have other settings."""
    to_topic: bool = False
    """Whether its results land in a topic."""
    on_server: bool = False
    """Whether its results land in a database server."""
    shares_death: bool = False
    """Whether several of its cells can run on one broker that is killed once for all of them."""

    def __str__(self) -> str:
        """Return the pipeline's name."""
        return self.name
