"""The faults ``transaction-timeout`` and ``zombie``: what they wait for, and what they do where
nothing was hit.
"""

from __future__ import annotations

from harness.controls import InProgram, OnWire
from harness.faults import Pause
from harness.model.scenario import Role
from harness.protocols.kafka.steps import Api
from harness.systems.kafka.faults import StaleMember, TransactionTimeout, Zombie
from harness.wire.rules import Direction
from tests.judge.recording import steps

END = OnWire(Role.PRODUCER, Api.END_TXN, Direction.REQUEST)
IN_HAND = InProgram(Role.DRIVER, "before-recording")


def test_a_transaction_is_aborted_while_its_process_sleeps() -> None:
    """The request goes on only when there is nothing left to commit; what the process makes of
    that, its supervisor sees.
    """
    assert steps(TransactionTimeout(END), END) == [
        "fired",
        "pause",
        "applied",
        "Transactions.await_aborted",
        "resume",
        "resolve EndTxn release",
        "Supervision.supervise",
        "healed",
    ]


def test_a_zombie_wakes_up_when_its_stand_in_has_done_everything() -> None:
    """Its request, which was on its way when it fell asleep, arrives then."""
    assert steps(Zombie(END), END) == [
        "fired",
        "pause",
        "applied",
        "Succession.stand_in producer",
        "await_exhausted",
        "settle",
        "resume",
        "resolve EndTxn release",
        "Succession.await_zombie",
        "healed",
    ]


def test_where_nothing_was_hit_nobody_sleeps() -> None:
    assert steps(TransactionTimeout(END)) == steps(Zombie(END)) == steps(Zombie(IN_HAND)) == []


def test_whoever_was_put_out_comes_back_when_the_others_have_done_its_work() -> None:
    """They ask while it sleeps, and work when it has gone on; it would else have its partition back
    before they began.
    """
    at = OnWire(Role.PROCESSOR, Api.END_TXN, Direction.REQUEST)
    joins = OnWire(Role.PROCESSOR, Api.JOIN_GROUP, Direction.REQUEST, since=at)
    assert steps(Pause(at, others_finish=False, others_ask=True), at, joins) == [
        "fired",
        "pause",
        "applied",
        "Membership.await_expired processor",
        "arm joins",
        "Rebalance.await_asked processor",
        "resume",
        "resolve EndTxn release",
        "await_exhausted",
        "settle",
        "resolve JoinGroup release",
        "healed",
    ]


def test_whoever_was_overtaken_commits_as_a_member_before_the_source_goes_on() -> None:
    """Its request waits until it was told that it was put out; the source waits until its
    transaction has ended.
    """
    at = OnWire(Role.PROCESSOR, Api.PRODUCE, Direction.REQUEST)
    until = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST, offset=1)
    ends = OnWire(Role.PROCESSOR, Api.END_TXN, Direction.RESPONSE, since=at)
    assert steps(StaleMember(at, until), at, until, ends) == [
        "fired",
        "pause",
        "applied",
        "Membership.await_expired processor",
        "settle",
        "resume",
        "Membership.await_put_out",
        "arm ends",
        "resolve Produce release",
        "resolve EndTxn release",
        "resolve Produce release",
        "healed",
    ]
    for fires in ((), (at,), (until,), (at, until)):
        assert "healed" not in steps(StaleMember(at, until), *fires)
    assert (
        steps(StaleMember(at, until), at, until, ends, hung_up=True)[-1]
        == "resolve Produce release"
    )
