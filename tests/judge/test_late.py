"""The fault ``late``: the order of its steps, and what it says where its sender never goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.controls import OnWire
from harness.faults import Late
from harness.model.scenario import Role
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.judge.recording import steps

AT = OnWire(Role.PRODUCER, Api.END_TXN, Direction.REQUEST)
INTO = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.RESPONSE, offset=1)


def test_it_arrives_while_what_it_comes_into_waits() -> None:
    """Cut off first, delivered second; only then its sender goes on."""
    assert steps(Late(AT, INTO), AT, INTO) == [
        "fired",
        "resolve EndTxn release-later",
        "resolve EndTxn deliver",
        "applied",
        "resolve Produce release",
        "healed",
    ]


def test_with_kill_its_sender_never_learns_of_it() -> None:
    assert steps(Late(AT, INTO, kill=True), AT, INTO)[2:] == [
        "resolve EndTxn deliver",
        "applied",
        "kill",
        "resolve Produce discard",
        "restart",
        "healed",
    ]


def test_what_never_comes_into_anything_is_not_healed() -> None:
    """The judge then calls the cell void; and what was never held is no fault."""
    assert steps(Late(AT, INTO), AT) == ["fired", "resolve EndTxn release-later"]
    assert steps(Late(AT, INTO), INTO) == []


def test_only_a_request_can_be_late_and_only_for_its_own_sender() -> None:
    with pytest.raises(ValueError, match="only a request"):
        Late(replace(AT, direction=Direction.RESPONSE), INTO)
    with pytest.raises(ValueError, match="into must be a frame of the producer"):
        Late(AT, replace(INTO, role=Role.CONSUMER))
