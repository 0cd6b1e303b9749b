"""The commands: exit codes, one clear line for every mistake, and reports that are never greener
than the run.
"""

from __future__ import annotations

import io
import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

import harness.report.writing
from harness import cli, registry, systems
from harness.matrix.progress import make_progress
from harness.saved import RunInfo
from tests.cli import played

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.scenario import Scenario


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The commands see played systems and a few scenarios, and work in a folder of their own."""
    monkeypatch.setitem(systems.SYSTEMS, "memory", "tests.cli.played:PLAYED")
    monkeypatch.setitem(systems.SYSTEMS, "absent", "tests.cli.played:ABSENT")
    monkeypatch.setattr(registry, "scenarios", _scenarios)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.chdir(tmp_path)


def _scenarios() -> tuple[Scenario, ...]:
    return played.SCENARIOS


def run(*only: str, more: str = "") -> int:
    """Run cells of the played system by their words; returns the exit code."""
    words = [word for name in only for word in ("--only", name)]
    return cli.main(["run", "--system", "memory", *words, *shlex.split(more)])


def report(path: Path) -> dict[str, Any]:
    """Read a JSON report."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


# --- exit codes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("only", "code"),
    [
        (played.GOOD, 0),
        (("loses/exactly-once",), 1),
        (("loses/at-least-once", "none", "disarmed"), 1),
        (("control-harmless",), 1),
        (("disarmed/at-least-once",), 4),
        (("stops/exactly-once", "none"), 4),
        (("control-disarmed",), 4),
    ],
)
def test_the_exit_code_says_the_worst(
    only: tuple[str, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing but a wholly green run exits with 0, and judging it again from its files says the
    same.
    """
    assert run(*only) == code
    first = report(Path("reports/latest/report.json"))
    assert first["summary"]["exit_code"] == code
    assert cli.main(["judge", "reports/latest"]) == code
    assert report(Path("reports/latest/report.json")) == first
    assert "Traceback" not in "".join(capsys.readouterr())


def test_only_what_a_baseline_names_fails_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A known break is told and shown red in the report; a second one, or the same in another cell,
    fails the run.
    """
    cell = "memory/kafka-python/plain/loses/exactly-once/process"
    known = tmp_path / "known.toml"
    known.write_text(f"[[known]]\ncell = '{cell}'\noutcome = 'broken'\nbecause = 'planted'\n")
    assert run("loses/exactly-once", more=f"--baseline {known}") == 0
    assert "1 known breaks, 0 new" in capsys.readouterr().err
    assert report(Path("reports/latest/report.json"))["summary"]["broken"] == 1
    assert run("loses/exactly-once", "loses/at-least-once", more=f"--baseline {known}") == 1
    assert "1 known breaks, 1 new" in capsys.readouterr().err
    assert run("loses/exactly-once", "stops/exactly-once", more=f"--baseline {known}") == 4
    lines = [json.loads(line) for line in Path("reports/history.jsonl").read_text().splitlines()]
    assert [(len(line["known"]), len(line["new"])) for line in lines] == [(1, 0), (1, 1), (1, 1)]
    assert run("loses/exactly-once") == 1
    assert cli.main(["judge", "reports/latest"]) == 1
    assert cli.main(["judge", "reports/latest", "--baseline", str(known)]) == 0
    assert len(Path("reports/history.jsonl").read_text().splitlines()) == 4, (
        "judging again is no run"
    )


@pytest.mark.parametrize(
    ("text", "said"), [(None, "give another file with --baseline"), ("[[known", "is no baseline")]
)
def test_a_baseline_that_cannot_be_read_is_wrong_use(
    text: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, before anything is run."""
    if text is not None:
        Path("b.toml").write_text(text)
    assert run("none", more="--baseline b.toml") == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1
    assert not Path("reports").exists()


def test_a_machine_that_lacks_something_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3 and one line, with what to do."""
    assert cli.main(["run", "--system", "absent", "--only", "none"]) == 3
    assert one_line(capsys) == "lostack: there is no Java; install one, or set JAVA_HOME"


def test_a_run_that_breaks_is_reported_as_far_as_it_came(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, why, and a report that has what was judged and says that it is partial."""
    monkeypatch.setitem(systems.SYSTEMS, "memory", "tests.cli.played:BREAKING")
    assert run("none", "ack-lost/at-least-once", more="--jobs 1") == 3
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        "lostack: the run broke down: the report is PARTIAL",
        "lostack: the wire ended",
    ]
    saved = report(next(Path("reports").glob("*/report.json")))
    assert not saved["run"]["complete"]
    assert {cell["verdict"] for cell in saved["cells"]} > {"kept"}


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line on standard error."""
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run --only ack-lots", "no cell matches 'ack-lots'; did you mean ack-lost?"),
        ("run --only ''", "no cell matches ''"),
        (
            "run --only ack-lost --only nothing-like-it",
            "no cell matches 'nothing-like-it'; there are: none, ack-lost",
        ),
        (
            "run --only consumer-crash-before-commit --semantic at-most-once",
            "no cell to run: kafka/",
        ),
        (
            "run --semantic at-last-once",
            "no semantic is called at-last-once; did you mean at-least-once",
        ),
        ("run --system kafak", "no system is called kafak; did you mean kafka?"),
        (
            "run --client kafka-python==",
            "kafka-python== names no version: write kafka-python==2.3.0",
        ),
        (
            "list --client java==9.9.9",
            "java==9.9.9: the checksums of its jars are not known; known versions: 3.2.1, ",
        ),
        (
            "list --system activemq --client openwire==1.0",
            "openwire==1.0: the checksums of its jars are not known; known versions: 5.18.6",
        ),
        (
            "list --system streams --client kafka-streams==9.9",
            "kafka-streams==9.9: the checksums of its jars are not known; known versions: 3.3.2, ",
        ),
        (
            "list --system storm --client storm-kafka-client==9.9",
            "storm-kafka-client==9.9: the checksums of its jars are not known; known versions: ",
        ),
        (
            "list --system flink --client flink-connector-kafka==9.9",
            "flink-connector-kafka==9.9: the checksums of its jars are not known; known versions: ",
        ),
        (
            "list --system spark --client spark-sql-kafka==1.0.0",
            "spark-sql-kafka==1.0.0: the checksums of its jars are not known; known versions: ",
        ),
        (
            "run --system pulsar --client pulsar-java==4.0.0",
            "pulsar-java==4.0.0: pulsar-java has the version that pulsar has: leave ==4.0.0 out",
        ),
        (
            "list --system streams==9.9",
            "streams==9.9: the checksums of its jars are not known; known versions: 3.3.2, 3.4.0, ",
        ),
        ("run --records 0", "--records 0: a cell needs 12 to 100000"),
        ("run --records -5", "--records -5"),
        ("run --records 1000000000000000000000", "--records 1000000000000000000000: a cell needs"),
        ("run --records many", "--records"),
        ("run --records 1e3", "--records"),
        ("run --records ''", "--records"),
        ("run --seed -1", "--seed -1: a seed is 0 or more"),
        ("run --seeds 0", "--seeds 0: from 1 to 1000"),
        ("run --seeds 1001", "--seeds 1001"),
        ("run --seed 1 --seed 2 --seeds 3", "--seeds counts from one --seed"),
        ("run --jobs 0", "--jobs"),
        ("run --no-such-option", "--no-such-option"),
        ("run superfluous", "superfluous"),
        ("runn", "runn"),
        ("judge nowhere", "no saved run at nowhere"),
        ("report nowhere", "no saved run at nowhere"),
        ("judge .", "is not a saved run: cannot read run.json"),
    ],
)
def test_a_mistake_is_one_clear_line(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, nothing on standard output, nothing written, and what was meant where that can
    be guessed.
    """
    assert cli.main(shlex.split(words)) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert len(found.err.splitlines()) == 1
    assert said in found.err
    assert not Path("reports").exists()


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the help is shown, with the exit code of a mistake; asked for, with that of
    a success.
    """
    assert cli.main([]) == 2
    assert "judge" in capsys.readouterr().out
    assert cli.main(["run", "--help"]) == 0
    assert "Exit codes" in capsys.readouterr().out
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("lostack ")


@pytest.mark.parametrize(
    "command", ["run", "check", "judge", "sweep", "soak", "audit", "regressions"]
)
def test_the_exit_codes_of_a_command_name_its_own_options(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, "--help"]) == 0
    options, _, codes = capsys.readouterr().out.partition("Exit codes:")
    assert "130 Ctrl-C" in " ".join(codes.split())
    assert (
        ("--baseline" in codes)
        == ("--baseline" in options)
        == (command in {"run", "check", "judge"})
    )


# --- what is printed and written ------------------------------------------------------------------


def test_red_cells_tell_why_and_how_to_run_them_again(capsys: pytest.CaptureFixture[str]) -> None:
    """The causal sentence and one line that, pasted, gives the same verdict for the same reason."""
    assert run("loses/exactly-once", more="--seed 7 --records 30") == 1
    lines = capsys.readouterr().out.splitlines()
    assert "  exactly-once forbids loss: 2 lost" in "\n".join(lines)
    [again] = [line.partition("again: ")[2] for line in lines if "again: " in line]
    assert cli.main(shlex.split(again)[1:]) == 1
    lines = [line.strip() for line in lines if "forbids loss" in line]
    assert lines[-1] in capsys.readouterr().out


def test_json_is_alone_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """With ``--json`` a program can read standard output as it is; progress goes to
    standard error.
    """
    assert run("none", more="--json") == 0
    found = capsys.readouterr()
    schema = json.loads(
        Path(harness.report.__file__).with_name("schema.json").read_text(encoding="utf-8")
    )
    jsonschema.Draft202012Validator(schema).validate(json.loads(found.out))
    assert "[3/3]" in found.err


def test_progress_is_one_line_per_cell_where_nobody_watches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In CI every cell leaves a line with its number, verdict, cell and reason."""
    run("none")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("[")]
    assert sorted(line[:5] for line in lines) == ["[1/3]", "[2/3]", "[3/3]"]
    assert all(
        "✔ kept" in line and "plain/none/" in line and "24 of 24 recorded" in line for line in lines
    )


def test_progress_is_live_on_a_terminal() -> None:
    """On a terminal the same lines scroll by above a status line; leaving it restores
    the terminal.
    """

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    with make_progress(screen) as progress:
        progress.say("one \x1b]0;gone\x07 line")
        progress.planned([])
    assert "one" in screen.getvalue()
    assert "\x1b]0;gone" not in screen.getvalue()
    assert screen.getvalue().rstrip().endswith("\x1b[?25h") or "\x1b[?25h" in screen.getvalue()


def test_list_shows_every_cell_with_its_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == sum(len(scenario.expect) for scenario in played.SCENARIOS)
    assert [row["semantic"] for row in rows if row["not_applicable"]] == ["at-most-once"]
    assert cli.main(["list", "--only", "consumer-crash-before-commit/at-most-once"]) == 0
    assert "n/a: the position is saved before the work" in capsys.readouterr().out


def test_a_semantic_named_twice_is_run_once() -> None:
    assert run("none", more="--semantic exactly-once --semantic exactly-once") == 0
    assert report(Path("reports/latest/report.json"))["summary"]["ran"] == 1


def test_seeds_are_named_or_counted() -> None:
    """Each that is named is run, once; or so many from one on."""
    for more, numbers in (("--seed 5 --seed 2 --seed 5", [2, 5]), ("--seed 3 --seeds 2", [3, 4])):
        run(played.GOOD[0], more=more)
        assert (
            sorted({cell["seed"] for cell in report(Path("reports/latest/report.json"))["cells"]})
            == numbers
        )


def test_latest_follows_the_last_run_and_judging_leaves_it() -> None:
    """``reports/latest`` is the newest run; looking at an old one does not change that."""
    run("none/exactly-once")
    first = Path("reports/latest").resolve()
    run("none/at-least-once")
    second = Path("reports/latest").resolve()
    assert first != second
    assert cli.main(["judge", str(first)]) == 0
    assert Path("reports/latest").resolve() == second


def test_without_symbolic_links_latest_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system has no links the commands understand a file that holds the folder's
    name.
    """

    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("pathlib.Path.symlink_to", refuse)
    assert run("none/exactly-once") == 0
    assert Path("reports/latest").is_file()
    assert cli.main(["judge", "reports/latest"]) == 0


def test_a_folder_in_the_way_of_latest_is_no_reason_to_fail(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The verdicts count; that ``latest`` could not be moved is said in one line."""
    Path("reports/latest/mine").mkdir(parents=True)
    assert run("none/exactly-once") == 0
    assert "latest was not updated" in one_line(capsys)
    assert Path("reports/latest/mine").is_dir()


def test_the_step_summary_is_appended_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """GitHub's step summary gets the Markdown report behind what is there; where it cannot be
    written, one line says so.
    """
    summary = Path("summary.md")
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert run("none/exactly-once") == 0
    assert summary.read_text(encoding="utf-8").startswith("before\n# lostack: every promise kept")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "no/such/folder/summary.md")
    capsys.readouterr()
    assert run("none/exactly-once") == 0
    assert "GITHUB_STEP_SUMMARY" in one_line(capsys)


def test_a_report_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """``report --format`` prints one form, and knows what was probably meant."""
    run("none/exactly-once")
    capsys.readouterr()
    assert cli.main(["report", "--format", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("# lostack")
    assert cli.main(["report", "--format", "markdwn"]) == 2
    assert "did you mean markdown?" in one_line(capsys)


# --- what can be wrong with files -----------------------------------------------------------------


def test_a_folder_that_cannot_be_written_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A read-only folder, or a file in the way, is exit code 3 and one line, and no cell is run for
    nothing.
    """
    Path("file").write_text("", encoding="utf-8")
    assert run("none", more="--reports file/reports") == 3
    assert (
        "cannot write reports to file/reports: Not a directory; choose another folder"
        in one_line(capsys)
    )
    run("none/exactly-once")
    capsys.readouterr()

    def refuse(below: Path, name: str, text: str) -> None:
        raise OSError(30, "Read-only file system", str(below / name))

    monkeypatch.setattr(harness.report.writing, "write_whole", refuse)
    assert cli.main(["judge", "reports/latest"]) == 3
    assert one_line(capsys).endswith("report.json: Read-only file system; is the folder writable?")


def _newer(text: str) -> str:
    return json.dumps(json.loads(text) | {"schema": 99})


def _without(field: str) -> Callable[[str], str]:
    return lambda text: json.dumps(
        {name: value for name, value in json.loads(text).items() if name != field}
    )


def _with(field: str, value: object) -> Callable[[str], str]:
    return lambda text: json.dumps(json.loads(text) | {field: value})


FINE = {("id", "x"), ("started", "x"), ("command", "x"), ("seeds", "[7]")}
DAMAGE: dict[str, Callable[[str], str]] = (
    {
        "newer": _newer,
        "empty": lambda _: "",
        "cut": lambda text: text[: len(text) // 2],
        "list": lambda _: "[]",
        "null": lambda _: "null",
        "object": lambda _: "{}",
        "nul": lambda _: "\0" * 100,
        "extra": _with("surprise", 1),
        "schema": _with("schema", "one"),
    }
    | {f"no {field}": _without(field) for field in ("id", "planned", "seeds")}
    | {
        f"{field} is {value!r}": _with(field, value)
        for field in (
            "id",
            "started",
            "seconds",
            "complete",
            "planned",
            "not_applicable",
            "seeds",
            "records",
            "versions",
            "machine",
            "command",
            "phases",
        )
        for value in (None, [7], {"x": [1]}, "x")
        if (field, str(value)) not in FINE
    }
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved run of two cells."""
    folder: Path = tmp_path_factory.mktemp("saved")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(systems.SYSTEMS, "memory", "tests.cli.played:PLAYED")
        patch.setattr(registry, "scenarios", _scenarios)
        patch.chdir(folder)
        assert run("none/exactly-once", "ack-lost/exactly-once") == 0
    return (folder / "reports" / "latest").resolve()


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_one_clear_line(
    saved: Path, tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever became of ``run.json``, the commands say so in one line, exit with 2, and never call
    it green.
    """
    (tmp_path / "run.json").write_text(
        DAMAGE[damage]((saved / "run.json").read_text()), encoding="utf-8"
    )
    assert cli.main(["judge", str(tmp_path)]) == 2
    said = one_line(capsys)
    assert "run.json" in said
    assert ("newer lostack" in said) is (damage == "newer")


@pytest.mark.parametrize(
    "garbage",
    [
        "not json",
        "[]",
        "{}",
        '{"t":1}',
        '{"t":1,"w":1,"event":"cell"}',
        '{"t":1,"event":"stored","record":{"a":1}}',
        '{"t":1,"event":"offered","record":["x"],"position":"one"}',
        '{"t":99999999999999999999999,"event":"sent","record":"x"}',
        '{"t":1,"event":["cell"]}',
        '{"t":1,"event":"fault","phase":"fired","record":7}',
        '{"t":1,"event":"stored","hop":"topic","offset":1e300}',
    ],
)
def test_a_damaged_history_is_never_green(
    saved: Path, tmp_path: Path, garbage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that no writer of ours writes voids its cell, whatever it holds; nothing crashes."""
    copy = copied(saved, tmp_path)
    [cell, _] = sorted((copy / "cells").iterdir())
    history = cell / "history" / "runner.jsonl"
    history.write_text(garbage + "\n" + history.read_text(encoding="utf-8"), encoding="utf-8")
    assert cli.main(["judge", str(copy)]) == 4
    assert "Traceback" not in "".join(capsys.readouterr())
    assert report(copy / "report.json")["summary"]["void"] == 1


def copied(saved: Path, folder: Path) -> Path:
    """Copy a saved run."""
    return shutil.copytree(saved, folder / "copy")


def test_a_cell_without_its_history_is_void(saved: Path, tmp_path: Path) -> None:
    copy = copied(saved, tmp_path)
    [cell, _] = sorted((copy / "cells").iterdir())
    for file in (cell / "history").iterdir():
        file.unlink()
    assert cli.main(["judge", str(copy)]) == 4


@pytest.mark.parametrize(("interrupted", "code"), [(False, 4), (True, 130)])
def test_a_run_that_was_killed_was_not_interrupted(
    saved: Path, tmp_path: Path, interrupted: bool, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no end, and a cell of it has none: partial, planned is not what ran, and nobody has
    pressed Ctrl-C.
    """
    copy = copied(saved, tmp_path)
    replace(RunInfo.load(copy), complete=False, interrupted=interrupted).save(copy)
    [cell, _] = sorted((copy / "cells").iterdir())
    history = cell / "history" / "runner.jsonl"
    lines = history.read_text(encoding="utf-8").splitlines()
    end = next(number for number, line in enumerate(lines) if '"drain"' in line)
    history.write_text("\n".join(lines[:end]) + "\n", encoding="utf-8")
    assert cli.main(["judge", str(copy)]) == code
    told = capsys.readouterr().out
    assert "planned 2 ≠ ran 1" in told
    assert "PARTIAL" in told
    assert "cut short before the drain had ended" in told


def test_a_cell_without_its_folder_is_missing(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Planned is not what ran: the run is partial, and says so."""
    copy = copied(saved, tmp_path)
    info = RunInfo.load(copy)
    [cell, _] = sorted((copy / "cells").iterdir())
    cell.rename(tmp_path / "elsewhere")
    assert cli.main(["judge", str(copy)]) == 4
    assert "PARTIAL: SIMULATED, nothing real was crashed: 1 kept" in capsys.readouterr().out
    assert len(report(copy / "report.json")["missing"]) == 1
    assert len(info.planned) == 2


def _places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a JSON value."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:1])
        if isinstance(value, list)
        else ()
    )
    return [path] * bool(path) + [
        place for key, part in inner for place in _places(part, (*path, key))
    ]


@pytest.mark.parametrize(
    ("file", "value"),
    [
        ("cell.json", None),
        ("cell.json", [1]),
        ("run.json", None),
        ("run.json", "x"),
        ("run.json", [1]),
        ("run.json", {"x": None}),
    ],
)
def test_no_value_in_a_saved_file_makes_a_command_crash(
    saved: Path, tmp_path: Path, file: str, value: object
) -> None:
    """At every place of every saved file any value may stand: the commands end with an exit code
    they document.
    """
    copy = copied(saved, tmp_path)
    cells = sorted((copy / "cells").iterdir())
    for cell in cells if file == "run.json" else cells[1:]:  # fewer cells are judged faster
        shutil.rmtree(cell)
    path = copy / file if file == "run.json" else cells[0] / file
    text = path.read_text(encoding="utf-8")
    for place in _places(
        {name: part for name, part in json.loads(text).items() if name != "settings"}
    ):  # read by nobody
        data = json.loads(text)
        inner = data
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        path.write_text(json.dumps(data), encoding="utf-8")
        assert cli.main(["report", "--format", "html", str(copy)]) in (0, 2), place


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--records inf", "--records inf: give a whole number of at least 12"),
        ("--resume .", "--resume .: this is not the folder of a soak: it has no soak.json"),
    ],
)
def test_a_soak_of_wrong_options(capsys: pytest.CaptureFixture[str], more: str, says: str) -> None:
    """An endless number, and a folder that is no soak's, are told in a line, and nothing is
    written.
    """
    assert cli.main(["soak", "plain", "--system", "memory", *shlex.split(more)]) == 2
    assert says in capsys.readouterr().err
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--records 100", "--records 100: a stream needs at least 4000"),
        ("--records 1e5 --only control-cursor-outside-the-transaction", "no fault of plain"),
        ("--records 1e5 --semantic once", "no semantic is called once"),
    ],
)
def test_a_stream_of_wrong_options(
    capsys: pytest.CaptureFixture[str], more: str, says: str
) -> None:
    """Told in a line, before anything is fetched or written."""
    assert cli.main(["soak", "plain", *shlex.split(more)]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1
    assert not list(Path().iterdir())
