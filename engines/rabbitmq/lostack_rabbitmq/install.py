"""RabbitMQ as it is installed on this machine: lostack fetches none."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

FOLDERS: Final = (Path("/usr/lib/rabbitmq/lib"), Path("/opt/rabbitmq"), Path("/usr/local/lib"))
"""Where packages put a folder ``rabbitmq_server-VERSION``."""
READ: Final = "3.10"
"""The versions whose files lostack has read."""
ERLANGS: Final = 23, 25
"""The first and the last release of Erlang/OTP that such a version runs on."""
ASK: Final = "io:put_chars(erlang:system_info(otp_release)), halt()."
WITHIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Installed:
    """A server that is installed here, and the Erlang that it is started with."""

    folder: Path
    version: str
    erl: str
    release: str


def why_not() -> str | None:
    """Say why RabbitMQ cannot be tried on this machine, in one line; ``None``: it can."""
    found = look()
    return found if isinstance(found, str) else None


def look() -> Installed | str:
    """Return the server that is installed here, or why there is none that can be tried."""
    return _look(os.environ.get("RABBITMQ_HOME", ""), os.environ.get("PATH", ""))


@functools.cache
def _look(home: str, path: str) -> Installed | str:
    folders = [Path(home)] if home else [each for at in FOLDERS for each in at.glob("rabbitmq_*")]
    there = [each for each in folders if (each / "plugins").is_dir()]
    if not there:
        return (
            "RabbitMQ is not installed here (Debian 12: apt-get install rabbitmq-server; elsewhere "
            f"RABBITMQ_HOME names the folder of a {READ})"
        )
    read = [(_version(each), each) for each in there if _version(each).startswith(f"{READ}.")]
    if not read:
        others = ", ".join(sorted(_version(each) or str(each) for each in there))
        return f"lostack reads the files of RabbitMQ {READ}, and here is {others}"
    version, folder = max(read, key=lambda each: Version(each[0]))
    if not os.access(folder / "plugins" / f"rabbit-{version}" / "ebin", os.R_OK | os.X_OK):
        return f"{folder} cannot be read by this user"
    erl = shutil.which("erl", path=path)
    if erl is None:
        return "RabbitMQ is installed here, but erl, which starts it, is not on the PATH"
    release = _release(erl)
    if not release.isdecimal() or not ERLANGS[0] <= int(release) <= ERLANGS[1]:
        first, last = ERLANGS
        return f"RabbitMQ {READ} needs Erlang/OTP {first} to {last}, and {erl} is {release or '?'}"
    return Installed(folder, version, erl, release)


def _version(folder: Path) -> str:
    """Return the version of the server in a folder; empty: it has none."""
    for each in (folder / "plugins").glob("rabbit-*"):
        name = each.name.removeprefix("rabbit-").removesuffix(".ez")
        try:
            return str(Version(name))
        except InvalidVersion:
            continue
    return ""


def _release(erl: str) -> str:
    try:
        asked = subprocess.run(
            (erl, "-noshell", "-eval", ASK),
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip()
