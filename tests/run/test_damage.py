"""Damage to a file of a dead broker: what it must have done, what it writes down, and when it says
that it proves nothing.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.faults import Damaged
from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.failures import CellFailure
from harness.model.harms import Damage
from harness.model.record import Record
from harness.model.scenario import Evidence, Role
from harness.proofs.damage import DAMAGED, FROM_DAMAGED, FileDamaged, damage_selections
from harness.run.damage import Files
from tests.events import a_history
from tests.events import told as said
from tests.judge.runs import first, judged, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.judge.histories import Story

KEY = "c0ffee00"
RECORDS = tuple(Record(f"k0-{n}", "k0", n, "x" * n) for n in (1, 2, 3))
WHOLE = b"head" + b"|".join(record.encode(KEY) for record in RECORDS)
AT = WHOLE.index(RECORDS[1].encode(KEY))


def damaged(data: Path, damage: Damage, *, alive: bool = False) -> list[dict[str, Any]]:
    """Damage the second of three records, of which the third is the target; return what is told."""
    told: list[dict[str, Any]] = []
    scene: Any = SimpleNamespace(
        cell=SimpleNamespace(key=KEY),
        load=SimpleNamespace(records=RECORDS, target=RECORDS[2]),
        history=SimpleNamespace(write=lambda event: told.append(said(event))),
    )
    node = SimpleNamespace(name="broker-1", exit=None if alive else "SIGKILL")
    broker: Any = SimpleNamespace(data=data, process=lambda: node)
    Files(scene, broker).damage(damage, 1)
    return told


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return the folder of a broker with two files, of which one has the records."""
    (tmp_path / "msgs").mkdir()
    (tmp_path / "msgs" / "1.blk").write_bytes(WHOLE)
    (tmp_path / "meta").write_bytes(b"meta")
    return tmp_path


@pytest.mark.parametrize(
    ("damage", "left", "bits"),
    [(Damage.BIT, len(WHOLE), 1), (Damage.TAIL, AT, 0)],
    ids=list(Damage),
)
def test_one_file_is_damaged_at_the_record(
    data: Path, damage: Damage, left: int, bits: int
) -> None:
    """One bit of it, or all from it on; the other file is as it was."""
    [fields] = damaged(data, damage)
    assert fields == {
        "event": kinds.DAMAGED,
        "node": "broker-1",
        "damage": damage,
        "path": "msgs/1.blk",
        "record": "k0-2",
        "at": AT,
        "before": len(WHOLE),
        "after": left,
        "bits": bits,
        "behind": ["k0-2", "k0-3"],
    }
    found = (data / "msgs" / "1.blk").read_bytes()
    assert found[:AT] == WHOLE[:AT]
    changed = [n for n, (a, b) in enumerate(zip(WHOLE, found, strict=False)) if a != b]
    end = AT + len(RECORDS[1].encode(KEY))
    assert (len(found), changed) == (left, [end - 1] if bits else [])
    assert (data / "meta").read_bytes() == b"meta"


@pytest.mark.parametrize("twice", [True, False])
def test_a_record_that_is_not_in_one_place_proves_nothing(data: Path, *, twice: bool) -> None:
    """Nobody could say which one counts."""
    (data / "msgs" / "1.blk").write_bytes(2 * WHOLE if twice else b"compressed")
    with pytest.raises(CellFailure, match=rf"k0-2 is in {2 * twice} places of broker-1's files"):
        damaged(data, Damage.BIT)


def test_a_broker_that_lives_is_left_alone(data: Path) -> None:
    """It could write over the damage."""
    with pytest.raises(CellFailure, match="broker-1 lives"):
        damaged(data, Damage.TAIL, alive=True)
    assert (data / "msgs" / "1.blk").read_bytes() == WHOLE


FAULT = Damaged(OnWire(Role.PRODUCER, "SEND", "request", offset=1), Damage.BIT)  # type: ignore[arg-type]


def test_the_fault_names_its_proof() -> None:
    """Of the death, and of the damage behind it; the trigger is at another record."""
    evidence = FAULT.evidence()
    assert (evidence.killed, evidence.proofs) == ((Role.BROKER,), (FileDamaged(),))
    assert (evidence.at_target, evidence.forgotten) == (False, True)


BIT = {"damage": "bit-flipped", "at": 40, "before": 90, "after": 90, "bits": 1}
TAIL = {"damage": "tail-cut", "at": 40, "before": 90, "after": 40, "bits": 0}


def harmed(story: Story, *told: dict[str, Any]) -> None:
    """A broker dies, and is started again; files are damaged, by default in between (10 to 20)."""
    death = story.tell(
        "node", "runner", node="broker-1", role="broker", incarnation=1, phase="exited", signal=9
    )
    fired = first(story, "rule")["t"]
    death["t"] = death["w"] = fired + 10
    start = story.tell(
        "node", "runner", node="broker-1", role="broker", incarnation=2, phase="started"
    )
    start["t"] = start["w"] = fired + 20
    for each in told:
        fields = {"node": "broker-1", "path": "1.blk", "record": "k0-1", **each}
        later = fields.pop("later", 15)
        event = story.tell("damaged", "runner", **fields)
        event["t"] = fired + later


WRONG: dict[str, tuple[tuple[dict[str, Any], ...], str]] = {
    "disarmed": ((), "no file was damaged"),
    "another's": (({**BIT, "node": "broker-2"},), "1 files were damaged, the first of broker-2"),
    "two": ((BIT, TAIL), "2 files were damaged"),
    "while it lived": (({**BIT, "later": 5},), "1.blk was damaged while broker-1 lived"),
    "too late": (({**BIT, "later": 25},), "1.blk was damaged while broker-1 lived"),
    "as it was": (({**BIT, "bits": 0},), "1.blk is not damaged as it was to be"),
    "more bits": (({**BIT, "bits": 2},), "1.blk is not damaged as it was to be"),
    "shorter": (({**BIT, "after": 89},), "1.blk is not damaged as it was to be"),
    "whole": (({**TAIL, "after": 90},), "1.blk is not damaged as it was to be"),
    "cut and changed": (({**TAIL, "bits": 1},), "1.blk is not damaged as it was to be"),
}


@pytest.mark.parametrize(("told", "why"), WRONG.values(), ids=WRONG)
def test_without_its_damage_a_cell_is_void(told: tuple[dict[str, Any], ...], why: str) -> None:
    story = run()
    harmed(story, *told)
    evidence = Evidence("rule", killed=(Role.PRODUCER, Role.BROKER), forgotten=True)
    found = judged(story, evidence=evidence, proofs={"file-damaged": {}})
    assert found.verdict.kind is Kind.VOID
    assert why in found.verdict.reason


@pytest.mark.parametrize("told", [BIT, TAIL], ids=["bit", "tail"])
def test_with_it_that_is_no_reason(told: dict[str, Any]) -> None:
    story = run()
    harmed(story, told)
    evidence = Evidence("rule", killed=(Role.PRODUCER, Role.BROKER), forgotten=True)
    found = judged(story, evidence=evidence, proofs={"file-damaged": {}})
    assert "damaged" not in found.verdict.reason


def test_what_a_prediction_may_name() -> None:
    """The record, and what stood behind it; nothing without a damage."""
    told = {"event": "damaged", "node": "broker-1", "path": "1.blk", **BIT}
    told |= {"record": "k0-1", "behind": ["k0-1", "k1-2"]}
    assert damage_selections(a_history([told]), "k9-9") == {
        DAMAGED: {"k0-1"},
        FROM_DAMAGED: {"k0-1", "k1-2"},
    }
    assert damage_selections(a_history([]), "k9-9") == {}
