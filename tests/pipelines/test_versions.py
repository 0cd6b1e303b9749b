"""Proves on a real broker that versions of clients with a published bug are convicted, and that
their neighbours are acquitted, by the same program.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.scoreboard.building import built
from harness.scoreboard.table import Client
from tests.pipelines.test_check import PROGRAMS, check
from tests.pipelines.traffic import traffic

if TYPE_CHECKING:
    from pathlib import Path

    from harness.saved import CellResult
    from harness.systems.declared.system import DeclaredSystem

pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(300)]
AGAIN, JOINS = "ack-lost", "member-joins-with-record-in-hand"
NEEDS = {"1.35.0": "20.19.4", "2.12.1": "22.22.0"}
TRANSACTION = ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
SEEN = traffic(consumer=("Fetch", "OffsetCommit", "JoinGroup", "Heartbeat"))
"""What a dry run would show of a consumer, which all of these programs pass."""


class Own(Client):
    """A client whose programs and locks are the tests' own."""

    __slots__ = ()

    @property
    def folder(self) -> Path:
        """Where they are."""
        return PROGRAMS / self.name


def copied(folder: Path, name: str, **words: str) -> Path:
    """Return a declaration of these programs. ``words``: what each word in it is."""
    file = shutil.copytree(PROGRAMS / name, folder / name) / "pipeline.toml"
    text = file.read_text(encoding="utf-8")
    for word, change in words.items():
        text = text.replace(word, change)
    file.write_text(text, encoding="utf-8")
    return file


def program(name: str, version: str) -> str:
    """Return the command of the program with this version of its client, for Node.js."""
    client = Own(name, "JavaScript", "node", (version,), needs=NEEDS)
    [*words, _] = built(client, version, lambda _: None).commands["producer"]
    return " ".join(words)


@pytest.mark.parametrize(
    ("name", "version", "kind"),
    [
        ("concurrent", "1.35.0", Kind.BROKEN),
        ("concurrent", "2.12.1", Kind.KEPT),
        ("at-once", "1.15.0", Kind.BROKEN),
        ("at-once", "2.2.4", Kind.KEPT),
    ],
)
def test_sends_that_are_under_way_together_need_numbers_of_their_own(
    system: DeclaredSystem, tmp_path: Path, name: str, version: str, kind: Kind
) -> None:
    """@platformatic/kafka #326, kafkajs #1005: else the broker takes them for repetitions."""
    file = copied(tmp_path, name, PROGRAM=program(name, version))
    found = check(system, tmp_path / "reports", file)
    dry: CellResult = found["none"]
    assert dry.verdict.kind is kind, dry.verdict.reason
    assert bool(dry.judgement.account.lost) is (kind is Kind.BROKEN)


@pytest.mark.parametrize(("how", "kind"), [("unkeyed", Kind.BROKEN), ("keyed", Kind.KEPT)])
def test_what_is_sent_again_to_another_partition_is_stored_twice_and_hides_the_next(
    system: DeclaredSystem, tmp_path: Path, how: str, kind: Kind
) -> None:
    """Kafkajs 2.2.4, in a transaction: without a key it chooses a partition at each attempt. The
    first one's sequence number is given to the next record, which the broker takes for the first.
    """
    command = program("unkeyed", "2.2.4")
    file = copied(tmp_path, "unkeyed", PROGRAM=command, HOW=how)
    seen = traffic(processor=("Fetch", "JoinGroup", "Heartbeat", "Produce", *TRANSACTION))
    found = check(system, tmp_path / "reports", file, AGAIN, seen=seen)[AGAIN]
    assert found.verdict.kind is kind, found.verdict.reason
    assert found.verdict.by_fault
    account, broken = found.judgement.account, kind is Kind.BROKEN
    assert account.duplicated == ({found.plan.target} if broken else set())
    assert len(account.lost) == broken


@pytest.mark.parametrize(("version", "kind"), [("4.1.0", Kind.BROKEN), ("4.1.1", Kind.KEPT)])
def test_what_an_error_handler_is_given_in_a_rebalance_is_dropped(
    system: DeclaredSystem, tmp_path: Path, version: str, kind: Kind
) -> None:
    """Spring Kafka #4545: it polls while it waits to try a batch again, and a rebalance has ended
    the pause of what it has. The position passes those records.
    """
    file = copied(tmp_path, "retried", VERSION=version)
    found = check(system, tmp_path / "reports", file, JOINS, seen=SEEN)[JOINS]
    assert found.verdict.kind is kind, found.verdict.reason
    assert found.verdict.by_fault
    assert bool(found.judgement.account.lost) is (kind is Kind.BROKEN)
