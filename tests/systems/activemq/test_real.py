"""On a real broker: what its journal and its counts say, that it ends with the harness, and that lies are found out."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import stomp

from harness.judge.verdict import Kind
from harness.matrix.runner import RunPlan, run
from harness.model.cell import expand
from harness.model.places import Removal, Waiting
from harness.model.scenario import Deployment, Role
from harness.model.semantics import Semantic
from harness.model.waiting import wait_until
from harness.run import sinks
from harness.run.queues import Count
from harness.scenarios.activemq import SCENARIOS
from harness.stages.sinks.opening import create_sink
from harness.systems.activemq.broker import ClassicBroker
from harness.systems.activemq.system import ActiveMQ
from tests.trust.faults import Disarmed, WrongVictim
from tests.trust.test_sigkill import assert_nothing_left
from tests.trust.test_trust import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.run.queues import Message
    from harness.saved import CellResult

pytestmark = [pytest.mark.activemq, pytest.mark.rest(together=True), pytest.mark.timeout(240)]

WITHIN_S = 20.0
ALO, EOS = Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE
BY_ID = {scenario.id: scenario for scenario in SCENARIOS}


@pytest.fixture(scope="module")
def system() -> ActiveMQ:
    """Return ActiveMQ, fetched."""
    found = ActiveMQ()
    found.prepare(lambda _: None)
    return found


@pytest.fixture(scope="module")
def broker(system: ActiveMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClassicBroker]:
    """Return a running broker."""
    deployed = system.deploy(Deployment.OWN, tmp_path_factory.mktemp("run") / "deployments" / "one")
    yield deployed.broker
    deployed.close()


class Client(stomp.ConnectionListener):  # type: ignore[misc]  # the library has no types
    """A client that talks past our stages."""

    def __init__(self, broker: ClassicBroker, role: Role = Role.PRODUCER) -> None:
        self.given: list[Any] = []
        self.receipts: set[str] = set()
        host, _, port = broker.address(role).rpartition(":")
        self.stomp = stomp.Connection12([(host, int(port))], auto_decode=False)
        self.stomp.set_listener("", self)
        self.stomp.connect(wait=True)

    def on_message(self, frame: Any) -> None:
        """Keep it."""
        self.given.append(frame)

    def on_receipt(self, frame: Any) -> None:
        """Keep its name."""
        self.receipts.add(frame.headers["receipt-id"])

    def told(self, name: str) -> None:
        """Wait for a receipt."""
        wait_until(lambda: name in self.receipts, within_s=WITHIN_S, because=f"the receipt {name}")

    def send(self, queue: str, *texts: str, **more: str) -> None:
        """Send messages that are kept, and wait until they are."""
        for text in texts:
            self.stomp.send(
                queue, text.encode(), headers={"persistent": "true", "lostack-attempt": f"a-{text}"}, receipt=text, **more
            )
            self.told(text)

    def take(self, queue: str, count: int) -> list[Any]:
        """Subscribe, and wait for messages."""
        self.stomp.subscribe(queue, "1", ack="client-individual")
        wait_until(lambda: len(self.given) >= count, within_s=WITHIN_S, because="messages")
        return self.given


def told(messages: tuple[Message, ...]) -> list[tuple[bytes, Waiting | None, Removal | None]]:
    """Return what is said of each message, without its place."""
    return [(message.value, message.waiting, message.removed) for message in messages]


def test_the_journal_says_what_was_kept_and_what_was_taken_off(broker: ClassicBroker) -> None:
    """By places, and in agreement with the broker's own count, also when the broker was killed."""
    queue = broker.queue("kept")
    sender, taker = Client(broker), Client(broker, Role.CONSUMER)
    sender.send(queue, "one", "two", "three")
    given = taker.take(queue, 3)
    taker.stomp.ack(given[1].headers["ack"], receipt="done")
    taker.told("done")
    want = [(b"one", Waiting.READY, None), (b"two", None, Removal.ACK), (b"three", Waiting.READY, None)]
    wait_until(lambda: told(broker.messages(queue)) == want, within_s=WITHIN_S, because="the journal to say so")
    found = broker.messages(queue)
    assert [message.attempt for message in found] == ["a-one", "a-two", "a-three"]
    assert [message.name for message in found] == [frame.headers["message-id"] for frame in given]
    assert len({message.place for message in found}) == 3
    assert broker.count(queue) == Count(0, 2)
    assert broker.kill().signal == signal.SIGKILL
    broker.restart()
    assert broker.messages(queue) == found
    assert broker.count(queue) == Count(2)


