"""Proof that stored data was removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds
from harness.model.events import FaultPhase
from harness.model.scenario import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.judge.proof import ProofContext
    from harness.model.history import History


@dataclass(frozen=True, slots=True)
class Forgot:
    """Files were reverted or removed; if several brokers died, files of each of them."""

    name: ClassVar[str] = "forgot"

    def trouble(self, course: ProofContext) -> str | None:
        """Name a killed broker of which no file was reverted."""
        return spared(course.history, course.killed)


def spared(history: History, killed: Iterable[kinds.Node]) -> str | None:
    """Say that no file was reverted, or name a killed broker of which none was; ``None`` if each
    lost its unflushed data.
    """
    forgot = [event for event in history.of(kinds.Fault) if event.phase == FaultPhase.FORGOT]
    if not forgot:
        return "no file was reverted to its flushed state"
    named = {event.node for event in forgot if event.node is not None}
    struck = {event.node for event in killed if event.role in BROKERS}
    whole = sorted(struck - named) if named else []
    return f"no file of {whole[0]} was reverted to its flushed state" if whole else None
