"""Durable writes: counted, and a node held at one of them and killed as a whole."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import sys
import textwrap
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.model.history import HistoryWriter, read_history
from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.model.writes import CALLS, FirstWrites, Point, Side
from harness.pipelines.stages import Stage
from harness.runtimes.interface import NodeSpec
from harness.runtimes.process import durable
from harness.runtimes.process.durable import Tracing
from harness.runtimes.process.processes import stopped
from harness.runtimes.process.runtime import ProcessRuntime
from harness.runtimes.process.traced import ThreadHold, files_since, held_in, made_since, writes_in
from harness.systems.declared.programs.command import StageCommand
from harness.systems.declared.programs.nodes import CommandNode
from tests.runtimes.test_nodes import gone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.runtimes.interface import Exit
    from harness.runtimes.process.node import ProcessNode

WITHIN_S = 30.0
LOG = """\
71 1790000000.000001 fdatasync(4</w/db-journal>) = 0
71 1790000000.000002 unlink("/w/db-journal") = 0
72 1790000000.000003 fdatasync(5</w/a \\"b\\" ) = 7> <unfinished ...>
71 1790000000.000004 rename("w/b", "w/c") = -1 ENOENT (No such file or directory)
73 1790000000.000005 write(1, "fsync(3) = 0", 12) = 12
72 1790000000.000006 <... fdatasync resumed>) = 0
72 1790000000.000007 fdatasync(5</w/a>) = 0 (DELAYED)
71 1790000000.000008 fdatasync(4</w/db-journal>) = ?
72 1790000000.000009 renameat2(AT_FDCWD</w>, "x", AT_FDCWD</w>, "y", RENAME_NOREPLACE) = 0
--- something else
72 1790000000.000010 sync("""


def test_a_log_is_read_as_far_as_it_is_written(tmp_path: Path) -> None:
    """Interrupted lines, threads that count for themselves, results, files, and a last line that is
    not whole.
    """
    log = tmp_path / "log"
    log.write_text(LOG)
    found = writes_in(log)
    assert [(w.number, w.tid, w.call, w.occurrence, w.result) for w in found] == [
        (1, 71, "fdatasync", 1, "0"),
        (2, 71, "unlink", 1, "0"),
        (3, 72, "fdatasync", 1, "0"),
        (4, 71, "rename", 1, "-1"),
        (5, 72, "fdatasync", 2, "0"),
        (6, 71, "fdatasync", 2, "?"),
        (7, 72, "renameat2", 1, "0"),
        (8, 72, "sync", 1, None),
    ]
    assert [w.files for w in found][3:] == [
        ("w/b", "w/c"),
        ("/w/a",),
        ("/w/db-journal",),
        ("/w", "x", "/w", "y"),
        (),
    ]
    assert found[0].at_ns == 1790000000_000001_000
    assert [w.number for w in found if w.delayed] == [5]
    held = held_in(log, Point("fdatasync", 2, Side.AFTER))
    assert held is not None
    assert (held.write.number, held.made) == (5, {"fdatasync": 2, "unlink": 1, "rename": 1})
    died = held_in(log, Point("fdatasync", 2, Side.BEFORE))
    assert died is not None
    assert died.write.number == 6
    assert held_in(log, Point("unlink", 1, Side.BEFORE)) is None
    assert writes_in(tmp_path / "none") == ()


PLAIN = """\
71 1790000000.000001 write(1</w/stage.log>, ""..., 6) = 6
71 1790000000.000002 pwrite64(4</w/db-wal>, ""..., 24, 32) = 24
71 1790000000.000003 write(5<socket:[8]>, ""..., 99) = 99
72 1790000000.000004 pwrite64(4</w/db-wal>, ""..., 24, 56 <unfinished ...>
71 1790000000.000005 write(7</dev/null>, ""..., 1) = 1
72 1790000000.000006 <... pwrite64 resumed>) = 24 (DELAYED)
71 1790000000.000007 write(6</w/k3-7.json>, ""..., 1) = 1
71 1790000000.000008 write(1</w/stage.log>, ""..., 6) = 6
71 1790000000.000009 pwrite64(4</w/db-wal>, ""..., 24, 80) = 24
71 1790000000.000010 unlink("/w/x") = 0
"""


def test_writes_into_files_are_told_from_those_into_sockets(tmp_path: Path) -> None:
    """Those into what is written again and again; not into devices, nor into what is left aside,
    nor into one of each record.
    """
    log = tmp_path / "log"
    log.write_text(PLAIN)
    found = writes_in(log)
    assert [write.files[0] for write in found if write.tid == 71] == [
        "/w/stage.log",
        "/w/db-wal",
        "/w/k3-7.json",
        "/w/stage.log",
        "/w/db-wal",
        "/w/x",
    ]
    both = ("/w/db-wal", "/w/stage.log")
    assert files_since(found, 0, records=24) == (both, ())
    files, _ = files_since(found, 0, aside={"/w/stage.log"}, records=24)
    assert files == ("/w/db-wal",)
    assert made_since(found, 0, files) == {"pwrite64": [2, 1], "unlink": [1]}
    assert made_since(found, 0) == {"unlink": [1]}
    held = held_in(log, Point("pwrite64", 1, Side.AFTER))
    assert held is not None
    assert held.write.tid == 72


UUID = "d155d4e0-e147-4a7d-a93d-4c21d043f6a6"


@pytest.mark.parametrize(
    ("file", "more", "repeated"),
    [
        ("/w/rows", {}, True),
        (f"/w/snappy-{UUID}-libsnappyjava.so", {}, False),
        (f"/w/{UUID.upper()}.csv", {}, False),
        (f"/w/{UUID.replace('-', '')}.csv", {}, True),
        (f"/w/{UUID}0/rows", {"work": "/w"}, True),
        (f"/w/{UUID}/rows", {"work": "/w"}, False),
        (f"/d/{UUID}/rows", {"work": "/w"}, True),
        (f"/d/{UUID}/w/rows", {"work": f"/d/{UUID}/w"}, True),
        ("/t/k/tmp3x", {"temporary": "/t/k"}, False),
        ("/t/k2/tmp3x", {"temporary": "/t/k"}, True),
    ],
)
def test_a_file_whose_name_no_other_run_has_is_told_apart(
    file: str, more: dict[str, str], *, repeated: bool, tmp_path: Path
) -> None:
    """One that was written before the target came is open by then in another run, too; but what is
    temporary is no durable write.
    """
    log = tmp_path / "log"
    log.write_text(PLAIN.replace("/w/db-wal", file))
    found = writes_in(log)
    of: Any = {"aside": {"/w/stage.log"}, "records": 24, **more}
    assert files_since(found, 0, **of) == (((file,), ()) if repeated else ((), (file,)))
    later = ((file,), ()) if repeated or "temporary" not in more else ((), (file,))
    assert files_since(found, 1790000000_000_003_000, **of) == later


def test_files_of_which_each_record_has_one_are_of_no_other_run(tmp_path: Path) -> None:
    """Whatever they are called, and however often each is written; what was there before stays."""
    log = tmp_path / "log"
    lines = ['71 1790000000.000000 write(9</w/book>, ""..., 1) = 1']
    for n in range(1, 11):
        lines += [f'71 1790000000.0001{n:02} write(6</w/tmp{n:02}x>, ""..., 1) = 1'] * (1 + n % 2)
        lines.append(f'71 1790000000.0002{n:02} write(9</w/book>, ""..., 1) = 1')
    log.write_text("\n".join(lines) + "\n")
    found, since = writes_in(log), 1790000000_000_050_000
    names = [f"/w/tmp{n:02}x" for n in range(1, 11)]
    assert files_since(found, since, records=19) == (("/w/book",), tuple(names))
    twice = tuple(names[::2])
    assert files_since(found, since, records=20) == (("/w/book", *twice), ())
    assert made_since(found, since, ("/w/book",)) == {"write": [10]}


@pytest.mark.parametrize("others", [("/w/audit",), ("/w/b{n}",), ("/w/a{n}.crc", "/w/x{n}")])
def test_a_record_s_file_may_be_written_in_turn_with_others(
    others: tuple[str, ...], tmp_path: Path
) -> None:
    """With a log, the file of another thread's record, or a checksum."""
    log = tmp_path / "log"
    lines, names = [], set[str]()
    for n in range(20):
        for name in ("/w/a{n}", *others, "/w/a{n}", *others):
            names.add(name.format(n=n))
            lines.append(f'71 1790000000.000100 write(6<{name.format(n=n)}>, ""..., 1) = 1')
    log.write_text("\n".join([*lines, ""]))
    found = files_since(writes_in(log), 0, records=20)
    assert found == (
        ("/w/audit",) if "/w/audit" in others else (),
        tuple(sorted(names - {"/w/audit"})),
    )


def test_a_file_that_is_returned_to_is_of_no_one_record(tmp_path: Path) -> None:
    """Shards into which batches are appended, and a position: another run has them, too."""
    log = tmp_path / "log"
    names = [*(f"/w/part-{n}" for n in range(6)), "/w/position"]
    once = [f'71 1790000000.000100 write(6</w/done/{n}>, ""..., 1) = 1' for n in range(6)]
    batch = [f'71 1790000000.000100 write(6<{name}>, ""..., 1) = 1' for name in names]
    said = '71 1790000000.000100 write(1</w/stage.log>, ""..., 1) = 1'
    log.write_text("\n".join([*batch, *once[:3], *batch, once[3], said, *once[3:], ""]))
    found = files_since(writes_in(log), 0, {"/w/stage.log"}, records=11)
    assert found == (tuple(names), tuple(f"/w/done/{n}" for n in range(6)))


CHANGES = """\
71 1790000000.000001 rename("/t/k/a", "/t/k/b") = 0
71 1790000000.000002 unlink("/t/k/b") = 0
71 1790000000.000003 unlink("/w/x") = 0
71 1790000000.000004 fsync(3</t/k2/a>) = 0
71 1790000000.000005 rename("/t/k/a", "/w/a") = 0
"""


def test_a_call_that_is_made_among_temporary_files_alone_is_none(tmp_path: Path) -> None:
    """One that is made elsewhere, too, has all its numbers: a tracer counts them all."""
    log = tmp_path / "log"
    log.write_text(CHANGES)
    found = writes_in(log)
    counted = {"rename": [2], "unlink": [2], "fsync": [1]}
    assert made_since(found, 0, temporary="/t/k") == counted
    assert made_since(found[:2], 0, temporary="/t/k") == {}
    assert made_since(found, 0, temporary="") == counted


def test_a_name_beyond_ascii_is_the_one_that_python_has(tmp_path: Path) -> None:
    """Its bytes are in octal in a tracer's log."""
    log = tmp_path / "log"
    log.write_text(PLAIN.replace("/w/", r"/w\303\266rk \"1\"/").replace('("/w', '("/w'))
    assert {write.files[0] for write in writes_in(log) if write.call == "pwrite64"} == {
        '/w\xf6rk "1"/db-wal'
    }


def test_writes_of_a_time_are_counted_by_thread_and_call(tmp_path: Path) -> None:
    """The busiest thread first; what was before does not count."""
    log = tmp_path / "log"
    log.write_text(LOG)
    second = 1790000000_000000_000
    assert made_since(writes_in(log), 0)["fdatasync"] == [2, 2]
    assert made_since(writes_in(log), second + 3000) == {
        "fdatasync": [2, 1],
        "rename": [1],
        "renameat2": [1],
        "sync": [1],
    }


def test_a_point_is_told_to_the_tracer_as_a_delay() -> None:
    log = Path("/w/log")
    assert durable.attached([7], log, Point("fsync", 3, Side.BEFORE))[-4:] == (
        "-e",
        "inject=fsync:delay_enter=3600s:when=3",
        "-p",
        "7",
    )
    assert durable.attached([7, 8], log, Point("fsync", 1, Side.AFTER))[-6:] == (
        "-e",
        "inject=fsync:delay_exit=3600s:when=1",
        "-p",
        "7",
        "-p",
        "8",
    )
    assert not [word for word in durable.attached([7], log) if word.startswith("inject")]


def test_only_writes_into_the_files_of_a_point_are_traced() -> None:
    """They are counted by the tracer, too; and in a dry run nobody knows the files yet."""
    log = Path("/w/log")
    words = durable.attached([7], log, Point("write", 3, Side.AFTER, ("/w/a", "/w/b")))
    assert [file for option, file in pairwise(words) if option == "-P"] == ["/w/a", "/w/b"]
    assert "trace=?write,?pwrite64,?writev,?pwritev,?pwritev2" in words
    plain, durables = (
        next(w for w in durable.attached([7], log, plain=p) if w.startswith("trace="))
        for p in (True, False)
    )
    writes = "?write,?pwrite64,?writev,?pwritev,?pwritev2"
    assert plain == f"{durables},{writes},?connect,?accept,?accept4"
    assert "-yy" in durable.attached([7], log, plain=True), "it names a socket's other end"
    assert "-yy" not in durable.attached([7], log)
    assert "-P" not in durable.attached([7], log, Point("fsync", 3, Side.AFTER, ("/w/a",)))


def test_of_first_writes_every_call_is_held() -> None:
    """Into the files that are named; without files, each that flushes or changes something."""
    log = Path("/w/log")
    words = durable.attached([7], log, FirstWrites(("/w/a",)))
    assert [file for option, file in pairwise(words) if option == "-P"] == ["/w/a"]
    [inject] = [word for word in words if word.startswith("inject=")]
    assert inject.endswith(":delay_enter=3600s")
    assert {"?write", "?fsync", "?rename"} <= set(
        inject.partition("=")[2].partition(":")[0].split(",")
    )
    [anywhere] = [w for w in durable.attached([7], log, FirstWrites()) if w.startswith("inject=")]
    assert anywhere == f"inject={','.join(f'?{call}' for call in CALLS)}:delay_enter=3600s"


INSERTS = (
    sys.executable,
    "-I",
    "-c",
    (
        "import sqlite3, sys; sys.stdin.readline(); database = sqlite3.connect(sys.argv[1])\n"
        "with database: database.execute('INSERT INTO orders VALUES (1)')"
    ),
)


@pytest.mark.strace
@pytest.mark.parametrize("locks", [True, False])
def test_who_is_held_before_it_locks_a_database_keeps_nobody_out(
    tmp_path: Path, runtime: ProcessRuntime, *, locks: bool
) -> None:
    """Held at a write of SQLite's, it has locked the file."""
    file, log = tmp_path / "orders.db", tmp_path / "log"
    with contextlib.closing(sqlite3.connect(file, timeout=0)) as other:
        other.execute("CREATE TABLE orders (number TEXT)")
        point = FirstWrites((str(file), f"{file}-journal"), locks=locks)
        node, tracing = begin(runtime, (*INSERTS, str(file)), log, point)
        [held] = wait_until(tracing.standing, within_s=WITHIN_S, because="it to be held")
        assert held.write.call == ("fcntl" if locks else "pwrite64")
        if locks:
            with other:
                other.execute("INSERT INTO orders VALUES (2)")
        else:
            with pytest.raises(sqlite3.OperationalError, match="locked"), other:
                other.execute("INSERT INTO orders VALUES (2)")
        tracing.end()
        assert node.wait(WITHIN_S) is not None
        [count] = other.execute("SELECT count(*) FROM orders").fetchone()
        assert count == 1 + locks


FAKES = {
    "none": (None, "strace is not on the PATH (Debian: apt-get install strace)"),
    "too old": (
        "echo \"strace: invalid argument 'fsync:delay_enter=1'\" >&2; exit 1",
        "invalid argument 'fsync:delay_enter",
    ),
    "no right to": (
        "echo 'strace: attach: ptrace(PTRACE_SEIZE, 7): Operation not permitted' >&2; exit 1",
        "not permitted",
    ),
    "one that does nothing": ("exit 0", "cannot hold a program before a durable"),
}


@pytest.mark.parametrize(("program", "said"), FAKES.values(), ids=FAKES)
def test_where_it_cannot_be_done_the_reason_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None, said: str
) -> None:
    """No strace, an old one, none that may trace, and one that only seems to hold: it is tried, not
    believed.
    """
    if program is not None:
        file = tmp_path / "strace"
        file.write_text(f"#!/bin/sh\n{program}\n")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    why = durable.why_no_tracing.__wrapped__()
    assert why is not None
    assert said in why
    assert "\n" not in why


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[ProcessRuntime]:
    """Return a runtime that is closed afterwards."""
    with ProcessRuntime(directory=tmp_path / "nodes") as made:
        yield made