def test_who_refuses_a_message_sets_it_aside(broker: ClassicBroker) -> None:
    """A NACK moves it among the dead letters: one copy, at another place."""
    queue = broker.queue("refused")
    Client(broker).send(queue, "poison")
    taker = Client(broker, Role.CONSUMER)
    [given] = taker.take(queue, 1)
    taker.stomp.nack(given.headers["ack"], receipt="no")
    taker.told("no")
    wait_until(lambda: broker.messages(queue)[0].waiting is None, within_s=WITHIN_S, because="the journal to say so")
    [message], [aside] = broker.messages(queue), broker.messages(broker.dead_letters(queue))
    assert (message.moved, message.removed) == (aside.place, None)
    assert (aside.value, aside.waiting) == (b"poison", Waiting.READY)
    assert (broker.count(queue), broker.count(broker.dead_letters(queue))) == (Count(), Count(1))


def test_what_is_sent_in_a_transaction_is_there_with_its_commit(broker: ClassicBroker) -> None:
    """The journal has it before; it waits for the commit, or for nothing."""
    queue, client = broker.queue("bound"), Client(broker)
    for name, end in (("yes", client.stomp.commit), ("no", client.stomp.abort)):
        client.stomp.begin(name)
        client.send(queue, name, transaction=name)
        wait_until(lambda: _last(broker, queue) is Waiting.OPEN, within_s=WITHIN_S, because="the journal to have it")
        end(name, receipt=f"end-{name}")
        client.told(f"end-{name}")
        wait_until(lambda: _last(broker, queue) is not Waiting.OPEN, within_s=WITHIN_S, because="the journal to have its end")
    assert [(m.value, m.visible, m.waiting) for m in broker.messages(queue)] == [
        (b"yes", True, Waiting.READY), (b"no", False, None),
    ]  # fmt: skip


def _last(broker: ClassicBroker, queue: str) -> Waiting | None:
    """Return what the last message of a queue waits for."""
    return next((message.waiting for message in reversed(broker.messages(queue))), None)


def read_alone(system: ActiveMQ, data: Path, queue: str) -> subprocess.CompletedProcess[str]:
    """Read a journal by the same program, without a broker."""
    assert system._install is not None
    return subprocess.run([*system._install.command, "journal", str(data), queue], capture_output=True, text=True, check=False)


def sent(said: str) -> list[str]:
    """Return where the messages stand; ends of transactions are told of every queue."""
    return [line["at"] for line in map(json.loads, said.splitlines()) if line["kind"] == "add"]


def test_a_journal_is_read_of_a_broker_that_is_dead(broker: ClassicBroker, system: ActiveMQ, tmp_path: Path) -> None:
    """The same program reads it, alone: a torn one up to its last whole batch, and one that is damaged before that not at all."""
    queue = broker.queue("dead")
    Client(broker).send(queue, "one", "two")
    places = [message.place for message in broker.messages(queue)]
    broker.kill()
    assert sent(read_alone(system, broker._directory / "data", "dead.in").stdout) == places
    (number, first), (same, last) = (map(int, place.split(":")) for place in places)
    assert number == same
    file = shutil.copy(broker._directory / "data" / f"db-{number}.log", tmp_path / f"db-{number}.log")
    whole = bytearray(file.read_bytes())
    file.write_bytes(whole[: last + 20])
    assert sent(read_alone(system, tmp_path, "dead.in").stdout) == places[:1]
    whole[first + 20] ^= 1
    file.write_bytes(whole)
    refused = read_alone(system, tmp_path, "dead.in")
    assert refused.returncode != 0
    assert "is damaged at" in refused.stderr
    broker.restart()


