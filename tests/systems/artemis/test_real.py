"""On a real broker: its journal, its duplicate detection, and what it takes otherwise than others
that speak STOMP.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from harness.model.places import Removal, Waiting
from harness.model.scenario import Deployment, Role
from harness.model.waiting import wait_until
from harness.run.queue_broker import Count
from harness.scenarios.artemis import SCENARIOS
from harness.systems.artemis.system import launcher
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

pytestmark = [pytest.mark.artemis, pytest.mark.rest(together=True), pytest.mark.timeout(240)]
GIVEN_AT_MOST = 10
"""How often a message is given before it is set aside."""


@pytest.fixture(scope="module")
def system() -> QueueSystem:
    """Return Artemis, fetched."""
    found = launcher()
    found.prepare(lambda _: None)
    return found


@pytest.fixture(scope="module")
def broker(system: QueueSystem, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueServer]:
    """Return a running broker."""
    deployed = system.deploy(Deployment.OWN, tmp_path_factory.mktemp("run") / "deployments" / "one")
    yield deployed.broker
    deployed.close()


def said(
    broker: QueueServer, queue: str, *want: tuple[bytes, Waiting | None, Removal | None]
) -> None:
    """Wait for the journal to say so."""
    wait_until(
        lambda: (
            [(m.value, m.waiting, m.removed) for m in broker.messages(queue) if m.visible]
            == list(want)
        ),
        within_s=WITHIN_S,
        because="the journal to say so",
    )


def test_the_journal_says_what_was_kept_and_what_was_taken_off(broker: QueueServer) -> None:
    assert_journal_and_count(broker)


def test_what_is_sent_in_a_transaction_is_there_with_its_commit(broker: QueueServer) -> None:
    """The journal has it before; it waits for the commit, or for nothing."""
    assert_bound(broker)


def test_an_id_is_taken_once_also_after_a_crash(broker: QueueServer) -> None:
    """What has been there is answered by a receipt, and not kept; without an id the same message is
    a second one.
    """
    queue, client = broker.queue("once"), Client(broker)
    client.send(queue, "one", _AMQ_DUPL_ID="k-1")
    client.send(queue, "two", _AMQ_DUPL_ID="k-1")
    said(broker, queue, (b"one", Waiting.READY, None))
    broker.kill()
    broker.restart()
    again = Client(broker)
    again.send(queue, "three", _AMQ_DUPL_ID="k-1")
    again.send(queue, "four")
    said(broker, queue, (b"one", Waiting.READY, None), (b"four", Waiting.READY, None))
    assert again.errors == []


def test_a_transaction_with_one_id_that_was_there_is_dropped_whole(broker: QueueServer) -> None:
    queue, client = broker.queue("whole"), Client(broker)
    client.send(queue, "one", _AMQ_DUPL_ID="w-1")
    client.stomp.begin("t")
    client.send(queue, "new", transaction="t", _AMQ_DUPL_ID="w-2")
    client.send(queue, "one again", transaction="t", _AMQ_DUPL_ID="w-1")
    client.stomp.commit("t", receipt="committed")
    wait_until(lambda: client.errors, within_s=WITHIN_S, because="the commit to be refused")
    said(broker, queue, (b"one", Waiting.READY, None))
    assert "committed" not in client.receipts


def test_an_ack_in_a_transaction_is_done_at_once(broker: QueueServer) -> None:
    """The transaction is aborted, and the message is gone: what was read is not bound to what is
    sent.
    """
    queue, taker = broker.queue("unbound"), Client(broker, Role.CONSUMER)
    Client(broker).send(queue, "one")
    [given] = taker.take(queue, 1)
    taker.stomp.begin("t")
    taker.stomp.ack(given.headers["ack"], transaction="t", receipt="acked")
    taker.told("acked")
    taker.stomp.abort("t", receipt="aborted")
    taker.told("aborted")
    said(broker, queue, (b"one", None, Removal.ACK))


def test_who_refuses_a_message_has_acknowledged_it(broker: QueueServer) -> None:
    """A NACK takes it off the queue, and sets nothing aside."""
    queue, taker = broker.queue("refused"), Client(broker, Role.CONSUMER)
    Client(broker).send(queue, "poison")
    [given] = taker.take(queue, 1)
    taker.stomp.nack(given.headers["ack"], receipt="no")
    taker.told("no")
    said(broker, queue, (b"poison", None, Removal.ACK))
    assert (broker.count(queue), broker.count(broker.dead_letters(queue))) == (Count(), Count())


def test_a_small_prefetch_stops_what_acknowledges_itself(broker: QueueServer) -> None:
    """It is a size in bytes, and nobody gives any back: one message comes, and the rest is left for
    ever.
    """
    queue, taker = broker.queue("stopped"), Client(broker, Role.CONSUMER)
    Client(broker).send(queue, "one", "two", "three")
    taker.stomp.subscribe(
        queue, "1", ack="auto", headers={"activemq.prefetchSize": "1"}, receipt="subscribed"
    )
    taker.told("subscribed")
    said(
        broker,
        queue,
        (b"one", None, Removal.ACK),
        (b"two", Waiting.READY, None),
        (b"three", Waiting.READY, None),
    )
    taker.stomp.begin("round trip", receipt="begun")
    taker.told("begun")
    assert [frame.body for frame in taker.given] == [b"one"]
    assert broker.count(queue) == Count(2)


def test_what_is_given_too_often_is_set_aside(broker: QueueServer) -> None:
    queue = broker.queue("again")
    Client(broker).send(queue, "poison")
    for _ in range(GIVEN_AT_MOST):
        taker = Client(broker, Role.CONSUMER)
        taker.take(queue, 1)
        # not by a cut connection, behind which it may stay in flight: test_left_in_flight.py
        taker.stomp.disconnect()
    wait_until(
        lambda: broker.messages(queue)[0].waiting is None,
        within_s=WITHIN_S,
        because="it to be set aside",
    )
    [message], [aside] = broker.messages(queue), broker.messages(broker.dead_letters(queue))
    assert (message.moved, message.removed) == (aside.place, None)
    assert (aside.value, aside.waiting) == (b"poison", Waiting.READY)
    assert (broker.count(queue), broker.count(broker.dead_letters(queue))) == (Count(), Count(1))


def test_what_goes_from_the_journals_files_is_retained(broker: QueueServer) -> None:
    """A message that was acknowledged is there when its file has been used again."""
    queue, sender, taker = broker.queue("old"), Client(broker), Client(broker, Role.CONSUMER)
    sender.send(queue, "first")
    [given] = taker.take(queue, 1)
    taker.stomp.ack(given.headers["ack"], receipt="done")
    taker.told("done")
    retained = broker._directory / "data" / "retention"
    filling = Client(broker)
    for number in range(200):
        if len(list(retained.glob("*.amq"))) > 1:
            break
        filling.send(broker.queue("filling"), f"{number} " + "x" * 50_000)
    assert len(list(retained.glob("*.amq"))) > 1
    said(broker, queue, (b"first", None, Removal.ACK))


def test_a_journal_is_read_of_a_broker_that_is_dead(
    broker: QueueServer, system: QueueSystem, tmp_path: Path
) -> None:
    """The same program reads it, alone: a torn one up to its last whole entry, and one that is
    damaged before that not at all.
    """
    queue = broker.queue("dead")
    Client(broker).send(queue, "the first one", "the last one")
    places = [int(message.place) for message in broker.messages(queue)]
    broker.kill()
    data = broker._directory / "data"
    assert sent(read_alone(system, data, "dead").stdout, "id") == places
    torn = shutil.copytree(data, tmp_path / "torn")
    [file] = [
        file for file in (torn / "journal").glob("*.amq") if b"the last one" in file.read_bytes()
    ]
    whole = file.read_bytes()
    first, last = whole.index(b"the first one"), whole.index(b"the last one")
    file.write_bytes(whole[:last] + bytes(len(whole) - last))
    assert sent(read_alone(system, torn, "dead").stdout, "id") == places[:1]
    file.write_bytes(
        whole[:first] + bytes(last - first) + whole[last:]
    )  # the first one's end, and what is between the two
    refused = read_alone(system, torn, "dead")
    assert refused.returncode != 0
    assert "is damaged at" in refused.stderr
    broker.restart()


def test_sigkill_of_the_harness_leaves_no_broker(tmp_path: Path) -> None:
    """The guardian ends the JVM, the wire and the programs."""
    assert_ends_with_the_harness("artemis", "lostack.ArtemisBroker", tmp_path)


def test_lies_are_found_out(system: QueueSystem, tmp_path: Path) -> None:
    """A disarmed fault, a wrong victim, an observer that forgets or miscounts, a planted loss and a
    planted duplicate.
    """
    assert_found_out(lied(system, SCENARIOS, tmp_path))
