"""A Spark session whose driver JVM is a node: it listens on loopback only, and dies with the
harness.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import harness
from harness.model.failures import EnvironmentFailure
from harness.provision.gateway import start_gateway
from harness.provision.spark import ensure_spark
from harness.runtimes.process import ProcessRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}


@contextlib.contextmanager
def spark_session(
    *,
    master: str = LOCAL,
    say: Callable[[str], None] = lambda _: None,
    jars: Sequence[Path] = (),
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Yield a session on ``master`` (start: 2.5 s on an idle machine); its JVM ends with the block,
    also after an error.

    A process can have one session at a time, because PySpark keeps its JVM in a global. ``jars``
    are added to the driver's class path and sent to the executors.

    Raises:
        EnvironmentFailure: Spark cannot be had, or the master is not there.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - half a second
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    if SparkContext._active_spark_context is not None:  # noqa: SLF001
        raise EnvironmentFailure("a Spark session is open in this process already; end it first")
    install = ensure_spark(say)
    local = master.startswith("local")
    settings = {**SETTINGS, **(conf or {})}
    if not local:
        settings["spark.jars"] = ",".join(
            str(jar.absolute()) for jar in (*install.connector, *jars)
        )
        settings["spark.executorEnv.PYSPARK_PYTHON"] = sys.executable
    before, path_before = dict(os.environ), list(sys.path)
    try:
        with ProcessRuntime() as runtime:
            folder = runtime.directory
            settings.setdefault("spark.sql.warehouse.dir", str(folder / "warehouse"))
            gateway = start_gateway(
                runtime,
                install,
                work=folder,
                conf={"spark.master": master, **settings},
                jars=jars,
            )
            os.environ.update({**install.env, **gateway.env, "PYTHONPATH": _python_path()})
            session: SparkSession | None = None
            try:
                builder = SparkSession.builder.master(master).appName("lostack")
                for name, value in settings.items():
                    builder = builder.config(name, value)
                session = builder.getOrCreate()
                for name in (
                    gateway.env
                ):  # it is connected: programs that are started meanwhile have JVMs of their own
                    del os.environ[name]
                session.sparkContext.setLogLevel("ERROR")
                if not local:
                    session.sparkContext.addPyFile(str(_zipped(folder)))
                yield session
            except (PySparkException, Py4JError) as error:
                raise EnvironmentFailure(not_started(master, one_line(error))) from error
            finally:
                _forget(session)
    finally:
        os.environ.clear()
        os.environ.update(before)
        sys.path[:] = path_before


def not_started(master: str, because: str) -> str:
    """Say that Spark does not start, and what to do. A local one needs no address: what it says is
    what is wrong (no memory, a port, a master that it cannot read).
    """
    mend = "mend that" if master.startswith("local") else "check that it runs, and correct --master"
    return f"Spark cannot be started on {master} ({because}): {mend}"


def _forget(session: SparkSession | None) -> None:
    """Stop a session, and let PySpark forget its JVM, which is about to go."""
    from pyspark import SparkContext  # noqa: PLC0415

    with contextlib.suppress(Exception):  # the JVM may be gone already, and that is what is wanted
        if session is not None:
            session.stop()
    gateway = SparkContext._gateway  # noqa: SLF001
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    SparkContext._active_spark_context = None  # noqa: SLF001


def _python_path() -> str:
    """Let Python workers find this very harness."""
    here = str(Path(harness.__file__).parents[1])
    given = map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    return os.pathsep.join(dict.fromkeys([here, *given]))


def _zipped(folder: Path) -> Path:
    """Zip the harness for executors on other machines."""
    root = Path(harness.__file__).parent
    target = folder / "harness.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*.py")):
            archive.write(file, file.relative_to(root.parent))
    return target


def one_line(error: BaseException) -> str:
    """Return the heart of what Spark says in a hundred lines: the last cause, or the first line."""
    text = str(getattr(error, "java_exception", None) or error).strip()
    java = getattr(error, "java_exception", None)
    while java is not None:
        try:
            cause = java.getCause()
        except Exception:  # noqa: BLE001 - the JVM is gone; what is known must do
            break
        if cause is None:
            text = f"{java.getClass().getSimpleName()}: {java.getMessage()}"
            break
        java = cause
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:400] if lines else type(error).__name__


def said_in_a_task(error: BaseException) -> str | None:
    """Return the one line of an UnreadableError that a Python task raised, or None."""
    found = re.search(r"UnreadableError: (.*)", str(error))
    return found[1].strip()[:400] if found else None
