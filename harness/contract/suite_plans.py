"""What is known of a system's cells before any runs, of each system that there is: nothing is
needed to ask.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from harness import registry
from harness.matrix.selection import not_run
from harness.model.plan import PLAN_FILE, Plan, plan_of
from harness.model.scenario import Edge, NotApplicable
from harness.model.semantics import Semantic

if TYPE_CHECKING:
    from pathlib import Path

    from harness.contract.systems import Subject
    from harness.model.cell import Cell

LONGEST_NAME = 200
"""Bytes: what a file system takes for a folder's name, less what is put behind it."""
HEX_DIGITS = 8


def test_a_system_is_called_what_selects_it(subject: Subject) -> None:
    """Whenever it is made, and so are its cells: results of several runs are compared
    by that name.
    """
    assert [subject.make().name for _ in range(2)] == [subject.name] * 2
    assert {cell.system for cell in subject.cells(1)} == {subject.name}


def test_versions_can_be_asked_for_at_any_time(subject: Subject) -> None:
    """What is not there yet has none; nothing is fetched for being asked."""
    versions = subject.make().versions()
    assert all(isinstance(word, str) and word for each in versions.items() for word in each)


def test_cells_of_other_names_never_share_anything(subject: Subject) -> None:
    """Ids, folders and keys are each one's own, for every seed; the same cell has the same ones
    again.
    """
    cells = [cell for seed in (1, 2) for cell in subject.cells(seed)]
    assert cells
    for names in (
        [cell.id for cell in cells],
        [cell.slug for cell in cells],
        [cell.key for cell in cells],
    ):
        assert [name for name, count in Counter(names).items() if count > 1] == []
    assert all(len(cell.slug.encode()) < LONGEST_NAME and "/" not in cell.slug for cell in cells)
    assert all(len(cell.key) == HEX_DIGITS and int(cell.key, 16) >= 0 for cell in cells)
    assert [cell.key for cell in cells] == [
        cell.key for seed in (1, 2) for cell in subject.cells(seed)
    ]


def test_a_cell_applies_or_says_in_a_line_why_not(subject: Subject) -> None:
    """Nobody learns only while it runs that it cannot be."""
    for cell in subject.cells(1):
        because = registry.inapplicable(cell)
        if isinstance(cell.expectation, NotApplicable):
            assert because == cell.expectation.because
        if because is not None:
            assert because.strip(), cell.id
            assert "\n" not in because, cell.id
            assert not_run(cell).because == because


def test_a_cell_that_applies_names_its_settings(subject: Subject) -> None:
    """For each semantic; they are saved with its plan, and so is what theory says of
    it, and why.
    """
    for cell in applicable(subject):
        saved = cell.saved_settings()
        assert saved, cell.id
        json.dumps(saved)
        assert cell.scenario.because.strip(), cell.id
        assert cell.scenario.failure_point.strip(), cell.id


def test_a_plan_is_read_as_it_was_written(subject: Subject, tmp_path: Path) -> None:
    """The judge has nothing else: what a cell says of itself must all be in it."""
    for cell in applicable(subject):
        plan = plan_of(cell)
        written = plan.to_json()
        (tmp_path / PLAN_FILE).write_text(written, encoding="utf-8")
        assert Plan.load(tmp_path).to_json() == written, cell.id
        assert (plan.id, plan.semantic, plan.offered) == (cell.id, cell.semantic, cell.records)


def test_a_load_is_the_same_again_and_has_its_target(subject: Subject) -> None:
    """By seed and scenario alone; there are records before the target and behind it, unless the
    first or the last record is meant.
    """
    for cell in applicable(subject):
        load = cell.load()
        ids = [record.id for record in load.records]
        assert cell.load() == load, cell.id
        assert len(set(ids)) == len(ids) == cell.records, cell.id
        at = ids.index(load.target.id)
        edge: dict[Edge | None, bool] = {Edge.FIRST: at == 0, Edge.LAST: at == len(ids) - 1}
        assert edge.get(cell.scenario.edge, 0 < at < len(ids) - 1), cell.id


def test_there_is_a_cell_without_a_fault_for_each_semantic(subject: Subject) -> None:
    """Or the system says of each semantic that it does not have why that is. What it can do is told
    by nothing else.
    """
    cells = subject.without_fault(1)
    assert cells
    reasons = {cell.semantic for cell in subject.cells(1) if registry.inapplicable(cell)}
    assert not subject.registered or set(Semantic) <= {*cells, *reasons}


def test_a_system_talks_through_some_client(subject: Subject) -> None:
    """The first of its own, where none is named."""
    used = {cell.client for cell in subject.cells(1)}
    assert used
    assert not subject.registered or used == {*registry.clients_of(subject.name)} == {
        registry.described(subject.name).clients[0]
    }


def applicable(subject: Subject) -> list[Cell]:
    """Return the cells that apply; there are some."""
    found = [cell for cell in subject.cells(1) if not isinstance(cell.expectation, NotApplicable)]
    assert found
    return found
