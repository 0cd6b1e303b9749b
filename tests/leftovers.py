"""After the tests nothing of ours is left: no process, no container, nothing in the system's
temporary folder.

What a session starts has a word in its environment that nobody else has. What is left when the last
test has ended (some seconds are granted) is shown, and the session is red.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import uuid
from pathlib import Path
from typing import Final

import psutil
import pytest

from harness.model.waiting import WaitTimeoutError, wait_until
from harness.runtimes.process.scratch import PREFIX, is_owned

VARIABLE: Final = "LOSTACK_TESTS"
GONE_WITHIN_S: Final = float(os.environ.get("LOSTACK_LEFTOVERS_S", "10"))
OURS: Final = re.compile(
    r"(spark-|blockmgr-|liblz4|libzstd|snappy-|librocksdb|netty|kafka-|jna|artifacts|lostack-|pymp-|\.?org\.chromium).*"
)
"""What the harness and the programs that it starts are known to put into a temporary folder."""
_BEFORE = pytest.StashKey[frozenset[Path]]()
_LEFT = pytest.StashKey[list[str]]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remember what is there, and mark what is started from now on."""
    if hasattr(session.config, "workerinput"):  # of pytest-xdist: it has the word of its controller
        return
    os.environ[VARIABLE] = uuid.uuid4().hex
    session.config.stash[_BEFORE] = frozenset(_files())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Look, when all fixtures are torn down, the workers of pytest-xdist are gone, and nothing is
    printed yet.
    """
    before = session.config.stash.get(_BEFORE, None)
    if before is None:
        return
    try:
        wait_until(
            lambda: not _left(before),
            within_s=GONE_WITHIN_S,
            because="everything of the tests to be gone",
            poll_s=0.2,
        )
    except WaitTimeoutError:
        session.config.stash[_LEFT] = _left(before)
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show what is left."""
    left = config.stash.get(_LEFT, [])
    if left:
        terminalreporter.section("LEFT BEHIND by these tests", red=True, bold=True)
        for line in left:
            terminalreporter.write_line(line, red=True)


def _left(before: frozenset[Path]) -> list[str]:
    files = [f"in the temporary folder: {path}" for path in sorted(_files() - before)]
    return [*files, *(f"alive: {one.pid} {' '.join(one.cmdline())[:200]}" for one in _processes())]


def _files() -> set[Path]:
    return {
        path
        for path in Path(tempfile.gettempdir()).iterdir()
        if OURS.fullmatch(path.name) and not _is_in_use(path)
    }


def _is_in_use(path: Path) -> bool:
    """Whether it is a folder of a run beside these tests, which lives."""
    with contextlib.suppress(OSError):
        return path.name.startswith(PREFIX) and is_owned(path)
    return False


def _processes() -> list[psutil.Process]:
    """Return the living processes that this session has started; the workers of pytest-xdist have
    ended.
    """
    mine, found = os.environ[VARIABLE], []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get(VARIABLE) == mine and process.pid != os.getpid()
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:  # it has just ended, or is somebody else's
            continue
    return found
