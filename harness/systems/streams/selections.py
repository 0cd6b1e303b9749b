"""What only the history of an application tells: whether the target is the first record of its key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.prediction import Select

if TYPE_CHECKING:
    from harness.model.history import History

NEW_KEY: Final = Select("target-of-a-new-key")
"""The target, where no record of its key comes before it in the source; else none."""


def key_selections(history: History, target: str) -> dict[Select, frozenset[str]]:
    """Return that selection; nothing where no values were counted."""
    if not any(True for _ in history.of(kinds.FOLDED)):
        return {}
    offered = sorted(history.of(kinds.OFFERED), key=lambda event: int(event["position"]))
    key = next((event["key"] for event in offered if event["record"] == target), None)
    first = next((event["record"] for event in offered if event["key"] == key), None)
    return {NEW_KEY: frozenset({target} & {first})}
