"""Where the deployments of a broker of ours live: in processes of this machine, or in containers of our own images."""

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
    """A program that is started differently in a container than as a process of this machine."""

    def contained(self) -> Self:
        """Return the same for a container."""


T = TypeVar("T", bound=Containable)


@dataclass(frozen=True, slots=True)
class Runtimes:
    """Makes a runtime for each deployment. ``images``: those of its containers; null: its nodes are processes."""

    images: Mapping[str, Image] | None = None

    def make(self, directory: Path) -> Runtime:
        """Return a runtime whose logs go into ``directory``."""
        if self.images is None:
            return ProcessRuntime(directory=directory)
        from harness.runtimes.docker.runtime import DockerRuntime  # noqa: PLC0415 - brings the engine's client; processes need none

        return DockerRuntime(directory=directory, images=self.images)

    def fit(self, program: T) -> T:
        """Return what a program is run by there."""
        return program if self.images is None else program.contained()

    def versions(self) -> dict[str, str]:
        """Return the images that take part, for the report."""
        return {f"image {name}": str(image) for name, image in (self.images or {}).items()}


PROCESSES: Final = Runtimes()


def prepare_runtimes(runtime: str, say: Callable[[str], None]) -> Runtimes:
    """Build the images that are missing, where nodes are to be containers.

    Raises:
        EnvironmentFailure: there is no container engine that can be used from here.
    """
    if runtime == "process":
        return PROCESSES
    from harness.provision.images import ensure_images  # noqa: PLC0415 - brings the engine's client; processes need none

    return Runtimes(ensure_images(IMAGES, say))
