"""Each clause of a suite is red for some implementation that is wrong in just that: else it would
prove nothing.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from harness.contract import suite_plans as of_plans
from harness.contract import suite_protocols as of_protocols
from harness.contract import suite_systems as of_systems
from harness.contract import systems
from harness.model.semantics import Semantic
from harness.wire.rules import Direction
from tests.contract import test_protocols_in_a_wire as in_a_wire
from tests.contract import test_runtimes as of_runtimes
from tests.contract import test_sinks as of_sinks
from tests.contract import (
    wrong_plans,
    wrong_protocols,
    wrong_runtimes,
    wrong_sinks,
    wrong_systems,
)
from tests.contract.protocols import PROTOCOLS, with_the_wrong
from tests.contract.runtimes import Place
from tests.contract.sinks import files_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from types import ModuleType

    from tests.wire.conftest import WireProcess


@dataclass(frozen=True)
class Case:
    """One wrong implementation, the test that must be red with it, and what that says then (a
    regular expression).
    """

    wrong: Any
    test: Callable[..., None]
    says: str

    @property
    def name(self) -> str:
        """What pytest calls it."""
        return f"{self.wrong.__name__}-{getattr(self.test, 'func', self.test).__name__.removeprefix('test_')}"  # noqa: E501


def must_be_red(case: Case, **given: object) -> None:
    """The test fails, whichever way tests fail, and says so."""
    with pytest.raises((Exception, pytest.fail.Exception)) as failure:
        case.test(**given)
    said = f"{type(failure.value).__name__}: {failure.value}"
    assert re.search(case.says, said), said


def clauses(suite: ModuleType, fixture: str) -> set[str]:
    """Return the tests of a suite that are run against each implementation."""
    return {
        name
        for name, test in inspect.getmembers(suite, inspect.isfunction)
        if name.startswith("test_") and fixture in inspect.signature(test).parameters
    }


def tried(cases: Iterable[Case]) -> set[str]:
    """Return the tests that some case must turn red."""
    return {getattr(case.test, "func", case.test).__name__ for case in cases}


def cases_of(table: Mapping[Any, Mapping[Callable[..., None], str]]) -> list[Case]:
    """Return a table's lines as cases."""
    return [
        Case(wrong, test, says) for wrong, tests in table.items() for test, says in tests.items()
    ]


# --- sinks ----------------------------------------------------------------------------------------

