"""A refusal in the broker's name, and a frame that waits for something: what the faults do, and
what must be seen of them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.faults import Answer, Hold, Unanswered, Until
from harness.model.scenario import Role
from harness.proofs.answer import ASKED_ANEW, Answered, answer_signs
from harness.proofs.hold import LetGo
from harness.protocols.kafka.steps import ERRORS, STEPS, Api
from harness.wire.rules import Action, Direction, Rule, RuleError
from tests.events import a_history
from tests.judge.recording import played, steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.history import History

SENDS = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)
COMMITS = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST)
FETCHED = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)
Row = dict[str, Any]
ASKED = {"conn": 3, "corr": 7, "role": "producer", "client": "k.producer.1", "api": "Produce"}
HIT = {
    "t": 1,
    "event": "rule",
    "rule": "fault",
    "phase": "hit",
    "action": "answer",
    "records": ["k-1"],
    **ASKED,
}
TOLD = {
    "t": 2,
    "event": "rule",
    "rule": "fault",
    "phase": "answered",
    "error": "REQUEST_TIMED_OUT",
    "forward": False,
    "reached": True,
    "records": ["k-1"],
    **ASKED,
}
SAID = {"t": 2, "event": "frame", "dir": "response", **ASKED}


def history(rows: Iterable[Row]) -> History:
    """Return the history of these lines."""
    return a_history(tuple(rows), ())


def trouble(proof: Any, *rows: Row) -> str | None:
    """Return what a proof says of a history."""
    found: str | None = proof.trouble(SimpleNamespace(history=history(rows)))
    return found


# --- Answer ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (
            lambda: Answer(SENDS, "REBALANCE_IN_PROGRESS"),
            "a Produce is never refused by REBALANCE_IN_PROGRESS",
        ),
        (lambda: Answer(SENDS, "NO_SUCH_ERROR"), "a Produce is never refused by NO_SUCH_ERROR"),
        (
            lambda: Answer(SENDS, "MESSAGE_TOO_LARGE", forward=True),
            "is not done: it cannot be forwarded",
        ),
        (lambda: Answer(FETCHED, "OFFSET_OUT_OF_RANGE"), "only a request can be answered"),
        (lambda: Answer(SENDS, "NOT_ENOUGH_REPLICAS", times=0), "would never fire"),
        (
            lambda: Unanswered(FETCHED, Api.JOIN_GROUP, told="NOT_ENOUGH_REPLICAS"),
            "a JoinGroup is never refused by",
        ),
    ],
)
def test_what_no_broker_says_is_refused_when_it_is_planned(made: Any, says: str) -> None:
    with pytest.raises(RuleError, match=says) as refused:
        made()
    assert "\n" not in str(refused.value)


def test_every_error_of_every_step_can_be_planned() -> None:
    """By its name, of which the code is known; forwarded, where it may be done behind it."""
    for api in Api:
        for error, done in STEPS[str(api), Direction.REQUEST].errors.items():
            at = OnWire(Role.CONSUMER, api, Direction.REQUEST)
            assert error in ERRORS
            assert Answer(at, error).evidence().proof(Answered) == Answered(error)
            assert Answer(at, error, forward=True) if done else True


def test_it_is_armed_and_waited_for_as_often_as_it_is_to_happen() -> None:
    fault = Answer(SENDS, "REQUEST_TIMED_OUT", forward=True, times=3)
    controls = played(fault)
    [(_, rule)] = controls.armed
    assert isinstance(rule, Rule)
    assert (rule.action, rule.error, rule.forward, rule.limit) == (
        Action.ANSWER,
        "REQUEST_TIMED_OUT",
        True,
        3,
    )
    assert controls.done == ["arm fault", "armed", "fired", "healed"]
    assert steps(fault, COMMITS) == []


NEED = Answered("REQUEST_TIMED_OUT")
DONE = Answered("REQUEST_TIMED_OUT", forward=True)
GIVEN = TOLD | {"forward": True, "said": 0}


@pytest.mark.parametrize(
    ("need", "rows", "says"),
    [
        (NEED, (HIT, TOLD), None),
        (
            NEED,
            (),
            "the wire's rule met 0 requests to refuse with REQUEST_TIMED_OUT, and 1 were planned",
        ),
        (
            Answered("REQUEST_TIMED_OUT", times=2),
            (HIT, TOLD),
            "the wire's rule met 1 requests to refuse with REQUEST_TIMED_OUT, and 2 were planned",
        ),
        (NEED, (HIT,), "the wire did not answer a request with REQUEST_TIMED_OUT"),
        (
            NEED,
            (HIT, TOLD | {"error": "NOT_ENOUGH_REPLICAS"}),
            "the wire did not answer a request with REQUEST_TIMED_OUT",
        ),
        (
            NEED,
            (HIT, TOLD | {"corr": 8}),
            "the wire did not answer a request with REQUEST_TIMED_OUT",
        ),
        (NEED, (HIT, TOLD | {"reached": False}), "did not reach the client"),
        (
            NEED,
            (HIT, TOLD, SAID),
            "refused a request with REQUEST_TIMED_OUT, but the broker got it all the same",
        ),
        (NEED, (HIT, TOLD, SAID | {"conn": 4}), None),
        (NEED, (HIT, GIVEN, SAID), "the wire did not answer a request with REQUEST_TIMED_OUT"),
        (DONE, (HIT, GIVEN, SAID), None),
        (DONE, (HIT, GIVEN), "but the broker never answered it"),
        (DONE, (HIT, GIVEN | {"said": 6}, SAID), "but the broker refused it as well"),
        (
            DONE,
            (HIT, GIVEN | {"said": None}, SAID),
            "but could not read the broker's own answer to it",
        ),
    ],
)
def test_a_refusal_must_have_been_given_and_have_been_true(
    need: Answered, rows: tuple[Row, ...], says: str | None
) -> None:
    """A refused request that reached the broker, or one whose answer did not reach the client,
    proves nothing.
    """
    found = trouble(need, *rows)
    assert found is None if says is None else says in str(found)


@pytest.mark.parametrize(
    ("asked", "shows"),
    [
        ({"t": 3, "corr": 8}, True),
        ({"t": 3, "conn": 5}, True),
        ({"t": 1, "corr": 6}, False),
        ({"t": 3}, False),
        ({"t": 3, "corr": 8, "api": "Metadata"}, False),
        ({"t": 3, "corr": 8, "client": "k.producer.2"}, False),
    ],
)
def test_who_asks_again_shows_it(asked: Row, shows: bool) -> None:
    again = {"event": "frame", "dir": "request", **ASKED, **asked}
    assert answer_signs(history((HIT, TOLD, again))) == {ASKED_ANEW: {"k-1"} if shows else set()}


def test_what_names_no_record_shows_it_of_the_one_that_it_counts_from() -> None:
    bare = {name: value for name, value in TOLD.items() if name != "records"}
    again = {"t": 3, "event": "frame", "dir": "request", **ASKED, "corr": 9}
    assert answer_signs(
        history((HIT | {"rule": "before-fault", "action": "mark", "corr": 1}, bare, again))
    ) == {ASKED_ANEW: {"k-1"}}


# --- Hold -----------------------------------------------------------------------------------------


def test_what_is_held_goes_on_first() -> None:
    """The frame that it waits for stands still until it has."""
    assert steps(Hold(COMMITS, FETCHED), COMMITS, FETCHED) == [
        "fired",
        "applied",
        "resolve OffsetCommit release",
        "resolve Fetch release",
        "healed",
    ]


def test_the_frame_that_it_waits_for_may_be_lost() -> None:
    """Behind it; an event cannot be."""
    assert steps(Hold(COMMITS, FETCHED, lost=True), COMMITS, FETCHED) == [
        "fired",
        "applied",
        "resolve OffsetCommit release",
        "resolve Fetch discard",
        "healed",
    ]
    with pytest.raises(ValueError, match="lost needs a frame in until"):
        Hold(COMMITS, Until.SETTLED, lost=True)


@pytest.mark.parametrize(
    ("until", "waits"),
    [
        (Until.EXPELLED, "Membership.await_expired consumer"),
        (Until.EXHAUSTED, "await_exhausted"),
        (Until.SETTLED, "settle"),
    ],
)
def test_it_may_wait_for_what_no_frame_says(until: Until, waits: str) -> None:
    assert steps(Hold(COMMITS, until), COMMITS) == [
        "fired",
        "applied",
        waits,
        "resolve OffsetCommit release",
        "healed",
    ]


def test_where_the_other_never_comes_it_has_not_healed() -> None:
    """The drain discards it; the judge is told what it waited for."""
    fault = Hold(COMMITS, FETCHED)
    assert steps(fault, COMMITS) == ["fired", "applied"]
    assert fault.evidence().proof(LetGo) == LetGo("the consumer's Fetch response")


def test_nobody_waits_for_what_cannot_come() -> None:
    with pytest.raises(ValueError, match="a held frame cannot wait for gave-up"):
        Hold(COMMITS, Until.GAVE_UP)


FAULT = {"t": 1, "event": "rule", "rule": "fault"}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ((FAULT | {"phase": "held"}, FAULT | {"phase": "released"}), None),
        ((FAULT | {"phase": "held"},), "waited for the end of the world, which did not happen"),
        (
            (FAULT | {"phase": "held"}, FAULT | {"phase": "discarded"}),
            "waited for the end of the world, which did not happen",
        ),
        (
            (FAULT | {"phase": "discarded", "because": "its connection is gone"},),
            "the end of the world: its connection is gone",
        ),
        ((FAULT | {"phase": "released", "rule": "until"},), "which did not happen"),
        (
            (
                FAULT | {"phase": "held", "silence_s": 2.0},
                FAULT | {"phase": "released", "t": 1_999_999_999},
            ),
            None,
        ),
        (
            (
                FAULT | {"phase": "held", "silence_s": 2.0},
                FAULT | {"phase": "released", "t": 2_500_000_001},
            ),
            "waited 2.5 s for the end of the world; its receiver disconnects after 2 s of silence",
        ),
    ],
)
def test_what_was_held_must_have_gone_on(rows: tuple[Row, ...], says: str | None) -> None:
    found = trouble(LetGo("the end of the world"), *rows)
    assert found is None if says is None else says in str(found)
