"""A silent peer: what the fault does step by step, what shows that the client waits no more, and
what its proof asks for.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import NotFiredError, OnWire
from harness.faults import Silent, Torn
from harness.knowledge import knowledge
from harness.model.scenario import Role
from harness.proofs import silence
from harness.protocols.kafka.steps import Api
from harness.run import giving_up
from harness.run.giving_up import WatchedClient
from harness.wire.rules import Action, After, Direction
from tests.events import a_history, typed
from tests.judge.recording import played, steps
from tests.judge.runs import TARGET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.history import Event

ANSWER = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.RESPONSE)
REQUEST = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)


def test_an_answer_is_held_until_nobody_waits_for_it() -> None:
    """And goes on where its connection lives; the ability says so."""
    assert steps(Silent(ANSWER), ANSWER) == [
        "fired",
        "applied",
        "GivingUp.await_given_up",
        "resolve Produce release",
        "healed",
    ]


@pytest.mark.parametrize(
    ("at", "action", "after"),
    [(ANSWER, Action.HOLD, After.CUT), (REQUEST, Action.DROP, After.BLACK_HOLE)],
)
def test_its_connection_lives_on(at: OnWire, action: Action, after: After) -> None:
    """A held answer stalls what is behind it; a request and all behind it is swallowed."""
    [(where, rule)] = played(Silent(at), ()).armed
    assert (where, rule.action, rule.after) == (at, action, after)  # type: ignore[union-attr]


def test_what_is_not_hit_never_heals() -> None:
    assert steps(Silent(ANSWER)) == []


def test_a_torn_request_goes_on_when_nobody_waits_for_it() -> None:
    """Also when its client has left: the broker has half of it, and reads on."""
    [(where, rule)] = played(Torn(REQUEST), ()).armed
    assert (where, rule.action, rule.half) == (REQUEST, Action.HOLD, True)  # type: ignore[union-attr]
    assert steps(Torn(REQUEST), REQUEST) == [
        "fired",
        "applied",
        "GivingUp.await_given_up",
        "resolve Produce release",
        "healed",
    ]
    assert steps(Torn(REQUEST)) == []


# --- what shows that a client waits no more -----------------------------------------------------


def line(kind: str, t: int, **fields: Any) -> Event:
    """Return a line of the wire."""
    return typed({"event": kind, "t": t, **fields})


HIT = {"rule": "silence", "phase": "hit", "conn": 7, "corr": 3, "role": "producer", "client": "c"}
FRAME = {"dir": "request", "api": "Produce", "role": "producer", "client": "c", "records": ["a"]}


def gave_up(*lines: Event) -> bool | None:
    """Say whether the silent connection lives when the client has given up; ``None``: it has
    not.
    """
    hit = line("rule", 10, **HIT, api="Produce", dir="response", records=["a"])

    class Seen:
        def of(self, *wanted: type) -> Iterable[Event]:
            return [each for each in (hit, *lines) if isinstance(each, wanted)]

    seen: Any = Seen()
    try:
        return WatchedClient(seen, lambda: None).await_given_up()
    except NotFiredError:
        return None


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a silence last shortly."""
    monkeypatch.setattr(giving_up, "SILENCE_S", 0.05)


def test_one_that_hangs_up_has_given_up() -> None:
    assert gave_up(line("conn", 11, phase="left", conn=7)) is False
    assert gave_up(line("conn", 11, phase="close", conn=7, ended_by="client")) is False


def test_what_others_do_is_no_sign() -> None:
    """Another connection, an end by the wire, what was before, another record, another client,
    another process.
    """
    assert gave_up() is None
    assert gave_up(line("conn", 11, phase="left", conn=8)) is None
    assert gave_up(line("conn", 11, phase="close", conn=7, ended_by="wire")) is None
    assert gave_up(line("conn", 9, phase="left", conn=7)) is None
    answered = line("frame", 13, **FRAME | {"dir": "response"}, conn=9, corr=1)
    for change in (
        {"records": ["b"]},
        {"client": "d"},
        {"api": "Fetch"},
        {"role": "consumer"},
        {"conn": 7},
    ):
        again = line("frame", 12, **FRAME | {"conn": 9, "corr": 1} | change)
        assert gave_up(again, answered) is None, change
    owners = (
        line("owner", 8, conn=7, role="producer", pid=1, command="p"),
        line("owner", 8, conn=9, role="producer", pid=2, command="p"),
    )
    again = line("frame", 12, **FRAME, conn=9, corr=1)
    assert gave_up(*owners, again, answered) is None


def test_one_that_has_its_answer_elsewhere_has_given_up() -> None:
    """It asked the same over another connection; until that is answered, it may still wait for
    both.
    """
    again = line("frame", 12, **FRAME, conn=9, corr=1)
    assert gave_up(again) is None
    answered = line("frame", 13, **FRAME | {"dir": "response"}, conn=9, corr=1)
    assert gave_up(again, answered) is True


# --- the verdict --------------------------------------------------------------------------------


