"""Compile lostack's Java sources into the cache with Eclipse's compiler, a jar of 3 MB that runs on
a JRE: no JDK is needed.

It compiles all of Java 17: lambdas, records, generic interfaces with their signatures. The sources
that the first ``make run`` needs avoid these, so the Janino inside PySpark compiles them and
nothing is fetched (:mod:`harness.provision.janino`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import zipfile
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root, fill, locked, original
from harness.provision.jars import ensure_jars, read_jar_set
from harness.provision.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

ECJ: Final = "ecj-3.38.0"
OPTIONS: Final = ("-17", "-encoding", "UTF-8", "-proc:none", "-nowarn", "-Xemacs")
"""The compiler's options. ``--release 17`` would need a file that a JRE of another
release lacks.
"""
WITHIN_S: Final = 120.0
ERROR: Final = re.compile(r"^(?P<file>[^\n]*?):(?P<line>\d+): error: (?P<what>.*)$", re.MULTILINE)


def compiled(
    name: str,
    sources: Sequence[Path],
    class_path: Sequence[Path],
    say: Callable[[str], None],
    services: Mapping[str, str] | None = None,
) -> Path:
    """Return the jar of ``sources``, and compile it if it is not in the cache (1 to 3 s).

    ``services``: interface → the class of the jar that implements it, for Java's ServiceLoader.

    It is a jar and not a folder because class-data archives cannot hold classes from folders.

    Its folder in the cache is named by ``name`` and a digest of the sources (names and texts),
    of ``class_path`` (names and sizes), and of the services.

    Raises:
        EnvironmentFailure: the sources do not compile (the compiler's first error), or no compiler
            or Java can be fetched.
    """
    folder = cache_root() / "compiled" / f"{name}-{_digest(sources, class_path, services)}"
    jar = folder / f"{name}.jar"
    if jar.exists():
        return original(folder) / jar.name
    folder.parent.mkdir(exist_ok=True)
    java = find_java(cache_root(), say)
    compiler = ensure_jars(read_jar_set(ECJ), cache=cache_root(), java=java, say=say) / f"{ECJ}.jar"

    def make(part: Path) -> None:
        classes = part / "classes"
        command = (
            str(java.path),
            "-jar",
            str(compiler),
            *OPTIONS,
            "-cp",
            os.pathsep.join(map(str, class_path)),
            "-d",
            str(classes),
            *map(str, sources),
        )
        if why := _failure(command):
            raise EnvironmentFailure(f"{name} does not compile: {why}")
        pack(classes, part / jar.name, services=services)

    with locked(folder, say):
        if not jar.exists():
            fill(folder, make)
    return original(folder) / jar.name


def pack(
    classes: Path, jar: Path, *, agent: bool = False, services: Mapping[str, str] | None = None
) -> None:
    """Write the class files below ``classes`` into a jar. ``agent``: its only class is the agent of
    a JVM; ``services``: interface → the class that implements it.
    """
    with zipfile.ZipFile(jar, "w") as archive:
        for file in sorted(classes.rglob("*.class")):
            name = file.relative_to(classes)
            if agent:
                main = ".".join(name.with_suffix("").parts)
                archive.writestr("META-INF/MANIFEST.MF", f"Premain-Class: {main}\n")
            archive.write(file, name.as_posix())
        for interface, implementation in (services or {}).items():
            archive.writestr(f"META-INF/services/{interface}", f"{implementation}\n")


def _digest(
    sources: Sequence[Path], class_path: Sequence[Path], services: Mapping[str, str] | None
) -> str:
    texts = [(source.name, source.read_text()) for source in sources]
    jars = [(jar.name, jar.stat().st_size) for jar in class_path]
    parts = [ECJ, OPTIONS, texts, jars, *([services] if services else [])]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _failure(command: Sequence[str]) -> str:
    """Run the compiler; return in one line why it failed, if it did."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"its compiler took more than {WITHIN_S / 60:g} minutes"
    if done.returncode == 0:
        return ""
    said = done.stderr + done.stdout
    if error := ERROR.search(said):
        return f"{os.path.basename(error['file'])}, line {error['line']}: {error['what']}"  # noqa: PTH119 - a word, no path
    return said.strip().partition("\n")[0][:200] or f"its compiler ended with {done.returncode}"
