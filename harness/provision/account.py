"""What a user without an account lacks: a container may run under a uid that its password file does
not know. Python's libraries, JVMs and Hadoop fail there, each in its own way.
"""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, Final

from harness.provision.cache import cache_root, temporary_root
from harness.provision.janino import SOURCES, ensure_compiled

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from pathlib import Path

JVMS: Final = "JAVA_TOOL_OPTIONS"
"""The environment variable from which every JVM takes options."""
AGENT: Final = SOURCES / "LoginAgent.java"
WITH_AGENT: Final = "-XX:+UnlockDiagnosticVMOptions -XX:+AllowArchivingWithJavaAgent"
"""Options without which a JVM with an agent makes no class-data archive."""


def stand_in_name() -> str | None:
    """Return a name for this process's user, if the operating system knows none."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return f"uid-{os.getuid()}"
    return None


def give_account(environ: MutableMapping[str, str] = os.environ) -> None:
    """Give a user without an account a name and a home, for this process and all that it starts.

    Raises:
        EnvironmentFailure: somebody else has made the folder that is to be the home.
    """
    if (name := stand_in_name()) is None:
        return
    home = environ.setdefault("HOME", "") or str(temporary_root())
    environ["HOME"] = home
    for variable in ("USER", "LOGNAME"):  # Python asks these first
        environ.setdefault(variable, name)
    _add(environ, f"-Duser.name={name} -Duser.home={home}")  # a JVM says "?" otherwise


def hadoop_login(java: Path, classpath: str, known: str) -> dict[str, str]:
    """Return the environment variables by which Spark's JVMs know their user; none if they do.

    Hadoop asks the operating system for the name of its user, and ends where there is none.

    Raises:
        EnvironmentFailure: the agent does not compile.
    """
    if (name := stand_in_name()) is None:
        return {}
    jar = ensure_compiled(
        AGENT, cache_root() / "agents", java=java, against=classpath, known=known, agent=True
    )
    environ = dict(os.environ)
    _add(environ, f"{WITH_AGENT} -javaagent:{jar}={name}")
    return {JVMS: environ[JVMS], "SPARK_USER": name}


def _add(environ: MutableMapping[str, str], options: str) -> None:
    before = environ.get(JVMS, "")
    if options not in before:
        environ[JVMS] = f"{before} {options}".strip()
