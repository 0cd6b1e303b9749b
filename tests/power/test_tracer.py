"""Real programs below the real tracer, killed; what is left is planted, to the byte."""

from __future__ import annotations

import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.model.waiting import wait_until
from harness.runtimes.power.disk import AfterPowerLoss
from harness.runtimes.power.replay import NotSeenError
from harness.runtimes.power.tracer import PowerTrace, traced, why_no_power_loss
from harness.runtimes.power.tree import Names
from tests.power.programs import WITHIN_S, died

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.strace
APPENDS = """
    log = opened("log", os.O_APPEND)
    for number in range(10):
        os.write(log, b"record %d\\n" % number)
        if number == 6:
            os.fsync(log)
"""


def test_a_log_is_cut_to_its_last_flush(tmp_path: Path) -> None:
    """Seven of ten records. The tracer's log, which has all that was written, does not stay."""
    trace = died(tmp_path, APPENDS)
    assert stat.S_IMODE(trace.log.stat().st_mode) == 0o600
    cut = trace.cut()
    kept = b"".join(b"record %d\n" % number for number in range(7))
    assert (trace.folder / "log").read_bytes() == kept
    assert cut.files == (AfterPowerLoss("log", 90, 63),)
    assert (cut.flushes, cut.names) == (1, Names.EXT4)
    assert not trace.log.exists()


def test_who_flushes_everything_loses_nothing(tmp_path: Path) -> None:
    cut = died(tmp_path, APPENDS + "    os.fsync(log)\n").cut()
    assert (cut.files, cut.flushes) == ((), 2)


def test_what_was_written_before_it_settled_stays(tmp_path: Path) -> None:
    """As if the kernel had written it by itself since: here all."""
    trace = died(tmp_path, APPENDS)
    trace.settle()
    cut = trace.cut()
    assert (cut.files, cut.flushes) == ((), 1)
    assert (trace.folder / "log").stat().st_size == 90


OVERWRITES = """
    pages = opened("pages")
    os.write(pages, b"a" * 12)
    os.fsync(pages)
    os.pwrite(pages, b"BB", 4)
    os.fdatasync(pages)
    os.pwrite(pages, b"CCCC", 0)
    os.ftruncate(pages, 6)
"""


def test_what_is_overwritten_is_put_back(tmp_path: Path) -> None:
    trace = died(tmp_path, OVERWRITES)
    assert (trace.folder / "pages").read_bytes() == b"CCCCBB"
    trace.cut()
    assert (trace.folder / "pages").read_bytes() == b"aaaaBBaaaaaa"


RENAMES = """
    for name in (b"old", b"new"):
        file = opened("temporary")
        os.write(file, name)
        os.fsync(file)
        os.close(file)
        os.rename(f"{folder}/temporary", f"{folder}/state")
        if name == b"old":
            synced()
"""


@pytest.mark.parametrize("names", Names)
def test_a_name_that_was_not_flushed_is_the_old_one(tmp_path: Path, names: Names) -> None:
    """The file behind the old name is whole. On ext4 the new one is still there by its first name,
    which the flush of the file has put into the journal.
    """
    trace = died(tmp_path, RENAMES)
    trace.cut(names)
    found = {each.name: each.read_bytes() for each in trace.folder.iterdir()}
    new = {"temporary": b"new"} if names is Names.EXT4 else {}
    assert found == {"state": b"old", **new}


MAPS = """
    pages = opened("pages")
    os.ftruncate(pages, 4096)
    with mmap.mmap(pages, 4096) as mapped:
        mapped[:4] = b"data"
"""


def test_a_mapped_file_is_told_and_nothing_is_touched(tmp_path: Path) -> None:
    trace = died(tmp_path, MAPS + APPENDS)
    with pytest.raises(NotSeenError, match=r"^pages is mapped into memory"):
        trace.cut()
    assert (trace.folder / "log").stat().st_size == 90
    assert (trace.folder / "pages").read_bytes()[:4] == b"data"
    trace.rebuilt = ["pages"]
    trace.cut()
    assert (trace.folder / "log").stat().st_size == 63
    assert (trace.folder / "pages").read_bytes() == b"", "its name alone is in the journal"


CHILDREN = """
    child = "import os, sys; f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY); "
    child += "os.write(f, b'one'); os.fsync(f); os.write(f, b'two')"
    subprocess.run([sys.executable, "-I", "-S", "-c", child, f"{folder}/child"], check=True)
    log = opened("shared", os.O_APPEND)
    os.write(log, b"parent")
    if not os.fork():
        os.write(log, b" child")
        os.fsync(log)
        os.write(log, b" lost")
        os._exit(0)
    os.wait()
"""