GO = "import sys; sys.stdin.readline()\n"
"""How a program begins that waits until it is traced."""


def begin(
    runtime: ProcessRuntime,
    command: tuple[str, ...],
    log: Path,
    point: Point | FirstWrites | None = None,
) -> tuple[ProcessNode, Tracing]:
    """Start a program, and let it go on when it is traced."""
    node = runtime.start(NodeSpec("a", "consumer", command, stdin_pipe=True))
    tracing = Tracing(node, log, point)
    node.write_stdin(b"line\n")
    return node, tracing


def run(runtime: ProcessRuntime, command: tuple[str, ...], log: Path | None = None) -> Exit:
    """Run a program to its end, traced where there is a log."""
    node = runtime.start(NodeSpec("a", "consumer", command, stdin_pipe=True))
    tracing = None if log is None else Tracing(node, log)
    node.write_stdin(b"line\n")
    end = node.wait(WITHIN_S)
    assert end is not None
    if tracing is not None:
        tracing.end()
    return end


def crash(
    runtime: ProcessRuntime, folder: Path, command: tuple[str, ...], point: Point
) -> ThreadHold:
    """Kill a program at a point; return the proof, which is the same when it is dead."""
    log = folder / "log"
    node, tracing = begin(runtime, command, log, point)
    held = standing(node, log, point)
    end = node.kill()
    assert tracing.tracer.pid in [member.pid for member in end.members]
    tracing.end()
    assert (end.status, end.signal) == (None, signal.SIGKILL)
    assert not end.left
    return held


