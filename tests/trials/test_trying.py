"""Somebody's test at each point, in front of a scripted log."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.cli import main
from harness.model.failures import CellFailure, UsageError
from harness.model.semantics import Semantic
from harness.model.waiting import wait_until
from harness.trials.command import Command
from harness.trials.counting import ClaimResult
from harness.trials.points import NEVER, Point
from harness.trials.trying import Trial
from tests.trials.log import RECORDS, broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.wire.broker import ScriptedBroker

ROOT = Path(__file__).parents[2]
AT = "127.0.0.1:1"
MARK = "of-tests-of-trials"
WITHIN_S = 60.0
GONE_WITHIN_S = 5.0
"""What the kernel ends with the command may be seen for a moment after it."""
LEAST, EXACTLY = Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE
LOST, ANSWER_LOST = "produce-request-k.in-lost", "produce-answer-k.in-lost"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedBroker]:
    """A log, and a folder for programs to remember their positions in."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with broker() as made:
        yield made


def words(word: str) -> str:
    """Return the command that runs a program."""
    return shlex.join([sys.executable, "-m", "tests.trials.log", word])


def trial(log: ScriptedBroker, folder: Path, word: str, claims: Semantic = LEAST) -> Trial:
    """Return a trial of one of the programs."""
    made = folder / "run"
    made.mkdir()
    return Trial(Command(words(word), ROOT), f"127.0.0.1:{log.port}", claims, made, patience_s=2.0)


def outcomes(of: Trial, *only: str) -> dict[str, Any]:
    """Try some points, and return what came of each."""
    learnt = of.learn()
    found = {point.id: point for point in learnt.points}
    return {name: of.attempt(found[name], learnt) for name in only}


def test_a_duplicate_that_a_test_does_not_see_is_counted(
    log: ScriptedBroker, tmp_path: Path
) -> None:
    """The test passes all the same: its broker recognises no repetition. A late request arrives
    behind its own one. And a fault that no frame meets is void.
    """
    of = trial(log, tmp_path, "fine", EXACTLY)
    learnt = of.learn()
    found = {point.id: point for point in learnt.points}
    lost, answer, late = (
        of.attempt(found[name], learnt) for name in (LOST, ANSWER_LOST, "produce-request-k.in-late")
    )
    assert (lost.word, lost.reason) == (ClaimResult.KEPT, f"k.in: {RECORDS} of {RECORDS} delivered")
    assert [each.word for each in (answer, late)] == [ClaimResult.BROKEN, ClaimResult.BROKEN]
    assert answer.reason.startswith("1 of k.in duplicated: key: {")
    assert {each.result for each in (lost, answer, late)} == {"passed"}
    assert of.code == 1
    of.tried.clear()
    void = of.attempt(Point("disarmed", {**found[LOST].asked, "nth": NEVER}, "never"), learnt)
    assert void.word is ClaimResult.VOID
    assert (
        void.reason == f"the fault never struck: of {RECORDS} frames of this API {RECORDS} fitted"
    )
    assert of.code == 4


