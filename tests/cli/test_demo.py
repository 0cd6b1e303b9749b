"""``lostack demo``: what it copies, what it tells, and what it shows on a real Kafka."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.cli import main
from harness.cli.demo import PROGRAMS, _exit_code, copy_programs, introduction
from harness.cli.narrating import Story
from harness.judge.verdict import Kind
from harness.model.exits import ExitCode
from harness.model.failures import UsageError
from harness.pipelines import read_pipeline
from tests.events import typed

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000_000


def test_its_programs_are_copied_and_declared_rightly(tmp_path: Path) -> None:
    copy_programs(tmp_path / "demo")
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {*PROGRAMS}
    wrong, right = (read_pipeline(tmp_path / "demo" / name) for name in PROGRAMS[3:])
    assert wrong.stages[0].command == right.stages[0].command
    texts = [(tmp_path / "demo" / name).read_text() for name in PROGRAMS[3:]]
    assert texts[0].replace("consumer.py", "right.py") == texts[1]


def test_a_program_that_the_user_has_changed_stays(tmp_path: Path) -> None:
    """Whoever mends the consumer and asks for the demo once more keeps the mended one."""
    (tmp_path / "consumer.py").write_text("# mine\n")
    copy_programs(tmp_path)
    assert (tmp_path / "consumer.py").read_text() == "# mine\n"
    assert (tmp_path / "right.py").exists()
    assert "# mine" in "\n".join(introduction(tmp_path))


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match=r"cannot write .*taken.*name another folder"):
        copy_programs(tmp_path / "taken")


def test_no_program_is_written_through_a_link(tmp_path: Path) -> None:
    """A link of somebody else's, to a file that is not there yet, is replaced."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "right.py").symlink_to(tmp_path / "elsewhere")
    copy_programs(folder)
    assert not (tmp_path / "elsewhere").exists()
    assert not (folder / "right.py").is_symlink()


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        ((Kind.KEPT, Kind.BROKEN, Kind.KEPT), ExitCode.KEPT),
        ((Kind.KEPT, Kind.KEPT, Kind.KEPT), ExitCode.BROKEN),
        ((Kind.KEPT, Kind.BROKEN, Kind.BROKEN), ExitCode.BROKEN),
        ((Kind.KEPT, Kind.VOID, Kind.KEPT), ExitCode.VOID),
        ((Kind.KEPT, Kind.BROKEN, Kind.STUCK), ExitCode.VOID),
        ((Kind.BROKEN,), ExitCode.BROKEN),
        ((Kind.VOID,), ExitCode.VOID),
    ],
)
def test_its_exit_code_says_whether_it_showed_what_it_says(
    kinds: tuple[Kind, ...], code: ExitCode
) -> None:
    results: Any = [SimpleNamespace(verdict=SimpleNamespace(kind=kind)) for kind in kinds]
    assert _exit_code(*results) is code


def test_it_shows_the_two_lines_that_are_wrong(tmp_path: Path) -> None:
    """The loop, and what it does with each order, by the numbers that they have in the file."""
    copy_programs(tmp_path)
    shown = [line for line in introduction(tmp_path) if re.match(r" +\d+ ", line)]
    lines = (tmp_path / "consumer.py").read_text().splitlines()
    for line in shown:
        number, text = re.fullmatch(r" +(\d+)  (.*)", line).groups()  # type: ignore[union-attr]
        assert lines[int(number) - 1] == text
    assert [line.split()[1] for line in shown] == ["for", "worker.submit(book,"]


def test_the_story_of_a_cell_is_told_in_order() -> None:
    """Who is started, what is held, who is killed, who comes back; what ends behind the drain is
    lostack's own cleaning up.
    """
    consumer = {"event": "node", "node": "consumer", "role": "consumer"}
    fault = {"event": "rule", "rule": "fault", "role": "consumer", "api": "OffsetCommit"}
    told = [
        {"event": "cell", "phase": "begun", "t": 0},
        {**consumer, "phase": "started", "incarnation": 1, "t": SECOND},
        {**fault, "phase": "armed", "record": "k1-2", "t": 2 * SECOND},
        {"event": "cell", "phase": "loaded", "t": 2 * SECOND},
        {**fault, "rule": "other", "phase": "held", "t": 3 * SECOND},
        {**fault, "phase": "held", "t": 3 * SECOND},
        {**consumer, "phase": "exited", "signal": 9, "incarnation": 1, "t": 4 * SECOND},
        {**consumer, "phase": "started", "incarnation": 2, "t": 5 * SECOND},
        {"event": "drain", "phase": "begun", "t": 6 * SECOND},
        {"event": "drain", "phase": "completed", "t": 7 * SECOND},
        {**consumer, "phase": "exited", "signal": 9, "incarnation": 2, "t": 8 * SECOND},
    ]
    story = Story()
    lines = [line for event in told if (line := story.line(typed(event)))]
    assert lines == [
        "     1.0 s  the consumer is started",
        "     2.0 s  lostack will hold the answer to the OffsetCommit behind record k1-2",
        "     2.0 s  the orders begin to flow",
        "     3.0 s  the consumer has asked for it, Kafka has done it: the answer is held",
        "     4.0 s  the consumer is killed (signal 9)",
        "     5.0 s  the consumer is started again",
        "     6.0 s  lostack waits until everything is at rest",
        "     7.0 s  everything is at rest; lostack counts what is in Kafka and in the database",
    ]


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(300)
def test_the_wrong_consumer_loses_an_order_and_the_right_one_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 stands for just that. A mended consumer is not called broken."""
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    told = capsys.readouterr().out
    verdicts = re.findall(r"^   (. \w+)  36 orders sent, (\d+) booked", told, re.MULTILINE)
    assert [verdict for verdict, _ in verdicts] == ["✔ kept", "✘ broken", "✔ kept"]
    assert [int(booked) == 36 for _, booked in verdicts] == [True, False, True]
    assert "the consumer is killed (signal 9)" in told
    saved = json.loads((tmp_path / "lostack-demo/reports/latest/report.json").read_text())
    assert saved["cells"][0]["outcome"] == "broken"
    (tmp_path / "lostack-demo/right.py").replace(tmp_path / "lostack-demo/consumer.py")
    assert main(["demo", "--quiet"]) == 1
    assert capsys.readouterr().out.count("✔ kept") == 3
