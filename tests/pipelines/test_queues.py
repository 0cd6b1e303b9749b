"""Pipelines on brokers of queues: their failure points, what they are refused, and real ones on a
real broker.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.faults import Kill
from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.progress import make_progress
from harness.matrix.seen import seen_in
from harness.model.places import Waiting
from harness.model.scenario import Deployment, NotApplicable, Role
from harness.pipelines import DeclarationError, failure_points, read_pipeline
from harness.pipelines.dialects import Moment
from harness.pipelines.inputs import Input, InputKind
from harness.pipelines.outputs import Output, OutputKind
from harness.pipelines.stages import Stage
from harness.run.queue_broker import Count, Message
from harness.systems.declared.brokers.leftovers import Leftovers
from harness.systems.declared.programs.errors import StageError
from harness.systems.declared.results.matcher import RecordMatcher, Result
from harness.systems.declared.transport.queue import Queue
from tests.judge.growing import tell
from tests.judge.scenes import Kept
from tests.pipelines.scenes import KILLS
from tests.pipelines.test_check import EXAMPLES, Silent, check
from tests.pipelines.traffic import traffic

if TYPE_CHECKING:
    from pathlib import Path

    from harness.saved import CellResult
    from harness.systems.declared.system import DeclaredSystem
    from tests.pipelines.scenes import Scenes

PARCELS = EXAMPLES / "parcels" / "pipeline.toml"
MISTAKE = EXAMPLES / "mistakes" / "automatic-acknowledgement"
FOR_REAL = [pytest.mark.activemq, pytest.mark.rest(together=True), pytest.mark.timeout(300)]
ON_ARTEMIS = [pytest.mark.artemis, *FOR_REAL[1:]]


def test_a_queue_has_the_points_of_its_protocol() -> None:
    """Messages are acknowledged one by one: nobody saves a position, joins a group or asks for
    more; each cell has its broker.
    """
    found = {point.failure_point: point for point in failure_points(read_pipeline(PARCELS))}
    assert {
        "acknowledgement-lost",
        "acknowledgement-answer-lost",
        "broker-crash-before-acknowledgement",
    } <= found.keys()
    assert (
        not {"commit-lost", "join-answer-lost", "consumer-crash-at-next-fetch", "zombie-consumer"}
        & found.keys()
    )
    assert {point.deployment for point in found.values()} == {Deployment.OWN}
    orders = {
        point.failure_point
        for point in failure_points(read_pipeline(EXAMPLES / "orders" / "pipeline.toml"))
    }
    assert {"commit-lost", "join-answer-lost"} <= orders
    assert not any(name.startswith("acknowledgement") for name in orders)


@pytest.mark.parametrize(
    ("seen", "missing"),
    [
        ({"ACK", "MESSAGE", "SUBSCRIBE"}, {"acknowledgement-answer-lost"}),
        (
            {"MESSAGE", "SUBSCRIBE", "RECEIPT"},
            {"acknowledgement-lost", "acknowledgement-answer-lost"},
        ),
        ({"ACK", "MESSAGE", "SUBSCRIBE", "RECEIPT"}, set[str]()),
    ],
)
def test_an_answer_is_lost_only_where_it_was_asked_for(seen: set[str], missing: set[str]) -> None:
    """A RECEIPT may be of anything: without an ACK it is none of an acknowledgement."""
    pipeline = read_pipeline(PARCELS)
    moments = {Moment.ACKNOWLEDGEMENT: "ACK"} if "ACK" in seen else {}
    if moments and "RECEIPT" in seen:
        moments[Moment.ACKNOWLEDGEMENT_ANSWER] = "RECEIPT"
    shown = traffic(producer={"SEND", "RECEIPT"}, consumer=seen)
    shown["consumer"] = replace(shown["consumer"], moments=moments)
    found = failure_points(pipeline, shown)
    names = {"acknowledgement-lost", "acknowledgement-answer-lost"}
    out = {
        each.failure_point
        for each in found
        if isinstance(each.expect[pipeline.claims], NotApplicable)
    }
    assert out & names == missing


CONSUMER = Stage(role=Role.CONSUMER, command=("true",))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"system": "rabbit"}, "system"),
        ({"topics": ("parcels", "more")}, "topics: on activemq name one only"),
        (
            {"guarantees": ("monotonic",)},
            "guarantees: on activemq there are no offsets by which readers and writers could be",
        ),
        (
            {"output": Output(kind=OutputKind.TOPIC, topic="parcels")},
            "a producer, a queue, a consumer",
        ),
        (
            {"input": Input(kind=InputKind.TOPIC, topic="parcels"), "stages": (CONSUMER,)},
            "a producer, a queue, a consumer",
        ),
        (
            {
                "stages": (
                    dataclasses.replace(CONSUMER, role=Role.PRODUCER),
                    dataclasses.replace(CONSUMER, position="elsewhere"),
                )
            },
            "position: has no meaning for the consumer on activemq",
        ),
    ],
)
def test_what_a_queue_has_not_is_refused(changes: dict[str, Any], said: str) -> None:
    """In one line, before anything is started."""
    with pytest.raises(DeclarationError, match=said):
        dataclasses.replace(read_pipeline(PARCELS), **changes)


def test_pulsar_has_the_same_points_by_its_own_words() -> None:
    pipeline = read_pipeline(EXAMPLES / "letters" / "pipeline.toml")
    found = {point.failure_point: point for point in failure_points(pipeline)}
    assert {
        "acknowledgement-lost",
        "acknowledgement-answer-lost",
        "broker-crash-before-acknowledgement",
    } <= found.keys()
    lost = found["acknowledgement-lost"].fault
    assert isinstance(lost, Kill)
    assert isinstance(lost.at, OnWire)
    assert (lost.at.api, lost.at.role) == ("ACK", Role.CONSUMER)
    assert pipeline.packages == ("pulsar-client==3.13.0",)
    assert read_pipeline(PARCELS).packages == ()


def test_what_the_journal_never_had_was_not_persistent(scenes: Scenes) -> None:
    """Without a fault that is plain, and said; what is there, or is no record of the run, is
    nothing to tell.
    """
    scene = scenes("parcels")
    queue, [one, two, *_] = (
        Queue(scene, RecordMatcher(scene)),
        [record.id for record in scene.load.records],
    )
    found = [Result((one,), 1, one), Result(("x",), 2, "x"), Result((two,), 3, two)]
    queue.check_kept(found, {one: [{}], two: [{}]})
    with pytest.raises(
        StageError,
        match=(
            r"1 records are in the output but were never in the broker's journal, such as "
            rf"{two}: .*persistent"
        ),
    ):
        queue.check_kept(found, {one: [{}]})


@pytest.mark.parametrize(
    ("recorded", "acknowledged", "told"),
    [
        (0, 0, False),
        (1, 1, False),
        (2, 1, True),
    ],
    ids=["works on the first", "works on the second", "keeps the second"],
)
def test_a_slow_consumer_is_not_one_that_never_acknowledges(
    scenes: Scenes, recorded: int, acknowledged: int, told: bool
) -> None:
    """It was given all, and has said nothing for long. Only a record that it has recorded is one
    that it keeps.
    """
    acks = [
        {
            "event": "acknowledged",
            "record": None,
            "request": f"2:{n}",
            "how": "ack",
            "outcome": None,
            "reached": True,
        }
        for n in range(acknowledged)
    ]
    waits = SimpleNamespace(queue=str, count=lambda _: Count(in_flight=3), messages=lambda _: ())
    scene = scenes("parcels", broker=waits)
    ids = [record.id for record in scene.load.records]
    tell(
        scene.history_folder,
        *({**ack, "record": record} for ack, record in zip(acks, ids, strict=False)),
    )
    found: Any = SimpleNamespace(ids=lambda: ids[:recorded])
    queue = Queue(scene, found)
    if told:
        with pytest.raises(StageError, match="the consumer did not acknowledge 3 messages"):
            queue.trouble()
    else:
        assert queue.trouble() == "0 messages are ready, 3 in flight, 0 scheduled"


@dataclasses.dataclass
class Journal:
    """A broker that serves one cell after the other: what each of its queues has had stays."""

    held: dict[str, list[Message]]

    def queue(self, name: str) -> str:
        """Return its name."""
        return name

    def dead_letters(self, queue: str) -> str:
        """Return the name of the queue for its dead letters."""
        return f"DLQ.{queue}"

    def messages(self, queue: str) -> list[Message]:
        """Return every copy."""
        return self.held.get(queue, [])

    def count(self, queue: str) -> Count:
        """Return what waits."""
        return Count(sum(each.waiting is not None for each in self.messages(queue)))


def test_what_earlier_cells_have_left_is_not_of_this_one(scenes: Scenes) -> None:
    """A lane's broker serves cell after cell. A dead letter of an earlier one waits for ever, and
    ids that a program makes itself come again.
    """
    journal, kept = Journal({}), Kept()
    named = {"dead_letters": "DLQ.parcels"}
    scene = scenes("parcels", fault=KILLS, broker=journal, history=kept, pipeline=named)
    [one, two, *_] = [scene.cell.in_hand(each) for each in scene.load.records]

    def copy(place: str, text: str, waiting: Waiting | None = None) -> Message:
        return Message(place, place, text.encode(), waiting=waiting)

    journal.held = {
        "parcels": [copy("1:1", "theirs"), copy("1:2", one)],
        "DLQ.parcels": [copy("1:3", "theirs", Waiting.READY), copy("1:4", one, Waiting.READY)],
    }
    found = RecordMatcher(scene)
    found.rows = lambda: ()  # type: ignore[method-assign]
    queue = Queue(scene, found)
    queue.begin()
    journal.held["parcels"].append(copy("1:5", two))
    journal.held["DLQ.parcels"].append(copy("1:6", two, Waiting.READY))
    assert found.set_aside() == {scene.load.records[1].id}
    queue.observe()
    assert kept.of("stored", "place") == [("1:5",), ("1:6",)]
    assert kept.of("counted", "ready") == [(0,), (1,)]


def test_what_an_earlier_cell_left_is_taken_off_the_count_it_stands_in() -> None:
    left = [
        Message(f"1:{number}", f"1:{number}", b"", waiting=waiting)
        for number, waiting in enumerate((*Waiting, None))
    ]
    journal: Any = Journal({"parcels": list(left)})
    older = Leftovers()
    older.note(journal, "parcels")
    journal.held["parcels"].append(Message("2:1", "2:1", b"", waiting=Waiting.READY))
    journal.count = lambda _: Count(ready=2, in_flight=1, scheduled=1)
    count = older.count(journal, "parcels")
    assert (count.ready + count.in_flight, count.scheduled) == (1, 0)


class TestOnARealBroker:
    """ActiveMQ, with programs that know nothing of lostack."""

    pytestmark = FOR_REAL

    def test_a_right_pipeline_is_kept(self, system: DeclaredSystem, tmp_path: Path) -> None:
        """What is sent again is stored twice, and so is what was recorded and not acknowledged:
        at-least-once permits that.
        """
        points = (
            "ack-lost",
            "acknowledgement-lost",
            "consumer-crash-before-delivery",
            "broker-crash-before-ack",
        )
        found = check(system, tmp_path, PARCELS, *points)
        assert {name: result.verdict.kind for name, result in found.items()} == dict.fromkeys(
            points, Kind.KEPT
        ), [result.verdict.reason for result in found.values()]
        assert all(result.verdict.fired == 1 for result in found.values())
        for name in ("ack-lost", "acknowledgement-lost"):
            assert found[name].judgement.account.duplicated == {found[name].plan.target}

    def test_a_wrong_one_is_convicted_and_its_right_twin_is_not(
        self, system: DeclaredSystem, tmp_path: Path
    ) -> None:
        """Whose broker forgets what it has sent has lost what was on its way when the consumer
        died.
        """
        point = "consumer-crash-before-delivery"
        wrong = check(system, tmp_path / "wrong", MISTAKE / "pipeline.toml", point)[point]
        assert wrong.verdict.kind is Kind.BROKEN
        assert wrong.plan.target in wrong.judgement.account.lost
        right = check(system, tmp_path / "right", MISTAKE / "right.toml", point)[point]
        assert right.verdict.kind is Kind.KEPT, right.verdict.reason

    def test_who_never_acknowledges_is_told_so_in_the_dry_run(
        self, system: DeclaredSystem, tmp_path: Path
    ) -> None:
        """All of it would come again after a restart: nothing can be told of a fault then."""
        program = (EXAMPLES / "parcels" / "consumer.py").read_text()
        (tmp_path / "consumer.py").write_text(
            program.replace('    connection.ack(message.headers["ack"])\n', "")
        )
        declared = PARCELS.read_text().replace(
            "consumer.py {work}", f"{tmp_path}/consumer.py {{work}}"
        )
        (tmp_path / "pipeline.toml").write_text(
            declared.replace("producer.py", f"{PARCELS.parent}/producer.py")
        )
        pipeline = dataclasses.replace(read_pipeline(tmp_path / "pipeline.toml"), patience_s=6.0)
        with make_progress(Silent()) as progress:
            dry = Check(pipeline, system, tmp_path, "pytest").dry_run(progress)
        assert dry.verdict.kind in {Kind.VOID, Kind.STUCK}
        assert "the consumer did not acknowledge" in dry.verdict.reason
        assert seen_in(dry)["consumer"].requests["SUBSCRIBE"] == 1

    def test_what_a_consumer_rejects_may_end_among_the_dead_letters(
        self, system: DeclaredSystem, tmp_path: Path
    ) -> None:
        """If the declaration says so; and nobody waits for it."""
        work = """    order = json.loads(message.body)
    if order["number"] % 12 == 0:
        connection.nack(message.headers["ack"])
        continue