def test_a_late_request_arrives_though_nobody_has_looked_meanwhile(
    log: ScriptedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test may be quicker than a look at what has passed."""
    run = Command.run
    of = trial(log, tmp_path, "fine", EXACTLY)
    learnt = of.learn()
    monkeypatch.setattr(
        Command, "run", lambda of, at, said, within_s, _: run(of, at, said, within_s, str)
    )
    [late] = [each for each in learnt.points if each.id == "produce-request-k.in-late"]
    assert of.attempt(late, learnt).word is ClaimResult.BROKEN


def test_a_test_that_fails_with_a_fault_is_run_again(log: ScriptedBroker, tmp_path: Path) -> None:
    """2 of 2, while it passes without."""
    at_most = trial(log, tmp_path, "strict", Semantic.AT_MOST_ONCE)
    found = outcomes(at_most, LOST, ANSWER_LOST)
    assert [each.word for each in found.values()] == [ClaimResult.KEPT, ClaimResult.KEPT]
    assert [each.failing for each in found.values()] == [True, False]
    assert found[LOST].result == "failed (1), 2 of 2; passed without the fault, 2 of 2"
    assert found[LOST].run.ended.said.startswith("read [0, 1")
    assert at_most.code == 4


def test_a_command_that_does_not_end_is_ended_with_all_that_it_has_started(
    tmp_path: Path,
) -> None:
    for then, code in (("sleep 1000", None), ("sleep 0.5; exit 3", 3)):
        text = f"sh -c 'sleep 1000; : {MARK}' & echo begun; {then}"
        seen: list[list[str]] = []
        look = partial(_look, seen)
        ended = Command(shlex.join(["sh", "-c", text]), ROOT).run(AT, tmp_path / "said", 2.0, look)
        assert (ended.code, ended.said) == (code, "begun")
        assert any(seen)
        assert not left()


def _look(seen: list[list[str]]) -> None:
    seen.append(left())


def left() -> list[str]:
    """Return the programs of these tests that are still there."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said = process.read_bytes()
        except OSError:
            continue
        if b"tests.trials.log" in said.split(b"\0") or MARK.encode() in said:
            found.append(process.parent.name)
    return found


REFUSED = (
    ("elsewhere", UsageError, "nothing came through the wire: give it the address"),
    ("fails", CellFailure, r"the test failed \(1\) without any fault, so its failures"),
    ("second", CellFailure, r"the test failed \(1\) without any fault, in the second of two runs"),
)


@pytest.mark.parametrize(("word", "error", "said"), REFUSED)
def test_a_test_that_proves_nothing_is_told(
    log: ScriptedBroker, tmp_path: Path, word: str, error: type[Exception], said: str
) -> None:
    """In one line, before any fault."""
    with pytest.raises(error, match=said) as told:
        trial(log, tmp_path, word).learn()
    assert "\n" not in str(told.value)


def test_the_address_is_also_put_into_the_command(log: ScriptedBroker, tmp_path: Path) -> None:
    output = tmp_path / "said"
    ended = Command("echo at={bootstrap}", ROOT).run("127.0.0.1:7", output, WITHIN_S, lambda: None)
    assert (ended.code, ended.said) == (0, "at=127.0.0.1:7")


MISTAKES = (
    (["--run", "true"], "--run needs --attach HOST:PORT"),
    (["--attach", AT, "--run", "true"], "--run needs --claims"),
    (["--attach", AT, "--run", "no-such-program x", "--claims", LEAST], "no program 'no-such-"),
    (["--attach", AT, "--run", " ", "--claims", LEAST], "--run is empty"),
    (["--attach", AT, "--run", "a 'b", "--claims", LEAST], "No closing quotation"),
    (["--attach", "10.0.0.9:1", "--run", "true", "--claims", LEAST], "--attach-remote"),
    (["--attach", AT, "--run", "true", "--claims", LEAST, "--id", "("], "no regular expression"),
    (["--attach", AT, "--run", "true", "--claims", LEAST, "--id", "(a)(b)"], "has 2 groups"),
    (["--claims", LEAST], "--claims and --id belong to --run"),
    (["--attach", AT, "--run", "true", "--claims", LEAST], "nothing came through the wire"),
)


@pytest.mark.parametrize(("more", "said"), MISTAKES)
def test_a_mistake_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, more: list[str], said: str
) -> None:
    assert main(["check", *more, "--reports", str(tmp_path / "reports")]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def command(log: ScriptedBroker, reports: Path, word: str, *more: str) -> subprocess.Popen[str]:
    """Run the command itself."""
    asked = ["check", "--attach", f"127.0.0.1:{log.port}", "--run", words(word), "--reports"]
    return subprocess.Popen(
        [sys.executable, "-m", "harness.cli", *asked, str(reports), "--claims", LEAST, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        process_group=0,
    )


def test_a_loss_that_a_test_does_not_see_is_told(log: ScriptedBroker, tmp_path: Path) -> None:
    """The report says what the terminal says: a line for each point, and the exit code."""
    more = ("--only", LOST, "--only", ANSWER_LOST)
    running = command(log, tmp_path / "reports", "quiet", *more)
    said, error = running.communicate(timeout=4 * WITHIN_S)
    assert running.returncode == 1, said + error
    assert f"[1/2] ✘ broken     {LOST}" in said
    assert "2 points: 1 broken, 1 kept" in said
    [file] = (tmp_path / "reports").glob("*/report.json")
    report = json.loads(file.read_text(encoding="utf-8"))
    assert (report["partial"], report["exit_code"]) == (False, 1)
    assert [each["verdict"] for each in report["points"]] == ["broken", "kept"]
    assert report["points"][0]["runs"][0]["struck"] == 1


def test_an_interrupt_leaves_a_report_and_no_process(log: ScriptedBroker, tmp_path: Path) -> None:
    running = command(log, tmp_path / "reports", "waits", "--only", LOST)
    output = f"*/{LOST}/output.txt"
    wait_until(
        lambda: [*(tmp_path / "reports").glob(output)] and left(),
        within_s=WITHIN_S,
        because="the program to run",
    )
    os.killpg(running.pid, signal.SIGINT)
    said, error = running.communicate(timeout=WITHIN_S)
    assert running.returncode == 130, said + error
    assert "interrupted: 0 points were tried" in error
    wait_until(lambda: not left(), within_s=GONE_WITHIN_S, because="the program to be gone")
    [file] = (tmp_path / "reports").glob("*/report.json")
    assert json.loads(file.read_text(encoding="utf-8"))["partial"] is True


def test_nothing_outlives_a_lostack_that_was_killed(log: ScriptedBroker, tmp_path: Path) -> None:
    running = command(log, tmp_path / "reports", "waits", "--only", LOST)
    wait_until(left, within_s=WITHIN_S, because="the program to run")
    running.kill()
    running.communicate(timeout=WITHIN_S)
    wait_until(lambda: not left(), within_s=WITHIN_S, because="the program to be gone")
