"""The fault ``taken-over``: the order of its steps, and what the history must show of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.faults import TakenOver
from harness.model.history import read_history
from harness.model.scenario import Role
from harness.model.takeovers import Takeover, Turn
from harness.model.writing import LedgerWriter
from harness.proofs.takeover import OtherLeads
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.judge.recording import steps

if TYPE_CHECKING:
    from pathlib import Path

SENDS = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)
LATER = ["Takeover.await_taken_over", "restart"]
SAID = {
    Turn.DIES: ["kill", "applied", "resolve Produce discard", "disarm", *LATER],
    Turn.DIES_AHEAD: [
        "Takeover.hold_copies",
        "resolve Produce release",
        "Takeover.await_ahead",
        "kill",
        "applied",
        "disarm",
        *LATER,
    ],
    Turn.HANDS_OVER: ["Takeover.elect", "applied", "resolve Produce release"],
    Turn.OVERTAKEN: [
        "Takeover.hold_copies",
        "resolve Produce release",
        "Takeover.await_ahead",
        "Takeover.elect",
        "applied",
    ],
    Turn.SHORT: [
        "kill",
        "kill",
        "Takeover.await_short",
        "applied",
        "resolve Produce release",
        "Takeover.await_refused",
        "restart",
        "restart",
    ],
    Turn.ROLLS: [
        "end",
        "applied",
        "resolve Produce release",
        *LATER,
        "Takeover.restart_others",
    ],
}


@pytest.mark.parametrize("turn", Turn)
def test_the_record_is_where_it_must_be_when_another_leads(turn: Turn) -> None:
    """On its way, stored by the leader alone, or refused; at the end all replicas are in sync."""
    fault = TakenOver(SENDS, turn)
    assert fault.needs() == (Takeover,)
    ends = ["disarm", "Takeover.await_in_sync", "healed"]
    said = [one for one in steps(fault, SENDS) if not one.startswith("resolve None")]
    assert said == ["fired", "Takeover.begin", *SAID[turn], *ends]
    who = {
        Turn.SHORT: (Role.FOLLOWER,),
        **dict.fromkeys(filter(lambda t: t.kills, Turn), (Role.BROKER,)),
    }
    assert fault.evidence().killed == who.get(turn, ())


def led(t: int, leader: int, isr: tuple[int, ...] = (2, 3, 1), **more: Any) -> dict[str, Any]:
    """Return a line about who leads the partition of the target."""
    return {
        "event": "leadership",
        "t": t,
        "topic": "orders",
        "partition": 1,
        "leader": f"broker-{leader}",
        "number": leader,
        "epoch": 0,
        "controller": "",
        "replicas": ["broker-2", "broker-3", "broker-1"],
        "isr": [f"broker-{n}" for n in isr],
        **more,
    }


def node(t: int, number: int, phase: str, **more: Any) -> dict[str, Any]:
    """Return a line of a broker's life."""
    life = {"role": "broker", "incarnation": 0, "phase": phase}
    return {"event": "node", "t": t, "node": f"broker-{number}", **life, **more}


HIT = {
    "event": "rule",
    "t": 1,
    "rule": "fault",
    "phase": "hit",
    "record": "k1-1",
    "conn": 7,
    "corr": 4,
    "role": "producer",
    "node": "broker-2",
    "api": "Produce",
    "acks": -1,
}
COPIES = {**HIT, "t": 3, "rule": "copies", "api": "Fetch", "role": "broker", "conn": 9}


