"""What the tests of all brokers of queues share: a client past our stages, and cells with lies in
them.
"""

from __future__ import annotations

import json
import re
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

from harness.faults import Kill
from harness.judge.verdict import Kind
from harness.matrix.runner import RunPlan, run
from harness.model.cell import expand
from harness.model.places import Removal, Waiting
from harness.model.scenario import Role
from harness.model.semantics import Semantic
from harness.model.waiting import wait_until
from harness.run import sinks
from harness.run.queue_broker import Count
from harness.run.queue_server import QueueServer
from harness.stages.sinks.opening import create_sink
from tests.narrow import narrow
from tests.planted.lies import Silent
from tests.trust.faults import Disarmed, WrongVictim
from tests.trust.test_sigkill import assert_nothing_left

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from harness.interfaces import Launcher
    from harness.model.scenario import Scenario
    from harness.run.queue_broker import Message, QueueBroker
    from harness.run.queue_system import QueueSystem
    from harness.saved import CellResult

WITHIN_S = 20.0


class Client(stomp.ConnectionListener):  # type: ignore[misc]  # the library has no types
    """A client that talks STOMP past our stages."""

    def __init__(self, broker: QueueServer, role: Role = Role.PRODUCER) -> None:
        self.given: list[Any] = []
        self.receipts: set[str] = set()
        self.errors: list[str] = []
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

    def on_error(self, frame: Any) -> None:
        """Keep what is said."""
        self.errors.append(frame.headers.get("message", ""))

    def told(self, name: str) -> None:
        """Wait for a receipt."""
        wait_until(lambda: name in self.receipts, within_s=WITHIN_S, because=f"the receipt {name}")

    def send(self, queue: str, *texts: str, transaction: str | None = None, **headers: str) -> None:
        """Send messages that are kept, and wait until they are."""
        more = {} if transaction is None else {"transaction": transaction}
        for text in texts:
            named = {"persistent": "true", "lostack-attempt": f"a-{text}"} | headers
            self.stomp.send(queue, text.encode(), headers=named, receipt=text, **more)
            self.told(text)

    def take(self, queue: str, count: int) -> list[Any]:
        """Subscribe, and wait for messages."""
        self.stomp.subscribe(queue, "1", ack="client-individual")
        wait_until(lambda: len(self.given) >= count, within_s=WITHIN_S, because="messages")
        return self.given


def told(messages: tuple[Message, ...]) -> list[tuple[bytes, Waiting | None, Removal | None]]:
    """Return what is said of each message, without its place."""
    return [(message.value, message.waiting, message.removed) for message in messages]


def assert_journal_and_count(broker: QueueServer) -> None:
    """See that journal and count say what was kept and what was taken off, also when the broker was
    killed.
    """
    queue = broker.queue("kept")
    sender, taker = Client(broker), Client(broker, Role.CONSUMER)
    sender.send(queue, "one", "two", "three")
    given = taker.take(queue, 3)
    taker.stomp.ack(given[1].headers["ack"], receipt="done")
    taker.told("done")
    want = [
        (b"one", Waiting.READY, None),
        (b"two", None, Removal.ACK),
        (b"three", Waiting.READY, None),
    ]
    wait_until(
        lambda: told(broker.messages(queue)) == want,
        within_s=WITHIN_S,
        because="the journal to say so",
    )
    found = broker.messages(queue)
    assert [message.attempt for message in found] == ["a-one", "a-two", "a-three"]
    assert [message.name for message in found] == [
        broker.called(frame.headers["message-id"]) for frame in given
    ]
    assert len({message.place for message in found}) == len(found)
    assert broker.count(queue) == Count(0, 2)
    assert broker.kill().signal == signal.SIGKILL
    broker.restart()
    assert broker.messages(queue) == found
    assert broker.count(queue) == Count(2)


def assert_bound(broker: QueueServer) -> None:
    """See that what is sent in a transaction is in the journal before its commit, and waits for
    that, or for nothing.
    """
    queue, client = broker.queue("bound"), Client(broker)

    def last() -> Waiting | None:
        return next((message.waiting for message in reversed(broker.messages(queue))), None)

    for name, end in (("yes", client.stomp.commit), ("no", client.stomp.abort)):
        client.stomp.begin(name)
        client.send(queue, name, transaction=name)
        wait_until(
            lambda: last() is Waiting.OPEN, within_s=WITHIN_S, because="the journal to have it"
        )
        end(name, receipt=f"end-{name}")
        client.told(f"end-{name}")
        wait_until(
            lambda: last() is not Waiting.OPEN,
            within_s=WITHIN_S,
            because="the journal to have its end",
        )
    assert [(m.value, m.visible, m.waiting) for m in broker.messages(queue)] == [
        (b"yes", True, Waiting.READY),
        (b"no", False, None),
    ]


