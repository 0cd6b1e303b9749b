"""What faults and systems add to the judge: proofs, signs and selections.

The judge itself knows no engine. The proofs of a fault say what the history must show besides its
trigger and its victims. A plan saves a proof's name and fields, and :class:`Knowledge` turns them
into the proof again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from harness.model.events import Node
    from harness.model.history import History
    from harness.model.plan import Plan
    from harness.model.prediction import Select
    from harness.model.semantics import Semantic
    from harness.model.sign import Sign


class ProofContext(Protocol):
    """What a proof may read of a run whose trigger was hit."""

    @property
    def plan(self) -> Plan:
        """The plan of the cell."""

    @property
    def history(self) -> History:
        """The history of the cell."""

    @property
    def fired_at(self) -> int | None:
        """When the trigger was hit (monotonic ns)."""

    @property
    def healed_at(self) -> int | None:
        """When the fault was healed (monotonic ns)."""

    @property
    def killed(self) -> list[Node]:
        """The processes that were killed by SIGKILL as part of the fault."""


class Proof(Protocol):
    """Something that a fault must have done. Implementations are frozen dataclasses, beside their
    faults.
    """

    name: ClassVar[str]
    """Its name in a saved plan."""

    def trouble(self, course: ProofContext) -> str | None:
        """Say what the history does not prove, or return ``None``. The judge asks only if the
        trigger was hit.
        """


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What faults and systems can read from histories, so that the judge need not know any of them.

    ``proofs``: by name, a function that makes a proof from its saved fields. ``selections``:
    functions of a history and a target that return the sets of records which a prediction may name.
    ``signs``: functions of a history that return the records that show each sign (none, for a sign
    that was not seen). ``remarks``: functions that return what may explain a void run. ``details``:
    by name, functions that return further facts about a run as plain data, or ``None``.
    ``recipes``: by pipeline and semantic, the settings (a dataclass) with which those of a run are
    compared.
    """

    proofs: Mapping[str, Callable[..., Proof]] = field(default_factory=dict)
    selections: tuple[Callable[[History, str], dict[Select, frozenset[str]]], ...] = ()
    signs: tuple[Callable[[History], Mapping[Sign, AbstractSet[str]]], ...] = ()
    remarks: tuple[Callable[[History], str | None], ...] = ()
    details: Mapping[str, Callable[[History], Mapping[str, Any] | None]] = field(
        default_factory=dict
    )
    recipes: Mapping[str, Mapping[Semantic, Any]] = field(default_factory=dict)
