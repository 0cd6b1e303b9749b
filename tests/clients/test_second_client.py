"""Another client in the place of kafka-python, on a real broker: a handful of cells; all of them
run every night.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness import registry
from harness.matrix.runner import RunPlan, run
from harness.matrix.selection import select
from tests.planted.lies import Silent

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(240)]

CELLS = {
    "confluent-kafka": (
        "plain/ack-lost/*",
        "plain/producer-crash-before-commit/*",
        "plain/commit-ack-lost/at-most-once/*",
        "plain/late-abort/*",
        "topic-to-topic/producer-crash-before-ack/exactly-once/*",
    ),
    "java": (
        "plain/ack-lost/*",
        "plain/commit-ack-lost/at-most-once/*",
        "plain/late-abort/*",
        "topic-to-topic/consumer-crash-before-recording/exactly-once/*",
    ),
}


@pytest.mark.parametrize("client", CELLS)
def test_another_client_meets_the_same_predictions(client: str, tmp_path: Path) -> None:
    """What theory says of the protocol does not depend on who speaks it; a client that differs is
    declared.
    """
    chosen = select(registry.scenarios(), only=CELLS[client], system="kafka", clients=[client])
    plan = RunPlan(
        chosen.systems(), chosen.cells, (), tmp_path, 3, "test", chosen.seeds, chosen.records
    )
    results = run(plan, Silent()).results
    assert len(results) == len(chosen.cells) >= len(CELLS[client])
    assert {
        result.plan.id: result.verdict.reason for result in results if not result.verdict.green
    } == {}