def read_alone(system: QueueSystem, data: Path, queue: str) -> subprocess.CompletedProcess[str]:
    """Read a journal by the same program, without a broker."""
    assert system._install is not None
    return subprocess.run(
        system._install.program.command("journal", str(data), queue),
        capture_output=True,
        text=True,
        check=False,
    )


def sent(said: str, by: str) -> list[Any]:
    """Return by which names the messages stand there; ends of transactions are told of
    every queue.
    """
    return [line[by] for line in map(json.loads, said.splitlines()) if line["kind"] == "add"]


def assert_ends_with_the_harness(system: str, main: str, folder: Path) -> None:
    """Kill a harness in the midst of a cell, and see that the guardian ends the JVM, the wire and
    the programs.
    """
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "harness.cli",
            "run",
            "--system",
            system,
            "--only",
            "ack-lost",
            "--reports",
            str(folder),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(
            lambda: list(folder.glob("*/cells/*/history/wire.jsonl")),
            within_s=90,
            because="a cell under way",
        )
        offspring = psutil.Process(process.pid).children(recursive=True)
        assert any(main in each.cmdline() for each in offspring)
    finally:
        process.kill()
        process.wait(10)
    assert_nothing_left(folder, offspring)


AT_INSERT = {
    "undone": "DELETE FROM results WHERE n = NEW.n",
    "doubled": "INSERT INTO results (value, name) VALUES (NEW.value, NEW.name)",
}
"""What a database does of itself when the target's result is recorded."""


def lied(
    system: Launcher,
    scenarios: Iterable[Scenario],
    folder: Path,
    server: type[Any] = QueueServer,
    client: str = "stomp.py",
) -> Mapping[str, CellResult]:
    """Run the lies at-least-once on one broker, a ``server``; by their names.

    Two are told by the broker's observer, two by the database.
    """
    by_id = {scenario.id: scenario for scenario in scenarios}
    before_ack, none = by_id["producer-crash-before-ack"], by_id["none"]
    lies = (
        replace(before_ack, id="disarmed-rule", fault=Disarmed(narrow(before_ack.fault, Kill))),
        replace(
            by_id["commit-lost"],
            id="wrong-victim",
            fault=WrongVictim(narrow(by_id["commit-lost"].fault, Kill), Role.PRODUCER),
        ),
        *(replace(none, id=name) for name in ("forgets", "miscounts", *AT_INSERT)),
    )
    cells = {
        cell.scenario.id: cell
        for lie in lies
        for cell in expand(
            [lie],
            semantics=[Semantic.EXACTLY_ONCE if lie.id == "doubled" else Semantic.AT_LEAST_ONCE],
            seeds=[1],
            system=none.pipeline.system,
            client=client,
        )
    }
    messages, count = server.messages, server.count

    def forgets(self: QueueBroker, queue: str) -> tuple[Message, ...]:
        found: tuple[Message, ...] = messages(self, queue)
        return found[1:] if queue == self.queue(f"{cells['forgets'].key}.in") else found

    def miscounts(self: QueueBroker, queue: str) -> Count:
        found: Count = count(self, queue)
        over = queue == self.dead_letters(self.queue(f"{cells['miscounts'].key}.in"))
        return Count(found.ready + 1) if over else found

    def lying(where: str) -> None:
        create_sink(where)
        lie = next((lie for lie in AT_INSERT if cells[lie].slug in where), None)
        if lie is not None:
            target = cells[lie].load().target.id
            with closing(sqlite3.connect(where)) as db, db:
                db.execute(
                    "CREATE TRIGGER lie AFTER INSERT ON results WHEN instr(CAST(NEW.value AS "
                    f"TEXT), ' {target} ') > 0 BEGIN {AT_INSERT[lie]}; END"
                )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sinks, "create_sink", lying)
        patch.setattr(server, "messages", forgets)
        patch.setattr(server, "count", miscounts)
        saved = run(
            RunPlan((system,), tuple(cells.values()), (), folder, 2, "test", (1,), 24), Silent()
        )
    return {result.plan.scenario: result for result in saved.results}


def assert_found_out(results: Mapping[str, CellResult]) -> None:
    """See that no lie was believed: nothing is judged, or exactly the record is convicted that was
    tampered with.
    """
    says = {
        "disarmed-rule": "^the fault did not fire$",
        "wrong-victim": "the consumer was not killed|the wrong process was killed",
        "forgets": "where no queue has a copy|the queue has no copy",
        "miscounts": "the broker counts 1",
    }
    for lie, said in says.items():
        verdict = results[lie].verdict
        assert verdict.kind is Kind.VOID, (lie, verdict.reason)
        assert re.search(said, verdict.reason), (lie, verdict.reason)
    lost, doubled = results["undone"], results["doubled"]
    assert (lost.verdict.kind, lost.judgement.account.lost) == (
        Kind.BROKEN,
        frozenset({lost.plan.target}),
    )
    assert (doubled.verdict.kind, doubled.judgement.account.duplicated) == (
        Kind.BROKEN,
        frozenset({doubled.plan.target}),
    )