SINKS = cases_of(
    {
        wrong_sinks.LosesARow: {of_sinks.test_what_was_recorded_is_read_row_by_row: r"\(4, b'a'"},
        wrong_sinks.ReadsNewestFirst: {
            of_sinks.test_what_was_recorded_is_read_row_by_row: r"assert \[\(4, b'a'"
        },
        wrong_sinks.ReadsText: {
            of_sinks.test_any_bytes_and_any_place_are_read_as_they_were: "AssertionError"
        },
        wrong_sinks.HasARow: {of_sinks.test_a_new_sink_has_nothing: "AssertionError"},
        wrong_sinks.TellsOfNothingAbsorbed: {
            of_sinks.test_what_was_recorded_is_read_row_by_row: r"assert \[\] == \[\('b'",
            of_sinks.test_an_id_and_a_batch_are_known_from_the_first_time_on: r"assert \[\] == ",
        },
        wrong_sinks.KnowsIdsOfItsOwnOnly: {
            of_sinks.test_an_id_and_a_batch_are_known_from_the_first_time_on: "assert False"
        },
        wrong_sinks.TakesABatchForEverybodysBatch: {
            of_sinks.test_an_id_and_a_batch_are_known_from_the_first_time_on: "assert not True",
        },
        wrong_sinks.KeepsTheFirstPosition: {
            of_sinks.test_a_position_is_the_last_one_that_was_saved: "2: 5"
        },
        wrong_sinks.ForgetsAllKeys: {
            of_sinks.test_a_forgotten_key_has_no_results: r"assert \[\] == "
        },
        wrong_sinks.CountsResultsOnly: {
            of_sinks.test_whatever_arrives_changes_the_size: r"\(2, 0\) == \(2, 1\)"
        },
        wrong_sinks.HasItForItself: {
            of_sinks.test_several_writers_lose_nothing_of_each_other: "AssertionError"
        },
        wrong_sinks.CommitsEachRow: {
            of_sinks.test_nobody_sees_what_is_not_committed: "AssertionError",
            partial(of_sinks.test_what_is_not_committed_has_never_been, end="reconnect"): "b'one'",
            partial(of_sinks.test_what_is_not_committed_has_never_been, end="close"): "b'one'",
            of_sinks.test_of_a_writer_that_was_killed_there_are_whole_transactions: "AssertionError",  # noqa: E501
        },
        wrong_sinks.SavesPositionsApart: {
            of_sinks.test_nobody_sees_what_is_not_committed: "0: 8",
            partial(of_sinks.test_what_is_not_committed_has_never_been, end="reconnect"): "5: 2",
            of_sinks.test_of_a_writer_that_was_killed_there_are_whole_transactions: "0: 18",
        },
        wrong_sinks.CommitsWhenItIsClosed: {
            of_sinks.test_nobody_sees_what_is_not_committed: "AssertionError",
            of_sinks.test_what_was_committed_outlives_its_writer_wherever_it_is_killed: "assert 0 >= [0-9]+",  # noqa: E501
        },
        wrong_sinks.SeesNothingOpen: {
            of_sinks.test_an_open_transaction_is_seen_from_outside: "assert 0 == 1"
        },
        wrong_sinks.ClosesOnce: {of_sinks.test_to_close_twice_is_harmless: "it is closed"},
        wrong_sinks.MakesWhatIsNotThere: {
            of_sinks.test_a_sink_that_is_not_there_is_one_line: "DID NOT RAISE"
        },
        wrong_sinks.TellsOfSqlite: {
            of_sinks.test_a_sink_that_is_not_there_is_one_line: "OperationalError"
        },
        wrong_sinks.make_or_not: {
            of_sinks.test_a_sink_that_cannot_be_made_is_one_line: "DID NOT RAISE"
        },
        wrong_sinks.make_over: {of_sinks.test_a_sink_is_not_made_over_another_one: "DID NOT RAISE"},
    }
)


@pytest.mark.parametrize("case", SINKS, ids=lambda case: case.name)
def test_a_wrong_sink_is_found_out(tmp_path: Path, case: Case) -> None:
    kind = files_below(tmp_path)
    if inspect.isclass(case.wrong):
        kind = replace(kind, opener=f"{wrong_sinks.__name__}:{case.wrong.__name__}")
    else:
        kind = replace(kind, create=case.wrong)
    must_be_red(case, kind=kind)


def test_each_clause_about_sinks_can_be_broken() -> None:
    assert tried(SINKS) == clauses(of_sinks, "kind")


# --- runtimes -------------------------------------------------------------------------------------

SOON_S = 1.0
IMPATIENT = {
    wrong_runtimes.KillsNobody,
    wrong_runtimes.WaitsForEver,
    wrong_runtimes.StaysPaused,
    wrong_runtimes.SeesNobodyStandStill,
    wrong_runtimes.KeepsTheInputOpen,
    wrong_runtimes.LeavesThemAlive,
}
"""With which the suite waits for what never comes: that long, and no longer."""


def orderly(paused: bool) -> Callable[..., None]:
    """Return the test of an orderly end."""
    return partial(of_runtimes.test_a_node_that_is_told_to_end_may_do_so_in_order, paused=paused)


def unstartable(name: str, program: str) -> Callable[..., None]:
    """Return the test of what cannot be started."""
    return partial(of_runtimes.test_what_cannot_be_started_is_one_line, name=name, program=program)


