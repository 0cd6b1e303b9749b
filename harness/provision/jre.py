"""Fetch a Java runtime: a pinned build of Eclipse Temurin, checked by the sha256 that its makers
publish.
"""

from __future__ import annotations

import os
import platform
import shutil
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import fill, locked, need_space
from harness.provision.download import download

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

RELEASE: Final = "17.0.20+8"
SUMS: Final = {
    "x86_64": ("x64", "ef491a51a46ef90cc47fbc4abb219fde32483ff91be5ec66ddc896df43524b27"),
    "aarch64": ("aarch64", "9d14a95e07c44bc48666625162baf40db9da4dcb192bfc3e43047790693061a2"),
    "ppc64le": ("ppc64le", "cb3d0280a1be22db89ec81058471a8c694ea35b33d4bfc23d52c55f6be2a34f7"),
    "riscv64": ("riscv64", "9c018e609c1f851018f053bb634e14473e8c0b6532aae400a105aa4d52c84d42"),
    "s390x": ("s390x", "6effd0a45b0ea7ee9fccc861e7bd4dcb92a6096e7cea3ed22484231c1be82736"),
}
"""Machine → its name in the file's name, and the file's sha256."""
MIRROR: Final = "LOSTACK_JAVA_MIRROR"
"""The environment variable whose address takes the place of :data:`HOST`."""
HOST: Final = "https://github.com"
FETCHED_MB: Final = 400


@dataclass(frozen=True, slots=True)
class Build:
    """An archive with a Java runtime: where it lies, and its sha256."""

    address: str
    sha256: str


def build_for(machine: str, environ: Mapping[str, str] = os.environ) -> Build | None:
    """Return the pinned build for a kind of machine; ``None`` if there is none."""
    if machine not in SUMS:
        return None
    name, digest = SUMS[machine]
    host = (environ.get(MIRROR) or HOST).rstrip("/")
    file = f"OpenJDK17U-jre_{name}_linux_hotspot_{RELEASE.replace('+', '_')}.tar.gz"
    tag = f"jdk-{RELEASE.replace('+', '%2B')}"
    return Build(f"{host}/adoptium/temurin17-binaries/releases/download/{tag}/{file}", digest)


def fetched(cache: Path) -> Path:
    """Return the home of the Java that is fetched into a cache; it need not exist."""
    return cache / f"java-{RELEASE}"


def fetch_java(cache: Path, say: Callable[[str], None], build: Build | None = None) -> Path:
    """Fetch a Java 17, and return its home. ``build``: by default the pinned one for this machine.

    Raises:
        EnvironmentFailure: the download fails, or differs from its sha256. The message, one line,
            says why.
    """
    build = build or build_for(platform.machine())
    if build is None:
        raise EnvironmentFailure(
            f"no Java can be fetched for this kind of machine ({platform.machine()})"
        )
    home = fetched(cache)
    with locked(home, say):
        if not (home / "bin" / "java").exists():
            need_space(cache, FETCHED_MB, "Java")
            say(f"fetching Java {RELEASE} (about 45 MB, once)")
            fill(home, lambda part: _unpack(_download(build, part), part))
    return home


def _download(build: Build, part: Path) -> Path:
    file = part / "fetched.tar.gz"
    if (found := download(build.address, file)) != build.sha256:
        raise EnvironmentFailure(
            f"{build.address} differs from its checksum: sha256 {found}, not {build.sha256}"
        )
    return file


def _unpack(file: Path, part: Path) -> None:
    """Unpack an archive whose only folder is the home, such that ``part`` is the home.

    Raises:
        EnvironmentFailure: it is no such archive.
    """
    inside = part / "unpacked"
    try:
        with tarfile.open(file, "r:gz") as archive:
            archive.extraction_filter = getattr(
                tarfile, "data_filter", None
            )  # Python 3.11.3 and older have none
            archive.extractall(inside)  # noqa: S202 - its checksum is right
    except tarfile.TarError as error:
        raise EnvironmentFailure(f"the fetched Java cannot be unpacked: {error}") from error
    homes = [home.parents[1] for home in inside.glob("*/bin/java")]
    if len(homes) != 1:
        raise EnvironmentFailure("the fetched archive holds no Java")
    for entry in homes[0].iterdir():
        shutil.move(entry, part / entry.name)
    shutil.rmtree(inside)
    file.unlink()
