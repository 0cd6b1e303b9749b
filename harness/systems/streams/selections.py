"""The set of records that only a history of an application tells: the target, if it is the first
record of its key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.prediction import Select

if TYPE_CHECKING:
    from harness.model.history import History

NEW_KEY: Final = Select("target-of-a-new-key")
"""The target, if no earlier record of the source has its key; otherwise nothing."""


def key_selections(history: History, target: str) -> dict[Select, frozenset[str]]:
    """Return the selection; nothing if the history has no aggregates."""
    if not any(True for _ in history.of(kinds.Folded)):
        return {}
    offered = sorted(history.of(kinds.Offered), key=lambda event: event.position)
    key = next((event.key for event in offered if event.record == target), None)
    first = next((event.record for event in offered if event.key == key), None)
    return {NEW_KEY: frozenset({target}) if target == first else frozenset()}
