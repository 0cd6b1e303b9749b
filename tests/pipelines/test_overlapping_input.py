"""Proves on real brokers and databases that input whose writers overlap convicts a reader that
goes by the highest number, and keeps one that waits for open transactions.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.systems.declared.system import DeclaredSystem
from tests.pipelines.test_check import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.saved import CellResult

PROGRAMS = Path(__file__).parent / "programs" / "outbox-reader"
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.postgres,
    pytest.mark.rest(together=True),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """A folder that others may enter: a server of root's is another user."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o711)
        yield Path(made)


@pytest.fixture(scope="module")
def system(open_folder: Path) -> Iterator[DeclaredSystem]:
    """One broker for all of them, which ends before its folder."""
    del open_folder
    found = DeclaredSystem(keep=True)
    yield found
    found.close()


@pytest.fixture
def folder(open_folder: Path) -> Path:
    """One for each test."""
    path = Path(tempfile.mkdtemp(dir=open_folder))
    path.chmod(0o711)
    return path


def passed(found: CellResult) -> dict[str, tuple[str, ...]]:
    """Return the records that were committed behind others that began later, and those."""
    taken = read_history(found.directory / HISTORY).of(kinds.Taken)
    return {e.record: e.passed for e in taken if e.passed}


@pytest.mark.parametrize("of", ["pipeline.toml", "http.toml"])
def test_who_goes_by_the_highest_number_loses_what_comes_behind_it(
    system: DeclaredSystem, folder: Path, of: str
) -> None:
    found = check(system, folder, PROGRAMS / of)["none"]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    lost = found.judgement.account.lost
    assert lost
    if of == "pipeline.toml":
        assert lost <= {*passed(found)}, "only rows that were overtaken"
        target = min(lost)
        assert passed(found)[target]


@pytest.mark.parametrize("of", ["right.toml", "http-right.toml"])
def test_who_waits_for_open_transactions_loses_nothing(
    system: DeclaredSystem, folder: Path, of: str
) -> None:
    """Nor when it is killed, or its database is."""
    points = ("producer-crash-before-ack", "service-crash") if of == "right.toml" else ()
    found = check(system, folder, PROGRAMS / of, *points)
    assert {name: one.verdict.kind for name, one in found.items()} == dict.fromkeys(
        points or ("none",), Kind.KEPT
    ), {name: one.verdict.reason for name, one in found.items()}
    if of == "right.toml":
        assert all(map(passed, found.values())), "rows overlapped"
