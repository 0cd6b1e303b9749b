"""Java 17 or 21: found on this machine, or fetched into the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import locked, need_space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

WANTED: Final = (17, 21)
"""The releases on which both Kafka 4 and Spark 4.0 run."""
VARIABLE: Final = "LOSTACK_JAVA_HOME"
USUAL: Final = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
JDK: Final = "temurin-jre:17"
ANSWER_WITHIN_S: Final = 30.0
FETCH_WITHIN_S: Final = 600.0
FETCHED_MB: Final = 400
VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')
INSTALL: Final = "sudo apt-get install openjdk-17-jre-headless"


@dataclass(frozen=True, slots=True)
class Java:
    """A ``java`` program that runs: its path, its feature release (such as 17), and its whole
    version text.
    """

    path: Path
    release: int
    about: str

    @property
    def version(self) -> str:
        """The version alone, such as ``17.0.15``."""
        match = VERSION.search(self.about)
        return "".join(match.groups()) if match else str(self.release)


def ask(path: Path) -> Java | None:
    """Run ``java -version`` and return the Java; ``None`` if the program is not a working Java."""
    try:
        answer = subprocess.run(
            [path, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = VERSION.search(answer.stderr)
    if answer.returncode != 0 or match is None:
        return None
    about = "\n".join(
        line for line in answer.stderr.splitlines() if not line.startswith("Picked up")
    )
    return Java(path, int(match.group(1)), about)


def candidates(environ: Mapping[str, str], usual: tuple[str, ...] = USUAL) -> Iterator[Path]:
    """Yield the ``java`` programs of this machine, best first: from JAVA_HOME, the PATH, then the
    usual places.
    """
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield Path(found)
    for pattern in usual:
        place = Path(pattern).expanduser()
        yield from (
            home / "bin" / "java"
            for home in sorted(place.parent.glob(place.name))
            if (home / "bin" / "java").exists()
        )


def find_java(
    cache: Path,
    say: Callable[[str], None],
    *,
    environ: Mapping[str, str] = os.environ,
    usual: tuple[str, ...] = USUAL,
    fetch: Callable[[Path, Callable[[str], None]], Path] | None = None,
) -> Java:
    """Return a Java 17 or 21; fetch one if there is none.

    If ``LOSTACK_JAVA_HOME`` is set, only that Java is tried.

    Raises:
        EnvironmentFailure: no Java was found or fetched. The message has the command that installs
            one.
    """
    if chosen := environ.get(VARIABLE):
        return _chosen(Path(chosen) / "bin" / "java")
    unfit: list[str] = []
    for path in candidates(environ, usual):
        java = ask(path)
        if java is not None and java.release in WANTED:
            return java
        unfit.append(f"{path} is Java {java.release}" if java else f"{path} does not run")
    fetched = _fetched(cache)
    if fetched is None:
        say(f"no Java 17 or 21 found ({unfit[0]})" if unfit else "no Java found")
        fetched = ask((fetch or fetch_java)(cache, say) / "bin" / "java")
    if fetched is None:
        raise EnvironmentFailure(f"the fetched Java does not run; install one: {INSTALL}")
    return fetched


def _chosen(path: Path) -> Java:
    java = ask(path)
    if java is None:
        raise EnvironmentFailure(f"{VARIABLE} is set, but {path} is not a working Java")
    if java.release not in WANTED:
        raise EnvironmentFailure(
            f"{VARIABLE} names Java {java.release} ({path}); Java 17 or 21 is needed"
        )
    return java


def _fetched(cache: Path) -> Java | None:
    """Return the Java that an earlier run fetched; ``None`` if there is none."""
    home = cache / "java-home"
    return ask(Path(home.read_text()) / "bin" / "java") if home.exists() else None


def fetch_java(cache: Path, say: Callable[[str], None]) -> Path:
    """Fetch a Java 17 with cjdk and return its home.

    Raises:
        EnvironmentFailure: the download fails.
    """
    command = [
        sys.executable,
        "-m",
        "cjdk",
        "--no-progress",
        "--cache-dir",
        str(cache / "cjdk"),
        "--jdk",
        JDK,
        "java-home",
    ]
    note = cache / "java-home"
    need_space(cache, FETCHED_MB, "Java")
    say("fetching Java 17 (about 45 MB)")
    with locked(note, say):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=FETCH_WITHIN_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise EnvironmentFailure(
                f"fetching Java took more than {FETCH_WITHIN_S / 60:g} minutes; run: {INSTALL}"
            ) from None
        if done.returncode != 0:
            raise EnvironmentFailure(
                f"Java 17 or 21 is needed and could not be fetched; run: {INSTALL}"
            )
        home = Path(done.stdout.strip().splitlines()[-1])
        note.write_text(str(home))
    return home