def standing(node: ProcessNode, log: Path, point: Point) -> ThreadHold:
    """Wait until somebody is held at a point."""
    found = wait_until(
        lambda: held_in(log, point) or not node.alive, within_s=WITHIN_S, because=f"{point}"
    )
    assert isinstance(found, ThreadHold), f"it ended by {node.exit}: {node.log_tail()}"
    return found


TWO_TRANSACTIONS = """
    import sqlite3
    database = sqlite3.connect(sys.argv[1], isolation_level=None)
    database.execute("CREATE TABLE IF NOT EXISTS rows (record INTEGER)")
    database.execute("CREATE TABLE IF NOT EXISTS position AS SELECT 0 AS at")
    while (at := database.execute("SELECT at FROM position").fetchone()[0]) < 3:
        steps = ["INSERT INTO rows VALUES (?)", "UPDATE position SET at = ?"]
        for step in steps if sys.argv[2] == "row first" else reversed(steps):
            database.execute(step, (at + 1,))
"""


@pytest.mark.strace
@pytest.mark.parametrize(
    ("order", "between"),
    [
        pytest.param("row first", [1, 2, 2, 3], marks=pytest.mark.rest),
        ("position first", [1, 3]),
    ],
)
def test_a_crash_between_two_transactions_shows_by_every_number(
    runtime: ProcessRuntime, tmp_path: Path, order: str, between: list[int]
) -> None:
    """Duplicated, or lost, at every point between what makes the first durable and what makes the
    second, and at no other.

    A transaction of SQLite is durable when its journal is gone: from behind the one unlink until in
    front of the next.
    """
    file, log = tmp_path / "program.py", tmp_path / "log"
    file.write_text("import sqlite3\n" + GO + textwrap.dedent(TWO_TRANSACTIONS))
    assert run(runtime, (sys.executable, str(file), str(tmp_path / "dry"), order), log).status == 0
    made = writes_in(log)
    unlinks = [write for write in made if write.call == "unlink"]
    *_, first, second, _, _ = unlinks  # of the second of three records
    between_them = made[made.index(first) - 1 : made.index(second) + 2]
    chosen = [Point(write.call, write.occurrence, side) for write in between_them for side in Side]
    assert len(chosen) >= 14
    results = {}
    for number, point in enumerate(chosen):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = (sys.executable, str(file), str(folder / "database"), order)
        held = crash(runtime, folder, command, point)
        [same] = [
            write
            for write in made
            if (write.call, write.occurrence) == (point.call, point.occurrence)
        ]
        assert held.write.number == same.number
        assert sum(held.made.values()) == held.write.number - 1
        assert str(folder) in held.write.files[0]
        assert run(runtime, command).status == 0
        with contextlib.closing(sqlite3.connect(folder / "database")) as database:
            results[point] = [
                record for (record,) in database.execute("SELECT record FROM rows ORDER BY rowid")
            ]
    exposed = chosen[
        chosen.index(Point("unlink", first.occurrence, Side.AFTER)) : chosen.index(
            Point("unlink", second.occurrence, Side.AFTER)
        )
    ]
    assert results == {point: between if point in exposed else [1, 2, 3] for point in chosen}


