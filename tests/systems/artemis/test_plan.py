"""What is known of Artemis before anything is fetched: its points, what it predicts, its sums, its
sign.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from harness import registry
from harness.model import events as kinds
from harness.model.cell import Cell, expand
from harness.model.places import Removal
from harness.model.scenario import NotApplicable, Predicted, Suite
from harness.model.semantics import Semantic
from harness.model.states import Hop
from harness.provision.jars import read_jar_set
from harness.stages.settings import Settings
from harness.systems.artemis.install import RECIPE
from harness.systems.artemis.signs import KEPT_ONCE, UNBOUND, artemis_signs
from tests.events import a_history

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_CORE_CELLS, XA_POINTS = 6, 7
CLIENTS = ("stomp.py", "core", "openwire", "amqp")
AGAIN = {"producer-crash-before-ack", "ack-lost", "broker-crash-before-ack"}


def cells(system: str = "artemis", client: str = "stomp.py") -> tuple[Cell, ...]:
    """Return the cells of one seed."""
    mine = [scenario for scenario in registry.scenarios() if registry.runs(system, scenario)]
    return tuple(expand(mine, semantics=Semantic, seeds=[1], system=system, client=client))


def points(system: str) -> set[tuple[str, Semantic]]:
    """Return the points of a system that any client has."""
    return {
        (cell.scenario.failure_point, cell.semantic)
        for cell in cells(system)
        if cell.scenario.group == "plain"
    }


@pytest.mark.parametrize("client", CLIENTS)
def test_every_point_of_classic_is_there(client: str) -> None:
    """Under every semantic; what applies and predicts zero names a sign, but for the baseline."""
    assert points("artemis") == points("activemq")
    for cell in cells(client=client):
        theory = cell.expectation
        assert isinstance(theory, Predicted | NotApplicable)
        assert (
            isinstance(theory, NotApplicable)
            or theory.lost.must_show()
            or theory.duplicated.must_show()
            or theory.left.must_show()
            or theory.stands
            or theory.sign
            or cell.scenario.id in {"none", "broker-crash-before-append"}
        ), cell.id


def test_exactly_once_carries_ids_and_what_is_sent_again_is_kept_once() -> None:
    """That alone is the broker's; what is delivered again the sink absorbs, and the other semantics
    are Classic's.
    """
    for cell in itertools.chain.from_iterable(cells(client=client) for client in CLIENTS):
        by_id = cell.semantic is Semantic.EXACTLY_ONCE or cell.scenario.id.endswith("+by-id")
        if (
            not isinstance(cell.expectation, NotApplicable)
            and not Settings.of(cell.settings).producer.transactional
        ):
            assert Settings.of(cell.settings).producer.idempotence is by_id, cell.id
        if cell.semantic is Semantic.EXACTLY_ONCE and isinstance(cell.expectation, Predicted):
            assert (cell.expectation.sign == KEPT_ONCE) is (cell.scenario.id in AGAIN), cell.id


def test_a_few_cells_are_run_with_every_commit() -> None:
    core = [cell for cell in cells() if cell.scenario.suite is Suite.CORE]
    assert {"none", "ack-lost"} == {cell.scenario.id for cell in core}
    assert len(core) <= MOST_CORE_CELLS


@pytest.mark.parametrize("version", RECIPE.versions())
def test_every_version_has_the_sums_of_all_that_it_needs(version: str) -> None:
    """Each jar with its module, so that none need be asked what it depends on."""
    jar_set = read_jar_set(f"artemis-{version}", RECIPE.source.parent)
    assert jar_set.listed
    assert all(
        read_jar_set(name, RECIPE.source.parent).listed for name in RECIPE.lists(version).values()
    )
    assert {
        f"artemis-{name}-{version}.jar"
        for name in ("server", "journal", "commons", "core-client", "stomp-protocol")
    } <= (jar_set.sums.keys())


def test_two_phases_are_of_core_and_openwire() -> None:
    """Each at its seven points; the other two protocols have no distributed transactions."""
    for client in CLIENTS:
        told = [
            cell.expectation for cell in cells(client=client) if cell.scenario.id.startswith("xa-")
        ]
        assert len(told) == XA_POINTS
        assert {type(each) for each in told} == {
            Predicted if client in {"core", "openwire"} else NotApplicable
        }


COUNTED = {"t": 3, "event": "counted", "hop": Hop.TOPIC, "queue": "q"}


def asked_and_answered(
    *answers: object, transactional: bool = False, **more: object
) -> Iterator[dict[str, Any]]:
    """Yield what the wire says of a message that is sent several times."""
    for number, error in enumerate(answers):
        about = {"t": 1, "record": "k-1", "request": f"{number}:1"}
        yield {**about, "event": "sent", "transactional": transactional}
        yield {**about, "event": kinds.PRODUCE_ANSWER, "error": error, "reached": False, **more}


@pytest.mark.parametrize(
    ("answers", "copies", "shown"),
    [
        ((0, 0), 1, True),
        ((0,), 1, False),
        ((0, 0), 2, False),
        ((0, "refused"), 1, False),
        ((0, 0), 0, False),
    ],
    ids=["kept-once", "sent-once", "kept-twice", "refused", "kept-never"],
)
def test_kept_once_is_what_was_taken_twice_and_is_there_once(
    answers: tuple[object, ...], copies: int, *, shown: bool
) -> None:
    told = list(asked_and_answered(*answers))
    kept = [
        {"t": 2, "event": "stored", "hop": Hop.TOPIC, "record": "k-1", "visible": True}
        for _ in range(copies)
    ]
    aside = {"t": 2, "event": "stored", "hop": Hop.ASIDE, "record": "k-1", "visible": True}
    undone = {"t": 2, "event": "stored", "hop": Hop.TOPIC, "record": "k-1", "visible": False}
    found = artemis_signs(a_history((COUNTED, *told, *kept, aside, undone), ()))
    assert found[KEPT_ONCE] == ({"k-1"} if shown else set())


ACKED = {
    "t": 1,
    "event": kinds.ACKNOWLEDGED,
    "record": "k-1",
    "request": "1:1",
    "how": "ack",
    "outcome": None,
    "reached": True,
}
BOUND = ACKED | {"transactional_id": "t1"}
GIVEN = {"t": 1, "event": kinds.FETCHED, "record": "k-1", "conn": 1, "reached": True}
TAKEN_OFF = {"t": 2, "event": kinds.REMOVED, "record": "k-1", "why": Removal.ACK}
ENDED = {
    "t": 2,
    "event": kinds.ENDING,
    "record": "k-1",
    "request": "1:2",
    "outcome": "taken",
    "reached": True,
}


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ([GIVEN, BOUND, TAKEN_OFF], True),
        ([GIVEN, BOUND, TAKEN_OFF, ENDED], False),  # the commit took it off
        (
            [GIVEN, BOUND, TAKEN_OFF, ENDED | {"outcome": None}],
            True,
        ),  # the commit was asked for, and never answered
        ([GIVEN, ACKED | {"transactional_id": None}, TAKEN_OFF], False),  # in no transaction
        ([GIVEN, BOUND | {"reached": False}, TAKEN_OFF], False),
        ([GIVEN, BOUND], False),
        ([GIVEN, GIVEN, BOUND, TAKEN_OFF], False),  # taken off when it was given again
    ],
)
def test_unbound_is_what_an_open_transaction_has_taken_off(
    events: list[Any], *, shown: bool
) -> None:
    assert artemis_signs(a_history((COUNTED, *events), ()))[UNBOUND] == (
        {"k-1"} if shown else set()
    )


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ([COUNTED, *asked_and_answered(0, 0)], True),
        (
            [COUNTED, *asked_and_answered(0, 0, transactional=True)],
            False,
        ),  # one is aborted, the other committed
        ([COUNTED, *asked_and_answered(0, 0, place="3:1")], False),  # Pulsar's
        ([*asked_and_answered(0, 0)], False),  # a log's
    ],
)
def test_only_a_queue_that_is_sent_single_messages_shows_that_it_kept_one(
    events: list[Any], *, shown: bool
) -> None:
    kept = {"t": 2, "event": "stored", "hop": Hop.TOPIC, "record": "k-1", "visible": True}
    assert bool(artemis_signs(a_history((*events, kept), ())).get(KEPT_ONCE)) is shown
