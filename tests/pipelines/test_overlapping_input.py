"""Proves on real brokers and databases that input whose writers overlap convicts a reader that
goes by the highest number, and keeps one that waits for open transactions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from tests.pipelines.test_check import check

if TYPE_CHECKING:
    from harness.saved import CellResult
    from harness.systems.declared.system import DeclaredSystem

PROGRAMS = Path(__file__).parent / "programs" / "outbox-reader"
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.postgres,
    pytest.mark.rest(together=True),
    pytest.mark.timeout(600),
]


def passed(found: CellResult) -> dict[str, tuple[str, ...]]:
    """Return the records that were committed behind others that began later, and those."""
    taken = read_history(found.directory / HISTORY).of(kinds.Taken)
    return {e.record: e.passed for e in taken if e.passed}


@pytest.mark.parametrize("of", ["pipeline.toml", "http.toml"])
def test_who_goes_by_the_highest_number_loses_what_comes_behind_it(
    system: DeclaredSystem, folder_of_all: Path, of: str
) -> None:
    found = check(system, folder_of_all, PROGRAMS / of)["none"]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    lost = found.judgement.account.lost
    assert lost
    if of == "pipeline.toml":
        assert lost <= {*passed(found)}, "only rows that were overtaken"
        target = min(lost)
        assert passed(found)[target]


@pytest.mark.parametrize("of", ["right.toml", "http-right.toml"])
def test_who_waits_for_open_transactions_loses_nothing(
    system: DeclaredSystem, folder_of_all: Path, of: str
) -> None:
    """Nor when it is killed, or its database is."""
    points = ("producer-crash-before-ack", "service-crash") if of == "right.toml" else ()
    found = check(system, folder_of_all, PROGRAMS / of, *points)
    assert {name: one.verdict.kind for name, one in found.items()} == dict.fromkeys(
        points or ("none",), Kind.KEPT
    ), {name: one.verdict.reason for name, one in found.items()}
    if of == "right.toml":
        assert all(map(passed, found.values())), "rows overlapped"
