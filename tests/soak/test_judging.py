"""What a fault's history proves: one that is as it should be is kept, and each thing that is not is
named.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from harness import registry
from harness.judge.signs import ABSORBED, RESUMED_PAST
from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import read_history
from harness.model.semantics import Semantic
from harness.model.writing import LedgerWriter
from harness.soak.drawing import DrawnFault, streamable
from harness.soak.judging import Window, judge
from harness.stages.bulk.marks import Marks
from scenarios import plain, transactions
from tests.events import a_history, whole
from tests.soak.play import FaultHistory, Harm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.model.scenario import Scenario

    Row = dict[str, Any]

ALO, EOS, AMO = Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE, Semantic.AT_MOST_ONCE


def window(folder: Path, scenario: Scenario, semantic: Semantic = EOS, **counts: int) -> Window:
    """Return what was seen of a fault that did what it should."""
    drawn = DrawnFault(0, scenario, 1, 4)
    with (
        Marks.create(folder / "marks", [0, 900]) as marks,
        LedgerWriter(folder / "h" / "a.jsonl", cell="c", by="runner") as to,
    ):
        FaultHistory(drawn, Harm(), marks, semantic).write(to)
    seen = {"lost": 0, "duplicated": 0, "absorbed": 0, "phantom": 0} | counts
    return Window(drawn, semantic, read_history(folder / "h"), semantic is AMO, **seen, unit=20)


def changed(seen: Window, change: Callable[[Row], Row | None]) -> Window:
    """Return it with another history: an event is changed, or left out."""
    events = tuple(
        event for each in seen.history.events if (event := change(whole(each))) is not None
    )
    return replace(seen, history=a_history(events, ()))


def without(**meant: Any) -> Callable[[Row], Row | None]:
    """Leave out the events that have these fields."""
    return lambda event: (
        None if all(event.get(name) == value for name, value in meant.items()) else event
    )


def put(change: dict[str, Any], **meant: Any) -> Callable[[Row], Row]:
    """Change the events that have these fields."""
    return lambda event: (
        event | change if all(event.get(name) == value for name, value in meant.items()) else event
    )


@pytest.mark.parametrize("semantic", Semantic)
def test_each_fault_that_does_what_theory_says_is_kept(tmp_path: Path, semantic: Semantic) -> None:
    drawn = streamable(registry.scenarios(), semantic)
    assert {
        "ack-lost",
        "broker-crash-before-append",
        "commit-lost",
        "producer-crash-before-send",
    } <= {one.id for one in drawn}
    assert not any(one.deployment.security or one.deployment.clustered for one in drawn)
    for number, one in enumerate(drawn):
        expected: Any = one.expectation(semantic)
        (tmp_path / str(number)).mkdir()
        seen = window(
            tmp_path / str(number),
            one,
            semantic,
            lost=int(expected.lost.must_show()),
            duplicated=int(expected.duplicated.must_show()),
            absorbed=int(expected.sign == ABSORBED),
        )
        if expected.sign == RESUMED_PAST:
            seen = changed(seen, put({"position": 900, "delivered": 900}, event="resumed"))
        assert judge(seen)[0] is Kind.KEPT, (one.id, judge(seen))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without(event="rule", phase="hit"), "the fault did not fire"),
        (
            put({"client": "k.consumer-0.1"}, event="rule", phase="hit"),
            "the rule hit another frame",
        ),
        (put({"api": "Fetch"}, event="rule", phase="hit"), "the rule hit another frame"),
        (without(event="node", phase="exited"), "the fault had to kill consumer-1, and did not"),
        (
            put({"node": "consumer-0"}, event="node", phase="exited"),
            "the fault had to kill consumer-1, and did not",
        ),
        (
            put({"signal": None, "status": 1}, event="node", phase="exited"),
            "did not die by SIGKILL: exit status 1",
        ),
        (put({"t": 0}, event="node", phase="exited"), "was dead before the fault fired"),
        (
            put({"phase": "released"}, event="rule", phase="discarded"),
            "the frame was not discarded",
        ),
        (without(event="fault", phase="healed"), "the fault was not healed"),
    ],
)
def test_what_proves_nothing_is_void(
    tmp_path: Path, change: Callable[[Row], Row | None], reason: str
) -> None:
    """Each thing that a fault must have done is missed; an anomaly that is forbidden is still a
    broken promise.
    """
    seen = changed(window(tmp_path, plain.COMMIT_LOST, absorbed=3), change)
    kind, told = judge(seen)
    assert kind is Kind.VOID
    assert reason in told
    kind, told = judge(replace(seen, duplicated=1))
    assert kind is Kind.BROKEN
    assert told.startswith("though not by this fault (")


def test_somebody_else_died(tmp_path: Path) -> None:
    """Besides the victim: void."""
    seen = window(tmp_path, plain.COMMIT_LOST, absorbed=3)
    died = next(e for e in seen.history.of(kinds.Node) if e.phase == "exited")
    other = msgspec.structs.replace(died, node="producer-0")
    told = judge(replace(seen, history=a_history((*seen.history.events, other), ())))
    assert told == (Kind.VOID, "producer-0 died, although the fault does not kill it")


@pytest.mark.parametrize(
    ("scenario", "semantic", "change", "reason"),
    [
        (plain.ACK_LOST, ALO, None, "without effect: duplicated predicted"),
        (plain.REQUEST_LOST, AMO, None, "without effect: lost predicted"),
        (plain.COMMIT_LOST, EOS, None, "no absorbed"),
        (plain.ACK_LOST, EOS, without(event="frame", conn=2), "no repeated-request"),
        (plain.ACK_LOST, EOS, put({"size": 1999}, event="frame", conn=2), "no repeated-request"),
        (
            transactions.END_ACK_LOST,
            EOS,
            put({"api": "Produce"}, event="frame", conn=2),
            "no ended-again",
        ),
        (
            plain.PRODUCER_CRASH_BEFORE_SEND,
            EOS,
            put({"position": 900}, event="resumed"),
            "no taken-again",
        ),
        (
            plain.CONSUMER_CRASH_BEFORE_RECORDING,
            EOS,
            put({"position": 900}, event="resumed"),
            "no delivered-again",
        ),
        (plain.DELIVERY_LOST, EOS, put({"size": 90}, event="rule"), "no delivered-again"),
        (plain.COMMIT_ACK_LOST, ALO, without(event="resumed"), "no resumed-past"),
    ],
)
def test_an_effect_that_does_not_show_is_void(
    tmp_path: Path,
    scenario: Scenario,
    semantic: Semantic,
    change: Callable[[Row], Row | None] | None,
    reason: str,
) -> None:
    seen = window(tmp_path, scenario, semantic)
    kind, told = judge(changed(seen, change) if change else seen)
    assert (kind, reason in told) == (Kind.VOID, True), told


def test_who_does_not_send_again_did_not_hear_or_died(tmp_path: Path) -> None:
    """A client that sends again by itself is told of no failure: then a count of zero shows nothing
    of at-most-once.
    """
    seen = window(tmp_path, plain.ACK_LOST, AMO)
    assert judge(seen)[0] is Kind.KEPT
    assert judge(replace(seen, unheard=False)) == (
        Kind.VOID,
        "nothing shows that the protection worked: no not-resent",
    )


def test_a_producer_that_died_shows_it_by_going_on_behind(tmp_path: Path) -> None:
    """Not by what it takes after its restart: the line of its restart says how far it had come."""
    seen = replace(window(tmp_path, plain.PRODUCER_CRASH_BEFORE_ACK, AMO), unheard=False)
    assert judge(seen)[0] is Kind.KEPT
    again = changed(seen, put({"position": 899}, event="resumed"))
    assert judge(again) == (Kind.VOID, "nothing shows that the protection worked: no not-resent")
    (tmp_path / "once").mkdir()
    taken = window(tmp_path / "once", plain.PRODUCER_CRASH_BEFORE_SEND, EOS)
    assert judge(taken)[0] is Kind.KEPT
    assert judge(changed(taken, put({"taken": 899}, event="resumed")))[1].endswith("no taken-again")


@pytest.mark.parametrize(
    ("scenario", "semantic", "counts", "kind"),
    [
        (plain.DELIVERY_LOST, EOS, {"lost": 1}, Kind.BROKEN),
        (plain.DELIVERY_LOST, EOS, {"duplicated": 1}, Kind.BROKEN),
        (plain.DELIVERY_LOST, ALO, {"lost": 1}, Kind.BROKEN),
        (plain.DELIVERY_LOST, ALO, {"duplicated": 1}, Kind.VOID),
        (plain.ACK_LOST, ALO, {"duplicated": 1}, Kind.KEPT),
        (plain.REQUEST_LOST, AMO, {"lost": 1}, Kind.KEPT),
        (plain.PRODUCER_CRASH_BEFORE_ACK, AMO, {"lost": 19}, Kind.KEPT),
        (plain.PRODUCER_CRASH_BEFORE_ACK, AMO, {"lost": 20}, Kind.VOID),
        (plain.PRODUCER_CRASH_BEFORE_ACK, ALO, {"lost": 1, "duplicated": 1}, Kind.BROKEN),
        (plain.ACK_LOST, AMO, {"lost": 1}, Kind.VOID),
        (plain.REQUEST_LOST, AMO, {"lost": 1, "duplicated": 1}, Kind.BROKEN),
        (plain.BROKER_CRASH_BEFORE_APPEND, ALO, {"duplicated": 1}, Kind.KEPT),
        (plain.DELIVERY_LOST, AMO, {"phantom": 1}, Kind.BROKEN),
        (plain.DELIVERY_LOST, ALO, {"phantom": 1}, Kind.BROKEN),
    ],
)
def test_the_promise_decides(
    tmp_path: Path, scenario: Scenario, semantic: Semantic, counts: dict[str, int], kind: Kind
) -> None:
    """What is forbidden breaks it; what is permitted and not predicted contradicts theory, unless
    the broker has died.
    """
    assert judge(window(tmp_path, scenario, semantic, **counts))[0] is kind
