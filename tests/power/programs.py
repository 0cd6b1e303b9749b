"""Small programs that write as brokers do, run below the tracer and killed."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

from harness.model.waiting import wait_until
from harness.runtimes.power.tracer import PowerTrace

if TYPE_CHECKING:
    from pathlib import Path

WITHIN_S = 30.0
HEAD = """
    import mmap, os, signal, subprocess, sys, threading
    folder = sys.argv[1]
    def opened(name, flags=0):
        return os.open(f"{folder}/{name}", os.O_CREAT | os.O_RDWR | flags, 0o600)
    def synced(name=""):
        number = os.open(f"{folder}/{name}", os.O_RDONLY)
        os.fsync(number)
        os.close(number)
"""
TAIL = """
    print("done", flush=True)
    signal.pause()
"""


def died(tmp_path: Path, program: str, *, before: str = "", cwd: Path | None = None) -> PowerTrace:
    """Run a program below the tracer until it says that it is done, and kill it. ``before``: what
    it does before it is traced, which makes the tracer late.
    """
    tmp_path.mkdir(parents=True, exist_ok=True)
    trace = PowerTrace(tmp_path / "data", tmp_path / "log")
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(HEAD + before + program + TAIL))
    command = trace.start((sys.executable, "-I", "-S", str(file), str(trace.folder)))
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd)
    try:
        assert run.stdout is not None
        said = run.stdout.readline()
        assert said == b"done\n", run.stderr and run.stderr.read().decode()
    finally:
        run.kill()
        run.communicate()
    # the tracer ends by itself when it has nothing left to trace
    wait_until(lambda: not _traced(trace), within_s=WITHIN_S, because="the tracer to end")
    return trace


def _traced(trace: PowerTrace) -> bool:
    found = subprocess.run(
        ("pgrep", "-f", f"strace .*{trace.log}"), capture_output=True, check=False
    )
    return found.returncode == 0
