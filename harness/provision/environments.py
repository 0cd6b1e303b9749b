"""Make a virtual environment for a client at any version, for the pipeline's processes. The harness
keeps its own environment.

The environment holds the client with its dependencies, and finds this package last on its path. It
is made once, whole or not at all, and its versions are checked each time before it is used.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.version import Version

import harness
from harness.model.cell import client_name
from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root, fill, locked, need_space

if TYPE_CHECKING:
    from collections.abc import Callable

NEEDED_MB: Final = 100
INSTALL_WITHIN_S: Final = 300.0
_ASK: Final = (
    "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in "
    "m.distributions(path=[%r])}))"
)
HOME: Final = "LOSTACK_HOME"
_BEHIND: Final = f"import os, sys; sys.path.extend(filter(None, [os.environ.get({HOME!r})]))\n"
"""Code that adds this package (the copy that starts the program) to the end of the environment's
path.
"""


def ensure_client(client: str, say: Callable[[str], None], root: Path | None = None) -> str:
    """Return the interpreter of an environment that holds ``name==version``; make the environment
    if needed.

    Raises:
        EnvironmentFailure: the environment cannot be made.
    """
    name, version = client_name(client), Version(client.partition("==")[2])
    clients = (root or cache_root()) / "clients"
    clients.mkdir(exist_ok=True)
    target = clients / f"{name}-{version}-py{sys.version_info[0]}.{sys.version_info[1]}"
    with locked(target, say):
        if _version(target, name) != version:
            need_space(clients, NEEDED_MB, client)
            say(f"making an environment for {client} (once)")
            fill(target, lambda part: _make(part, client))
            if (found := _version(target, name)) != version:
                raise EnvironmentFailure(
                    f"the environment {target} has {name} {found}, not {version}: remove it and "
                    "try again"
                )
    return str(_python(target))


def variables() -> dict[str, str]:
    """Return the environment variables by which a program finds this package."""
    return {HOME: str(Path(harness.__file__).parent.parent)}


def installed(python: str) -> dict[str, str]:
    """Return the distributions of an environment: ``{distribution: version}``."""
    return _installed(Path(python).parent.parent)


def packages(python: str) -> Path:
    """Return the folder of an environment that holds its packages.

    Raises:
        EnvironmentFailure: there is no such folder.
    """
    found = next(Path(python).parent.parent.glob("lib/python*/site-packages"), None)
    if found is None:
        raise EnvironmentFailure(
            f"the environment of {python} has no packages: remove it and try again"
        )
    return found


def _installed(target: Path) -> dict[str, str]:
    packages = next(target.glob("lib/python*/site-packages"), None)
    if packages is None or not _python(target).exists():
        return {}
    asked = subprocess.run(
        (_python(target), "-S", "-c", _ASK % str(packages)),
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, str] = json.loads(asked.stdout) if asked.returncode == 0 else {}
    return found


def _version(target: Path, name: str) -> Version | None:
    """Return the version of a distribution in an environment (2.3 equals 2.3.0); ``None`` if it is
    not installed.
    """
    found = _installed(target).get(name)
    return Version(found) if found else None


def _python(target: Path) -> Path:
    return target / "bin" / "python"


def make_locked(part: Path, lock: Path) -> None:
    """Make an environment that holds what a lock lists, each checked by its sha256.

    Raises:
        EnvironmentFailure: something cannot be installed.
    """
    venv.create(part, symlinks=True, with_pip=False)
    _install(part, ("--require-hashes", "--no-deps", "-r", str(lock)), lock.stem)


def _make(part: Path, client: str) -> None:
    venv.create(part, symlinks=True, with_pip=False)
    next(part.glob("lib/python*/site-packages")).joinpath("lostack.pth").write_text(_BEHIND)
    _install(part, (client,), client)


def _install(part: Path, what: tuple[str, ...], named: str) -> None:
    tool = ("uv", "--system-certs", "pip") if importlib.util.find_spec("uv") else ("pip",)
    wheels = ("--only-binary", ":all:")  # what would have to be built depends on the machine
    into = (
        ("install", "--python", str(_python(part)))
        if tool[0] == "uv"
        else ("--python", str(_python(part)), "install")
    )
    command = (sys.executable, "-m", *tool, *into, *wheels, *what)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailure(
            f"{named} was not installed within {INSTALL_WITHIN_S:g} s: check the network"
        ) from None
    if done.returncode:
        said = " ".join(done.stderr.split())
        raise EnvironmentFailure(
            f"cannot install {named} as a wheel for Python {sys.version.split()[0]}: check its "
            f"name and version; pip said: {said[-300:]}"
        )