RUNTIMES = cases_of(
    {
        wrong_runtimes.IsCalledSomethingElse: {
            of_runtimes.test_a_runtime_is_called_what_selects_it: "'docker' == 'process'"
        },
        wrong_runtimes.DoesNotReap: {
            of_runtimes.test_a_killed_node_is_reaped_and_says_how_it_ended: "a zombie is not reaped"
        },
        wrong_runtimes.SaysItLives: {
            of_runtimes.test_a_killed_node_is_reaped_and_says_how_it_ended: r"assert \(True, Exit"
        },
        wrong_runtimes.SaysAnotherEnd: {
            partial(
                of_runtimes.test_a_node_that_leaves_by_itself_has_its_status_and_no_signal, status=0
            ): r"\(0, None\)",
        },
        wrong_runtimes.SaysAShellsStatus: {
            of_runtimes.test_a_node_that_kills_itself_has_ended_by_that_signal: r"\(137, None\)"
        },
        wrong_runtimes.HasAClockOfItsOwn: {
            of_runtimes.test_the_end_of_a_node_is_in_the_past_and_behind_its_start: "AssertionError"
        },
        wrong_runtimes.IgnoresThatItHasEnded: {
            of_runtimes.test_of_an_ended_node_nothing_can_be_asked_but_how_it_ended: "DID NOT RAISE",  # noqa: E501
        },
        wrong_runtimes.TellsOfEachKill: {
            of_runtimes.test_two_who_kill_a_node_learn_of_one_end: "AssertionError"
        },
        wrong_runtimes.KillsNobody: {
            of_runtimes.test_what_a_node_has_started_dies_with_it: "for the child to be gone"
        },
        wrong_runtimes.HasNoMembers: {
            of_runtimes.test_its_own_process_is_a_member_of_a_living_node: r"in \[\]"
        },
        wrong_runtimes.KillsWhomItTellsToEnd: {
            orderly(paused=False): r"== \(5, None\)",
            of_runtimes.test_to_tell_a_node_to_end_does_not_wait: "assert False",
        },
        wrong_runtimes.IsDeafWhilePaused: {orderly(paused=True): r"== \(5, None\)"},
        wrong_runtimes.WaitsForEver: {
            of_runtimes.test_a_node_that_does_not_end_in_time_is_killed: "assert .* < ",
            of_runtimes.test_a_wait_is_bounded: "assert .* < ",
        },
        wrong_runtimes.WaitsNotAtAll: {of_runtimes.test_a_wait_is_bounded: "assert 0.3 <= "},
        wrong_runtimes.PausesItsFirstProcessOnly: {
            of_runtimes.test_a_paused_node_stands_still_and_goes_on: "assert not True"
        },
        wrong_runtimes.StaysPaused: {
            of_runtimes.test_a_paused_node_stands_still_and_goes_on: "assert False"
        },
        wrong_runtimes.CannotBeKilledWhilePaused: {
            of_runtimes.test_a_paused_node_can_be_killed: "is paused"
        },
        wrong_runtimes.SeesNobodyStandStill: {
            of_runtimes.test_a_node_that_stops_itself_is_seen_and_goes_on: "to stop itself"
        },
        wrong_runtimes.ForgetsTheEnvironment: {
            of_runtimes.test_environment_words_and_folder_are_the_node_s: "the harness's",
        },
        wrong_runtimes.ForgetsTheFolder: {
            of_runtimes.test_environment_words_and_folder_are_the_node_s: "AssertionError"
        },
        wrong_runtimes.KeepsTheInputOpen: {
            of_runtimes.test_a_node_has_no_input_unless_it_is_given_one: "lives on"
        },
        wrong_runtimes.LosesItsInput: {
            of_runtimes.test_what_is_written_to_a_node_is_read: "AssertionError|IndexError",
            of_runtimes.test_who_does_not_read_takes_only_so_much: "DID NOT RAISE",
        },
        wrong_runtimes.SaysAWrongAddress: {
            of_runtimes.test_nodes_reach_each_other_by_their_addresses: "refused"
        },
        wrong_runtimes.TakesItAsItComes: {unstartable("no name", ""): "OSError"},
        wrong_runtimes.TellsItInTwoLines: {
            unstartable("never", "/no/such/program"): "AssertionError"
        },
        wrong_runtimes.StartsOverALivingOne: {
            of_runtimes.test_a_name_is_taken_while_its_node_lives: "DID NOT RAISE"
        },
        wrong_runtimes.CountsFromZero: {
            of_runtimes.test_a_restart_is_the_next_incarnation: r"\(1, 1\) == \(1, 2\)"
        },
        wrong_runtimes.ForgetsItsLastLine: {
            partial(
                of_runtimes.test_what_a_node_has_said_is_readable_after_its_death, output=1
            ): r"== \['first', 'last'\]",
        },
        wrong_runtimes.SaysThatItIsSilent: {
            of_runtimes.test_a_node_that_has_said_nothing_has_an_empty_log: r"\(no log\)"
        },
        wrong_runtimes.WritesTheLogElsewhere: {
            of_runtimes.test_a_log_is_where_it_was_asked_for: "AssertionError"
        },
        wrong_runtimes.LeavesThemAlive: {
            of_runtimes.test_nothing_survives_a_closed_runtime: "for all to be gone"
        },
        wrong_runtimes.ClosesOnce: {
            of_runtimes.test_nothing_survives_a_closed_runtime: "it is closed"
        },
        wrong_runtimes.HidesErrors: {
            of_runtimes.test_an_error_ends_a_runtime_and_is_told: "DID NOT RAISE"
        },
        wrong_runtimes.ClearsOnce: {
            of_runtimes.test_to_clear_what_is_not_there_is_harmless: "FileNotFoundError"
        },
    }
)


