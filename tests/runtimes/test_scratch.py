"""Temporary files of what the harness starts: where they are, and that they go, however the harness
ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import pytest

from harness.model.waiting import wait_until
from harness.runtimes.interface import NodeSpec
from harness.runtimes.process import ProcessRuntime
from harness.runtimes.process.scratch import FRESH_S, PREFIX, Scratch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEAVES_A_FILE = (
    sys.executable,
    "-c",
    (
        "import os, tempfile as t; open(t.gettempdir() + '/left', 'w').close(); "
        "print(os.environ.get('JAVA_TOOL_OPTIONS'))"
    ),
)
WAITS = f"""
import sys
from pathlib import Path
from harness.runtimes.interface import NodeSpec
from harness.runtimes.process import ProcessRuntime
with ProcessRuntime(directory=Path(sys.argv[1])) as runtime:
    runtime.start(NodeSpec("one", "program", {LEAVES_A_FILE!r})).wait(20)
    print(runtime.guardian_pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of the system's, for this test alone."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield tmp_path / "tmp"
    tempfile.tempdir = None


def folders(place: Path) -> list[Path]:
    """Return what is in the system's temporary folder."""
    return sorted(place.iterdir())


def test_programs_put_temporary_files_into_a_folder_of_the_runtimes(
    place: Path, tmp_path: Path
) -> None:
    """While it runs there is one folder; a node that has one of its own uses that, and its JVM,
    too; then there is none.
    """
    with ProcessRuntime(directory=tmp_path / "logs") as runtime:
        [shared] = folders(place)
        runtime.start(NodeSpec("one", "program", LEAVES_A_FILE)).wait(20)
        assert (shared / "left").exists()
        own = runtime.start(
            NodeSpec(
                "two", "program", LEAVES_A_FILE, {"JAVA_TOOL_OPTIONS": "-ea"}, temporary="cell"
            )
        )
        own.wait(20)
        assert (shared / "cell" / "left").exists()
        assert own.log_tail() == f"-ea -Djava.io.tmpdir={shared / 'cell'}"
        runtime.clear("cell")
        runtime.clear("cell")
        assert folders(shared) == [shared / "left"]
    assert not folders(place)


@pytest.mark.parametrize("both", [False, True])
def test_a_killed_harness_leaves_no_temporary_folder(
    place: Path, tmp_path: Path, both: bool
) -> None:
    """The guardian removes it; where that was killed at the same instant its second does."""
    program = subprocess.Popen(
        [sys.executable, "-c", WAITS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert program.stdout is not None
        guardian = int(program.stdout.readline())
        [left] = folders(place)
        if both:
            os.kill(guardian, signal.SIGKILL)
        program.kill()
        program.wait()
        wait_until(
            lambda: not left.exists(), within_s=20, because="its temporary folder to be gone"
        )
    finally:
        program.kill()
        program.communicate()


def test_where_all_three_are_killed_the_next_runtime_removes_it(place: Path) -> None:
    """Once it is not fresh: its owner may be about to lock it."""
    left = place / f"{PREFIX}left"
    left.mkdir()
    Scratch().close()
    assert folders(place) == [left]
    os.utime(left, (time.time() - 2 * FRESH_S,) * 2)
    Scratch().close()
    assert not folders(place)


def test_a_folder_whose_owner_lives_is_let_alone(place: Path) -> None:
    mine = Scratch()
    os.utime(mine.path, (0, 0))
    Scratch().close()
    assert folders(place) == [mine.path]
    assert mine.path.name.startswith(PREFIX)
    mine.close()
    mine.close()
    assert not folders(place)
