"""Compile lostack's Java sources into jars of the cache with the Janino inside PySpark. It needs no
JDK and fetches nothing.

Janino is enough for the sources that a first run needs. :mod:`harness.provision.compiled` compiles
all others.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import original
from harness.provision.compiled import pack
from harness.provision.inside_pyspark import jars_of_pyspark

SOURCES: Final = Path(__file__).parents[1] / "stages" / "jvm"
COMPILER: Final = SOURCES / "Compile.java"
WITHIN_S: Final = 120.0


def ensure_compiled(
    source: Path,
    into: Path,
    *,
    java: Path,
    against: str,
    known: str,
    janino: str = "",
    agent: bool = False,
) -> Path:
    """Return the jar of one source in the folder ``into``; compile it if it is missing.

    ``against`` is the class path for the compilation, and ``known`` a text that identifies it (the
    jar is keyed by source and ``known``). ``janino`` is the class path of the compiler, by default
    ``against``. ``agent``: the source is the agent of a JVM.

    Raises:
        EnvironmentFailure: the source does not compile.
    """
    key = hashlib.sha256(f"{known}\0{source.read_text()}".encode()).hexdigest()[:16]
    jar = into / f"{key}.jar"
    if not jar.exists():
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=into) as folder:
            part, classes = Path(folder, "compiled.jar"), Path(folder, "classes")
            classes.mkdir()
            command = (
                str(java),
                "-cp",
                janino or against,
                "org.codehaus.janino.SimpleCompiler",
                str(COMPILER),
                "Compile",
                str(classes),
                against,
                str(source),
            )
            if why := _compile(command):
                raise EnvironmentFailure(f"{source.stem} does not compile for {known}: {why}")
            pack(classes, part, agent=agent)
            part.replace(jar)
    return original(jar)


def janino_path() -> str:
    """Return the class path with the Janino inside PySpark.

    Raises:
        EnvironmentFailure: PySpark is not installed, or has no Janino.
    """
    jars = jars_of_pyspark("Janino, which compiles Java,", "janino-*.jar", "commons-compiler-*.jar")
    return os.pathsep.join(map(str, jars))


def _compile(command: tuple[str, ...]) -> str:
    """Run the compiler; return the reason if it fails, else an empty text."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    if done.returncode == 0:
        return ""
    causes = (line for line in done.stderr.splitlines() if "Caused by" in line)
    return next(causes, done.stderr.strip()[:200]) or f"its compiler ended with {done.returncode}"
