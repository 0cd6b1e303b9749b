"""On a real broker: what its journal and its counts say, that it ends with the harness, and that
lies are found out.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.verdict import Kind
from harness.matrix.runner import RunPlan, run
from harness.model.cell import expand
from harness.model.history import HISTORY, SUFFIX
from harness.model.places import Removal, Waiting
from harness.model.scenario import Deployment, Role
from harness.model.semantics import Semantic
from harness.model.waiting import wait_until
from harness.run.queue_broker import Count
from harness.scenarios.activemq import SCENARIOS
from harness.systems.activemq.system import launcher
from tests.planted.lies import Silent
from tests.systems.queues import (
    WITHIN_S,
    Client,
    assert_bound,
    assert_ends_with_the_harness,
    assert_found_out,
    assert_journal_and_count,
    lied,
    read_alone,
    sent,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.run.queue_server import QueueServer
    from harness.run.queue_system import QueueSystem
    from harness.saved import CellResult

pytestmark = [pytest.mark.activemq, pytest.mark.rest(together=True), pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def system() -> QueueSystem:
    """Return ActiveMQ, fetched."""
    found = launcher()
    found.prepare(lambda _: None)
    return found


@pytest.fixture(scope="module")
def broker(system: QueueSystem, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueServer]:
    """Return a running broker."""
    deployed = system.deploy(Deployment.OWN, tmp_path_factory.mktemp("run") / "deployments" / "one")
    yield deployed.broker
    deployed.close()


def test_the_journal_says_what_was_kept_and_what_was_taken_off(broker: QueueServer) -> None:
    """By places, and in agreement with the broker's own count, also when the broker was killed."""
    assert_journal_and_count(broker)


def test_who_refuses_a_message_sets_it_aside(broker: QueueServer) -> None:
    """A NACK moves it among the dead letters: one copy, at another place."""
    queue = broker.queue("refused")
    Client(broker).send(queue, "poison")
    taker = Client(broker, Role.CONSUMER)
    [given] = taker.take(queue, 1)
    taker.stomp.nack(given.headers["ack"], receipt="no")
    taker.told("no")
    wait_until(
        lambda: broker.messages(queue)[0].waiting is None,
        within_s=WITHIN_S,
        because="the journal to say so",
    )
    [message], [aside] = broker.messages(queue), broker.messages(broker.dead_letters(queue))
    assert (message.moved, message.removed) == (aside.place, None)
    assert (aside.value, aside.waiting) == (b"poison", Waiting.READY)
    assert (broker.count(queue), broker.count(broker.dead_letters(queue))) == (Count(), Count(1))


def test_what_is_sent_in_a_transaction_is_there_with_its_commit(broker: QueueServer) -> None:
    """The journal has it before; it waits for the commit, or for nothing."""
    assert_bound(broker)


def test_a_journal_is_read_of_a_broker_that_is_dead(
    broker: QueueServer, system: QueueSystem, tmp_path: Path
) -> None:
    """The same program reads it, alone: a torn one up to its last whole batch, and one that is
    damaged before that not at all.
    """
    queue = broker.queue("dead")
    Client(broker).send(queue, "one", "two")
    places = [message.place for message in broker.messages(queue)]
    broker.kill()
    assert sent(read_alone(system, broker._directory / "data", "dead").stdout, "at") == places
    (number, first), (same, last) = (map(int, place.split(":")) for place in places)
    assert number == same
    file = tmp_path / f"db-{number}.log"
    shutil.copy(broker._directory / "data" / f"db-{number}.log", file)
    whole = bytearray(file.read_bytes())
    file.write_bytes(whole[: last + 20])
    assert sent(read_alone(system, tmp_path, "dead").stdout, "at") == places[:1]
    whole[first + 20] ^= 1
    file.write_bytes(whole)
    refused = read_alone(system, tmp_path, "dead")
    assert refused.returncode != 0
    assert "is damaged at" in refused.stderr
    broker.restart()


def test_a_journal_is_read_with_what_was_cleaned_up(broker: QueueServer) -> None:
    """A file that nothing needs any more goes to the archive, and what it says with it."""
    queue = broker.queue("archived")
    broker.ask("rotate")
    Client(broker).send(queue, "one")
    taker = Client(broker, Role.CONSUMER)
    [given] = taker.take(queue, 1)
    taker.stomp.ack(given.headers["ack"], receipt="yes")
    taker.told("yes")
    before = broker.messages(queue)
    assert [message.removed for message in before] == [Removal.ACK]
    [ended] = broker.ask("rotate")
    broker.ask("keep")
    wait_until(
        lambda: ended not in broker.ask("clean"), within_s=WITHIN_S, because="the file to go"
    )
    assert not (broker.data / f"db-{ended['file']}.log").exists()
    assert broker.messages(queue) == before


def test_sigkill_of_the_harness_leaves_no_broker(tmp_path: Path) -> None:
    """The guardian ends the JVM, the wire and the programs."""
    assert_ends_with_the_harness("activemq", "lostack.ClassicBroker", tmp_path)


@pytest.mark.parametrize("client", ["stomp.py", "openwire", "amqp"])
def test_lies_are_found_out(system: QueueSystem, tmp_path: Path, client: str) -> None:
    """A disarmed fault, a wrong victim, an observer that forgets or miscounts, a planted loss and a
    planted duplicate.
    """
    assert_found_out(lied(system, SCENARIOS, tmp_path, client=client))


@pytest.mark.parametrize("client", ["openwire", "amqp"])
def test_what_a_client_of_jms_sent_is_in_the_journal_as_it_was_sent(
    system: QueueSystem, tmp_path: Path, client: str
) -> None:
    """By the names and in the bytes that the consumer saw: each result is of a copy that the queue
    has had.
    """
    found = by(system, "none", Semantic.EXACTLY_ONCE, client, tmp_path)
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    recorded = {e["place"] for e in told(found, "recorded")}
    assert len(recorded) == 24
    assert recorded == {e["place"] for e in told(found, "stored")}


def test_what_is_prepared_and_never_decided_waits_in_the_journal(
    system: QueueSystem, tmp_path: Path
) -> None:
    """It is nobody's, and not lost: the control is convicted of standing still, with the one
    record.
    """
    found = by(system, "xa-blocked", Semantic.EXACTLY_ONCE, "openwire", tmp_path)
    waits = [e for e in told(found, "stored") if e.get("waiting") == Waiting.PREPARED]
    assert [e["record"] for e in waits] == [found.plan.target]
    assert (found.verdict.kind, found.verdict.green) == (Kind.STUCK, True)


def by(
    system: QueueSystem, scenario: str, semantic: Semantic, client: str, folder: Path
) -> CellResult:
    """Run one cell by a client."""
    meant = [each for each in SCENARIOS if each.id == scenario]
    cells = tuple(expand(meant, semantics=[semantic], seeds=[1], system="activemq", client=client))
    [found] = run(RunPlan((system,), cells, (), folder, 1, "test", (1,), 24), Silent()).results
    return found


def told(found: CellResult, kind: str) -> list[dict[str, Any]]:
    """Return the lines of a kind in a cell's history."""
    files = sorted((found.directory / HISTORY).glob(f"*{SUFFIX}"))
    return [
        event
        for file in files
        for event in map(json.loads, file.read_text().splitlines())
        if event["event"] == kind
    ]
