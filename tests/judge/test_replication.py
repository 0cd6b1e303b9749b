"""What followers fetched, and whether the broker that died had the part it should have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.model.prediction import Select
from harness.model.scenario import Role
from harness.proofs.leadership import TRANSACTION_LOG, not_elected, not_rolled, unmoved, wrong_part
from harness.systems.kafka.selections import replication_selections
from tests.events import a_history, typed

if TYPE_CHECKING:
    from tests.judge.histories import Row


def event(t: int, kind: str, **fields: Any) -> Row:
    """One event."""
    return {"t": t, "event": kind, "topic": "t", "partition": 0, **fields}


def died(**fields: Any) -> kinds.Node:
    """The death of a node."""
    death = typed({"event": kinds.NODE, "t": 5, **fields})
    assert isinstance(death, kinds.Node)
    return death


def led(
    t: int, leader: str, controller: str = "broker-1", *, number: int = 1, epoch: int = 0
) -> Row:
    """What the cluster says of a partition."""
    replicas = ["broker-1", "broker-2", "broker-3"]
    return event(
        t,
        "leadership",
        leader=leader,
        number=number,
        epoch=epoch,
        replicas=replicas,
        isr=replicas,
        controller=controller,
    )


def copied(t: int, record: str, follower: int = 3, epoch: int = 0, *, reached: bool = True) -> Row:
    """A copy on its way to a follower."""
    return event(
        t, kinds.REPLICATED, record=record, follower=follower, epoch=epoch, reached=reached
    )


def test_unreplicated_is_what_was_sent_and_reached_no_follower() -> None:
    """A copy that was held and thrown away on its way to a follower is none."""
    history = a_history(
        (
            event(1, "sent", record="a"),
            copied(2, "a"),
            event(3, "sent", record="b"),
            copied(4, "b", reached=False),
            event(5, "sent", record="c"),
            copied(6, "c"),
        )
    )
    assert replication_selections(history, "b") == {Select.UNREPLICATED: frozenset({"b"})}
    assert replication_selections(history, "a") == {}, (
        "a follower has the target: the fault had no effect"
    )
    assert replication_selections(a_history(()), "a") == {}


@pytest.mark.parametrize(
    ("successor", "alone"),
    [(2, {"b", "c"}), (3, {"c"})],
)
def test_what_the_next_leader_did_not_fetch_is_unreplicated_whoever_else_did(
    successor: int, alone: set[str]
) -> None:
    """Found in a real run: one of two followers had fetched a record when copies were stalled, and
    the other was elected.
    """
    history = a_history(
        (
            led(1, "broker-1", number=1),
            event(2, "sent", record="a"),
            copied(3, "a", 2),
            copied(3, "a", 3),
            event(4, "sent", record="b"),
            copied(5, "b", 3),
            event(6, "sent", record="c"),
            copied(7, "c", reached=False),
            led(8, "broker-1", number=1),
            led(9, "nobody", number=-1),
            led(10, f"broker-{successor}", number=successor, epoch=1),
            event(11, "sent", record="d"),
            copied(12, "d", 5 - successor, epoch=1),
            led(13, "broker-1", number=1, epoch=2),
            event(14, "sent", record="e"),
            copied(15, "e", 5 - successor, epoch=2),
        )
    )
    assert replication_selections(history, "c") == {Select.UNREPLICATED: frozenset(alone)}


@pytest.mark.parametrize(
    ("role", "node", "wrong"),
    [
        (Role.LEADER, "broker-2", None),
        (
            Role.LEADER,
            "broker-3",
            "broker-3 was killed as the leader but was not: leader broker-2, controller broker-1",
        ),
        (Role.FOLLOWER, "broker-3", None),
        (
            Role.FOLLOWER,
            "broker-2",
            "broker-2 was killed as the follower but was not: leader broker-2, controller broker-1",
        ),
        (Role.CONTROLLER, "broker-1", None),
        (
            Role.CONTROLLER,
            "broker-2",
            (
                "broker-2 was killed as the controller but was not: leader broker-2, controller "
                "broker-1"
            ),
        ),
        (Role.PRODUCER, "producer", None),
    ],
)
def test_the_broker_that_died_must_have_had_its_part(
    role: Role, node: str, wrong: str | None
) -> None:
    """What the cluster said last, before it died, of the target's partition decides."""
    other = {**led(3, "broker-3"), "partition": 1}
    history = a_history(
        (
            event(1, "sent", record="r"),
            led(2, "broker-2"),
            other,
            led(9, "broker-3", "broker-3"),
        )
    )
    assert wrong_part(history, "r", [died(role=role, node=node)]) == wrong


def test_a_leader_that_coordinates_too_is_two_faults_in_one() -> None:
    """Found in a real run: a starved broker was put out, and Kafka's own topics were led by the
    target's leader from then on.
    """
    coordinates = {
        **led(3, "broker-2"),
        "topic": TRANSACTION_LOG[0],
        "partition": TRANSACTION_LOG[1],
    }
    killed = [died(role=Role.LEADER, node="broker-2")]
    history = a_history((event(1, "sent", record="r"), led(2, "broker-2"), coordinates))
    assert (
        wrong_part(history, "r", killed)
        == "broker-2 was killed as the leader but was the coordinator of transactions as well"
    )
    home = {**coordinates, "t": 4, "leader": "broker-1"}
    assert wrong_part(a_history((*history.events, home)), "r", killed) is None


def test_a_part_that_nobody_asked_for_is_no_proof() -> None:
    history = a_history((event(1, "sent", record="r"), led(9, "broker-2")))
    end = died(role=Role.LEADER, node="broker-2")
    assert (
        wrong_part(history, "r", [end])
        == "the cluster did not report whether broker-2 was the leader"
    )


