"""A rate counts each point once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.latest import mark, point_latest
from harness.saved import CELLS, RunInfo
from harness.sweep.settings import POINTS
from tests.bench.rates import ran

if TYPE_CHECKING:
    from pathlib import Path


def test_points_are_counted_once(tmp_path: Path) -> None:
    """Also where the link to the newest run shows them again."""
    runs = tmp_path / "reports" / "sweeps" / "20261129-080000" / POINTS
    for number, name in enumerate(("20261129-080010", "20261129-080100"), 1):
        for cell in range(number):
            (runs / name / CELLS / f"cell-{cell}").mkdir(parents=True)
        info = RunInfo(
            name, f"2026-11-29T08:0{number}:00+00:00", 10.0, True, (), (), (1,), 24, {}, {}, ""
        )  # fmt: skip
        info.save(runs / name)
        mark(runs)
        assert point_latest(runs / name, info) is None
    assert (runs / "latest").is_symlink()
    assert ran(tmp_path) == (3, 20.0)
