"""New, known and vanished breaks, the exit code that they make, and the history over runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness import registry
from harness.judge.verdict import Kind, Verdict
from harness.model.exits import ExitCode
from harness.report.breaks import (
    BaselineError,
    KnownBreak,
    append_history,
    breaks_of,
    exit_code,
    read_baseline,
    seedless,
)
from harness.report.summary import Outcome
from tests.report.hostile import ACK_LOST, ALO, EOS, NONE, result, run_of

if TYPE_CHECKING:
    from pathlib import Path

KEPT, VOID = Verdict(Kind.KEPT, "kept", fired=1), Verdict(Kind.VOID, "nothing fired")
BROKEN, STUCK = Verdict(Kind.BROKEN, "lost", fired=1), Verdict(Kind.STUCK, "stuck", fired=1)
CELL = seedless(result(ACK_LOST, EOS, BROKEN, lost=1))
KNOWN = (KnownBreak(CELL, Outcome.BROKEN, "an issue"),)


@pytest.mark.parametrize(
    ("verdicts", "code", "new", "known", "vanished"),
    [
        ((BROKEN, KEPT), ExitCode.KEPT, 0, 1, 0),
        ((BROKEN, BROKEN), ExitCode.BROKEN, 1, 1, 0),
        ((BROKEN, VOID), ExitCode.VOID, 1, 1, 0),
        ((STUCK, KEPT), ExitCode.VOID, 1, 0, 0),
        ((KEPT, KEPT), ExitCode.KEPT, 0, 0, 1),
        ((KEPT, BROKEN), ExitCode.BROKEN, 1, 0, 1),
        ((VOID, KEPT), ExitCode.VOID, 1, 0, 0),
    ],
)
def test_only_known_breaks_are_forgiven(
    verdicts: tuple[Verdict, Verdict], code: ExitCode, new: int, known: int, vanished: int
) -> None:
    """A known cell that breaks in another way is a new break; a void one is neither the break nor
    its end.
    """
    run = run_of(result(ACK_LOST, EOS, verdicts[0]), result(NONE, ALO, verdicts[1]))
    breaks = breaks_of(run, KNOWN)
    assert (len(breaks.new), len(breaks.known), len(breaks.vanished)) == (new, known, vanished)
    assert exit_code(run, breaks) == code
    assert (breaks.sentence is None) == (not known and not vanished)


def test_another_break_of_a_known_cell_is_new() -> None:
    """A cell that is known to stand still for one reason stands still for another."""
    waits = Verdict(Kind.STUCK, "no progress until the deadline: position: 2", fired=1)
    ended = Verdict(Kind.STUCK, f"{waits.reason}; consumer-1-1 had ended: fenced", fired=1)
    known = (KnownBreak(CELL, Outcome.STUCK, "an issue", "position: [^;]*$"),)
    assert not breaks_of(run_of(result(ACK_LOST, EOS, waits)), known).new
    assert breaks_of(run_of(result(ACK_LOST, EOS, ended)), known).new


def test_a_stage_that_nobody_tried_is_not_saved_by_a_baseline() -> None:
    run = run_of(result(ACK_LOST, EOS, BROKEN))
    assert exit_code(run, breaks_of(run, KNOWN)) == ExitCode.KEPT
    run = replace(
        run,
        info=replace(run.info, untried=("The consumer is not tried: no failure point kills it.",)),
    )
    assert exit_code(run, breaks_of(run, KNOWN)) == ExitCode.VOID


def test_a_partial_run_is_not_saved_by_a_baseline() -> None:
    run = run_of(result(ACK_LOST, EOS, BROKEN), complete=False)
    assert exit_code(run, breaks_of(run, KNOWN)) == ExitCode.BROKEN
    run = run_of(result(ACK_LOST, EOS, BROKEN), complete=False, interrupted=True)
    assert exit_code(run, breaks_of(run, KNOWN)) == ExitCode.INTERRUPTED


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("known = 3", "once for each known break"),
        ("[[known]]\ncell = 'a'\noutcome = 'broken'", "correct because"),
        ("[[known]]\ncell = 'a'\noutcome = 'void'\nbecause = 'b'", "not 'void'"),
        ("[[known]]\ncell = 'a'\noutcome = 'broken'\nbecause = ' '", "say why a"),
        (
            "[[known]]\ncell = 'a'\noutcome = 'broken'\nbecause = 'b'\nreason = '('",
            "is no regular expression",
        ),
        ("[[knwon]]\ncell = 'a'", "unknown name knwon"),
        ("[[known", "is no baseline"),
    ],
)
def test_a_bad_baseline_is_one_clear_line(tmp_path: Path, text: str, because: str) -> None:
    """Nothing is forgiven by a file that says something else than it seems to."""
    file = tmp_path / "b.toml"
    file.write_text(text)
    with pytest.raises(BaselineError, match=because) as raised:
        read_baseline(file)
    assert "\n" not in str(raised.value).strip()


def test_the_baseline_beside_the_scenarios_can_be_read() -> None:
    read_baseline(registry.baseline())


def test_every_run_adds_one_line_to_the_history(tmp_path: Path) -> None:
    """Seeds are folded: how often each cell came out how."""
    (tmp_path / "one").mkdir()
    run = replace(
        run_of(result(ACK_LOST, EOS, BROKEN), result(NONE, ALO, KEPT)), directory=tmp_path / "one"
    )
    for _ in range(2):
        assert append_history(run, breaks_of(run, KNOWN)) is None
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert len(lines) == 2
    assert lines[0]["cells"][CELL] == {"broken": 1}
    assert lines[0]["known"]
    assert not lines[0]["new"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"known = 7", r"write \[\[known\]\], once for each known break"),
        (b"known = [7]", r"write \[\[known\]\], once for each"),
        (b'[known]\ncell = "x"', r"write \[\[known\]\], once for each"),
        (b"\xff", "is no baseline: it is not UTF-8 from byte 0 on"),
    ],
)
def test_what_is_no_baseline_is_told_in_plain_words(tmp_path: Path, text: bytes, said: str) -> None:
    file = tmp_path / "known.toml"
    file.write_bytes(text)
    with pytest.raises(BaselineError, match=said):
        read_baseline(file)