def test_a_leader_that_was_to_move_and_stayed_is_told() -> None:
    """Of the target's own partition, by the cluster's word; where there is none,
    nothing has moved.
    """
    elsewhere = [
        {**led(t, leader), "partition": 1} for t, leader in ((3, "broker-1"), (4, "broker-3"))
    ]
    sent = event(1, "sent", record="r")
    stayed = a_history((sent, led(2, "broker-2"), *elsewhere, led(9, "broker-2")))
    assert unmoved(stayed, "r") == "the leader did not move: broker-2"
    assert unmoved(a_history((sent, *elsewhere)), "r") == "the leader did not move: unknown"
    assert unmoved(a_history((sent, led(2, "broker-2"), led(9, "broker-3"))), "r") is None


@pytest.mark.parametrize(("leads", "wrong"), [("broker-1", False), ("broker-3", True)])
def test_a_coordinator_is_who_leads_the_log_of_transactions(leads: str, wrong: bool) -> None:
    log = {**led(2, leads), "topic": "__transaction_state"}
    history = a_history((event(1, "sent", record="r"), log, led(3, "broker-2")))
    assert bool(wrong_part(history, "r", [died(role=Role.COORDINATOR, node="broker-1")])) is wrong


def ordered(t: int, leader: str, *replicas: str) -> Row:
    """What the cluster says of a partition whose replicas stand in an order: the first is
    preferred.
    """
    return led(t, leader) | {"replicas": list(replicas)}


SENT = event(1, "sent", record="r")
UNPROVED = (
    "the history does not show that a broker other than the preferred replica was the leader before"
)
ONE_TWO = ("broker-1", "broker-2")
TWO_ONE = ("broker-2", "broker-1")


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ((ordered(2, "broker-1", *TWO_ONE), ordered(3, "broker-2", *TWO_ONE)), None),
        (
            (
                ordered(2, "broker-1", *ONE_TWO),
                ordered(3, "broker-1", *TWO_ONE),
                ordered(4, "broker-2", *TWO_ONE),
            ),
            None,
        ),
        (
            (ordered(2, "broker-1", *TWO_ONE), ordered(3, "broker-1", *TWO_ONE)),
            "the preferred replica broker-2 was not elected",
        ),
        ((ordered(2, "broker-1", *ONE_TWO), ordered(3, "broker-2", *TWO_ONE)), UNPROVED),
        ((ordered(2, "broker-2", *TWO_ONE), ordered(3, "broker-2", *TWO_ONE)), UNPROVED),
        ((), UNPROVED),
    ],
    ids=[
        "elected",
        "put in order, then elected",
        "nobody was",
        "reassigned instead",
        "it led anyway",
        "nobody said",
    ],
)
def test_a_preferred_leader_is_elected_by_nothing_but_an_election(
    said: tuple[Row, ...], wrong: str | None
) -> None:
    """It must have been preferred, and not have led; and a move that changes the order of the
    replicas is another fault.
    """
    assert not_elected(a_history((SENT, *said)), "r", 2) == wrong
    assert not_elected(a_history((SENT, *said)), "r", 9) == UNPROVED, (
        "what was elected before the fault is none of its doing"
    )


def restart(t: int, name: str, *, asked: bool = True) -> tuple[Row, ...]:
    """One broker ends and comes back, in five ticks."""
    end = event(t, kinds.NODE, role=Role.BROKER, node=name, phase="exited", status=143, asked=asked)
    return end, *(
        event(t + 4, kinds.NODE, role=Role.BROKER, node=name, phase=phase)
        for phase in ("started", "ready")
    )


B1, B2, B3 = "broker-1", "broker-2", "broker-3"
ONCE = "not each of 3 brokers was restarted once; these were:"


@pytest.mark.parametrize(
    ("lives", "wrong"),
    [
        ((*restart(10, B2), *restart(20, B3), *restart(30, B1)), None),
        ((), f"{ONCE} none"),
        ((*restart(10, B2), *restart(20, B3)), f"{ONCE} broker-2, broker-3"),
        (
            (*restart(10, B2), *restart(20, B3), *restart(30, B2)),
            f"{ONCE} broker-2, broker-3, broker-2",
        ),
        (
            (*restart(10, B2), *restart(20, B1), *restart(30, B3)),
            "the brokers were restarted out of order: broker-2, broker-1, broker-3",
        ),
        (
            (*restart(10, B1), *restart(20, B2), *restart(30, B3)),
            "broker-1 was restarted first, but the target's leader was broker-2",
        ),
        (
            (*restart(10, B2), *restart(12, B3), *restart(30, B1)),
            "broker-3 was stopped while broker-2 was not back",
        ),
        (
            (*restart(10, B2), *restart(20, B3), restart(30, B1)[0]),
            "broker-1 was stopped and did not come back",
        ),
        (
            (*restart(10, B2), *restart(20, B3), *restart(30, B1, asked=False)),
            f"{ONCE} broker-2, broker-3",
        ),
    ],
    ids=[
        "in turn",
        "disarmed",
        "two",
        "one twice",
        "out of order",
        "not at the target",
        "two at once",
        "one stays away",
        "one died",
    ],
)
def test_brokers_roll_one_at_a_time_each_once_in_turn(
    lives: tuple[Row, ...], wrong: str | None
) -> None:
    """From the leader of the target's partition on; who ends by itself was not
    restarted in order.
    """
    ordered_lives = sorted(lives, key=lambda e: e["t"])
    assert not_rolled(a_history((SENT, led(2, B2), *ordered_lives, led(90, B3))), "r", 3) == wrong