def test_children_write_and_flush_too(tmp_path: Path) -> None:
    trace = died(tmp_path, CHILDREN)
    trace.cut()
    assert (trace.folder / "child").read_bytes() == b"one"
    assert (trace.folder / "shared").read_bytes() == b"parent child"


RACES = """
    log, told = opened("log", os.O_APPEND), os.open(sys.argv[1] + ".told", os.O_CREAT | os.O_WRONLY)
    written = 0
    def append():
        global written
        for number in range(400):
            os.write(log, b"%07d\\n" % number)
            written = number + 1
    writer = threading.Thread(target=append)
    writer.start()
    while writer.is_alive():
        before = written
        os.fsync(log)
        os.write(told, b"%d %d\\n" % (before, written + 1))
    os.write(told, b"%d\\n" % os.fstat(log).st_size)
"""


def test_a_flush_covers_what_was_written_before_it_began(tmp_path: Path) -> None:
    """Two threads: what the flushing one knew to be written is there; what came after the last
    flush is not. The log of calls has each racing write on one side or on the other.
    """
    trace = died(tmp_path, RACES)
    *flushes, size = (tmp_path / "data.told").read_text().splitlines()
    before, behind = (int(word) for word in flushes[-1].split())
    trace.cut()
    kept = (trace.folder / "log").read_bytes()
    assert int(size) == 400 * 8
    assert before <= len(kept) // 8 <= behind
    assert kept == b"".join(b"%07d\n" % number for number in range(len(kept) // 8))


def test_a_tracer_that_came_late_proves_nothing(tmp_path: Path) -> None:
    """It is attached when the first record has been written, and flushed: cut by its log, that
    record would be gone.
    """
    trace = PowerTrace(tmp_path / "data", tmp_path / "log")
    command = trace.start((sys.executable, "-c", "pass"))
    options = command[: command.index("-o")]
    program = (
        "import os, sys; f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY); os.write(f, b'one'); "
        "os.fsync(f); print('wrote', flush=True); sys.stdin.readline(); os.write(f, b'two'); "
        "print('again', flush=True); sys.stdin.readline()"
    )
    argv = (sys.executable, "-I", "-S", "-c", program, str(trace.folder / "log"))
    late = [word for word in options if word not in {"-D", "--seccomp-bpf"}]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        assert run.stdout.readline() == b"wrote\n"
        with subprocess.Popen([*late, "-o", str(trace.log), "-p", str(run.pid)]) as tracer:
            state = f"/proc/{run.pid}/status"
            wait_until(
                lambda: f"TracerPid:\t{tracer.pid}\n" in open(state).read(),  # noqa: PTH123, SIM115
                within_s=WITHIN_S,
                because="the program to be traced",
            )
            run.stdin.write(b"\n")
            run.stdin.flush()
            assert run.stdout.readline() == b"again\n"
            run.kill()
            tracer.wait(WITHIN_S)
    with pytest.raises(NotSeenError, match="was not there when the program was started"):
        trace.cut()
    assert (trace.folder / "log").read_bytes() == b"onetwo"


def test_what_was_there_before_is_the_beginning(tmp_path: Path) -> None:
    """A file of an earlier life, and one that the program removes without a flush."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "log").write_bytes(b"earlier\n")
    (tmp_path / "data" / "gone").write_bytes(b"back")
    trace = died(tmp_path, APPENDS + '    os.unlink(f"{folder}/gone")\n')
    trace.cut()
    assert (trace.folder / "log").read_bytes() == b"earlier\n" + b"".join(
        b"record %d\n" % number for number in range(7)
    )
    assert (trace.folder / "gone").read_bytes() == b"back"


@pytest.mark.parametrize(
    ("strace", "said"),
    [
        (None, "strace is not on the PATH (Debian: apt-get install strace)"),
        ("exit 0", "strace cannot trace a program that it starts: the tracer was not there"),
        ("echo 'strace: ptrace: not permitted' >&2; exit 1", "starts: strace: ptrace: not perm"),
    ],
    ids=["none", "one that does nothing", "one that may not"],
)
def test_where_it_cannot_be_done_the_reason_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strace: str | None, said: str
) -> None:
    if strace is not None:
        (tmp_path / "strace").write_text(f"#!/bin/sh\n{strace}\n")
        (tmp_path / "strace").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    why = why_no_power_loss.__wrapped__()
    assert why is not None
    assert said in why
    assert "\n" not in why


def test_here_it_can_be_done() -> None:
    assert why_no_power_loss.__wrapped__() is None
    assert "--seccomp-bpf" in traced(["x"], __import__("pathlib").Path("/w/log"))