@pytest.mark.parametrize("case", RUNTIMES, ids=lambda case: case.name)
def test_a_wrong_runtime_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    made: list[wrong_runtimes.Wrong] = []

    def make(directory: Path) -> wrong_runtimes.Wrong:
        made.append(case.wrong(directory=directory))
        return made[-1]

    if case.wrong in IMPATIENT:
        monkeypatch.setattr(of_runtimes, "WITHIN_S", SOON_S)
    given = {
        "place": Place("process", make(tmp_path / "logs"), tmp_path, make),
        "tmp_path": tmp_path,
        "monkeypatch": monkeypatch,
    }
    wanted = inspect.signature(getattr(case.test, "func", case.test)).parameters
    try:
        must_be_red(case, **{name: value for name, value in given.items() if name in wanted})
    finally:
        for runtime in made:
            wrong_runtimes.really_end(runtime)


def test_each_clause_about_runtimes_can_be_broken() -> None:
    assert tried(RUNTIMES) == clauses(of_runtimes, "place")


# --- systems --------------------------------------------------------------------------------------


def without_fault(semantic: Semantic) -> Callable[..., None]:
    """Return the test of a cell without a fault."""
    return partial(
        of_systems.test_a_cell_without_a_fault_is_kept_and_counted_exactly, semantic=semantic
    )


def closed_after(last: str) -> Callable[..., None]:
    """Return the test of a cell that is closed after a step."""
    return partial(of_systems.test_a_cell_that_is_closed_after_any_step_leaves_nothing, last=last)


def failing_at(at: str) -> Callable[..., None]:
    """Return the test of a cell whose preparation fails."""
    return partial(of_systems.test_a_cell_whose_preparation_fails_leaves_nothing, at=at)


def test_of_its_end(ground: systems.Ground) -> None:
    assert ground.end() == []


