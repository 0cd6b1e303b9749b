"""Where lostack runs a broker and its clients: in processes on this machine, or in containers of
lostack's own images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

from harness.runtimes.interface import JAVA_IMAGE, PROGRAMS_IMAGE
from harness.runtimes.process.runtime import ProcessRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.runtimes.docker.engine import Image
    from harness.runtimes.interface import Runtime

IMAGES: Final = (PROGRAMS_IMAGE, JAVA_IMAGE)


class Containable(Protocol):
    """A program that starts differently in a container than as a process on this machine."""

    def contained(self) -> Self:
        """Return the program as it is started in a container."""


T = TypeVar("T", bound=Containable)


@dataclass(frozen=True, slots=True)
class Runtimes:
    """Makes a runtime for each deployment. ``images``: the images of its containers; null: its
    nodes are processes.
    """

    images: Mapping[str, Image] | None = None

    def make(self, directory: Path) -> Runtime:
        """Return a runtime whose logs go into ``directory``."""
        if self.images is None:
            return ProcessRuntime(directory=directory)
        from harness.runtimes.docker.runtime import DockerRuntime  # noqa: PLC0415 - brings the engine's client; processes need none

        return DockerRuntime(directory=directory, images=self.images)

    def fit(self, program: T) -> T:
        """Return a program as it is started in these runtimes."""
        return program if self.images is None else program.contained()

    def versions(self) -> dict[str, str]:
        """Return the images in use, for the report."""
        return {f"image {name}": str(image) for name, image in (self.images or {}).items()}


PROCESSES: Final = Runtimes()


def prepare_runtimes(runtime: str, say: Callable[[str], None]) -> Runtimes:
    """Return the runtimes of that name. For containers, first build the images that are missing.

    Raises:
        EnvironmentFailure: no container engine can be used from here.
    """
    if runtime == "process":
        return PROCESSES
    from harness.provision.images import ensure_images  # noqa: PLC0415 - brings the engine's client; processes need none

    return Runtimes(ensure_images(IMAGES, say))
