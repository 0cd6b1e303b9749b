"""One table over saved runs: which client keeps which promise, and where they differ."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.judge.verdict import Kind, Verdict
from harness.report.clients import client_table
from tests.report.hostile import ACK_LOST, ALO, EOS, NONE, result, run_of

if TYPE_CHECKING:
    from harness.saved import CellResult, SavedRun

KEPT, STUCK = Verdict(Kind.KEPT, "kept", fired=1), Verdict(Kind.STUCK, "no progress", fired=1)


def _with(client: str, *results: CellResult) -> SavedRun:
    mine = [
        replace(one, judgement=replace(one.judgement, plan=replace(one.plan, client=client)))
        for one in results
    ]
    run = run_of(*mine)
    return replace(
        run,
        info=replace(
            run.info, versions={"kafka-python": "3.0.12", "kafka-clients": "4.3.0", "java": "17"}
        ),
    )


def test_clients_of_several_runs_stand_side_by_side() -> None:
    """Each with its own version; seeds and runs fold; only what differs has a row."""
    one = _with("kafka-python", result(ACK_LOST, EOS, KEPT), result(NONE, ALO, KEPT))
    two = _with(
        "java",
        result(ACK_LOST, EOS, KEPT),
        result(ACK_LOST, EOS, STUCK, seed=2),
        result(NONE, ALO, KEPT),
    )
    assert client_table([one, two]).splitlines() == [
        "| kafka | kafka-python 3.0.12 | java 4.3.0 |",
        "|---|---|---|",
        "| ✔ kept | 2 | 1 |",
        "| ◐ stuck | 0 | 1 |",
        "",
        "| where they differ | kafka-python 3.0.12 | java 4.3.0 |",
        "|---|---|---|",
        "| plain/ack-lost/exactly-once | 0 / 0 ✔ kept | 0 / 0 ◐ stuck in 2 runs |",
    ]


def test_a_version_of_its_own_is_a_column_of_its_own() -> None:
    older = _with("java==3.9.1", result(NONE, ALO, KEPT))
    assert client_table([older]) == "\n"
    assert "No point at which they differ." in client_table(
        [older, _with("java", result(NONE, ALO, KEPT))]
    )
    assert "| java 3.9.1 | java 4.3.0 |" in client_table(
        [older, _with("java", result(NONE, ALO, KEPT))]
    )