SYSTEMS = [
    *(
        Case(wrong, without_fault(Semantic.AT_LEAST_ONCE), rf"{{'lost': {count}}}: ")
        for count, wrong in wrong_systems.LOSING.items()
    ),
    *(
        Case(
            wrong,
            without_fault(Semantic.EXACTLY_ONCE),
            rf"{{'duplicated': {count}, 'stored_twice': {count}}}: ",
        )
        for count, wrong in wrong_systems.DOUBLING.items()
    ),
    *cases_of(
        {
            wrong_systems.StopsReading: {
                without_fault(Semantic.AT_MOST_ONCE): "'left_in_topic': 3"
            },
            wrong_systems.IsUnhealthy: {without_fault(Semantic.AT_MOST_ONCE): "not healthy before"},
            wrong_systems.PreparesOnce: {
                of_systems.test_what_is_said_while_it_is_prepared_is_one_line_each: "it is there already"  # noqa: E501
            },
            wrong_systems.TalksInParagraphs: {
                of_systems.test_what_is_said_while_it_is_prepared_is_one_line_each: "AssertionError"
            },
            wrong_systems.HasNoVersions: {
                of_systems.test_what_takes_part_has_a_version: "assert {}"
            },
            wrong_systems.ChangesItsVersions: {
                of_systems.test_what_takes_part_has_a_version: "memory"
            },
            wrong_systems.Complains: {of_systems.test_the_ground_holds: "the wire ended"},
            wrong_systems.ServesTheLastOneOnly: {
                of_systems.test_cells_at_once_do_not_meet: "'lost': "
            },
            wrong_systems.SeesLessTheSecondTime: {
                of_systems.test_what_is_observed_twice_is_the_same: "recorded"
            },
            wrong_systems.KeepsItsFiles: {
                without_fault(Semantic.AT_MOST_ONCE): "open in ",
                closed_after("drain"): "open in ",
                of_systems.test_a_cell_that_is_interrupted_leaves_nothing: "open in ",
            },
            wrong_systems.LeavesAThread: {
                closed_after("load"): "waiting",
                of_systems.test_a_cell_that_is_interrupted_leaves_nothing: "waiting",
            },
            wrong_systems.ClosesOnce: {
                closed_after("made"): "it is closed",
                without_fault(Semantic.AT_MOST_ONCE): "it is closed",
            },
            wrong_systems.ClosesWhatWasPrepared: {failing_at("last"): "open in "},
            wrong_systems.WritesToNobody: {failing_at("first"): "DID NOT RAISE"},
            wrong_systems.TellsOfPaths: {
                of_systems.test_where_nothing_can_be_written_nothing_is_deployed: "NotADirectory"
            },
            wrong_systems.LeavesAProcess: {
                closed_after("made"): "alive: ",
                test_of_its_end: "alive: ",
            },
            wrong_systems.EndsOnce: {test_of_its_end: "it is closed"},
        }
    ),
]


@pytest.mark.parametrize("case", SYSTEMS, ids=lambda case: case.name)
def test_a_wrong_system_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    """By the clause that it breaks; what is planted k times is counted k times."""
    monkeypatch.setattr(systems, "GONE_S", 0.2)
    subject = replace(systems.of_registry("memory"), make=case.wrong)

    def build_and_test(**given: Any) -> None:
        wanted = inspect.signature(getattr(case.test, "func", case.test)).parameters
        given["ground"] = systems.Ground(subject, tmp_path / "run")
        case.test(**{name: value for name, value in given.items() if name in wanted})

    try:
        must_be_red(replace(case, test=build_and_test), tmp_path=tmp_path)
    finally:
        wrong_systems.tidy()


def test_each_clause_about_systems_can_be_broken() -> None:
    assert tried(SYSTEMS) == clauses(of_systems, "ground") | {test_of_its_end.__name__}


