"""Which points with two requests under way, or a backlog, a pipeline has, and where they strike."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.cli.check import _tell_late
from harness.faults import InBacklog, InBurst
from harness.judge.verdict import Kind
from harness.matrix.checking import Check, not_tried
from harness.model.exits import ExitCode
from harness.model.scenario import NotApplicable
from harness.model.semantics import Semantic
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.cells import aim, cells_of
from harness.pipelines.shares import followed
from harness.pipelines.silences import is_long, left_out
from tests.pipelines.scenes import EXAMPLES
from tests.pipelines.traffic import traffic

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.scenario import Scenario
    from harness.pipelines.declaration import Pipeline

ORDERS = read_pipeline(EXAMPLES / "orders" / "pipeline.toml")
SENDER = {
    "producer-crash-in-a-burst",
    "ack-lost-in-a-burst",
    "requests-lost-in-a-burst",
    "request-refused-in-a-burst",
    "requests-lost-then-refused-in-a-burst",
    "broker-crash-in-a-burst",
}
READER = {"commit-lost-in-a-backlog", "commit-ack-lost-in-a-backlog"}
SEEN = traffic(producer=("Produce",), consumer=("Fetch", "OffsetCommit"))


def points(pipeline: Pipeline = ORDERS, alone: str = "") -> dict[str, Scenario]:
    """Return the points of this kind by their names. ``alone``: why no requests overlap."""
    found = failure_points(pipeline, {**SEEN, "producer": replace(SEEN["producer"], alone=alone)})
    return {each.id: each for each in found if isinstance(each.fault, InBacklog | InBurst)}


def why_not(point: Scenario) -> str | None:
    """Say why it does not apply."""
    [expected] = point.expect.values()
    return expected.because if isinstance(expected, NotApplicable) else None


def test_they_are_left_to_all_and_priced() -> None:
    found = points()
    assert {*found} == SENDER | READER
    assert all(is_long(each) and why_not(each) is None for each in found.values())
    [line] = left_out([*found.values()])
    assert line.startswith("not run without --all: producer-crash-in-a-burst, ")
    assert line.endswith("in each, requests overlap or records gather (about 3 s longer)")


def test_a_sender_that_waits_for_each_answer_has_none() -> None:
    """As a run with a late answer has shown; its readers have theirs."""
    found = points(alone="it waits")
    assert {name for name, each in found.items() if why_not(each) == "it waits"} == SENDER
    assert {name for name, each in found.items() if why_not(each) is None} == READER


@pytest.mark.parametrize(
    ("change", "name", "why"),
    [
        ({"claims": Semantic.AT_MOST_ONCE}, "requests-lost-then-refused-in-a-burst", "need not"),
        ({"brokers": 3}, "broker-crash-in-a-burst", "another takes over"),
    ],
)
def test_what_a_declaration_does_not_have(change: dict[str, Any], name: str, why: str) -> None:
    assert why in str(why_not(points(replace(ORDERS, **change))[name]))


def test_who_begins_at_the_end_has_no_backlog() -> None:
    stages = tuple(
        replace(each, begins="end", position="elsewhere") if each.reads else each
        for each in ORDERS.stages
    )
    found = points(replace(ORDERS, stages=stages))
    assert all("begins" in str(why_not(found[name])) for name in READER)


def offered(keys: str) -> Any:
    """Return records with these keys, in this order."""
    return [SimpleNamespace(key=key, position=at) for at, key in enumerate(keys, start=1)]


def test_the_next_record_of_the_same_key_comes_soon() -> None:
    """In the middle third, of which nothing waits for the fault to heal."""
    assert followed(offered("aaaabcdeaaaa"), None) is None
    assert followed(offered("aaaaabcaaaaa"), frozenset({4, 5, 6})) == frozenset({5})
    assert followed(offered("xxxxxxabbcabxxxxxx"), None) == frozenset({8})
    for cell in cells_of(ORDERS, points().values()):
        records, at = cell.offered(), aim(cell, {}).load().target.position
        assert records[at - 1].key in {each.key for each in records[at : at + 2]}, cell.id


def test_requests_are_made_to_overlap_only_where_that_is_asked_for(tmp_path: Path) -> None:
    """Else a check of the short list would take longer."""
    system: Any = SimpleNamespace(attached=False)
    check = Check(ORDERS, system, tmp_path, "pytest")
    progress: Any = None
    assert check.rehearsals(SEEN, (), progress) == (SEEN, ())
    assert check.rehearsals(SEEN, ("commit-lost-in-a-backlog",), progress) == (SEEN, ())
    with pytest.raises(AttributeError):
        check.rehearsals(SEEN, ("ack-lost-in-a-burst",), progress)
    with pytest.raises(AttributeError):
        replace(check, long=True).rehearsals(SEEN, (), progress)


@pytest.mark.parametrize(
    ("kind", "reason", "code"),
    [
        (Kind.KEPT, "", ExitCode.KEPT),
        (Kind.VOID, "not tried: the producer sent nothing else", ExitCode.KEPT),
        (Kind.VOID, "the run failed: a broker did not start", ExitCode.VOID),
        (Kind.STUCK, "no progress", ExitCode.VOID),
        (Kind.BROKEN, "1 lost", ExitCode.BROKEN),
    ],
)
def test_a_late_answer_proves_something_only_if_it_was_tried(
    kind: Kind, reason: str, code: ExitCode
) -> None:
    """What failed for another reason is no property of the pipeline; a known break does not count
    again.
    """
    found: Any = SimpleNamespace(verdict=SimpleNamespace(kind=kind, reason=reason))
    known: Any = SimpleNamespace(means=lambda _: True, explains=lambda _: True)
    assert _tell_late([found], ()) == code
    assert _tell_late([found], (known,)) == (ExitCode.KEPT if kind is Kind.BROKEN else code)
    assert not_tried(found) is (code is ExitCode.KEPT and kind is Kind.VOID)
