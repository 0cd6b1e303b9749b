"""The failpoints inside Spark's JVM: compiled once, by the Janino that Spark brings, into a jar in the cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.interfaces import EnvironmentFailure
from harness.setup.cache import cache_root

if TYPE_CHECKING:
    from harness.setup.spark import SparkInstall

SOURCES: Final = Path(__file__).parents[1] / "programs" / "jvm"
CHECKPOINT: Final = SOURCES / "CheckpointFailpoints.java"
COMPILER: Final = SOURCES / "Compile.java"
CHECKPOINT_CLASS: Final = "lostack.CheckpointFailpoints"
WITHIN_S: Final = 120.0


def ensure_failpoints(install: SparkInstall) -> Path:
    """Return the jar, which fits one source and one Spark. Raises EnvironmentFailure where it cannot be compiled."""
    known = f"{install.version}\0{CHECKPOINT.read_text()}".encode()
    jar = cache_root() / "failpoints" / f"{hashlib.sha256(known).hexdigest()[:16]}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
            part = Path(folder, "failpoints.jar")
            _compile(install, Path(folder, "classes"))
            _pack(Path(folder, "classes"), part)
            part.replace(jar)
    return jar


def _compile(install: SparkInstall, to: Path) -> None:
    to.mkdir()
    command = [str(install.java), "-cp", install.classpath, "org.codehaus.janino.SimpleCompiler", str(COMPILER), "Compile",
               str(to), install.classpath, str(CHECKPOINT)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    if done.returncode != 0:
        why = next((line for line in done.stderr.splitlines() if "Caused by" in line), done.stderr.strip()[:200])
        raise EnvironmentFailure(f"the failpoints for Spark {install.version} do not compile: {why}")


def _pack(classes: Path, jar: Path) -> None:
    with zipfile.ZipFile(jar, "w") as archive:
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, file.relative_to(classes).as_posix())
    os.utime(jar)