RENAMES = """
    import os, signal, subprocess
    open(sys.argv[1] + "/ready", "w").close()
    for other in sys.argv[2:]:
        subprocess.Popen([sys.executable, "-c", other, sys.argv[1]], start_new_session=True)
    open(sys.argv[1] + "/a", "w").close()
    os.rename(sys.argv[1] + "/a", sys.argv[1] + "/b")
    open(sys.argv[1] + "/done", "w").close()
"""
OTHER = (
    "import os, signal, sys; open(f'{sys.argv[1]}/other', 'w').write(str(os.getpid())); "
    "signal.pause()"
)


@pytest.mark.strace
@pytest.mark.parametrize("side", Side)
def test_the_whole_node_dies_there(runtime: ProcessRuntime, tmp_path: Path, side: Side) -> None:
    """What was held in front of the call is never done, though its tracer dies too; what was held
    behind it is, and no more.
    """
    file = tmp_path / "program.py"
    file.write_text(GO + textwrap.dedent(RENAMES))
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        log, point = folder / "log", Point("rename", 1, side)
        node, tracing = begin(runtime, (sys.executable, str(file), str(folder), OTHER), log, point)
        held = standing(node, log, point)

        def said(file: Path = folder / "other") -> str:
            return file.read_text() if file.exists() else ""

        other = int(wait_until(said, within_s=WITHIN_S, because="the other"))
        assert (held.write.tid, held.pid) == (node.pid, node.pid)
        assert held.write.files == (str(folder / "a"), str(folder / "b"))
        end = node.kill()
        tracing.end()
        assert gone(other)
        assert {member.pid for member in end.members} > {other}
        assert not end.left
        left = {each.name for each in folder.iterdir()} - {"ready", "log", "log.said", "other"}
        assert left == ({"a"} if side is Side.BEFORE else {"b"})


