"""The pytest side of declared pipelines, in sessions of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.tiers import QUICK

EXAMPLES = Path(__file__).parents[2] / "examples"
TEST = """
import pytest

@pytest.mark.lostack_pipeline("{file}")
def test_delivery(lostack_delivery):
    lostack_delivery()
"""


def session(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *QUICK,
            *(() if "cacheprovider" in words else ("-p", "no:cacheprovider")),
            "--rootdir",
            str(folder),
            *words,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the right pipeline, the wrong one that commits first, and a test of each."""
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    (tmp_path / "test_right.py").write_text(
        TEST.format(file="orders/pipeline.toml"), encoding="utf-8"
    )
    (tmp_path / "test_wrong.py").write_text(
        TEST.format(file="mistakes/commit-before-work/pipeline.toml"), encoding="utf-8"
    )
    return tmp_path


def test_one_case_per_failure_point(project: Path) -> None:
    """Collected without starting anything; selected by marker and name."""
    done = session(project, "--collect-only", "-q", "test_right.py")
    cases = [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]
    assert "test_delivery[orders/ack-lost]" in cases
    assert "test_delivery[orders/commit-lost]" in cases
    assert len(cases) == 38


def test_a_declaration_above_the_tests(project: Path) -> None:
    """Where a project has it: at its root, with the tests in a folder, or folders, below."""
    for name in ("orders/tests/deep", "tests"):
        folder = project / name
        folder.mkdir(parents=True)
        file = "pipeline.toml" if "orders" in name else "orders/pipeline.toml"
        (folder / "test_it.py").write_text(TEST.format(file=file), encoding="utf-8")
        done = session(project, "--collect-only", "-q", f"{name}/test_it.py")
        assert "test_delivery[orders/ack-lost]" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("", "name its pipeline by"),
        ('@pytest.mark.lostack_pipeline("gone.toml")', "cannot read"),
    ],
)
def test_a_mistake_is_one_line(project: Path, mark: str, said: str) -> None:
    (project / "test_bad.py").write_text(
        f"import pytest\n{mark}\ndef test_it(lostack_delivery): ...\n", encoding="utf-8"
    )
    done = session(project, "test_bad.py")
    assert done.returncode == 2
    assert said in done.stdout
    assert "Traceback" not in done.stdout


def test_an_extra_that_is_not_installed_is_one_line(project: Path) -> None:
    """The example writes Parquet."""
    (project / "conftest.py").write_text(
        "from harness.model import extras\nextras.EXTRAS = {'audit': ('nowhere',)}\n",
        encoding="utf-8",
    )
    (project / "test_it.py").write_text(
        TEST.format(file="readings/pipeline.toml"), encoding="utf-8"
    )
    done = session(project, "--collect-only", "test_it.py")
    assert done.returncode == 2
    assert "needs nowhere, which is not installed: pip install 'lostack[audit]'" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(400)
def test_a_broken_promise_fails_its_case(project: Path) -> None:
    """Kept passes, broken fails with path and fix, what does not apply is skipped with its reason;
    all in JUnit.

    Of two workers each has a broker of its own; the next session begins with what has failed.
    """
    words = "commit-ack-lost or transaction-crash-before-commit-ack"
    kept = ("-p", "cacheprovider", "-o", "cache_dir=.cache")
    done = session(
        project,
        *kept,
        "-n",
        "2",
        "--dist",
        "loadfile",
        "-k",
        words,
        "--junitxml",
        "junit.xml",
        "-rs",
    )
    found = {}
    for case in ET.parse(project / "junit.xml").iter("testcase"):
        bad = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        found[str(case.get("name"))] = bad[0] if bad else "passed"
    assert found == {
        "test_delivery[orders/commit-ack-lost]": "passed",
        "test_delivery[orders/transaction-crash-before-commit-ack]": "skipped",
        "test_delivery[commit-before-work/commit-ack-lost]": "failure",
        "test_delivery[commit-before-work/transaction-crash-before-commit-ack]": "skipped",
    }, done.stdout
    assert "n/a: the dry run saw no EndTxn request of the producer" in done.stdout
    assert "broken: at-least-once forbids loss: 1 lost" in done.stdout
    assert "how to fix it: commit the position only when the result is recorded" in done.stdout
    again = session(project, *kept, "--last-failed", "--collect-only", "-q")
    assert [line.partition("::")[2] for line in again.stdout.splitlines() if "::" in line] == [
        "test_delivery[commit-before-work/commit-ack-lost]"
    ]
