"""What listens while a cell of Kafka runs is what docs/security.md says, on loopback alone."""

from __future__ import annotations

import contextlib
import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil
import pytest

from harness.model.waiting import wait_until
from tests.started import started

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(300)]

PAGE: Final = Path(__file__).parents[2] / "docs" / "security.md"
PROGRAMS: Final = {"harness.wire": "wire", "kafka.Kafka": "broker"}
"""What is on the command line of each program, and its name on the page."""
CELL: Final = "plain/producer-crash-before-ack/at-least-once"
LOOPBACK: Final = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


def test_what_listens_is_on_the_page(tmp_path: Path) -> None:
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]*) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    known = {name for program, _ in rows for name in re.findall(r"`([\w-]+)`", program)}
    assert set(PROGRAMS.values()) <= known
    words = ("run", "--system", "kafka", "--only", CELL, "--reports", str(tmp_path / "reports"))
    seen = set[tuple[str, str]]()
    with started((sys.executable, "-m", "harness.cli", *words), tmp_path / "said") as run:
        root = psutil.Process(run.pid)

        def over() -> bool:
            seen.update(listening(root))
            return run.poll() is not None

        wait_until(over, within_s=200, because="the run to end", poll_s=0.1)
    assert run.returncode == 0, (tmp_path / "said").read_text()
    by_program = {program: {at for name, at in seen if name == program} for program, _ in seen}
    assert by_program.keys() == set(PROGRAMS.values()), by_program
    [control] = {at for at in by_program["wire"] if at.startswith("/")}
    assert Path(control).name == "control"
    assert {at for _, at in seen} - {control} <= set(LOOPBACK)


def listening(root: psutil.Process) -> Iterator[tuple[str, str]]:
    """Yield the name and the address (or path) of all that a process and its offspring listen
    on. A process that is about to end has no command line.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if not (words := process.cmdline()):
                    continue
                name = next((PROGRAMS[word] for word in words if word in PROGRAMS), " ".join(words))
                for one in process.net_connections(kind="all"):
                    if one.family == socket.AF_UNIX and str(one.laddr).startswith("/"):
                        yield name, str(one.laddr)
                    elif one.status == psutil.CONN_LISTEN:
                        yield name, one.laddr.ip