TELLING = """
    import os, signal, sys
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(43))
    print(os.getpid(), os.getppid(), os.getpgrp(), os.getsid(0), sys.stdin.readline().strip(), flush=True)
    os.sync()
    {how}
"""  # noqa: E501
ENDS = {
    "a status": ("sys.exit(7)", 7, None),
    "a signal": ("os.kill(os.getpid(), signal.SIGABRT)", None, signal.SIGABRT),
    "when it is asked to": ("signal.pause()", 43, None),
}


@pytest.mark.strace
@pytest.mark.parametrize(("how", "status", "number"), ENDS.values(), ids=ENDS)
def test_a_program_that_is_traced_is_the_same_program(
    runtime: ProcessRuntime, tmp_path: Path, how: str, status: int | None, number: int | None
) -> None:
    """Its id, its parent, its group, its input, how it is asked to end, and how it ends; and
    nothing else in its log.
    """
    log = tmp_path / "log"
    command = (sys.executable, "-c", textwrap.dedent(TELLING.format(how=how)))
    node, tracing = begin(runtime, command, log, Point("fsync", 9, Side.BEFORE))
    wait_until(lambda: writes_in(log) or not node.alive, within_s=WITHIN_S, because="its write")
    end = node.terminate(WITHIN_S) if how == "signal.pause()" else node.wait(WITHIN_S)
    assert end is not None
    assert (end.pid, end.status, end.signal) == (node.pid, status, number)
    assert (
        node.log_path.read_text()
        == f"{node.pid} {runtime.guardian_pid} {node.pid} {node.pid} line\n"
    )
    tracing.end()
    assert [(write.call, write.tid, write.result) for write in writes_in(log)] == [
        ("sync", node.pid, "0")
    ]


