"""A cell's history as a real run leaves it (frames, rules, answers, fetches, positions), made by
hand for the page.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.judge.verdict import judge
from harness.knowledge import knowledge
from harness.model.cell import Cell
from harness.model.history import read_history
from harness.model.plan import Plan, plan_of
from harness.saved import CellResult, judge_cell
from tests.judge.growing import end
from tests.report.hostile import ACK_LOST, ALO

if TYPE_CHECKING:
    from collections.abc import Callable

STEP_NS = 3_700_000


def golden(name: str) -> CellResult:
    """Judge a golden cell (its history bears no cell's id, which a run that is read back must)."""
    directory = Path(__file__).parents[1] / "judge" / "golden" / name
    return CellResult(
        judge(Plan.load(directory), read_history(directory / "history"), knowledge()),
        directory,
        0.0,
        {},
    )


class _EventLines:
    """Events one after the other."""

    def __init__(self, cell: str) -> None:
        self.cell = cell
        self.lines: list[str] = []

    def __call__(self, event: str, by: str = "runner", **fields: Any) -> None:
        t = len(self.lines) * STEP_NS
        self.lines.append(
            json.dumps({"t": t, "w": t, "cell": self.cell, "by": by, "event": event, **fields})
        )


def lively(
    directory: Path, *, seed: int = 1, name: Callable[[str], str] = str, scenario: str = "ack-lost"
) -> CellResult:
    """Write an ``ack-lost`` cell whose target is stored and recorded twice; ``name`` renames
    records and nodes. Judge it.
    """
    cell = Cell(replace(ACK_LOST, id=scenario), ALO, "kafka", "kafka-python", "process", seed, 24)
    plan = plan_of(cell)
    records = [record.id for record in cell.load().records]
    plan = replace(
        plan,
        target=name(plan.target),
        because=name(plan.because),
        logs={"topic": 1},
        select={which: frozenset(map(name, ids)) for which, ids in plan.select.items()},
    )
    directory.mkdir(parents=True)
    (directory / "cell.json").write_text(plan.to_json(), encoding="utf-8")
    (directory / "history").mkdir()
    lines = told_of(plan, [name(record) for record in records], name)
    (directory / "history" / "all.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    end(directory / "history")
    return judge_cell(directory)


def told_of(plan: Plan, records: list[str], name: Callable[[str], str] = str) -> list[str]:
    """Return the lines of a history in which the answer to the target is lost, and the target
    stored and recorded twice.
    """
    tell, target = _EventLines(plan.id), plan.target
    tell("cell", phase="begun", seal=plan.seal)
    for node in ("consumer", "producer"):
        tell("node", node=name(node), role=node, incarnation=1, phase="started", pid=100)
        tell(
            "ready",
            f"{name(node)}-1",
            role=node,
            **({"partitions": [0]} if node == "consumer" else {}),
        )
    tell("cell", phase="loaded")
    tell("fault", phase="armed", fault="drop")
    tell(
        "rule",
        "wire",
        rule="fault",
        phase="armed",
        action="drop",
        api="Produce",
        direction="response",
        role="producer",
        record=target,
        occurrence=1,
    )
    offset = 0
    for number, record in enumerate(records, start=1):
        tell("taken", f"{name('producer')}-1", record=record)
        for lost in (True, False) if record == target else (False,):
            _send(tell, name, record, number + (100 if lost else 0), offset, lost=lost)
            offset += 1
        tell(
            "acked",
            f"{name('producer')}-1",
            record=record,
            attempt=f"producer-1.0.{number}",
            partition=0,
            offset=offset - 1,
        )
    tell("drain", phase="begun")
    copies = [record for record in records for _ in range(2 if record == target else 1)]
    for place, record in enumerate(copies):
        _receive(tell, name, record, place)
    tell("drain", phase="completed")
    for place, record in enumerate(records, start=1):
        tell("offered", record=record, key="k", position=place)
    tell("cursor", position=len(records) + 1, where="outbox")
    place_of = {record: place for place, record in enumerate(records, start=1)}
    for place, record in enumerate(copies):
        tell(
            "stored",
            hop="topic",
            topic="t",
            partition=0,
            epoch=0,
            offset=place,
            record=record,
            key="k",
            intact=True,
            visible=True,
            attempt=f"producer-1.0.{place_of[record]}",
            producer_id=-1,
        )
    tell(
        "log",
        hop="topic",
        topic="t",
        partition=0,
        start=0,
        stable=len(copies),
        end=len(copies),
        last_data=len(copies) - 1,
    )
    tell("position", partition=0, offset=len(copies), where="group")
    for place, record in enumerate(copies):
        tell(
            "recorded",
            record=record,
            key="k",
            intact=True,
            order=place,
            partition=0,
            epoch=0,
            offset=place,
            attempt=f"producer-1.0.{place_of[record]}",
        )
    for phase in ("observed", "ended"):
        tell("cell", phase=phase)
    return tell.lines


def _frame(
    tell: _EventLines, name: Callable[[str], str], role: str, what: tuple[str, str], corr: int
) -> None:
    api, direction = what
    tell(
        "frame",
        "wire",
        conn=1 if role == "producer" else 2,
        role=role,
        node=name("broker-1"),
        client=f"c.{name(role)}.1",
        dir=direction,
        api=api,
        version=9,
        corr=corr,
        size=199,
    )


def _send(
    tell: _EventLines,
    name: Callable[[str], str],
    record: str,
    corr: int,
    offset: int,
    *,
    lost: bool,
) -> None:
    attempt = f"producer-1.0.{corr % 100}"
    _frame(tell, name, "producer", ("Produce", "request"), corr)
    tell(
        "sent",
        "wire",
        record=record,
        topic="t",
        partition=0,
        request=f"1:{corr}",
        producer_id=-1,
        attempt=attempt,
    )
    _frame(tell, name, "producer", ("Produce", "response"), corr)
    where = {
        "conn": 1,
        "corr": corr,
        "dir": "response",
        "api": "Produce",
        "version": 9,
        "size": 58,
        "record": record,
        "records": [record],
        "client": f"c.{name('producer')}.1",
    }
    if lost:
        for phase in ("hit", "dropped", "cut"):
            tell("rule", "wire", rule="fault", phase=phase, **where)
        tell("fault", phase="fired", fault="drop", record=record)
        tell("fault", phase="healed", fault="drop")
    tell(
        "produce_answer",
        "wire",
        record=record,
        request=f"1:{corr}",
        error=0,
        base_offset=offset,
        offset=offset,
        reached=not lost,
    )


def _receive(tell: _EventLines, name: Callable[[str], str], record: str, offset: int) -> None:
    corr = 500 + 2 * offset
    _frame(tell, name, "consumer", ("Fetch", "request"), corr)
    _frame(tell, name, "consumer", ("Fetch", "response"), corr)
    tell(
        "fetched",
        "wire",
        record=record,
        topic="t",
        partition=0,
        offset=offset,
        epoch=0,
        conn=2,
        reached=True,
    )
    tell("delivered", f"{name('consumer')}-1", record=record, partition=0, epoch=0, offset=offset)
    for direction, event in (("request", "committed"), ("response", "commit_answer")):
        _frame(tell, name, "consumer", ("OffsetCommit", direction), corr + 1)
        tell(
            event,
            "wire",
            topic="t",
            partition=0,
            offset=offset + 1,
            request=f"2:{corr + 1}",
            error=0,
            reached=True,
        )
