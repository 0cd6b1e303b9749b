"""On a real broker behind a real Toxiproxy: a toxic that changes nothing is void, however clean the
counts are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.faults import Network, Until
from harness.judge.verdict import Kind
from harness.model.prediction import Permitted
from harness.model.scenario import Predicted
from harness.proofs.network import Effect
from harness.services.toxiproxy import Latency, Stream
from scenarios.network import HALF_OPEN_ACK, SEND
from tests.trust.test_trust import ALO, run_all

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.model.scenario import Scenario
    from harness.saved import CellResult

pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(240)]

HARMLESS = (Latency(Stream.DOWNSTREAM, 1),)
CLAIMS = {
    Effect.LATE: 5.0,
    Effect.SILENT: 0.0,
    Effect.CUT: 1.0,
    Effect.SLOW: 1.0,
    Effect.SLICED: 3.0,
}
"""What a millisecond of latency is claimed to have done, and has not."""


def claiming(effect: Effect, limit: float) -> Scenario:
    """Return a scenario that permits everything, with a harmless toxic that is said to
    be another.
    """
    fault = Network(SEND, HARMLESS, Until.EXHAUSTED, effect, limit)
    expect = {ALO: Predicted(duplicated=Permitted())}
    return replace(HALF_OPEN_ACK, id=f"harmless-{effect}", fault=fault, expect=expect)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, CellResult]:
    """Return the judged claims, and one cell beside them that has no network of its own to suffer
    from.
    """
    return run_all(
        [claiming(effect, limit) for effect, limit in CLAIMS.items()],
        tmp_path_factory.mktemp("network"),
    )


@pytest.mark.parametrize("effect", CLAIMS)
def test_a_toxic_that_changed_nothing_is_void(
    results: Mapping[str, CellResult], effect: Effect
) -> None:
    """The rule was hit, the toxic was on and off again, every record arrived: and it proves
    nothing.
    """
    result = results[f"harmless-{effect}"]
    assert result.verdict.kind is Kind.VOID
    assert "the network was made" in result.verdict.reason
    assert result.verdict.fired == 1
    assert result.judgement.account.counts["recorded"] == result.plan.offered


def test_a_black_hole_of_one_cell_is_not_felt_by_another(tmp_path: Path) -> None:
    """Two cells share a broker and a Toxiproxy; only the one whose fault it is sees silence, and
    repeats its request.
    """
    from scenarios.plain import NONE  # noqa: PLC0415 - only here

    found = run_all([HALF_OPEN_ACK, NONE], tmp_path)
    assert (found["half-open-ack"].verdict.green, found["none"].verdict.green) == (True, True)
    assert found["half-open-ack"].judgement.account.duplicated == {
        found["half-open-ack"].plan.target
    }
    assert not found["none"].judgement.account.duplicated