PLANS = cases_of(
    {
        wrong_plans.calls_its_system_so: {
            of_plans.test_a_system_is_called_what_selects_it: r"'memory'"
        },
        wrong_plans.calls_its_cells_so: {
            of_plans.test_a_system_is_called_what_selects_it: r"'kafka'"
        },
        wrong_plans.has_versions_later: {
            of_plans.test_versions_can_be_asked_for_at_any_time: "comes first"
        },
        wrong_plans.has_everything_twice: {
            of_plans.test_cells_of_other_names_never_share_anything: "AssertionError"
        },
        wrong_plans.gives_no_reason: {
            of_plans.test_a_cell_applies_or_says_in_a_line_why_not: "AssertionError"
        },
        wrong_plans.gives_a_long_reason: {
            of_plans.test_a_cell_applies_or_says_in_a_line_why_not: r"\n"
        },
        wrong_plans.has_no_settings: {
            of_plans.test_a_cell_that_applies_names_its_settings: "assert {}"
        },
        wrong_plans.gives_no_because: {
            of_plans.test_a_cell_that_applies_names_its_settings: "assert ''"
        },
        wrong_plans.cannot_be_written_down: {
            of_plans.test_a_cell_that_applies_names_its_settings: "TypeError",
            of_plans.test_a_plan_is_read_as_it_was_written: "TypeError",
        },
        wrong_plans.draws_anew: {
            of_plans.test_a_load_is_the_same_again_and_has_its_target: "AssertionError"
        },
        wrong_plans.begins_with_its_target: {
            of_plans.test_a_load_is_the_same_again_and_has_its_target: "0 < 0"
        },
        wrong_plans.always_has_a_fault: {
            of_plans.test_there_is_a_cell_without_a_fault_for_each_semantic: "assert {}"
        },
        wrong_plans.forgets_a_semantic: {
            of_plans.test_there_is_a_cell_without_a_fault_for_each_semantic: "exactly-once"
        },
        wrong_plans.talks_through_another: {
            of_plans.test_a_system_talks_through_some_client: "java"
        },
    }
)


@pytest.mark.parametrize("case", PLANS, ids=lambda case: case.name)
def test_a_wrong_plan_is_found_out(tmp_path: Path, case: Case) -> None:
    given = {"subject": case.wrong()}
    if "tmp_path" in inspect.signature(case.test).parameters:
        given["tmp_path"] = tmp_path
    must_be_red(case, **given)


def test_each_clause_about_plans_can_be_broken() -> None:
    assert tried(PLANS) == clauses(of_plans, "subject")


# --- protocols ------------------------------------------------------------------------------------

WHOLE, BYTES = 1 << 20, 1


def in_pieces(piece: int) -> Callable[..., None]:
    """Return the test of a stream that is cut."""
    return partial(of_protocols.test_pieces_are_the_frames_of_the_whole, piece=piece)


def conversation(piece: int) -> Callable[..., None]:
    """Return the test of a conversation through a wire."""
    return partial(in_a_wire.test_a_conversation_arrives_as_it_was_said, piece=piece)


