"""Each clause of a suite is red for some implementation that is wrong in just that: else it would prove nothing."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract import test_sinks as of_sinks
from tests.contract import wrong_sinks
from tests.contract.sinks import files_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from types import ModuleType


@dataclass(frozen=True)
class Case:
    """One wrong implementation, the test that must be red with it, and what that says then (a regular expression)."""

    wrong: Any
    test: Callable[..., None]
    says: str

    @property
    def name(self) -> str:
        """What pytest calls it."""
        return f"{self.wrong.__name__}-{getattr(self.test, 'func', self.test).__name__.removeprefix('test_')}"


def must_be_red(case: Case, *given: object) -> None:
    """The test fails, whichever way tests fail, and says so."""
    with pytest.raises((Exception, pytest.fail.Exception)) as failure:
        case.test(*given)
    said = f"{type(failure.value).__name__}: {failure.value}"
    assert re.search(case.says, said), said


def clauses(suite: ModuleType, fixture: str) -> set[str]:
    """Return the tests of a suite that are run against each implementation."""
    return {name for name, test in inspect.getmembers(suite, inspect.isfunction)
            if name.startswith("test_") and fixture in inspect.signature(test).parameters}  # fmt: skip


def tried(cases: Iterable[Case]) -> set[str]:
    """Return the tests that some case must turn red."""
    return {getattr(case.test, "func", case.test).__name__ for case in cases}


def cases_of(table: Mapping[Any, Mapping[Callable[..., None], str]]) -> list[Case]:
    """Return a table's lines as cases."""
    return [Case(wrong, test, says) for wrong, tests in table.items() for test, says in tests.items()]


# --- sinks ---------------------------------------------------------------------------------------------------------

SINKS = cases_of({
    wrong_sinks.LosesARow: {of_sinks.test_what_was_recorded_is_read_row_by_row: r"\(4, b'a'"},
    wrong_sinks.ReadsNewestFirst: {of_sinks.test_what_was_recorded_is_read_row_by_row: r"assert \[\(4, b'a'"},
    wrong_sinks.ReadsText: {of_sinks.test_any_bytes_and_any_place_are_read_as_they_were: "AssertionError"},
    wrong_sinks.HasARow: {of_sinks.test_a_new_sink_has_nothing: "AssertionError"},
    wrong_sinks.TellsOfNothingAbsorbed: {
        of_sinks.test_what_was_recorded_is_read_row_by_row: r"assert \[\] == \[\('b'",
        of_sinks.test_an_id_and_a_batch_are_known_from_the_first_time_on: r"assert \[\] == ",
    },
    wrong_sinks.KnowsIdsOfItsOwnOnly: {of_sinks.test_an_id_and_a_batch_are_known_from_the_first_time_on: "assert False"},
    wrong_sinks.TakesABatchForEverybodysBatch: {
        of_sinks.test_an_id_and_a_batch_are_known_from_the_first_time_on: "assert not True",
    },
    wrong_sinks.KeepsTheFirstPosition: {of_sinks.test_a_position_is_the_last_one_that_was_saved: "2: 5"},
    wrong_sinks.ForgetsAllKeys: {of_sinks.test_a_forgotten_key_has_no_results: r"assert \[\] == "},
    wrong_sinks.CountsResultsOnly: {of_sinks.test_whatever_arrives_changes_the_size: r"\(2, 0\) == \(2, 1\)"},
    wrong_sinks.HasItForItself: {of_sinks.test_several_writers_lose_nothing_of_each_other: "AssertionError"},
    wrong_sinks.CommitsEachRow: {
        of_sinks.test_nobody_sees_what_is_not_committed: "AssertionError",
        partial(of_sinks.test_what_is_not_committed_has_never_been, end="reconnect"): "b'one'",
        partial(of_sinks.test_what_is_not_committed_has_never_been, end="close"): "b'one'",
        of_sinks.test_of_a_writer_that_was_killed_there_are_whole_transactions: "AssertionError",
    },
    wrong_sinks.SavesPositionsApart: {
        of_sinks.test_nobody_sees_what_is_not_committed: "0: 8",
        partial(of_sinks.test_what_is_not_committed_has_never_been, end="reconnect"): "5: 2",
        of_sinks.test_of_a_writer_that_was_killed_there_are_whole_transactions: "0: 18",
    },
    wrong_sinks.CommitsWhenItIsClosed: {
        of_sinks.test_nobody_sees_what_is_not_committed: "AssertionError",
        of_sinks.test_what_was_committed_outlives_its_writer_wherever_it_is_killed: "assert 0 >= [0-9]+",
    },
    wrong_sinks.SeesNothingOpen: {of_sinks.test_an_open_transaction_is_seen_from_outside: "assert 0 == 1"},
    wrong_sinks.ClosesOnce: {of_sinks.test_to_close_twice_is_harmless: "it is closed"},
    wrong_sinks.MakesWhatIsNotThere: {of_sinks.test_a_sink_that_is_not_there_is_one_line: "DID NOT RAISE"},
    wrong_sinks.TellsOfSqlite: {of_sinks.test_a_sink_that_is_not_there_is_one_line: "OperationalError"},
    wrong_sinks.make_or_not: {of_sinks.test_a_sink_that_cannot_be_made_is_one_line: "DID NOT RAISE"},
    wrong_sinks.make_over: {of_sinks.test_a_sink_is_not_made_over_another_one: "DID NOT RAISE"},
})  # fmt: skip


@pytest.mark.parametrize("case", SINKS, ids=lambda case: case.name)
def test_a_wrong_sink_is_found_out(tmp_path: Path, case: Case) -> None:
    """By the clause that it breaks."""
    kind = files_below(tmp_path)
    if inspect.isclass(case.wrong):
        kind = replace(kind, opener=f"{wrong_sinks.__name__}:{case.wrong.__name__}")
    else:
        kind = replace(kind, create=case.wrong)
    must_be_red(case, kind)


def test_each_clause_about_sinks_can_be_broken() -> None:
    """Whoever adds one shows that it can be red."""
    assert tried(SINKS) == clauses(of_sinks, "kind")