def test_sigkill_of_the_harness_leaves_no_broker(tmp_path: Path) -> None:
    """The guardian ends the JVM, the wire and the programs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.cli", "run", "--system", "activemq", "--only", "ack-lost", "--reports", str(tmp_path)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        wait_until(lambda: list(tmp_path.glob("*/cells/*/history/wire.jsonl")), within_s=90, because="a cell under way")
        offspring = psutil.Process(process.pid).children(recursive=True)
        assert any("lostack.ClassicBroker" in each.cmdline() for each in offspring)
    finally:
        process.kill()
        process.wait(10)
    assert_nothing_left(tmp_path, offspring)


LIES = (
    replace(BY_ID["producer-crash-before-ack"], id="disarmed-rule", fault=Disarmed(BY_ID["producer-crash-before-ack"].fault)),
    replace(BY_ID["commit-lost"], id="wrong-victim", fault=WrongVictim(BY_ID["commit-lost"].fault, Role.PRODUCER)),
    replace(BY_ID["none"], id="forgets"),
    replace(BY_ID["none"], id="miscounts"),
    replace(BY_ID["none"], id="undone"),
    replace(BY_ID["none"], id="doubled"),
)  # fmt: skip
AT_INSERT = {
    "undone": "DELETE FROM results WHERE n = NEW.n",
    "doubled": "INSERT INTO results (value, name) VALUES (NEW.value, NEW.name)",
}
"""What a database does of itself when the target's result is recorded."""


@pytest.fixture(scope="module")
def results(system: ActiveMQ, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, CellResult]:
    """Run the lies at-least-once on one broker; by scenario id. Two are told by the broker's observer."""
    messages, count = ClassicBroker.messages, ClassicBroker.count
    cells = {
        cell.scenario.id: cell
        for scenario in LIES
        for cell in expand([scenario], semantics=[EOS if scenario.id == "doubled" else ALO], seeds=[1], system="activemq",
                           client="stomp.py")
    }  # fmt: skip

    def forgets(self: ClassicBroker, queue: str) -> tuple[Message, ...]:
        found = messages(self, queue)
        return found[1:] if queue == self.queue(cells["forgets"].key) else found

    def miscounts(self: ClassicBroker, queue: str) -> Count:
        found = count(self, queue)
        over = queue == self.dead_letters(self.queue(cells["miscounts"].key))
        return Count(found.ready + 1) if over else found

    def lying(where: str) -> None:
        create_sink(where)
        lie = next((lie for lie in AT_INSERT if cells[lie].slug in where), None)
        if lie is not None:
            target = cells[lie].load().target.id
            with closing(sqlite3.connect(where)) as db, db:
                db.execute(f"CREATE TRIGGER lie AFTER INSERT ON results WHEN instr(CAST(NEW.value AS TEXT), ' {target} ') > 0 "
                           f"BEGIN {AT_INSERT[lie]}; END")  # fmt: skip

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sinks, "create_sink", lying)
        patch.setattr(ClassicBroker, "messages", forgets)
        patch.setattr(ClassicBroker, "count", miscounts)
        plan = RunPlan((system,), tuple(cells.values()), (), tmp_path_factory.mktemp("lies"), 2, "test", (1,), 24)
        saved = run(plan, Silent())
    return {result.plan.scenario: result for result in saved.results}


def test_a_disarmed_fault_is_void(results: Mapping[str, CellResult]) -> None:
    """Nothing was lost, and nothing is proved."""
    verdict = results["disarmed-rule"].verdict
    assert (verdict.kind, verdict.reason) == (Kind.VOID, "the fault did not fire")


def test_another_victim_is_void(results: Mapping[str, CellResult]) -> None:
    """The producer died in the consumer's place."""
    verdict = results["wrong-victim"].verdict
    assert verdict.kind is Kind.VOID, verdict.reason
    assert "the consumer was not killed" in verdict.reason or "the wrong process was killed" in verdict.reason


@pytest.mark.parametrize(
    ("lie", "says"),
    [("forgets", "where no queue has a copy|the queue has no copy"), ("miscounts", "the broker counts 1")],
)
def test_an_observer_that_lies_is_found_out(results: Mapping[str, CellResult], lie: str, says: str) -> None:
    """By who has seen the record elsewhere, or by what it says itself: nothing is judged."""
    verdict = results[lie].verdict
    assert verdict.kind is Kind.VOID
    assert re.search(says, verdict.reason), verdict.reason


def test_a_planted_loss_and_a_planted_duplicate_are_found(results: Mapping[str, CellResult]) -> None:
    """Of exactly the record that they were planted in."""
    lost, doubled = results["undone"], results["doubled"]
    assert (lost.verdict.kind, lost.judgement.account.lost) == (Kind.BROKEN, {lost.plan.target})
    assert (doubled.verdict.kind, doubled.judgement.account.duplicated) == (Kind.BROKEN, {doubled.plan.target})
