"""When a reading stage is ready, and what is said of one that is not; without a broker."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.scenario import Role
from harness.stages.access import Access
from harness.systems.declared.programs.hints import Hints
from harness.systems.declared.programs.stages import ABORTED_S, begins_to_read, held_up_s

if TYPE_CHECKING:
    from harness.systems.declared.scene import Scene
    from tests.pipelines.scenes import Scenes


def asks(api: str, way: str = "request", role: str = "consumer") -> dict[str, Any]:
    """Return the line of a request, or of an answer."""
    return {"event": "frame", "conn": 1, "corr": 1, "role": role, "api": api, "dir": way}


OPENS: dict[str, Any] = {"event": "conn", "phase": "open", "conn": 1, "role": "consumer"}
JOINS = (OPENS, asks("FindCoordinator"), asks("JoinGroup"))
ENDS = (OPENS, asks("ListOffsets"), asks("ListOffsets", "response"))


def ready(scene: Scene, position: str, since: int = 0) -> bool:
    """Say whether the consumer counts as ready."""
    stage = scene.pipeline.stage(Role.CONSUMER)
    assert stage is not None
    return begins_to_read(scene.stages_seen, dataclasses.replace(stage, position=position), since)


@pytest.mark.parametrize(
    ("events", "elsewhere", "group"),
    [
        ((OPENS, asks("Metadata")), False, False),
        ((OPENS, asks("ListOffsets")), False, False),
        (ENDS, True, False),
        ((*JOINS, *ENDS), True, False),
        ((OPENS, asks("Fetch")), True, True),
    ],
    ids=[
        "knows the topic",
        "is not told",
        "a query on an empty topic",
        "a member that asks first",
        "fetches",
    ],
)
def test_who_keeps_its_position_itself_has_begun_when_it_knows_where_the_topic_ends(
    scenes: Scenes, events: tuple[dict[str, Any], ...], elsewhere: bool, group: bool
) -> None:
    """It may fetch nothing from an empty topic. A member of a group asks for that before it joins:
    it would miss records.
    """
    scene = scenes("orders", *events)
    assert (ready(scene, "elsewhere"), ready(scene, "group")) == (elsewhere, group)


def test_what_the_life_before_was_told_does_not_count(scenes: Scenes) -> None:
    scene = scenes("orders", *ENDS)
    assert ready(scene, "elsewhere")
    assert not ready(scene, "elsewhere", since=scene.stages_seen.told_ends("consumer"))


def in_transaction(event: str, request: str = "1:2", **more: Any) -> dict[str, Any]:
    """Return the line of a producer that has the transactional id ``t``."""
    return {"event": event, "transactional_id": "t", "request": request, **more}


INIT = in_transaction("init_producer", timeout_ms=60_000)
SENT = in_transaction("sent", record="k1-1", topic="orders", partition=0)
POSITION = in_transaction("committed", partition=0, offset=1)
ENDED = in_transaction("end_txn", commit=True)


@pytest.mark.parametrize(
    ("events", "seconds"),
    [
        ((INIT,), 0),
        ((INIT, SENT), 60),
        ((INIT, POSITION), 60),
        ((INIT, SENT, ENDED), 0),
        ((INIT, SENT, {**ENDED, "reached": False}), 60),
        ((INIT, SENT, INIT), 0),
        ((SENT,), 0),
        ((in_transaction("init_producer", request="9:2", timeout_ms=60_000), SENT), 0),
    ],
    ids=[
        "none begun",
        "a record in it",
        "only a position in it",
        "ended",
        "the end was lost",
        "begun anew",
        "unknown time-out",
        "of another stage",
    ],
)
def test_a_transaction_that_was_left_open_holds_its_stage_up_until_its_time_out(
    scenes: Scenes,
    monkeypatch: pytest.MonkeyPatch,
    events: tuple[dict[str, Any], ...],
    seconds: float,
) -> None:
    """The broker tells no position before. It ends the transaction a little later than that."""
    scene = scenes("orders", OPENS, *events)
    stage = scene.pipeline.stage(Role.CONSUMER)
    assert stage is not None
    begun = scene.stages_seen.transactions_end(Role.CONSUMER) - round(seconds * 1e9)
    monkeypatch.setattr(time, "monotonic_ns", lambda: begun + 10**9)
    assert held_up_s(scene.stages_seen, stage) == (seconds and seconds + ABORTED_S - 1)
    monkeypatch.setattr(time, "monotonic_ns", lambda: begun + 3600 * 10**9)
    assert held_up_s(scene.stages_seen, stage) == 0  # the broker has ended it long since


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (
            (),
            (
                r"sent no request to nowhere:2: pass \{bootstrap\} .*; if it only takes long to "
                r"start, set ready_within_s$"
            ),
        ),
        ((OPENS, asks("Metadata")), r"check that its topic is orders; .*set ready = "),
        (
            ENDS,
            (
                r"asked where the topic ends, and fetched nothing .*: "
                r'set position = "elsewhere" .*, or set ready = '
            ),
        ),
        ((OPENS, asks("Fetch")), r"^$"),
    ],
)
def test_who_is_not_ready_is_told_which_setting_says_when_it_is(
    scenes: Scenes, events: tuple[dict[str, Any], ...], said: str
) -> None:
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(
            Hints(scenes("orders", *events), Role.CONSUMER).why_unready(ended=False)
        )


def test_who_has_ended_will_not_be_ready_later(scenes: Scenes) -> None:
    said: Any = Hints(scenes("orders"), Role.CONSUMER).why_unready(ended=True)
    assert said == "it sent no request to nowhere:2"


@pytest.mark.parametrize(
    ("step", "error", "said"),
    [
        (
            "SaslAuthenticate",
            58,
            (
                "the broker refused its log-in (SASL_AUTHENTICATION_FAILED): pass it {username} "
                "and {password} in its environment"
            ),
        ),
        (
            "SaslHandshake",
            33,
            (
                "the broker refused its log-in (UNSUPPORTED_SASL_MECHANISM): pass it {mechanism} "
                "in its environment"
            ),
        ),
    ],
)
def test_who_is_not_let_in_is_told_what_the_broker_said(
    scenes: Scenes, step: str, error: int, said: str
) -> None:
    steps = [OPENS, asks("SaslHandshake"), {**asks(step, "response"), "error": error}]
    scene = scenes("secured", *steps, access=Access("SASL_SSL", "", "SCRAM-SHA-256", "me", "x"))
    assert Hints(scene, Role.CONSUMER).why_unready(ended=False) == said