"""
        program = (EXAMPLES / "parcels" / "consumer.py").read_text()
        line = "    with database:\n"
        assert line in program
        (tmp_path / "consumer.py").write_text(program.replace(line, work + line))
        text = PARCELS.read_text().replace('"{id}"}', '"{id}", "number": {position}}')
        text = text.replace("consumer.py {work}", f"{tmp_path}/consumer.py {{work}}")
        text = text.replace("producer.py", f"{PARCELS.parent}/producer.py")
        file = tmp_path / "pipeline.toml"
        for word, kind in (('dead_letters = "DLQ.parcels"\n', Kind.KEPT), ("", Kind.BROKEN)):
            file.write_text(word + text)
            found = check(system, tmp_path / str(kind), file)["none"]
            assert found.verdict.kind is kind, found.verdict.reason
            assert "4 set aside" in found.verdict.reason
            assert ("rested" in found.verdict.reason) is (kind is Kind.BROKEN)


def kept(result: CellResult) -> bool:
    """Return whether a cell was kept, or waits for the one message that Artemis may leave behind a
    connection that has ended: ``tests/systems/artemis/test_left_in_flight.py``.
    """
    left = "no progress until the deadline: queue: 0 messages are ready, 1 in flight, 0 scheduled"
    return result.verdict.kind is Kind.KEPT or (
        result.verdict.kind is Kind.STUCK and result.verdict.reason == left
    )


class TestOnARealArtemis:
    """Which takes no id twice."""

    pytestmark = ON_ARTEMIS

    def test_ids_make_it_exactly_once(self, system: DeclaredSystem, tmp_path: Path) -> None:
        """What is sent twice is kept once; what is given twice is recorded once."""
        points = ("ack-lost", "acknowledgement-lost")
        found = check(system, tmp_path, EXAMPLES / "invoices" / "pipeline.toml", *points)
        assert all(kept(result) for result in found.values()), found
        assert all(result.verdict.fired == 1 for result in found.values())

    def test_a_delivery_is_no_message(self, system: DeclaredSystem, tmp_path: Path) -> None:
        """Its name has changed when it is given again; the right twin knows which part of it has
        not.
        """
        point, mistake = "acknowledgement-lost", EXAMPLES / "mistakes" / "number-of-the-delivery"
        wrong = check(system, tmp_path / "wrong", mistake / "pipeline.toml", point)[point]
        assert wrong.verdict.kind is Kind.BROKEN, wrong.verdict.reason
        # and what else it had recorded before it learnt that the connection had ended
        assert wrong.plan.target in wrong.judgement.account.duplicated
        right = check(system, tmp_path / "right", mistake / "right.toml", point)[point]
        assert kept(right), right.verdict.reason
