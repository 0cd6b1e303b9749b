"""Trimming a cell's stream behind what its group was given: asked of a server that is not real."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from lostack_redis.system import Trimmed

from harness.controls import OnWire
from harness.faults import Forget, Kill
from harness.model.failures import CellFailure
from harness.model.scenario import Role
from harness.proofs.forgotten import Forgot
from tests.events import told as line_told


def trimmed(gone: int) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """Trim a stream whose group was given all up to 17-4; return what was asked and told."""
    asked: list[tuple[Any, ...]] = []
    told: list[dict[str, Any]] = []

    def ask(*words: Any) -> Any:
        asked.append(words)
        return gone if words[0] == "XTRIM" else [[b"name", b"g", b"last-delivered-id", b"17-4"]]

    cell = SimpleNamespace(scenario=SimpleNamespace(fault=SimpleNamespace(id="kill")))
    history = SimpleNamespace(write=lambda event: told.append(line_told(event)))
    queue: Any = SimpleNamespace(name="q", scene=SimpleNamespace(cell=cell, history=history))
    broker: Any = SimpleNamespace(ask=ask)
    Trimmed(broker, queue).expire()
    return asked, told


def test_what_the_group_was_given_goes() -> None:
    """Up to the last entry, and it too; the history says that something is gone."""
    asked, [told] = trimmed(3)
    assert asked == [("XINFO", "GROUPS", "q"), ("XTRIM", "q", "MINID", b"17-5")]
    assert told == {"event": "fault", "phase": "forgot", "fault": "kill", "file": "q", "records": 3}


def test_where_nothing_goes_nothing_is_proved() -> None:
    """Else the cell would be kept for nothing."""
    with pytest.raises(CellFailure, match="q had no entry that its group was given"):
        trimmed(0)


def test_a_reader_must_be_away() -> None:
    """A consumer or a query; the proof is asked for."""
    at = OnWire(Role.CONSUMER, "ACK", "request")  # type: ignore[arg-type]
    fault = Kill(at, (Role.CONSUMER,), forget=Forget.RETENTION)
    assert fault.evidence().proofs == (Forgot(),)
    with pytest.raises(ValueError, match="forget needs a dead driver"):
        Kill(at, (Role.BROKER,), forget=Forget.RETENTION)
    with pytest.raises(ValueError, match="forget needs a dead driver"):
        Kill(at, (Role.CONSUMER,), forget=Forget.CHECKPOINT)