MANY = """
    import os, threading
    def write(name, times):
        file = os.open(f"{sys.argv[1]}/{name}", os.O_CREAT | os.O_RDWR)
        for _ in range(times):
            os.fsync(file)
    write("first", 1)
    thread = threading.Thread(target=write, args=("thread", 2))
    thread.start()
    thread.join()
    if os.fork() == 0:
        write("child", 3)
        os._exit(0)
    os.wait()
    write("last", 1)
"""


@pytest.mark.strace
def test_threads_and_children_count_for_themselves(runtime: ProcessRuntime, tmp_path: Path) -> None:
    """As the tracer does: a point is where a thread first gets to that number; the process is said
    that it is of.
    """
    command = (sys.executable, "-c", GO + textwrap.dedent(MANY), str(tmp_path))
    run(runtime, command, tmp_path / "dry.log")
    made = writes_in(tmp_path / "dry.log")
    assert [(Path(w.files[0]).name, w.occurrence) for w in made] == [
        ("first", 1),
        ("thread", 1),
        ("thread", 2),
        ("child", 1),
        ("child", 2),
        ("child", 3),
        ("last", 2),
    ]
    for occurrence, side in product((1, 2, 3), Side):
        held = crash(runtime, tmp_path, command, Point("fsync", occurrence, side))
        assert held.write.number == {1: 1, 2: 3, 3: 6}[occurrence]
        assert (held.pid == held.write.tid) is (occurrence != 2)


WAITING = """
    import os, signal, sys, threading
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    open(sys.argv[1] + "/early", "w").close()
    os.rename(sys.argv[1] + "/early", sys.argv[1] + "/earlier")
    sys.stdin.readline()
    for number in range(1, 4):
        open(f"{sys.argv[1]}/a{number}", "w").close()
        os.rename(f"{sys.argv[1]}/a{number}", f"{sys.argv[1]}/b{number}")
"""


