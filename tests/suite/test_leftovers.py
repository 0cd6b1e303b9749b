"""A session that leaves something behind is red, and says what; one that tidies up is green."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.tiers import QUICK, ROOT

if TYPE_CHECKING:
    from pathlib import Path

CONFTEST = "pytest_plugins = ('tests.tiers', 'tests.leftovers')\n"
IDLE = "[sys.executable, '-c', 'import sys; print(flush=True); sys.stdin.read()']"
LEAVES = {
    "spark-1234": (
        "import pathlib, tempfile\ndef test_it(): pathlib.Path(tempfile.gettempdir(), "
        "'spark-1234').mkdir()\n"
    ),
    "liblz4-1.so": (
        "import pathlib, tempfile\ndef test_it(): pathlib.Path(tempfile.gettempdir(), "
        "'liblz4-1.so').touch()\n"
    ),
    "alive: ": f"""
import subprocess, sys
def test_it():
    left = subprocess.Popen({IDLE}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    left.stdout.readline()
    open("pid", "w").write(str(left.pid))
    test_it.kept = left
""",  # noqa: E501
}
TIDY = (
    "import pathlib, tempfile\ndef test_it(): pathlib.Path(tempfile.gettempdir(), "
    "'some-other-program').touch()\n"
)


def session(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    """Run a test in a session of its own, with a temporary folder of its own."""
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    (folder / "tmp").mkdir()
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder / "tmp"),
        "LOSTACK_LEFTOVERS_S": "0.5",
    }
    command = [sys.executable, "-m", "pytest", *QUICK, "-p", "no:cacheprovider", "-p", "no:xdist"]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("what", LEAVES)
def test_what_is_left_is_shown_and_red(tmp_path: Path, what: str) -> None:
    done = session(tmp_path, LEAVES[what])
    try:
        assert "1 passed" in done.stdout
        assert "LEFT BEHIND" in done.stdout
        assert what in done.stdout
        assert done.returncode == 1
    finally:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended by itself
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_what_is_nobodys_or_somebody_elses_is_not(tmp_path: Path) -> None:
    done = session(tmp_path, TIDY)
    assert done.returncode == 0, done.stdout
    assert "LEFT BEHIND" not in done.stdout
