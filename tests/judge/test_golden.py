"""Saved histories are judged as they were when they were saved: the verdict, its reason, every
count, every record.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.judge.verdict import Judgement, Kind, judge
from harness.knowledge import knowledge
from harness.model.history import read_history
from harness.model.plan import Plan
from harness.model.states import State
from tests.judge.test_accounting_oracle import OF_LOGS

FOLDERS = sorted(file.parent for file in (Path(__file__).parent / "golden").glob("*/expected.json"))


def expected(folder: Path) -> dict[str, Any]:
    """Return what must be said of a golden history."""
    found: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return found


def judged(folder: Path) -> Judgement:
    """Judge a saved history."""
    plan = Plan.load(folder)
    return judge(plan, read_history(folder / "history", plan.id), knowledge())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_golden_history_is_judged_as_before(folder: Path) -> None:
    """Verdict, reason, colour and every count of a saved history are what its
    expected.json says.
    """
    want, found = expected(folder), judged(folder)
    account = found.account
    lost = account.records[account.records["state"] == State.LOST]
    assert (found.verdict.kind, found.verdict.green) == (want["verdict"], want["green"]), (
        found.verdict
    )
    assert want["reason"] in found.verdict.reason
    assert found.verdict.fired == want["fired"]
    assert {column: count for column, count in account.counts.items() if count} == want["counts"]
    assert dict(zip(lost["record"], map(str, lost["last_hop"]), strict=True)) == want["lost"]
    assert sorted(account.duplicated) == want["duplicated"]
    assert found.details.get("rollback") == want.get("rollback")


def test_a_refusal_explains_a_second_copy_only_where_it_names_the_first(tmp_path: Path) -> None:
    """Kafka answered a request with NOT_LEADER_OR_FOLLOWER and the offset at which it had stored
    it. Without that offset the copy is nobody's doing, and no prediction holds.
    """
    [folder] = (one for one in FOLDERS if one.name.endswith("though-a-stored-one-was-refused"))
    shutil.copytree(folder, tmp_path / "copy")
    wire = tmp_path / "copy" / "history" / "wire.jsonl"
    told = wire.read_text()
    assert told.count('"error":6,"base_offset":6') == 1
    wire.write_text(told.replace('"error":6,"base_offset":6', '"error":6,"base_offset":-1'))
    verdict = judged(tmp_path / "copy").verdict
    assert verdict.kind is Kind.VOID
    assert "duplicated: predicted 0, saw 1 (k4-15)" in verdict.reason


def test_the_golden_histories_cover_everything() -> None:
    """Every verdict, every last hop, every column, and both colours of broken are among them."""
    wants = [expected(folder) for folder in FOLDERS]
    assert {want["verdict"] for want in wants} == set(Kind)
    assert {hop for want in wants for hop in want["lost"].values()} == {*OF_LOGS}
    columns = {column for want in wants for column in want["counts"]}
    assert set(judged(FOLDERS[0]).account.counts) - columns == {
        "reordered",
        "set_aside",
    }
    assert {want["green"] for want in wants if want["verdict"] == "broken"} == {True, False}
    assert sum(want["verdict"] == "void" for want in wants) >= 20