@pytest.mark.strace
@pytest.mark.parametrize("side", Side)
def test_a_node_that_runs_is_traced_from_then_on(
    runtime: ProcessRuntime, tmp_path: Path, side: Side
) -> None:
    """All its threads, and what it made before does not count; its tracer dies with it."""
    command = (sys.executable, "-c", textwrap.dedent(WAITING), str(tmp_path))
    node = runtime.start(NodeSpec("a", "consumer", command, stdin_pipe=True))
    wait_until((tmp_path / "earlier").exists, within_s=WITHIN_S, because="it to run")
    log, point = tmp_path / "log", Point("rename", 2, side)
    tracer = Tracing(node, log, point).tracer
    node.write_stdin(b"\n")
    assert standing(node, log, point).made == {"rename": 1}
    end = node.kill()
    assert tracer.pid in [member.pid for member in end.members]
    assert tracer.wait(WITHIN_S) == -signal.SIGKILL
    assert (tmp_path / "b1").exists()
    assert (tmp_path / "b2").exists() == (side is Side.AFTER)
    assert not (tmp_path / "a3").exists()


BELOW = """
    import subprocess, sys
    child = "import threading; [threading.Thread(target=threading.Event().wait).start() for _ in range(3)]"
    child += "; open(__import__('sys').argv[1] + '/up', 'w').close()"
    subprocess.run([sys.executable, "-c", child, sys.argv[1]])
"""  # noqa: E501


