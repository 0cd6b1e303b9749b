"""The pytest plugin, in sessions of its own: what is passed, failed, skipped and reported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.tiers import QUICK

ROOT = Path(__file__).parents[2]
CONFTEST = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}]
from tests.cli import played
from harness import registry, systems
systems.SYSTEMS["memory"] = "tests.cli.played:PLAYED"
systems.SYSTEMS["absent"] = "tests.cli.played:ABSENT"
registry.scenarios = lambda: played.SCENARIOS
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with the scenarios' one test file, and played systems."""
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\njunit_family = xunit1\naddopts = --strict-markers\n", encoding="utf-8"
    )
    (tmp_path / "test_scenarios.py").write_text(
        (ROOT / "scenarios" / "test_scenarios.py").read_text(), encoding="utf-8"
    )
    return tmp_path


def session(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *QUICK,
            "-p",
            "no:cacheprovider",
            "--lostack-system",
            "memory",
            *words,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_session_is_one_run(folder: Path) -> None:
    """All selected cells run together; red ones fail with reason and rerun line, n/a ones are
    skipped, counts are properties.
    """
    done = session(
        folder,
        "-k",
        "loses or ack-lost or consumer-crash-before-commit",
        "--junitxml",
        "junit.xml",
        "-rs",
    )
    assert done.returncode == 1, done.stdout + done.stderr
    outcomes = {}
    for case in ET.parse(folder / "junit.xml").iter("testcase"):
        bad = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        outcomes[str(case.get("name"))] = bad[0] if bad else "passed"
    names = {
        "plain/ack-lost/at-most-once/s1": "passed",
        "plain/ack-lost/at-least-once/s1": "passed",
        "plain/ack-lost/exactly-once/s1": "passed",
        "plain/consumer-crash-before-commit/at-most-once/s1": "skipped",
        "plain/consumer-crash-before-commit/at-least-once/s1": "passed",
        "plain/consumer-crash-before-commit/exactly-once/s1": "passed",
        "plain/loses/at-most-once/s1": "failure",
        "plain/loses/at-least-once/s1": "failure",
        "plain/loses/exactly-once/s1": "failure",
    }
    assert outcomes == {f"test_cell[{name}]": outcome for name, outcome in names.items()}
    assert "n/a: the position is saved before the work" in done.stdout
    assert "broken: exactly-once forbids loss: 2 lost" in done.stdout
    assert (
        "again: lostack run --only 'memory/kafka-python/plain/loses/exactly-once/process/s1' "
        "--seed 1"
    ) in done.stdout
    assert "Traceback" not in done.stdout
    [run] = [
        path for path in (folder / "reports").iterdir() if path.is_dir() and not path.is_symlink()
    ]
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    assert (
        report["summary"]["planned"],
        report["summary"]["ran"],
        report["summary"]["not_applicable"],
    ) == (8, 8, 1)
    assert (folder / "reports" / "latest").resolve() == run
    _properties_are_counts(folder / "junit.xml", report["cells"])


@pytest.mark.parametrize(
    ("workers", "dist", "runs"),
    [("2", "loadfile", 1), pytest.param("1", "load", 3, marks=pytest.mark.rest)],
)
def test_the_cells_of_a_file_are_one_run(folder: Path, workers: str, dist: str, runs: int) -> None:
    """Under pytest-xdist one worker has all cells of a file, if it distributes by file; else each
    cell is a run of its own.
    """
    words = ("-n", workers, "--dist", dist, "--lostack-reports", "kept")
    done = session(folder, *words, "-k", "ack-lost")
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    found = [one for one in (folder / "kept").iterdir() if one.is_dir() and not one.is_symlink()]
    assert len(found) == runs


def _properties_are_counts(junit: Path, cells: list[dict[str, object]]) -> None:
    found = {}
    for case in ET.parse(junit).iter("testcase"):
        words = {str(p.get("name")): str(p.get("value")) for p in case.iter("property")}
        if words:
            found[words["id"]] = (
                words["lost"],
                words["duplicated"],
                words["verdict"],
                words["seconds"],
            )
            assert 0 <= float(case.get("time", "")) - float(words["seconds"]) + 0.001 < 1
    assert found == {
        str(cell["id"]): (
            str(cell["lost"]),
            str(cell["duplicated"]),
            str(cell["verdict"]),
            str(cell["seconds"]),
        )
        for cell in cells
    }


KNOWN = """
[[known]]
cell = "memory/kafka-python/plain/{}/process"
outcome = "broken"
because = "{}"
reason = "{}"
"""


def test_a_known_break_fails_nothing_and_is_told(folder: Path) -> None:
    """It is an expected failure; another break of a known cell fails, and one that is green by now
    is told as vanished.
    """
    known = (
        ("loses/exactly-once", "tracked", ""),
        ("loses/at-least-once", "tracked", "duplicates"),
        ("ack-lost/*", "old", ""),
    )
    (folder / "baseline.toml").write_text(
        "".join(KNOWN.format(*words) for words in known), encoding="utf-8"
    )
    done = session(folder, "-k", "loses/ or ack-lost", "--lostack-baseline", "baseline.toml")
    assert re.search("2 failed, 3 passed, .*1 xfailed", done.stdout), done.stdout + done.stderr
    told = done.stdout.partition("lostack: known breaks")[2]
    assert (
        "plain/loses/exactly-once/s1]: known break: tracked (exactly-once forbids loss: 2 lost"
        in told
    )
    assert "vanished: memory/kafka-python/plain/ack-lost/*/process was broken, and is green" in told
    [line] = (folder / "reports" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    saved = json.loads(line)
    assert (saved["known"], len(saved["new"])) == (
        ["memory/kafka-python/plain/loses/exactly-once/process/s1"],
        2,
    )
    assert saved["vanished"] == ["memory/kafka-python/plain/ack-lost/*/process"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--lostack-baseline", "missing.toml"), 2, "cannot read missing.toml"),
        pytest.param(
            ("--lostack-records", "0"),
            2,
            "--records 0: a cell needs 12 to 100000 records",
            marks=pytest.mark.rest,
        ),
        pytest.param(
            ("--lostack-seed", "-1"),
            2,
            "--seed -1: a seed is 0 or more",
            marks=pytest.mark.rest,
        ),
        (("--lostack-system", "memroy"), 2, "no system is called memroy; did you mean memory?"),
        pytest.param(
            ("--lostack-client", "confluent"),
            2,
            "no client is called confluent; did you mean confluent-kafka",
            marks=pytest.mark.rest,
        ),
        (
            ("--lostack-reports", "pytest.ini/x", "-k", "none"),
            3,
            "cannot write reports to pytest.ini/x",
        ),
    ],
)
def test_a_mistake_is_one_line(folder: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = session(folder, *words)
    assert done.returncode == code, done.stdout
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not (folder / "reports").exists()


def test_a_defect_of_lostack_is_no_failed_test(folder: Path) -> None:
    """The session ends with the exit code of a defect, and with the line that says
    what to report.
    """
    planted = (
        "import harness.matrix.runner\ndef planted(*_):\n    raise "
        "KeyError('x')\nharness.matrix.runner.run = planted\n"
    )
    (folder / "conftest.py").write_text(CONFTEST + planted, encoding="utf-8")
    done = session(folder, "-k", "none and exactly")
    assert done.returncode == 70, done.stdout
    assert "lostack: this is a defect of lostack (KeyError in conftest.py, line " in done.stdout


def test_a_semantic_and_a_seed_can_be_selected(folder: Path) -> None:
    """Markers select semantics and controls; every seed is a case of its own."""
    done = session(
        folder,
        "--collect-only",
        "-q",
        "-m",
        "memory and control",
        "--lostack-seed",
        "3",
        "--lostack-seed",
        "5",
    )
    cases = [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]
    assert len(cases) == 6
    assert "test_cell[plain/control-cursor-outside-the-transaction/exactly-once/s5]" in cases
    assert not (folder / "reports").exists()
