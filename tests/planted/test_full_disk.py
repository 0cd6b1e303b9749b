"""A cell that ends on a full disk has seen nothing for certain, whatever seems to be lost in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.matrix import room
from harness.model.semantics import Semantic
from scenarios.plain import NONE
from tests.memory.plants import Plant
from tests.planted.lies import run_planted

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("full", [False, True])
def test_what_is_lost_on_a_full_disk_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, full: bool
) -> None:
    """It was broken, though not by this fault: the lines that were missing had had no room."""
    if full:
        monkeypatch.setattr(room, "LEAST", 1 << 62)
    plants = {"loses": (NONE, Semantic.AT_LEAST_ONCE, Plant(lose=1))}
    [found] = run_planted(plants, tmp_path).values()
    assert found.verdict.kind is (Kind.VOID if full else Kind.BROKEN)
    assert full is ("the disk of " in found.verdict.reason)
