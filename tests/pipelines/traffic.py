"""What a dry run would show of stages that make these requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.pipelines.traffic import StageTraffic

if TYPE_CHECKING:
    from collections.abc import Collection


def traffic(**asked: Collection[str]) -> dict[str, StageTraffic]:
    """Return it, by role: each stage requests, and is answered, each of these steps."""
    return {
        role: StageTraffic((role,), 1, requests := dict.fromkeys(names, 36), requests)
        for role, names in asked.items()
    }