@pytest.mark.strace
def test_a_traced_child_with_threads_can_be_stopped(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    """Its tracer is stopped last: a stop reaches all threads of the child only by it."""
    command = (sys.executable, "-c", textwrap.dedent(BELOW), str(tmp_path))
    node = runtime.start(NodeSpec("a", "consumer", command))
    wait_until((tmp_path / "up").exists, within_s=WITHIN_S, because="the child to run")
    tracer = Tracing(node, tmp_path / "log").tracer
    node.pause()
    traced = [one.pid for one in node.members() if one.pid != tracer.pid]
    assert len(traced) == 2
    assert all(stopped(pid) for pid in traced)
    node.kill()


TOGETHER = """
    import os, signal, sys, threading
    folder = sys.argv[1]
    out = os.open(f"{folder}/out", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    def work(number):
        os.write(out, b"%d" % number)
        os.fsync(out)
    sys.stdin.readline()
    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    open(f"{folder}/goes-on", "w").close()
    for thread in threads:
        thread.join()
    open(f"{folder}/done", "w").close()
    signal.pause()
"""


@pytest.mark.strace
@pytest.mark.parametrize("released", [True, False])
def test_each_thread_is_held_at_its_first_write_and_the_rest_goes_on(
    runtime: ProcessRuntime, tmp_path: Path, *, released: bool
) -> None:
    """Let go, each writes what it wanted to; killed, neither has written anything."""
    command = (sys.executable, "-c", textwrap.dedent(TOGETHER), str(tmp_path))
    log, out = tmp_path / "log", tmp_path / "out"
    node, tracing = begin(runtime, command, log, FirstWrites((str(out),)))
    wait_until(lambda: len(tracing.standing()) == 2, within_s=WITHIN_S, because="both to be held")
    assert {each.write.call for each in tracing.standing()} == {"write"}
    assert {each.pid for each in tracing.standing()} == {node.pid}
    assert tracing.held() is None
    wait_until((tmp_path / "goes-on").exists, within_s=WITHIN_S, because="the rest to go on")
    assert out.read_bytes() == b""
    if released:
        tracing.end()
        wait_until((tmp_path / "done").exists, within_s=WITHIN_S, because="the threads to end")
    node.kill()
    assert len(out.read_bytes()) == (2 if released else 0)


APPENDS = """
    import os, signal, sys, tempfile
    files = [os.open(sys.argv[1] + "/" + name, os.O_CREAT | os.O_WRONLY | os.O_APPEND) for name in ("rows", "position")]
    spill, _ = tempfile.mkstemp()
    sys.stdin.readline()
    for number in range(1, 4):
        os.write(1, b"working\\n")
        os.write(spill, b"spilt")
        for file in files:
            os.write(file, b"%d\\n" % number)
    signal.pause()
"""  # noqa: E501


@pytest.mark.strace
@pytest.mark.parametrize("prints", [False, True])
def test_a_stage_dies_between_two_writes_into_files(tmp_path: Path, prints: bool) -> None:
    """Neither is flushed: the first is there, the second is not. What it prints counts only where
    that is the output, and what it writes into a temporary file never.
    """

    def stage_in(runtime: ProcessRuntime, folder: Path, out: HistoryWriter) -> CommandNode:
        folder.mkdir()
        return CommandNode(
            StageCommand(
                Stage(
                    role=Role.CONSUMER,
                    command=(sys.executable, "-c", textwrap.dedent(APPENDS), str(folder)),
                ),
                {"bootstrap": "", "work": folder},
                tmp_path,
                folder / "stage.log",
                tmp_path,
                stdin=True,
                prints=prints,
            ),
            runtime,
            out,
            "c",
            fetches=lambda _: True,
        )

    def starts(stage: CommandNode, point: Point | None) -> None:
        stage.start()
        assert stage.processes.node is not None
        position = Path(stage.command.work) / "position"
        wait_until(position.exists, within_s=WITHIN_S, because="it")
        stage.tracer.start(tmp_path / f"{stage.command.work}.txt", point)
        stage.processes.node.write_stdin(b"\n")

    with (
        ProcessRuntime(directory=tmp_path / "nodes") as runtime,
        HistoryWriter(tmp_path / "r.jsonl", cell="c", by="runner") as out,
    ):
        dry = stage_in(runtime, tmp_path / "dry", out)
        starts(dry, None)
        total = 9 if prints else 6
        wait_until(
            lambda: sum(dry.tracer.written(0, 3).made.get("write", ())) == total,
            within_s=WITHIN_S,
            because="its writes",
        )
        written = dry.tracer.written(0, 3)
        assert written.made == {"write": [total]}
        assert written.files == (
            *(["{work}/position", "{work}/rows"]),
            *(["{work}/stage.log"] if prints else []),
        )
        dry.kill()
        stage = stage_in(runtime, tmp_path / "real", out)
        starts(stage, Point("write", 5 if prints else 3, Side.AFTER, written.files))
        held = wait_until(stage.tracer.held, within_s=WITHIN_S, because="it to be held")
        assert held.write.files == (str(tmp_path / "real" / "rows"),)
        stage.kill()
        assert (tmp_path / "real" / "rows").read_text() == "1\n2\n"
        assert (tmp_path / "real" / "position").read_text() == "1\n"


@pytest.mark.strace
def test_a_stage_is_held_in_its_first_life(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(GO + textwrap.dedent(RENAMES))
    point = Point("rename", 1, Side.AFTER)
    with (
        ProcessRuntime(directory=tmp_path / "nodes") as runtime,
        HistoryWriter(tmp_path / "r.jsonl", cell="c", by="runner") as out,
    ):
        stage = CommandNode(
            StageCommand(
                Stage(
                    role=Role.PRODUCER,
                    command=(sys.executable, str(tmp_path / "program.py"), str(tmp_path)),
                ),
                {"bootstrap": "", "work": tmp_path},
                tmp_path,
                tmp_path / "stage.log",
                tmp_path,
                stdin=True,
            ),
            runtime,
            out,
            "c",
            fetches=lambda _: True,
        )
        stage.start()
        stage.tracer.start(tmp_path / "writes", point)
        assert stage.processes.node is not None
        stage.processes.node.write_stdin(b"\n")
        held = wait_until(stage.tracer.held, within_s=WITHIN_S, because="it to be held")
        assert stage.tracer.held() == held
        assert stage.one(stage.processes.node.pid) is stage
        stage.kill()
        assert not (tmp_path / "done").exists()
        stage.start()
        stage.processes.node.write_stdin(b"\n")
        wait_until(stage.ended, within_s=WITHIN_S, because="its second life to end")
        assert stage.tracer.held() is None
    assert (tmp_path / "done").exists()
    [event] = read_history(tmp_path).of(kinds.Durable)
    assert {
        name: getattr(event, name)
        for name in ("role", "incarnation", "side", "call", "occurrence", "number", "result")
    } == {
        "role": "producer",
        "incarnation": 1,
        "side": "after",
        "call": "rename",
        "occurrence": 1,
        "number": 1,
        "result": "0",
    }
    lives = list(read_history(tmp_path).of(kinds.Node))
    assert [(e.phase, e.signal, e.status) for e in lives] == [
        ("started", None, None),
        ("exited", signal.SIGKILL, None),
        ("started", None, None),
        ("exited", None, 0),
    ]
