"""How many cells of a run share a broker, where nobody says."""

from __future__ import annotations

import pytest

from harness import registry
from harness.cli.run import at_once
from harness.matrix.selection import select


@pytest.mark.parametrize(
    ("system", "client", "many"),
    [
        pytest.param("kafka", "kafka-python", True, id="mostly waits"),
        pytest.param("kafka", "java", False, id="a client on a JVM"),
        pytest.param("spark", None, False, id="a driver on a JVM"),
        pytest.param(None, None, False, id="Kafka and Spark"),
    ],
)
def test_more_cells_at_once_where_programs_mostly_wait(
    system: str | None, client: str | None, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several JVMs at once on two cores would be starved, and starved cells prove nothing."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    chosen = select(
        registry.scenarios(),
        only=("none",),
        system=system,
        clients=(client,) if client else (),
    )
    assert chosen.cells
    assert at_once(chosen.cells) == (6 if many else 3)
