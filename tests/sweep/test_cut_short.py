"""What ends a sweep from outside, and what was damaged meanwhile: nothing that was judged is lost,
nothing of it outlives it.
"""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from harness.cli.application import main
from harness.model.exits import ExitCode
from harness.model.waiting import wait_until
from harness.saved import SWEEP_FILE, judge_cell
from harness.sweep import pipelines
from tests.memory import python_path
from tests.sweep.played import sweep_of

ROOT = Path(__file__).parents[2]
WITHIN_S = 240.0
PLAYED = (sys.executable, "-m", "tests.sweep.played")
SWEEP = ("sweep", "--only", "plain/at-least-once", "--records", "12", "--jobs", "1")
MEMORY = (*SWEEP, "--system", "memory", "--act", "lose")
DRY, POINT, SHRINKING = "dry-2", "+lose", "~"


def cut(
    command: tuple[str, ...], folder: Path, behind: str, number: signal.Signals
) -> tuple[int, str]:
    """Run a sweep, and end it when a cell has ended whose name has ``behind`` in it. Return its
    exit code and what it said.
    """
    environment = python_path() | {"PYTHONUNBUFFERED": "1"}
    whole = (*command, "--reports", str(folder))
    with subprocess.Popen(
        whole,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        watchdog = threading.Timer(WITHIN_S, process.kill)
        watchdog.daemon = True  # nobody waits for it where the test is ended
        watchdog.start()
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("[") and behind in line:
                break
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        said.append(process.communicate()[0])
        watchdog.cancel()
    wait_until(
        lambda: not any(child.is_running() for child in children),
        within_s=30,
        because="all of the sweep to be gone",
    )
    return process.returncode, "".join(said)


def ended(sweep: Path) -> dict[str, Path]:
    """Return the cells of points that have ended in a sweep, by their names. Raises AssertionError
    where one has ended twice.
    """
    found: dict[str, Path] = {}
    for file in sorted(sweep.glob("points/2*/cells/*/cell.json")):
        result = judge_cell(file.parent)
        if result.ended:
            assert result.plan.scenario not in found
            found[result.plan.scenario] = file.parent
    return found


@pytest.mark.parametrize(
    ("behind", "number"),
    [
        pytest.param(DRY, signal.SIGINT, id="dry runs, ctrl-c"),
        pytest.param(POINT, signal.SIGKILL, id="points, sigkill"),
        pytest.param(SHRINKING, signal.SIGKILL, id="shrinking, sigkill"),
        pytest.param(DRY, signal.SIGKILL, id="dry runs, sigkill", marks=pytest.mark.rest),
        pytest.param(POINT, signal.SIGINT, id="points, ctrl-c", marks=pytest.mark.rest),
        pytest.param(SHRINKING, signal.SIGINT, id="shrinking, ctrl-c", marks=pytest.mark.rest),
    ],
)
def test_a_sweep_that_was_ended_goes_on(
    behind: str,
    number: signal.Signals,
    swept: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No point that has ended is run again, and what comes of it is what comes of one that nobody
    ends.
    """
    code, said = cut((*PLAYED, *MEMORY), tmp_path, behind, number)
    assert code == (130 if number is signal.SIGINT else -number)
    assert "Traceback" not in said
    assert ("lostack sweep --resume" in said) == (number is signal.SIGINT)
    [one] = (tmp_path / "sweeps").iterdir()
    before = ended(one)
    monkeypatch.setattr(pipelines, "sweep_of", sweep_of)
    assert main(("sweep", "--resume", str(one))) == ExitCode.BROKEN
    assert before.items() <= ended(one).items()
    told, known = (json.loads((each / "result.json").read_text()) for each in (one, swept))
    assert {(each["point"], each["signature"]["verdict"]) for each in told["outcomes"]} == {
        (each["point"], each["signature"]["verdict"]) for each in known["outcomes"]
    }
    assert [each["signature"] for each in told["findings"]] == [
        each["signature"] for each in known["findings"]
    ]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a sweep that is done."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipelines, "sweep_of", sweep_of)
        reports = tmp_path_factory.mktemp("swept")
        assert main((*MEMORY, "--reports", str(reports))) == ExitCode.BROKEN
    [one] = (reports / "sweeps").iterdir()
    return one


@pytest.fixture
def played(swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the folder of that sweep, which goes on with the play."""
    monkeypatch.setattr(pipelines, "sweep_of", sweep_of)
    return Path(shutil.copytree(swept, tmp_path / "one", symlinks=True))


HOW = ("cut", "other", "gone")
PLANS = (
    "",
    "[",
    "[]",
    "null",
    '{"schema": 99}',
    "{}",
    '{"schema": "1"}',
    "[" * 100_000,
    {"seed": "1"},
    {"shard": [3, 2]},
    {"shard": 1},
    {"shard": ["1", "1"]},
    {"depth": 9},
    {"jobs": 0},
    {"acts": [1]},
    {"acts": None},
    {"what": "plane"},
    {"what": 1},
    {"system": "x"},
    {"records": -1},
    {"new": 1},
    {"like": "nothing"},
    {"client": "jav"},
)


@pytest.mark.parametrize("said", PLANS, ids=range(len(PLANS)))
def test_a_damaged_plan(
    said: str | dict[str, object], played: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = json.loads((played / SWEEP_FILE).read_text())
    (played / SWEEP_FILE).write_text(said if isinstance(said, str) else json.dumps(plan | said))
    before = sorted(played.rglob("*"))
    for command in (("sweep", "--resume", str(played)), ("report", str(played))):
        assert main(command) == ExitCode.USAGE
        told = capsys.readouterr().err
        assert told.count("\n") == 1, told
    assert sorted(played.rglob("*")) == before


@pytest.mark.parametrize(
    ("of", "folder", "how"),
    [
        *(
            (of, ("dry", "points")[number % 2], how)
            for number, (of, how) in enumerate(
                itertools.product(("run.json", "cell.json", "runner.jsonl", "wire.jsonl"), HOW)
            )
        ),
        *(("result.json", "result.json", how) for how in HOW),
        *((".toml", "found", how) for how in HOW),
    ],
)
def test_a_damaged_file(
    of: str, folder: str, how: str, played: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named in one line, or its cell is run again: nothing is told that it does not say, and
    no traceback is.
    """
    files = sorted(
        file for file in played.rglob(f"*{of}") if file.parts[len(played.parts)] == folder
    )
    file = files[0]
    if how == "cut":
        file.write_text(file.read_text()[: file.stat().st_size // 2])
    elif how == "other":
        file.write_text("[1, 2]\n")
    else:
        file.unlink()
    code = main(("sweep", "--resume", str(played)))
    told = capsys.readouterr().err
    assert "Traceback" not in told
    if code == ExitCode.VOID:  # the wire's file: it can be read, and tells another run
        assert of == "wire.jsonl"
        assert told.startswith(
            ("lostack: without a fault it is void", "lostack: nothing to sweep")
        ), told
    else:
        assert code == ExitCode.BROKEN or (
            code == ExitCode.USAGE and told.count("\n") == 1 and file.name in told
        ), told


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.parametrize("behind", [DRY, POINT], ids=["dry runs", "points"])
def test_nothing_of_a_real_one_outlives_it(behind: str, tmp_path: Path) -> None:
    """Broker, wire and stages end with who has started them, also where that was killed; what was
    judged is there.
    """
    command = (sys.executable, "-m", "harness.cli", *SWEEP, "--act", "kill")
    cut(command, tmp_path, behind, signal.SIGKILL)
    [one] = (tmp_path / "sweeps").iterdir()
    folder = "dry" if behind == DRY else "points"
    assert any(judge_cell(file.parent).ended for file in one.glob(f"{folder}/2*/cells/*/cell.json"))
