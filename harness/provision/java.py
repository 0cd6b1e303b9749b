"""Java 17 or 21: found on this machine, or fetched into the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision import jre
from harness.provision.cache import expanded

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
ANSWER_WITHIN_S: Final = 30.0
VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')
OFFERED: Final = re.compile(r"^openjdk-(\d+)-jre-headless\b", re.MULTILINE)


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
        place = expanded(pattern)
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
        EnvironmentFailure: no Java was found or fetched. The message says why, and how to install
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
    if there := ask(jre.fetched(cache) / "bin" / "java"):
        return there
    missing = f"no Java 17 or 21 was found ({unfit[0]})" if unfit else "no Java was found"
    say(missing)
    try:
        home = (fetch or jre.fetch_java)(cache, say)
    except EnvironmentFailure as error:
        raise EnvironmentFailure(
            f"{missing}, and none could be fetched: {error}; or install one: {how_to_install()}"
        ) from error
    if (java := ask(home / "bin" / "java")) is None:
        raise EnvironmentFailure(
            f"{missing}, and the fetched one ({home}) does not run; install one: {how_to_install()}"
        )
    return java


def how_to_install(environ: Mapping[str, str] = os.environ) -> str:
    """Return the command that installs a fit Java, by what the package manager offers; else a
    sentence.
    """
    path = environ.get("PATH", os.defpath)
    offered = _offered_by_apt(path)
    if offered is None:
        return f"a headless Java 17 or 21 from your package manager, or any, named by {VARIABLE}"
    install = f"{'' if os.geteuid() == 0 else 'sudo '}apt-get"
    if not offered:  # as in images, whose lists of packages are removed
        return f"{install} update && {install} install default-jre-headless"
    if fit := offered & set(WANTED):
        return f"{install} install openjdk-{max(fit)}-jre-headless"
    return (
        f"a Java 17 or 21 from elsewhere, named by {VARIABLE} (apt-get offers "
        f"{', '.join(map(str, sorted(offered)))})"
    )


def _offered_by_apt(path: str) -> set[int] | None:
    """Return the releases of Java that apt can install; ``None`` where there is no apt."""
    asking = shutil.which("apt-cache", path=path)
    if asking is None or shutil.which("apt-get", path=path) is None:
        return None
    command = (asking, "search", "--names-only", "^openjdk-[0-9]+-jre-headless$")
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_WITHIN_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return {int(release) for release in OFFERED.findall(said)}


def _chosen(path: Path) -> Java:
    java = ask(path)
    if java is None:
        raise EnvironmentFailure(f"{VARIABLE} is set, but {path} is not a working Java")
    if java.release not in WANTED:
        raise EnvironmentFailure(
            f"{VARIABLE} names Java {java.release} ({path}); Java 17 or 21 is needed"
        )
    return java