def test_a_client_that_never_gives_up_was_not_tried() -> None:
    """The proof says what to do; a client that left is proof enough."""
    proof = silence.FellSilent()
    frames = [
        line("rule", 10, **HIT, api="Produce", dir="response", records=[TARGET]),
    ]

    def trouble(*lines: Event) -> str | None:
        course: Any = type("Course", (), {"history": a_history([*frames, *lines])})()
        return proof.trouble(course)

    said = trouble()
    assert said is not None
    assert said.startswith("the producer still waited after 75 s of silence behind its Produce")
    assert "request.timeout.ms" in said
    assert trouble(line("conn", 11, phase="left", conn=7)) is None
    frames.clear()
    assert trouble() == "no connection fell silent"


def test_a_torn_request_stopped_half_way_and_went_on() -> None:
    """What was held whole, or never went on, was not torn."""
    proof = silence.HalfWay()

    def trouble(*lines: Event) -> str | None:
        course: Any = type("Course", (), {"history": a_history(lines)})()
        return proof.trouble(course)

    torn = HIT | {
        "phase": "held",
        "api": "Produce",
        "dir": "request",
        "held": "h1",
        "records": ["a"],
    }
    half = line("rule", 11, **torn, passed=40)
    sent = {"record": "a", "topic": "orders", "partition": 0, "request": "7:3"}
    on = line("sent", 30, **sent)
    assert trouble(half, on) is None
    assert trouble(line("rule", 11, **torn), on) == "no request stopped half-way"
    assert trouble() == "no request stopped half-way"
    never = "the rest of the producer's Produce request never went on, or the record is named in"
    for others in ((), (line("unsent", 30, **sent),)):
        assert str(trouble(half, *others)).startswith(never)
    for change in ({"record": "b"}, {"request": "9:1"}):
        assert str(trouble(half, line("sent", 30, **sent | change))).startswith(never)
    assert knowledge().proofs["half-way"] is silence.HalfWay


def test_a_broker_that_stood_still_had_the_request() -> None:
    """One that never came, or came before or behind that, was not left undone; and who answers does
    not stand still.
    """
    proof = silence.ReachedFrozen()

    def trouble(*lines: Event) -> str | None:
        course: Any = type("Course", (), {"history": a_history(lines)})()
        return proof.trouble(course)

    hit = line("rule", 10, **HIT, api="Produce", dir="request", records=["a"])
    broker = {"node": "broker", "role": "broker", "incarnation": 1, "phase": "paused"}
    stopped, left = line("node", 12, **broker), line("conn", 30, phase="left", conn=7)
    frozen = (hit, stopped, left)
    sent = {"record": "a", "topic": "orders", "partition": 0, "request": "7:3"}
    saved = {"topic": "orders", "partition": 0, "offset": 4, "request": "7:3"}
    answer = FRAME | {"dir": "response", "conn": 7, "corr": 3}
    for on in (line("sent", 13, **sent), line("committed", 13, **saved, reached=True)):
        assert trouble(*frozen, on) is None
        assert trouble(*frozen, on, line("frame", 31, **answer)) is None, "late is right"
        assert str(trouble(*frozen, on, line("frame", 14, **answer))).endswith("not stand still")
        other = line("frame", 14, **answer | {"corr": 2})
        assert trouble(*frozen, on, other) is None
    never = "the Produce request did not reach the broker while it stood still"
    for others in (
        (),
        (line("unsent", 13, **sent),),
        (line("committed", 13, **saved, reached=False),),
        (line("sent", 11, **sent),),
        (line("sent", 31, **sent),),
        (line("sent", 13, **sent | {"request": "7:4"}),),
    ):
        assert trouble(*frozen, *others) == never
    on = line("sent", 13, **sent)
    assert trouble(hit, left, on) == never
    assert trouble(hit, line("node", 12, **broker | {"role": "db"}), left, on) == never
    assert trouble(on) == "no request was on its way to the broker"
    assert knowledge().proofs["reached-frozen"] is silence.ReachedFrozen


def test_its_proof_and_its_sign_are_known() -> None:
    """A saved plan names the proof; the sign is at the record behind which all was silent."""
    assert knowledge().proofs["fell-silent"] is silence.FellSilent
    lines = [
        line("rule", 10, **HIT, api="Produce", dir="response", records=["a"]),
        line("conn", 11, phase="left", conn=7),
    ]
    assert silence.silence_signs(a_history(lines)) == {silence.OUTWAITED: {"a"}}
    assert silence.silence_signs(a_history(lines[:1])) == {}


def test_nobody_is_started_while_all_wait_for_the_same_peer() -> None:
    """Each start would fail, and a program may be started only so often."""
    hit = line("rule", 10, **HIT, api="Produce", dir="response", records=["a"])
    seen: Any = SimpleNamespace(of=lambda *kinds: [hit] if isinstance(hit, kinds) else [])
    starts: list[str] = []
    watched = WatchedClient(seen, lambda: starts.append("started"))
    for supervised in (False, True):
        with pytest.raises(NotFiredError):
            watched.await_given_up(supervised=supervised)
        assert bool(starts) is supervised
