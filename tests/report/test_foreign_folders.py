"""A run that somebody else has made: no command leaves its folder, waits for a FIFO, or fills the
memory.
"""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from harness.cli.application import main
from harness.latest import LATEST, MARK, mark
from harness.model import safe_files
from harness.model.exits import ExitCode
from harness.report.advising import last_log_lines
from harness.report.as_html import INDEX, TREND
from harness.report.breaks import HISTORY_FILE
from harness.report.renderers import RENDERERS
from harness.saved import judge_cell
from tests.report.own import SAID, own_run

if TYPE_CHECKING:
    from collections.abc import Callable

MINE: Final = "the line that only the user may read"
DEEP: Final = "[" * 100_000
HUGE: Final = "9" * 4_000
RUN: Final = "run"
OTHER: Final = "other"
"""A run beside it, which the index lists."""
COMMANDS: Final = {
    "judge": ("judge", "RUN"),
    "report": ("report", "RUN"),
    "json": ("report", "RUN", "--format", "json"),
    "record": ("report", "RUN", "--record", "k1-1"),
    "compare": ("report", "--compare", "RUN", "RUN"),
    "publish": ("report", "RUN", "--publish", "OUT"),
    "events": ("events", "RUN"),
    "clients": ("clients", "RUN"),
    "points": ("points", "RUN"),
    "trend": ("trend", "RUNS"),
}
NOT_A_COMMANDS_TROUBLE: Final = frozenset(ExitCode) - {ExitCode.INTERRUPTED}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run, as a CI server's artefact holds it."""
    reports = tmp_path_factory.mktemp("artefact")
    own_run(reports / RUN)
    (reports / OTHER).mkdir()
    shutil.copy(reports / RUN / "run.json", reports / OTHER)
    return reports


class Foreign:
    """A copy of the run, and beside it what is the user's."""

    def __init__(self, made: Path, folder: Path) -> None:
        self.runs = Path(shutil.copytree(made, folder / "artefact"))
        self.run = self.runs / RUN
        self.cells = sorted((self.run / "cells").iterdir())
        self.failed = next(cell for cell in self.cells if (cell / "logs").exists())
        self.history = self.failed / "history" / "all.jsonl"
        self.mine = folder / "mine"
        self.mine.mkdir()
        (self.mine / "key").write_text(MINE)
        self.copy = self.mine / "copy"
        """A copy of the run that is the user's: a link can lead to it, so that all looks well
        behind the link.
        """
        shutil.copytree(self.run, self.copy)
        self.before = self.seen()

    def instead(self, file: Path, target: Path) -> None:
        """Put a link where a file or a folder is, or may be."""
        self.gone(file)
        file.symlink_to(target)

    @staticmethod
    def gone(file: Path) -> None:
        """Remove a file or a folder."""
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        file.unlink(missing_ok=True)

    def seen(self) -> dict[str, tuple[int, bytes | None]]:
        """Return what the user has, and since when."""
        return {
            str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
            for path in self.mine.rglob("*")
        }

    def check_untouched(self) -> None:
        """What is the user's is as it was, and no copy of the key lies in the run's folder."""
        assert self.seen() == self.before
        for folder, _, names in os.walk(self.runs):
            for file in (Path(folder, name) for name in names):
                if file.is_file() and not file.is_symlink() and file.stat().st_size < 1 << 20:
                    assert MINE.encode() not in file.read_bytes(), file

    def play(self, command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
        """Run a command, and return its exit code and what it said. Nothing of the user's is
        changed or shown.
        """
        places = {"RUN": str(self.run), "RUNS": str(self.runs), "OUT": str(self.runs / "published")}
        code = main([places.get(word, word) for word in COMMANDS[command]])
        told = capsys.readouterr()
        assert MINE not in told.out + told.err
        assert "Traceback" not in told.err
        self.check_untouched()
        return code, told.err


@pytest.fixture
def foreign(made: Path, tmp_path: Path) -> Foreign:
    """Return a copy of the run."""
    return Foreign(made, tmp_path)


def _outputs(one: Foreign, target: str) -> None:
    for renderer in RENDERERS.values():
        for name in (renderer.file, f".{renderer.file}.part"):
            one.instead(one.run / name, one.mine / target)
    one.instead(one.run / "compare-run.html", one.mine / target)


def _beside(one: Foreign, target: str) -> None:
    for name in (INDEX, TREND, LATEST, HISTORY_FILE, f".{INDEX}.part", f".{TREND}.part"):
        one.instead(one.runs / name, one.mine / target)


def _fifo(one: Foreign, file: Path) -> None:
    one.gone(file)
    os.mkfifo(file)


def _hole(one: Foreign, file: Path) -> None:
    one.gone(file)
    with file.open("wb") as opened:
        opened.truncate(1 << 40)


def _deep(one: Foreign, file: Path) -> None:
    one.gone(file)
    file.write_text(DEEP)


def _changed(file: Path, *pairs: tuple[str, str]) -> None:
    text = file.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)


