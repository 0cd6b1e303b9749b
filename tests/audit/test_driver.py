"""Spark's driver JVM dies with the harness, however that dies, and a session leaves
nothing behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.audit.session import not_started
from harness.model.waiting import wait_until
from tests.audit.cluster import standalone

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

PROGRAM = """
import os, sys
from harness.audit.session import spark_session
before = dict(os.environ)
with spark_session(master="local[1]", say=lambda text: None) as spark:
    assert spark.range(10).count() == 10
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    print(pid, spark.conf.get("spark.local.dir"), flush=True)
    sys.stdin.read()
assert dict(os.environ) == before
with spark_session(master="local[1]", say=lambda text: None) as spark:
    assert spark.range(7).count() == 7
print("left in order", flush=True)
"""


def begun() -> tuple[subprocess.Popen[str], int, Path]:
    """Start a program with a session; return it, the pid of the JVM, and the folder of
    the session.
    """
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    pid, _, folder = program.stdout.readline().partition(" ")
    return program, int(pid), Path(folder.strip())


@pytest.mark.rest
def test_the_driver_dies_with_a_killed_harness() -> None:
    """SIGKILL, so that nothing of ours can tidy up: the guardian ends the JVM and removes what it
    had put aside.
    """
    program, jvm, left = begun()
    try:
        assert psutil.pid_exists(jvm)
        assert left.exists()
        os.kill(program.pid, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(jvm), within_s=20, because="the driver to be gone")
        program.wait()
        wait_until(lambda: not left.exists(), within_s=20, because="its folder to be gone")
    finally:
        program.kill()
        program.wait()


@pytest.mark.rest
def test_a_session_leaves_nothing_and_another_can_follow() -> None:
    """JVM and folder are gone, the environment is as before, and a second session starts in the
    same process.
    """
    here = set(Path.cwd().iterdir())
    program, jvm, folder = begun()
    out, _ = program.communicate("", timeout=300)
    assert (
        set(Path.cwd().iterdir()) == here
    )  # Spark 4 makes a folder "artifacts" where its JVM is started
    assert out == "left in order\n"
    assert program.returncode == 0
    assert not psutil.pid_exists(jvm)
    assert not folder.exists()


CLUSTER = """
import sys
from harness.audit.auditing import audit
found = audit("range:0-99999", sys.argv[1], master=sys.argv[2])
print(found.lost, found.duplicated, found.phantom, flush=True)
"""


@pytest.mark.rest
def test_on_a_cluster(tmp_path: Path) -> None:
    """A standalone master with two workers: the counts are right."""
    pq.write_table(pa.table({"id": [*range(100, 100_000), 500, 100_000]}), tmp_path / "a.parquet")
    with standalone(tmp_path / "cluster", workers=2) as master:
        arguments = [f"parquet:{tmp_path}/a.parquet", master]
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        root = str(Path(__file__).parents[2])
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path.insert(0, {root!r})\n{CLUSTER}",
                *arguments,
            ],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env=environ,
        )
    assert done.stdout == "100 1 1\n", done.stderr[-2000:]


@pytest.mark.parametrize(
    ("master", "said"), [("spark://here:7077", "correct --master"), ("local[2]", "mend that")]
)
def test_only_a_master_elsewhere_may_be_the_wrong_one(master: str, said: str) -> None:
    told = not_started(master, "no room for more memory")
    assert told.endswith(said)
    assert ("--master" in told) is (said == "correct --master")


@pytest.mark.rest
def test_a_master_that_is_not_there_is_one_line() -> None:
    """A standalone master nobody listens for: an error within the time-out, and no JVM left."""
    program = (
        "import sys\nfrom harness.cli import main\nsys.exit(main(['audit', '--offered', "
        "'range:1-2', '--arrived', 'parquet:/nowhere', '--master', 'nonsense://x']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "nonsense" in done.stderr