def lines(**change: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return a run in which the leader of the target's partition was killed, and another led.

    ``change``: lines in place of these, by name; ``None``: without it.
    """
    found: dict[str, dict[str, Any] | None] = {
        "open": {"event": "conn", "t": 0, "phase": "open", "conn": 7, "role": "producer"},
        "hit": HIT,
        "before": led(2, 2),
        "killed": node(4, 2, "exited", signal=9),
        "applied": {"event": "fault", "t": 5, "phase": "applied", "fault": "taken-over"},
        "sent": {
            "event": "unsent",
            "t": 6,
            "record": "k1-1",
            "topic": "orders",
            "partition": 1,
            "request": "7:4",
        },
        "after": led(7, 3),
        "more": None,
        "other": None,
        **change,
    }
    return sorted((each for each in found.values() if each), key=lambda each: each["t"])


def trouble(tmp_path: Path, turn: Turn, told: list[dict[str, Any]], *killed: int) -> Any:
    """Return what the proof finds missing. ``killed``: the brokers that were killed."""
    with LedgerWriter(tmp_path / "wire.jsonl", cell="c", by="wire") as out:
        for line in told:
            out.write(line["event"], **{k: v for k, v in line.items() if k != "event"})
    history = read_history(tmp_path)
    dead = [SimpleNamespace(node=f"broker-{n}", role=Role.BROKER) for n in killed]
    course: Any = SimpleNamespace(history=history, plan=SimpleNamespace(target="k1-1"), killed=dead)
    return OtherLeads(str(turn)).trouble(course)


COPIED = {
    "event": "replicated",
    "t": 3,
    "record": "k1-1",
    "topic": "orders",
    "partition": 1,
    "offset": 5,
    "reached": True,
}
REFUSED = {
    "event": "produce_answer",
    "t": 8,
    "record": "k1-1",
    "request": "7:4",
    "error": 19,
    "reached": True,
}
SHORT: dict[str, Any] = {
    "killed": None,
    "other": node(2, 3, "exited", role="follower", signal=9),
    "before": led(3, 2, (2, 1)),
    "after": led(9, 2),
}
COMMITS = {**HIT, "api": "OffsetCommit"}
GROUPS: dict[str, Any] = {"topic": "__consumer_offsets", "partition": 0}


@pytest.mark.parametrize(
    ("turn", "killed", "change", "said"),
    [
        (Turn.DIES, (2,), {}, None),
        (Turn.DIES, (3,), {}, "broker-3 was killed, and the frame was for broker-2"),
        (Turn.DIES, (), {}, "nobody was killed, and the frame was for broker-2"),
        (Turn.DIES, (2,), {"applied": None}, "nothing was done to a broker"),
        (Turn.DIES, (2,), {"sent": None}, "nobody saw which partition the Produce was about"),
        (Turn.DIES, (2,), {"before": led(2, 3)}, "broker-2, which did not lead orders/1"),
        (Turn.DIES, (2,), {"after": None}, "nobody else was seen to lead orders/1"),
        (Turn.DIES, (2,), {"after": led(7, 2)}, "nobody else was seen to lead orders/1"),
        (Turn.DIES, (2,), {"after": led(7, -1)}, "nobody else was seen to lead orders/1"),
        (Turn.DIES, (2,), {"after": led(7, 3, partition=2)}, "nobody else was seen to lead"),
        (Turn.DIES, (2,), {"hit": COMMITS}, "which did not lead __consumer_offsets/0"),
        (
            Turn.DIES,
            (2,),
            {"hit": COMMITS, "before": led(2, 2, **GROUPS), "after": led(7, 3, **GROUPS)},
            None,
        ),
        (Turn.HANDS_OVER, (), {"killed": None}, None),
        (Turn.HANDS_OVER, (), {"killed": None, "after": None}, "nobody else was seen to lead"),
        (Turn.DIES_AHEAD, (2,), {"more": COPIES}, None),
        (Turn.DIES_AHEAD, (2,), {}, "nobody saw that its leader had stored k1-1"),
        (Turn.DIES_AHEAD, (2,), {"more": COPIES, "other": COPIED}, "a follower had k1-1 before"),
        (Turn.OVERTAKEN, (), {"killed": None, "more": COPIES}, None),
        (Turn.OVERTAKEN, (), {"killed": None}, "nobody saw that its leader had stored k1-1"),
        (Turn.SHORT, (), {**SHORT, "more": REFUSED}, None),
        (Turn.SHORT, (), {**SHORT, "more": {**REFUSED, "error": 20}}, None),
        (Turn.SHORT, (), {**SHORT, "more": {**REFUSED, "error": 0}}, "did not refuse k1-1"),
        (Turn.SHORT, (), {**SHORT, "hit": {**HIT, "acks": 1}}, None),
        (
            Turn.SHORT,
            (),
            {**SHORT, "more": REFUSED, "before": led(3, 2)},
            "was not seen to lead while a follower was out of sync",
        ),
        (
            Turn.SHORT,
            (),
            {**SHORT, "more": REFUSED, "other": node(2, 2, "exited", role="follower", signal=9)},
            "was not seen to lead while a follower was out of sync",
        ),
    ],
)
def test_what_the_history_must_show(
    tmp_path: Path,
    turn: Turn,
    killed: tuple[int, ...],
    change: dict[str, Any],
    said: str | None,
) -> None:
    """That the broker of the frame led what it was about, and then another did."""
    found = trouble(tmp_path, turn, lines(**change), *killed)
    assert found is None if said is None else said in str(found)


QUEUE: dict[str, Any] = {"topic": "q", "partition": 0}
OF_READERS: dict[str, Any] = {"topic": "q/readers", "partition": 0}
PUBLISH: dict[str, Any] = {name: value for name, value in HIT.items() if name != "acks"}
SENT: dict[str, Any] = {
    "event": "sent",
    "t": 2,
    "record": "k1-1",
    "topic": "q",
    "partition": None,
    "request": "7:4",
}
ANSWER: dict[str, Any] = {**REFUSED, "error": 0, "t": 6}
GIVEN: dict[str, Any] = {
    "event": "fetched",
    "t": 1,
    "record": "k1-1",
    "topic": "q",
    "conn": 7,
    "reached": False,
}
LED: dict[str, Any] = {
    "hit": PUBLISH,
    "sent": SENT,
    "before": led(2, 2, **QUEUE),
    "after": led(7, 3, **QUEUE),
}
READ: dict[str, Any] = {
    "hit": {**PUBLISH, "role": "consumer", "api": "MSG"},
    "sent": GIVEN,
    "before": led(2, 2, **OF_READERS),
    "after": led(7, 3, **OF_READERS),
}
ALONE: dict[str, Any] = {"event": "alone", "t": 4, "record": "k1-1"}
FEW: dict[str, Any] = {
    **LED,
    **{name: SHORT[name] for name in ("killed", "other")},
    "before": led(3, 2, (2, 1), **QUEUE),
    "after": node(9, 3, "started", role="follower"),
}


@pytest.mark.parametrize(
    ("turn", "killed", "change", "said"),
    [
        (Turn.DIES, (2,), LED, None),
        (Turn.DIES, (3,), LED, "broker-3 was killed, and the frame was for broker-2"),
        (Turn.DIES, (2,), {**LED, "before": led(2, 3, **QUEUE)}, "which did not lead q/0"),
        (Turn.DIES, (2,), {**LED, "after": led(7, 3, **OF_READERS)}, "nobody else was seen"),
        (Turn.DIES, (2,), READ, None),
        (Turn.DIES, (2,), {**READ, "before": led(2, 2, **QUEUE)}, "did not lead q/readers/0"),
        (Turn.DIES_AHEAD, (2,), {**LED, "more": ALONE}, None),
        (Turn.DIES_AHEAD, (2,), {**LED, "more": {**ALONE, "t": 6}}, "nobody saw that its leader"),
        (
            Turn.DIES_AHEAD,
            (2,),
            {**LED, "more": {**ALONE, "record": "k1-2"}},
            "nobody saw that its leader",
        ),
        (Turn.SHORT, (), FEW, None),
        (Turn.SHORT, (), {**FEW, "more": ANSWER}, "broker-2 took k1-1 alone"),
        (Turn.SHORT, (), {**FEW, "more": {**ANSWER, "t": 10}}, None),
        (Turn.SHORT, (), {**FEW, "more": {**ANSWER, "error": "timeout"}}, None),
    ],
)
def test_what_the_history_of_a_queue_must_show(
    tmp_path: Path,
    turn: Turn,
    killed: tuple[int, ...],
    change: dict[str, Any],
    said: str | None,
) -> None:
    """A queue has no partitions, and its readers a log of their own. Who keeps copies of it may say
    nothing of what its leader alone has taken: nobody was told that it is stored.
    """
    found = trouble(tmp_path, turn, lines(**change), *killed)
    assert found is None if said is None else said in str(found)


def rolled(*numbers: int, asked: bool = True) -> list[dict[str, Any]]:
    """Return the lines of brokers that were restarted one after the other."""
    return [
        line
        for place, number in enumerate(numbers)
        for line in (
            node(3 + 2 * place, number, "exited", asked=asked, status=143),
            node(4 + 2 * place, number, "ready"),
        )
    ]


@pytest.mark.parametrize(
    ("lives", "said"),
    [
        (rolled(2, 3, 1), None),
        (rolled(3, 2, 1), "not each broker was restarted once"),
        (rolled(2, 3), "not each broker was restarted once"),
        (rolled(2, 3, 1, 3), "not each broker was restarted once"),
        (rolled(2, 3, 1, asked=False), "was not shut down in order"),
        (rolled(2, 3, 1)[:-1], "broker-1 was stopped and did not come back"),
        (rolled(2, 3, 1)[::2], "broker-3 was stopped while broker-2 was not back"),
    ],
)
def test_all_must_have_been_restarted_in_turn(
    tmp_path: Path, lives: list[dict[str, Any]], said: str | None
) -> None:
    told = sorted([*lines(killed=None), *lives], key=lambda line: line["t"])
    found = trouble(tmp_path, Turn.ROLLS, told)
    assert found is None if said is None else said in str(found)


def test_a_frame_that_nobody_saw_proves_nothing(tmp_path: Path) -> None:
    without = {name: value for name, value in HIT.items() if name != "node"}
    for hit in (None, without):
        found = trouble(tmp_path, Turn.DIES, lines(hit=hit), 2)
        assert "nobody saw which broker the frame was for" in found