def _logs(one: Foreign) -> None:
    (one.mine / "consumer.log").write_text(MINE)
    one.before = one.seen()
    one.instead(one.failed / "logs", one.mine)


def _log_of(one: Foreign, name: str) -> None:
    (one.mine / "key.log").write_text(MINE)
    one.before = one.seen()
    _changed(one.history, ('"node": "consumer"', f'"node": "{name}"'))


def _deep_line(one: Foreign) -> None:
    with one.history.open("a") as file:
        file.write(f'{{"t": 1, "event": "node", "x": {DEEP}\n')


PLACES: Final[dict[str, Callable[[Foreign], Path]]] = {
    "run.json": lambda one: one.run / "run.json",
    "cell.json": lambda one: one.failed / "cell.json",
    "history": lambda one: one.history,
    "log": lambda one: one.failed / "logs" / "consumer.log",
    "report.json": lambda one: one.runs / OTHER / "report.json",
    "past": lambda one: one.runs / HISTORY_FILE,
    "index": lambda one: one.runs / INDEX,
}
"""The files that commands read, and two that they write. Of each: a FIFO, which shows who opens it
without a look, and nesting; the others are told apart in one place for all, and tried at two files.
"""
READ_BY: Final = {
    "log": ("judge",),
    "logs": ("judge",),
    "time": ("judge", "record", "events"),
    "report.json": ("judge", "report"),
    "index": ("judge",),
    "past": ("trend", "judge"),
    "history": ("judge", "record", "events", "compare"),
    "line": ("judge", "record", "events", "compare"),
    "outputs": ("report", "compare"),
    "what": ("report", "trend"),
}
"""The commands that meet a place, by the word that its case begins with; what is not here is met by
all, and ends them early.
"""
KINDS: Final[dict[str, Callable[[Foreign, Path], None]]] = {
    "a FIFO": _fifo,
    "without an end": lambda one, file: one.instead(file, Path("/dev/zero")),
    "a terabyte": _hole,
    "deep": _deep,
}
HOSTILE: Final[dict[str, Callable[[Foreign], None]]] = {
    "outputs lead to a file of the user's": lambda one: _outputs(one, "key"),
    "outputs lead to nothing yet": lambda one: _outputs(one, "new"),
    "what lies beside leads to a file of the user's": lambda one: _beside(one, "key"),
    "what lies beside leads to nothing yet": lambda one: _beside(one, "new"),
    "run.json is a link": lambda one: one.instead(one.run / "run.json", one.copy / "run.json"),
    "cells is a link": lambda one: one.instead(one.run / "cells", one.copy / "cells"),
    "a cell is a link": lambda one: one.instead(one.failed, one.copy / "cells" / one.failed.name),
    "a plan is a link": lambda one: one.instead(
        one.failed / "cell.json", one.copy / "cells" / one.failed.name / "cell.json"
    ),
    "a history is a link": lambda one: one.instead(one.history, one.mine / "key"),
    "a folder of a history is a link": lambda one: one.instead(
        one.failed / "history", one.copy / "cells" / one.failed.name
    ),
    "a log is a link": lambda one: one.instead(
        one.failed / "logs" / "consumer.log", one.mine / "key"
    ),
    "a folder of logs is a link": _logs,
    "a log leads out by dots": lambda one: _log_of(one, "../../../../../mine/key"),
    "a log is named by a whole path": lambda one: _log_of(one, str(one.mine / "key")),
    "a line is deep": _deep_line,
    "a time is huge": lambda one: _changed(one.history, ('"t": ', f'"t": {HUGE}')),
    "a number in a line is huge": lambda one: _changed(
        one.history,
        ('"partition": ', f'"partition": {HUGE}'),
        ('"position": ', f'"position": {HUGE}'),
    ),
    "the seconds are huge": lambda one: _changed(one.run / "run.json", ("12.5", HUGE)),
    "it was started yesterday": lambda one: _changed(
        one.run / "run.json", ('"2026-11-21T12:00:00+00:00"', '"yesterday"')
    ),
    "it was started elsewhere": lambda one: _changed(
        one.run / "run.json", ("12:00:00+00:00", "12:00:00+09:00")
    ),
    "the seconds are not finite": lambda one: _changed(one.run / "run.json", ("12.5", "1e999")),
    **{
        f"{name} is {kind}": functools.partial(
            lambda one, make, place: make(one, place(one)), make=make, place=place
        )
        for name, place in PLACES.items()
        for kind, make in KINDS.items()
        if name in {"run.json", "history"} or kind in {"a FIFO", "deep"}
    },
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", HOSTILE)
def test_no_command_leaves_the_folder(
    how: str, foreign: Foreign, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each ends by itself, with an exit code of its own and a few lines; what is the user's is
    neither changed nor shown.

    Also where the folder is marked as one of runs.
    """
    HOSTILE[how](foreign)
    mark(foreign.runs)
    commands = next(
        (some for word, some in READ_BY.items() if word in how.split()), tuple(COMMANDS)
    )
    for command in commands:
        code, told = foreign.play(command, capsys)
        assert code in NOT_A_COMMANDS_TROUBLE, (command, code)
        assert len(told.splitlines()) <= 3, (command, told)  # what is wrong, no index, a break


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("run.json is a link", "cannot read run.json: it is a symbolic link"),
        ("run.json is a FIFO", "cannot read run.json: it is a FIFO, not a file"),
        ("run.json is a terabyte", "cannot read run.json: it is larger than 134,217,728 bytes"),
        ("run.json is deep", "run.json is damaged: it is nested too deeply"),
        ("the seconds are huge", "run.json is damaged: a number in it is too large"),
        ("the seconds are not finite", "run.json is damaged: a number in it is not finite"),
        ("it was started yesterday", "run.json is damaged: started must be a time as 2026-"),
        ("it was started elsewhere", "run.json is damaged: started must be a time as 2026-"),
        ("cells is a link", "it is a symbolic link"),
        ("a cell is a link", "is a symbolic link, which lostack does not follow"),
        ("a plan is a link", "it is a symbolic link"),
        ("cell.json is deep", "it is nested too deeply"),
    ],
)
def test_a_run_that_cannot_be_read_is_told_in_one_line(
    how: str, said: str, foreign: Foreign, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line says which file, and why; it is wrong use, and nothing is written."""
    HOSTILE[how](foreign)
    code, told = foreign.play("judge", capsys)
    assert code == ExitCode.USAGE
    assert said in told
    assert told.count("\n") == 1
    assert not (foreign.run / "report.md").exists()


@pytest.mark.parametrize(
    "how",
    [
        "a history is a link",
        "history is a FIFO",
        "history is a terabyte",
        "a folder of a history is a link",
    ],
)
def test_a_history_that_is_no_file_voids_its_cell(
    how: str, foreign: Foreign, capsys: pytest.CaptureFixture[str]
) -> None:
    HOSTILE[how](foreign)
    main(["judge", str(foreign.run)])
    told = capsys.readouterr().out
    assert "VOID" in told
    assert "cannot read the history" in told or "is larger than" in told
    assert "1 kept" in told


def test_a_log_that_is_a_link_is_told_and_not_shown(
    foreign: Foreign, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report says why the log's last lines are missing."""
    assert last_log_lines(judge_cell(foreign.failed)) == [("consumer", SAID)]
    HOSTILE["a log is a link"](foreign)
    [(name, [line])] = last_log_lines(judge_cell(foreign.failed))
    assert (name, line[:28]) == ("consumer", "(its log was not read: it is")
    foreign.play("report", capsys)


def test_a_hard_link_is_a_file(foreign: Foreign, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy by ``cp -l`` is judged like any other."""
    plain = foreign.play("json", capsys)
    for file in [*foreign.run.rglob("*.jsonl"), *foreign.run.rglob("cell.json")]:
        os.link(file, foreign.runs / "spare")
        file.unlink()
        (foreign.runs / "spare").rename(file)
    assert foreign.play("json", capsys) == plain


def test_outputs_take_the_place_of_links(
    foreign: Foreign, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reports are there, each a file of its own, and nothing half-written lies beside them."""
    HOSTILE["outputs lead to a file of the user's"](foreign)
    foreign.play("report", capsys)
    for renderer in RENDERERS.values():
        assert not (foreign.run / renderer.file).is_symlink()
    assert not [
        file.name
        for file in foreign.run.iterdir()
        if file.name.endswith(".part") and not file.is_symlink()
    ]


# --- beside the run -------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["judge", "report"])
def test_nothing_is_written_beside_a_run_that_somebody_has_put_there(
    command: str, foreign: Foreign, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the user has of these names stays, and one line says that no index was written."""
    for name in (INDEX, TREND, LATEST):
        (foreign.runs / name).write_text("mine")
    there = sorted(foreign.runs.iterdir())
    _, told = foreign.play(command, capsys)
    assert told.count("no index was written: lostack has not put this run into") == 1
    assert all((foreign.runs / name).read_text() == "mine" for name in (INDEX, TREND, LATEST))
    assert sorted(foreign.runs.iterdir()) == there


def test_beside_its_own_runs_lostack_replaces_its_own_pages_only(
    foreign: Foreign, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder of runs the index is written anew; a page of the same name that somebody else
    wrote stays. A line says so.
    """
    mark(foreign.runs)
    _, told = foreign.play("report", capsys)
    assert "no index" not in told
    assert "lostack" in (foreign.runs / INDEX).read_text()
    assert (foreign.runs / LATEST).readlink() == Path(RUN)
    first = (foreign.runs / INDEX).stat().st_ino
    foreign.play("report", capsys)
    assert (foreign.runs / INDEX).stat().st_ino != first
    (foreign.runs / INDEX).write_text("<title>my page</title>")
    _, told = foreign.play("report", capsys)
    assert "index.html is not lostack's" in told
    assert (foreign.runs / INDEX).read_text() == "<title>my page</title>"


def test_a_trend_page_of_somebody_elses_stays(
    foreign: Foreign, capsys: pytest.CaptureFixture[str]
) -> None:
    """``lostack trend`` says whose it is, and what to do."""
    past = '{"run": "a", "started": "2026-01-01T12:00:00+00:00", "cells": {"x/y": {"kept": 1}}}\n'
    (foreign.runs / HISTORY_FILE).write_text(past)
    assert foreign.play("trend", capsys)[0] == ExitCode.KEPT
    (foreign.runs / TREND).write_text("mine")
    code, told = foreign.play("trend", capsys)
    assert code == ExitCode.USAGE
    assert "trend.html is not lostack's: move it away" in told
    assert (foreign.runs / TREND).read_text() == "mine"


@pytest.mark.parametrize("target", ["../mine/copy", "gone", "/etc", ".", ".."])
@pytest.mark.parametrize("as_file", [False, True])
def test_latest_leads_to_a_run_cells_it(
    target: str, foreign: Foreign, capsys: pytest.CaptureFixture[str], *, as_file: bool
) -> None:
    """Whoever names ``latest`` means a run of the same folder; whatever else it holds
    is one line.
    """
    latest = foreign.runs / LATEST
    if as_file:
        latest.write_text(target)
    else:
        latest.symlink_to(target)
    assert main(["judge", str(latest)]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "latest" in told
    assert told.count("\n") == 1
    foreign.check_untouched()


def test_a_run_that_lostack_makes_marks_its_folder(tmp_path: Path) -> None:
    """The mark is a file with a line that says what it is; who has it already keeps it."""
    mark(tmp_path)
    first = (tmp_path / MARK).stat().st_ino
    mark(tmp_path)
    assert (tmp_path / MARK).stat().st_ino == first
    assert safe_files.read_text(tmp_path, MARK).startswith("lostack writes runs into this folder")