PROTOCOL_CASES = cases_of(
    {
        wrong_protocols.CountsWhatIsFedAgain: {
            of_protocols.test_what_is_fed_again_is_what_it_was: "AssertionError"
        },
        wrong_protocols.NeedsWhatItHas: {
            in_pieces(BYTES): r"needs 1 bytes and has 1",
            of_protocols.test_garbage_raises_nothing_and_ends: "needs [0-9]+ bytes and has",
        },
        wrong_protocols.RaisesAtGarbage: {
            of_protocols.test_garbage_raises_nothing_and_ends: "NotAFrameError"
        },
        wrong_protocols.RemembersWhatHasGone: {
            of_protocols.test_an_answer_may_come_before_its_question_has_gone: r"frozenset\(\) == {'k0-1'}",  # noqa: E501
        },
        wrong_protocols.SaysAllHasReached: {
            of_protocols.test_lines_say_what_has_reached: "of the question it is said",
            partial(
                in_a_wire.test_what_is_dropped_has_not_reached, direction=Direction.REQUEST
            ): r"\[True\] == \[False\]",
        },
        wrong_protocols.LeavesOutTheNumber: {
            of_protocols.test_frames_have_facts_and_known_steps: "corr"
        },
        wrong_protocols.SaysNumbersAsText: {
            of_protocols.test_frames_have_facts_and_known_steps: "Expected `int",
            of_protocols.test_garbage_raises_nothing_and_ends: "Expected `int",
        },
        wrong_protocols.KnowsItsClientBeforehand: {
            of_protocols.test_a_client_is_known_by_what_it_has_said: "somebody"
        },
        wrong_protocols.RefusesInOneVersion: {
            of_protocols.test_a_refusal_is_a_legal_answer_at_every_version: "Produce [0-9]+: "
        },
        wrong_protocols.RefusesAnother: {
            in_a_wire.test_a_request_is_refused_in_its_brokers_name: "by an answer to something else",  # noqa: E501
            in_a_wire.test_a_refusal_takes_the_place_of_its_answer: "AssertionError",
        },
        wrong_protocols.RefusesNothing: {
            in_a_wire.test_a_request_is_refused_in_its_brokers_name: "can be refused by none",
            in_a_wire.test_a_refusal_takes_the_place_of_its_answer: "the line of the answer|True, True",  # noqa: E501
        },
        wrong_protocols.MovesATransaction: {
            of_protocols.test_what_is_movable_is_known_beforehand: "True is False",
            in_a_wire.test_what_is_moved_arrives_whole_on_a_fresh_connection: "DID NOT RAISE",
        },
        wrong_protocols.MovesWithoutAWord: {
            in_a_wire.test_what_is_moved_arrives_whole_on_a_fresh_connection: "nobody has said from whom",  # noqa: E501
        },
        wrong_protocols.WantsTheWholeFrame: {
            of_protocols.test_a_large_frame_is_known_by_its_beginning: r"Need\(bytes=104857600\)",
            in_a_wire.test_48_megabytes_are_streamed: "bytes are needed to tell what they are",
        },
        wrong_protocols.TakesBeatsForFrames: {
            of_protocols.test_heart_beats_are_no_frames_and_have_a_time: "assert False",
            in_a_wire.test_heart_beats_go_on_under_a_hold_and_are_no_steps: "assert [0-9]+ == [0-9]+",  # noqa: E501
        },
        wrong_protocols.WantsOneByteMore: {
            in_a_wire.test_who_has_said_all_still_gets_its_answer: "timed out",
            conversation(WHOLE): "timed out",
        },
        wrong_protocols.ReadsNoReceipts: {
            conversation(BYTES): "the lines of what has arrived|undecodable"
        },
        wrong_protocols.TakesGarbageForNothing: {
            partial(
                in_a_wire.test_garbage_passes_and_voids, garbage=b"\xff" * 64
            ): "a line that voids",
        },
        wrong_protocols.TakesEachPieceForATurn: {in_pieces(BYTES): "At index 2 diff"},
        wrong_protocols.VoidsWhatItCannotRead: {
            partial(
                in_a_wire.test_garbage_passes_and_voids, garbage=b"\xff" * 64
            ): r"Undecodable\(",
        },
        wrong_protocols.FailsAtTheEnd: {
            in_a_wire.test_a_cut_in_the_middle_of_a_frame_leaves_a_part: "it has ended|its end"
        },
    }
)


@pytest.mark.parametrize("case", PROTOCOL_CASES, ids=lambda case: case.name)
def test_a_wrong_protocol_is_found_out(
    tmp_path: Path, small_wire: WireProcess, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    monkeypatch.setattr(in_a_wire, "WITHIN_S", SOON_S)
    speaker = with_the_wrong(PROTOCOLS[case.wrong.base], case.wrong)
    if "speaker" in inspect.signature(getattr(case.test, "func", case.test)).parameters:
        must_be_red(case, speaker=speaker)
        return
    joint = in_a_wire.Joint(small_wire, speaker, tmp_path)
    try:
        must_be_red(case, joint=joint)
    finally:
        joint.close()


def test_each_clause_about_protocols_can_be_broken() -> None:
    assert tried(PROTOCOL_CASES) == clauses(of_protocols, "speaker") | clauses(in_a_wire, "joint")
