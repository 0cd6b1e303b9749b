"""What the judge is told by others: proofs that faults declare, and what systems know how to read from a history.

The judge knows no engine. A fault says by its proofs what the history must show besides its trigger and its victims; what a plan
saves of a proof is its name and its fields, and by :class:`Knowledge` the judge finds it again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from harness.model.history import Event, History
    from harness.model.plan import Plan
    from harness.model.prediction import Select
    from harness.model.semantics import Semantic
    from harness.model.sign import Sign


class Course(Protocol):
    """What a proof may ask of a run whose trigger was hit."""

    @property
    def plan(self) -> Plan:
        """What was to happen."""

    @property
    def history(self) -> History:
        """What was seen."""

    @property
    def fired_at(self) -> int | None:
        """When the trigger was hit (monotonic ns)."""

    @property
    def healed_at(self) -> int | None:
        """When the fault was healed (monotonic ns)."""

    @property
    def killed(self) -> list[Event]:
        """The ends, by SIGKILL, of those who were killed of it."""


class Proof(Protocol):
    """Something that a fault must have done. Implementations are frozen dataclasses of plain data, beside their faults."""

    name: ClassVar[str]
    """How a saved plan calls it."""

    def trouble(self, course: Course) -> str | None:
        """Say what the history does not show, or ``None``. Asked only where the trigger was hit."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What faults and systems know of their histories, by which the judge goes without knowing any of them.

    ``proofs``: by name, what makes a proof of its saved fields. ``selections``: of a history and a target, the sets of records
    that a prediction may name and that only the history tells. ``signs``: of a history, each sign that the one or the other
    knows, with the records that show it; one that no record shows is told, too. ``remarks``: what a history shows that may
    explain a void run. ``details``: by name, what a system tells of a run besides, as plain data for who shows it, or ``None``.
    ``recipes``: by pipeline and semantic, the settings (a dataclass) against which those of a run are shown.
    """

    proofs: Mapping[str, Callable[..., Proof]] = field(default_factory=dict)
    selections: tuple[Callable[[History, str], dict[Select, frozenset[str]]], ...] = ()
    signs: tuple[Callable[[History], Mapping[Sign, AbstractSet[str]]], ...] = ()
    remarks: tuple[Callable[[History], str | None], ...] = ()
    details: Mapping[str, Callable[[History], Mapping[str, Any] | None]] = field(default_factory=dict)
    recipes: Mapping[str, Mapping[Semantic, Any]] = field(default_factory=dict)
