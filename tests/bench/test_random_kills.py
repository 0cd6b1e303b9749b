"""Random kills are drawn, not chosen: the same ones from the same seed, at any time, of any
program.
"""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from harness.model.history import HISTORY
from harness.model.scenario import Role
from harness.sweep.planning import RESULT_FILE
from harness.sweep.settings import BESIDE
from tests.bench.random_kills import KillAtRandom, drawn, hits, line_of, measure, swept, window
from tests.events import whole
from tests.memory.plants import Plant
from tests.sweep.stepping import RIGHT, Quiet, sweep

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.cell import Cell

ROLES = (Role.PRODUCER, Role.CONSUMER)


def test_they_are_drawn() -> None:
    """All programs, over all the time; another seed draws others."""
    kills = drawn(ROLES, (1.0, 9.0), 200, seed=1)
    assert kills == drawn(ROLES, (1.0, 9.0), 200, seed=1) != drawn(ROLES, (1.0, 9.0), 200, seed=2)
    assert {kill.role for kill in kills} == set(ROLES)
    quarters = [sum(2 * at <= kill.after_s - 1 < 2 * at + 2 for kill in kills) for at in range(4)]
    assert min(quarters) > 25


def test_they_fall_where_records_move(tmp_path: Path) -> None:
    """Not while a cell begins, and not while it only rests: such a kill proves nothing."""
    rows = [
        ("cell", 5, {"phase": "loaded"}),
        ("sent", 6, {}),
        ("frame", 7, {"role": "producer"}),
        ("fetched", 9, {}),
        ("cell", 25, {"phase": "drained"}),
    ]
    (tmp_path / HISTORY).mkdir()
    lines = [
        json.dumps(
            whole({"event": kind, "t": at * 10**9, "w": 0, "cell": "c", "by": "wire", **more})
        )
        for kind, at, more in rows
    ]
    (tmp_path / HISTORY / "wire.jsonl").write_text("\n".join(lines) + "\n")
    assert window([SimpleNamespace(directory=tmp_path)]) == ([Role.PRODUCER], (1.0, 4.0))  # type: ignore[list-item]


def test_hits_are_told_per_hundred_runs(tmp_path: Path) -> None:
    """Of both sides; what is void counts as run: it has found nothing."""
    outcomes = [
        {"signature": {"verdict": verdict}} for verdict in ("broken", "stuck", "kept", "void")
    ]
    (tmp_path / RESULT_FILE).write_text(
        json.dumps({"outcomes": outcomes, "findings": [{"points": ["one", "two"]}]})
    )
    sweep = swept(tmp_path)
    assert sweep == {"runs": 4, "hits": 2, "findings": 1}
    told: dict[str, Any] = {
        "what": "plain/exactly-once",
        "like": "x",
        "client": "java",
        "sweep": sweep,
        "random": {"runs": 50, "hits": 1},
    }
    assert line_of(told) == "| plain/exactly-once x | java | 50 (2 of 4) | 2 (1 of 50) |"
    told["random"]["void"] = 40
    assert line_of(told).endswith("| 2 (1 of 50, 40 void) |")


def test_what_a_random_kill_breaks_is_a_hit(tmp_path: Path) -> None:
    """Each kill is a run, once, and what it breaks is counted by what came of it."""

    def wrong(cell: Cell) -> Plant:
        fault = cell.scenario.fault
        return (
            Plant(lose=1)
            if isinstance(fault, KillAtRandom) and fault.role is Role.PRODUCER
            else RIGHT
        )

    one, progress = sweep(tmp_path / "one", wrong), Quiet()
    told = measure(one, 6, progress)
    kills = [name for name in progress.ran if name.startswith("random-")]
    assert len(kills) == told["random"]["runs"] == 6
    drew = drawn(ROLES, tuple(told["random"]["within s"]), 6, seed=1)
    assert told["random"]["hits"] == sum(kill.role is Role.PRODUCER for kill in drew) in range(1, 6)
    assert told["random"]["findings"] == 1
    assert measure(one, 7, progress)["random"]["runs"] == 7
    assert len([name for name in progress.ran if name.startswith("random-")]) == 7


def test_what_another_cause_breaks_is_no_hit(tmp_path: Path) -> None:
    one = sweep(
        tmp_path / "one",
        lambda cell: Plant(lose=1) if isinstance(cell.scenario.fault, KillAtRandom) else RIGHT,
    )
    measure(one, 2, Quiet())
    [first, second] = [result for result in one.saved.results(BESIDE) if result.ended]
    assert sum(hits([first, second]).values()) == 2
    judged = first.judgement
    other = replace(
        first, judgement=replace(judged, verdict=replace(judged.verdict, by_fault=False))
    )
    assert sum(hits([other, second]).values()) == 1


def test_a_program_that_has_done_its_work_is_not_started_again() -> None:
    """Nobody would start it, and from its beginning it would do everything twice."""
    done: list[str] = []
    node = SimpleNamespace(
        name="producer",
        stopped_itself=lambda: True,
        kill=lambda: done.append("kill"),
        restart=lambda: done.append("restart"),
    )
    controls: Any = SimpleNamespace(target=lambda _: node, say=done.append)
    KillAtRandom(Role.PRODUCER, 0.0).inject(controls)
    assert not done
