"""``lostack.check`` runs a pipeline on a real Kafka, and returns the judged run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lostack import DeclarationError, Kind, check, load_run
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = ROOT / "examples" / "orders" / "pipeline.toml"


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(300)
def test_a_check_returns_the_run(tmp_path: Path) -> None:
    run = check(str(ORDERS), only=["ack-lost"], reports=tmp_path)
    [cell] = run.results
    assert (cell.plan.scenario, cell.verdict.kind) == ("ack-lost", Kind.KEPT), cell.verdict.reason
    assert (run.directory / "report.html").is_file()
    [again] = load_run(run.directory).results
    assert again.verdict == cell.verdict


def test_a_wrong_name_starts_nothing(tmp_path: Path) -> None:
    """It is told in one line, before a broker is started."""
    with pytest.raises(DeclarationError, match="there is no failure point ack-lots"):
        check(ORDERS, only=["ack-lots"], reports=tmp_path / "reports")
    assert not (tmp_path / "reports").exists()
