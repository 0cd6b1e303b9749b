"""What a test starts ends with it."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest

from harness.model.waiting import WaitTimeoutError, wait_until
from tests.started import started

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

WAITS = "import signal; print('up', flush=True); signal.pause()"


def test_a_program_ends_with_the_test_that_gives_up(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def give_up() -> None:
        with started((sys.executable, "-S", "-c", WAITS), out) as program:
            programs.append(program)
            wait_until(lambda: out.read_text() == "up\n", within_s=30, because="it to be up")
            wait_until(lambda: False, within_s=0.01, because="what never happens")

    programs: list[subprocess.Popen[bytes]] = []
    with pytest.raises(WaitTimeoutError, match="what never happens"):
        give_up()
    assert programs[0].returncode == -signal.SIGKILL


def test_a_program_that_has_ended_keeps_its_status(tmp_path: Path) -> None:
    with started((sys.executable, "-S", "-c", "raise SystemExit(3)"), tmp_path / "out") as program:
        program.wait(30)
    assert program.returncode == 3
