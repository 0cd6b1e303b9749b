"""A package that nobody here knows brings an engine and a protocol, by its entry
points: ``toy/``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.memory import python_path
from tests.tiers import QUICK

ROOT = Path(__file__).parents[2]
TOY = Path(__file__).parent / "toy"
UV = Path(sys.executable).parent / "uv"
WITHIN_S = 240.0


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package as anybody would, but for the network; return the folder."""
    folder = tmp_path_factory.mktemp("toy")
    source, target = folder / "source", folder / "installed"
    shutil.copytree(
        TOY, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    )
    install = [
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--no-build-isolation",
        "--python",
        sys.executable,
    ]
    subprocess.run([UV, *install, "--target", target, source], check=True, timeout=WITHIN_S)
    return target


def lostack(*words: str, folder: Path, packages: Path | None) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, with what was installed, or without."""
    return subprocess.run(
        [sys.executable, "-m", "harness.cli", *words],
        cwd=folder,
        env=python_path(*filter(None, (packages,))),
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )


FEW = (
    "request-lost/at-most-once",
    "ack-lost/at-least-once",
    "delivery-lost/at-least-once",
    "consumer-crash-before-commit/at-most-once",
    "broker-crash-before-ack/exactly-once",
    "request-lost/at-least-once",
    "power-loss/at-least-once",
)


@pytest.mark.parametrize(
    ("only", "cells"),
    [
        pytest.param(FEW, len(FEW) - 1, id="few"),
        pytest.param((), 18, id="all", marks=pytest.mark.rest),
    ],
)
def test_its_cells_run_and_are_judged(
    installed: Path, tmp_path: Path, only: tuple[str, ...], cells: int
) -> None:
    """A real server, real programs, real SIGKILL; by sign and settings of its own. What it cannot
    do does not apply.
    """
    words = ["run", "--system", "toy", "--suite", "night"]
    words += [word for each in only for word in ("--only", each)]
    done = lostack(*words, folder=tmp_path, packages=installed)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "reports" / "latest" / "report.json").read_text())
    assert {cell["outcome"] for cell in told["cells"]} == {"kept"}
    assert len(told["cells"]) == cells
    anomalies = {
        (cell["scenario"], cell["semantic"]): (len(cell["lost_ids"]), len(cell["duplicated_ids"]))
        for cell in told["cells"]
    }
    assert anomalies["request-lost", "at-most-once"] == (1, 0)
    assert anomalies["ack-lost", "at-least-once"] == (0, 1)
    assert anomalies["delivery-lost", "at-least-once"] == (0, 0)
    signs = {cell["sign"] for cell in told["cells"]}
    assert {"toy-done-with", "sent-anew", "absorbed"} <= signs
    assert "toy-line" in (tmp_path / "reports" / "latest" / "report.html").read_text()
    assert (
        "the fault kill needs a system that loses what was not flushed: here toy is not such a "
        "system"
    ) in json.dumps(told)
    again = lostack("judge", "reports/latest", folder=tmp_path, packages=installed)
    assert again.returncode == 0, again.stdout + again.stderr


def test_a_protocol_that_lies_proves_nothing(installed: Path, tmp_path: Path) -> None:
    broken = tmp_path / "installed"
    shutil.copytree(installed, broken)
    protocol = broken / "lostack_toy" / "protocol.py"
    right = "(kinds.Sent if reached else kinds.Unsent)("
    assert right in protocol.read_text()
    protocol.write_text(protocol.read_text().replace(right, "kinds.Sent("))
    done = lostack(
        "run",
        "--system",
        "toy",
        "--only",
        "request-lost/at-most-once",
        folder=tmp_path,
        packages=broken,
    )
    assert done.returncode != 0
    assert "0 kept, 0 broken, 0 controls convicted, 1 void" in done.stdout


LYING = {
    "more-copies-than-sends": (
        "server.py",
        'self.write("put", self.last, queue, token, body)',
        (
            'self.write("put", self.last, queue, token, body); self.write("put", self.last + 900, '
            'queue, token, body); self.write("gone", self.last + 900)'
        ),
        "none/at-least-once",
        "but the wire passed on 1 requests with it",
    ),
    "neither-waits-nor-removed": (
        "system.py",
        "                if number in gone:",
        "                if number in gone and number > 3:",
        "none/at-least-once",
        "that waits for nothing, but not that it was removed or moved",
    ),
    "removed-and-never-stored": (
        "system.py",
        "        ready, held = toy.count(queue)",
        (
            '        history.write(kinds.Removed(place="toy:900", record=None, why=Removal.ACK))\n'
            "        ready, held = toy.count(queue)"
        ),
        "none/at-least-once",
        "was removed from toy:900, where no queue has had a copy",
    ),
    "a-second-copy-is-hidden": (
        "system.py",
        'if what == "put" and more[0] == queue:',
        (
            'if what == "put" and all(each[4] != more[2] or each[1] >= number for each in lines '
            'if each[0] == "put"):'
        ),
        "ack-lost/at-least-once",
        "delivered, but the broker's authority has 1 of them",
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "a-second-copy-is-hidden" else pytest.mark.rest)
        for name in LYING
    ],
)
def test_an_authority_that_lies_proves_nothing(installed: Path, tmp_path: Path, name: str) -> None:
    file, right, wrong, cell, because = LYING[name]
    broken = tmp_path / "installed"
    shutil.copytree(installed, broken)
    code = broken / "lostack_toy" / file
    assert right in code.read_text()
    code.write_text(code.read_text().replace(right, wrong))
    done = lostack("run", "--system", "toy", "--only", cell, folder=tmp_path, packages=broken)
    assert done.returncode != 0
    assert "0 kept, 0 broken, 0 controls convicted, 1 void" in done.stdout
    told = json.loads((tmp_path / "reports" / "latest" / "report.json").read_text())
    assert because in told["cells"][0]["reason"]


@pytest.mark.parametrize("command", ["list", "doctor"])
def test_it_is_shown(installed: Path, tmp_path: Path, command: str) -> None:
    assert "toy" in lostack(command, folder=tmp_path, packages=installed).stdout


def test_without_the_package_it_is_not_there(tmp_path: Path) -> None:
    """Nothing else names it."""
    assert "toy" not in lostack("list", folder=tmp_path, packages=None).stdout
    done = lostack("run", "--system", "toy", folder=tmp_path, packages=None)
    assert done.returncode == 2
    assert done.stderr.startswith("lostack: no system is called toy; ")
    named = [
        file
        for file in (ROOT / "harness").rglob("*.py")
        if "lostack_toy" in file.read_text(encoding="utf-8")
    ]
    assert named == []


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        (
            "kafka",
            "lostack_toy.about:SYSTEM",
            (
                "the package lostack-toy registers kafka in lostack.systems, but lostack has that "
                "name itself: uninstall or rename it"
            ),
        ),
        (
            "toy",
            "lostack_toy.nowhere:SYSTEM",
            (
                "toy, which the package lostack-toy registers in lostack.systems, cannot be "
                "loaded (ModuleNotFoundError: No module named 'lostack_toy.nowhere'): repair or "
                "uninstall the package"
            ),
        ),
    ],
    ids=["a-name-that-is-taken", "what-cannot-be-imported"],
)
def test_a_package_that_cannot_be_is_told_in_one_line(
    installed: Path, tmp_path: Path, name: str, value: str, told: str
) -> None:
    broken = tmp_path / "installed"
    shutil.copytree(installed, broken)
    entries = next(broken.glob("*.dist-info/entry_points.txt"))
    entries.write_text(f"[lostack.systems]\n{name} = {value}\n")
    done = lostack("run", "--system", "toy", folder=tmp_path, packages=broken)
    assert done.returncode != 0
    assert done.stderr == f"lostack: {told}\n"


_SYSTEM = (
    "from harness.interfaces import System\nSYSTEM = System(name={name!r}, launcher='a:b', "
    "clients=('c',), runs=lambda _: False, abilities=lambda _: (), {more})\n"
)


@pytest.mark.parametrize(
    ("code", "words", "because"),
    [
        ("import sys; sys.exit(0)", ("list",), "SystemExit: 0"),
        ("SYSTEM = 5", ("list",), "lostack_bad:SYSTEM is no System"),
        (_SYSTEM.format(name="worse", more=""), ("list",), "it calls itself 'worse'"),
        (
            "MORE = 5\n" + _SYSTEM.format(name="bad", more="scenarios='lostack_bad:MORE'"),
            ("list",),
            "lostack_bad:MORE is no tuple",
        ),
        (
            "MORE = (5,)\n" + _SYSTEM.format(name="bad", more="scenarios='lostack_bad:MORE'"),
            ("list",),
            "its scenarios hold something else than a Scenario: 5",
        ),
        (
            "from harness.scenarios.plain import PLAIN_SCENARIOS\nMORE = PLAIN_SCENARIOS[:1] * 2\n"
            + _SYSTEM.format(name="bad", more="scenarios='lostack_bad:MORE'"),
            ("list",),
            "2 of its scenarios have the same name plain/none",
        ),
        (
            "MORE = 5\n" + _SYSTEM.format(name="bad", more="knowledge='lostack_bad:MORE'"),
            ("run", "--system", "memory", "--only", "none", "--semantic", "at-least-once"),
            "lostack_bad:MORE is no Knowledge",
        ),
    ],
    ids=[
        "it-leaves",
        "another-type",
        "another-name",
        "no-tuple",
        "no-scenario",
        "a-name-twice",
        "no-knowledge",
    ],
)
def test_a_package_that_brings_something_else_is_told_in_one_line(
    tmp_path: Path, code: str, words: tuple[str, ...], because: str
) -> None:
    bad = _packaged(tmp_path / "bad", code)
    done = lostack(*words, folder=tmp_path, packages=bad)
    told = (
        "bad, which the package lostack-bad registers in lostack.systems, cannot be loaded "
        f"({because}): "
    )
    told += "repair or uninstall the package"
    assert done.stderr.splitlines()[-1:] == [f"lostack: {told}"]
    assert "Traceback" not in done.stderr
    assert done.returncode == 3
    assert not (tmp_path / "reports").exists()


def test_two_that_tell_the_judge_the_same_are_told_in_one_line(tmp_path: Path) -> None:
    know = (
        "from harness.judge.proof import Knowledge\nMORE = Knowledge(proofs={'answered': "
        "object()})\n"
    )
    bad = _packaged(
        tmp_path / "bad", know + _SYSTEM.format(name="bad", more="knowledge='lostack_bad:MORE'")
    )
    done = lostack("run", "--system", "memory", "--only", "none", folder=tmp_path, packages=bad)
    assert done.stderr == (
        "lostack: two systems tell the judge different things by the name answered: rename "
        "one of them\n"
    )
    assert done.returncode == 3


@pytest.mark.rest
def test_a_package_that_cannot_read_a_history_voids_its_cells(
    installed: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "installed"
    shutil.copytree(installed, broken)
    knowledge = broken / "lostack_toy" / "knowledge.py"
    right = "    given = Counter("
    assert right in knowledge.read_text()
    wrong = f"    {{}}['record']\n{right}"
    knowledge.write_text(knowledge.read_text().replace(right, wrong))
    words = ("run", "--system", "toy", "--only", "none/at-least-once")
    done = lostack(*words, folder=tmp_path, packages=broken)
    assert "0 kept" in done.stdout, done.stdout + done.stderr
    assert "the history cannot be judged: KeyError: 'record'" in done.stdout
    assert "Traceback" not in done.stderr
    assert done.returncode != 0


def _packaged(folder: Path, code: str) -> Path:
    """Put a package there as if it was installed."""
    told = folder / "lostack_bad-1.dist-info"
    told.mkdir(parents=True)
    (folder / "lostack_bad.py").write_text(code)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: lostack-bad\nVersion: 1\n")
    (told / "entry_points.txt").write_text("[lostack.systems]\nbad = lostack_bad:SYSTEM\n")
    return folder


def contract(package: str, folder: Path, packages: Path | None, *more: str) -> tuple[int, str]:
    """Run the suites against a package, with more options; return the exit status, and what was
    printed.
    """
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", *QUICK, "-p", "no:cacheprovider"),
            *("--tb=short", "--lostack-contract", package, *more),
        ],
        cwd=folder,
        env=python_path(*filter(None, (packages,))),
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    return done.returncode, done.stdout + done.stderr


def test_it_keeps_the_contract(installed: Path, tmp_path: Path) -> None:
    """Its author asks so; nothing of the suites is skipped."""
    status, said = contract("lostack_toy", tmp_path, installed)
    assert status == 0, said
    assert " passed" in said
    assert "skipped" not in said
    assert (
        "lostack-toy brings systems: toy; protocols: toy; no clients, dialects: their clauses do "
        "not apply"
    ) in said


def test_it_is_tried_in_one_process(installed: Path, tmp_path: Path) -> None:
    """Clauses count threads and processes: a worker beside it would be one of them."""
    status, said = contract("lostack-toy", tmp_path, installed, "-n", "2")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: lostack: --lostack-contract runs in one process" in said
    assert "Traceback" not in said


WRONG = {
    "a-codec-that-raises": (
        "protocol.py",
        '"".join(words[1:2])',
        "words[1]",
        "test_garbage",
        "IndexError: list index out of range",
    ),
    "a-system-that-is-called-otherwise": (
        "system.py",
        'name = "toy"',
        'name = "joy"',
        "test_a_system_is_called",
        "'joy'",
    ),
    "a-client-that-starts-threads": (
        "entry_points.txt",
        "[lostack.speakers]",
        "[lostack.clients]\ntoy = lostack_toy.eager\n\n[lostack.speakers]",
        "test_a_client_makes",
        "starts 1 threads: start them in make_producer",
    ),
    "a-dialect-of-other-steps": (
        "entry_points.txt",
        "[lostack.speakers]",
        "[lostack.dialects]\ntoy.toy = lostack_toy.eager:STOMP\n\n[lostack.speakers]",
        "test_a_dialect_names",
        "names steps that the package's protocols do not have",
    ),
    "a-broker-that-loses": (
        "server.py",
        "            self.last += 1\n",
        (  # the records before are those of the first cell, which is not judged
            "            self.last += 1\n            if self.last == 30:\n"
            "                return self.last\n"
        ),
        "(test_a_cell_without_a_fault and most)",
        "'lost': 1",
    ),
    "a-cell-that-closes-what-is-not-open": (
        "system.py",
        "if opened else None",
        "",
        "(test_a_cell_that_is_closed and made)",
        "there is no open cell",
    ),
    "nobody-says-how-it-is-spoken": (
        "entry_points.txt",
        "[lostack.speakers]\ntoy",
        "[lostack.speakers]\njoy",
        "test_it_says",
        "nobody says how toy is spoken: register a harness.contract.speaker.Speaker as toy in",
    ),
}
"""By name: a file of the package, what stands there and what is put in its place; the clause that
it breaks, and what that says.
"""
SIDE_BY_SIDE = {"without-a-cell": list(WRONG)[:4], "in-cells": list(WRONG)[4:]}
"""What breaks clauses of its own alone is tried in one session: to start one takes seconds."""
EAGER = """
import threading, time
from harness.pipelines.dialects import dialect_of
threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
STOMP = dialect_of("activemq", "stomp")
"""


@pytest.mark.parametrize("names", SIDE_BY_SIDE.values(), ids=SIDE_BY_SIDE)
def test_a_wrong_package_is_told_what_to_do(
    installed: Path, tmp_path: Path, names: list[str]
) -> None:
    broken = tmp_path / "installed"
    shutil.copytree(installed, broken)
    (broken / "lostack_toy" / "eager.py").write_text(EAGER)
    for name in names:
        file, right, wrong, _, _ = WRONG[name]
        code = next(broken.rglob(file))
        assert right in code.read_text()
        code.write_text(code.read_text().replace(right, wrong))
    clauses = {name: WRONG[name][3] for name in names}
    status, told = contract("lostack-toy", tmp_path, broken, "-k", " or ".join(clauses.values()))
    assert status == 1, told
    for name, clause in clauses.items():
        [failed] = re.findall(
            rf"^FAILED .*::{clause.strip('(').split()[0]}\w*.*$", told, re.MULTILINE
        )
        assert WRONG[name][4] in told, (name, failed)


def test_a_package_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    status, said = contract("lostack-nowhere", tmp_path, None)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert said.strip().startswith(
        "ERROR: lostack: no installed package lostack-nowhere registers anything with lostack"
    )
    assert len(said.strip().splitlines()) == 1
