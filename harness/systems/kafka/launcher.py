"""Start Kafka brokers as processes or as containers. This module holds all differences between the
two runtimes.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from harness.provision.cache import cache_root
from harness.provision.certificates import private
from harness.provision.kafka import VERSION, ensure_kafka
from harness.provision.postgres import ensure_postgres
from harness.provision.properties import properties_file
from harness.provision.toxiproxy import ensure_toxiproxy
from harness.runtimes.interface import PROGRAMS_IMAGE, ContainerSpec, NodeSpec, SmallDisk
from harness.runtimes.process.runtime import ProcessRuntime
from harness.services.postgres.program import InstalledPostgres, PostgresImage
from harness.systems.kafka.formatted import keep_formatted, new_id, write_formatted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.provision.clients import ClientSetup
    from harness.provision.kafka import KafkaInstall
    from harness.runtimes.docker.engine import Image
    from harness.runtimes.interface import Runtime
    from harness.services.postgres.program import PostgresProgram

HEAP = "-Xmx256m"
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True, slots=True)
class ToxiproxyProgram:
    """The Toxiproxy server's program; ``path`` is ``None`` if an image has it."""

    path: Path | None


class Ground(Protocol):
    """The interface of a runtime's way to start brokers and the services beside them."""

    def runtime(self, directory: Path) -> Runtime:
        """Return a new runtime for one deployment."""

    def format(
        self, name: str, settings: Mapping[str, str], directory: Path, cluster: str
    ) -> NodeSpec | None:
        """Return the node that formats a broker's folder ``directory/data``; ``None`` if the broker
        formats it itself.
        """

    def formatted(self, settings: Mapping[str, str], directory: Path, cluster: str) -> bool:
        """Format a broker's folder ``directory/data`` by copying a kept one; return false if none
        is kept.
        """

    def keep_formatted(self, settings: Mapping[str, str], directory: Path) -> None:
        """Keep the folder that :meth:`format` has formatted, for :meth:`formatted`."""

    def broker(
        self,
        name: str,
        settings: Mapping[str, str],
        directory: Path,
        ports: Iterable[int],
        disk: int | None = None,
    ) -> NodeSpec:
        """Return the broker as a node.

        ``settings``: the content of ``server.properties``; ``ports``: the ports that lostack itself
        connects to; ``disk``: the size in bytes of a disk of its own (containers only).
        """

    def toxiproxy(self, say: Callable[[str], None]) -> ToxiproxyProgram:
        """Download or build the Toxiproxy server, and return its program."""

    def bring(self, images: Iterable[str], say: Callable[[str], None]) -> None:
        """Make these images available. Processes need none.

        Raises:
            EnvironmentFailure: an image can neither be pulled nor built.
        """

    def client(self, setup: ClientSetup, say: Callable[[str], None]) -> ClientSetup:
        """Return a client as stages use it in this runtime.

        Raises:
            EnvironmentFailure: the client's image cannot be built.
        """

    def postgres(self, say: Callable[[str], None]) -> PostgresProgram:
        """Find or download PostgreSQL, and return its program."""

    def versions(self) -> dict[str, str]:
        """Return the versions of what takes part, for the report."""


def new_cluster_id() -> str:
    """Return an id for a new cluster."""
    return new_id()


@dataclass(frozen=True)
class ProcessGround:
    """Starts brokers as processes, with Java on this machine. Implements :class:`Ground`."""

    install: KafkaInstall

    def runtime(self, directory: Path) -> Runtime:
        """Return a new runtime of processes."""
        return ProcessRuntime(directory=directory)

    def format(
        self, name: str, settings: Mapping[str, str], directory: Path, cluster: str
    ) -> NodeSpec:
        """Return the node that runs Kafka's storage tool, as Kafka's scripts do."""
        config = _properties(name, settings, directory)
        return NodeSpec(
            name=f"{name}-format",
            role="tool",
            log=directory / f"{name}.log",
            argv=self._command(
                "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(config)
            ),
        )

    def formatted(self, settings: Mapping[str, str], directory: Path, cluster: str) -> bool:
        """Copy the folder that the tool formatted earlier for this version; return false if the
        cache has none.
        """
        return write_formatted(self._store(settings), settings, directory / "data", cluster)

    def keep_formatted(self, settings: Mapping[str, str], directory: Path) -> None:
        """Keep the formatted folder in lostack's cache."""
        keep_formatted(self._store(settings), directory / "data")

    def broker(
        self,
        name: str,
        settings: Mapping[str, str],
        directory: Path,
        ports: Iterable[int],
        disk: int | None = None,
    ) -> NodeSpec:
        """Return the broker as a ``java`` process, on this machine's disk.

        A killed broker leaves unpacked files in its temporary folder; its next start removes them.
        """
        del ports, disk
        config, scratch = _properties(name, settings, directory), (directory / "tmp").absolute()
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        return NodeSpec(
            name=name,
            role="broker",
            log=directory / f"{name}.log",
            env={"KAFKA_OPTS": ""},
            argv=self._command("kafka.Kafka", str(config), flags=(f"-Djava.io.tmpdir={scratch}",)),
        )

    def toxiproxy(self, say: Callable[[str], None]) -> ToxiproxyProgram:
        """Return the Toxiproxy server: found on this machine, or built."""
        return ToxiproxyProgram(ensure_toxiproxy(cache_root(), say))

    def bring(self, images: Iterable[str], say: Callable[[str], None]) -> None:
        """Do nothing: processes need no images."""

    def client(self, setup: ClientSetup, say: Callable[[str], None]) -> ClientSetup:
        """Return the client unchanged."""
        del say
        return setup

    def postgres(self, say: Callable[[str], None]) -> PostgresProgram:
        """Return the PostgreSQL server that is installed on this machine."""
        del say
        return InstalledPostgres(ensure_postgres())

    def versions(self) -> dict[str, str]:
        """Return the versions of Kafka, Java and Python."""
        return {
            "kafka": self.install.version,
            "java": self.install.java_version,
            "python": sys.version.split()[0],
        }

    def _store(self, settings: Mapping[str, str]) -> Path:
        roles = settings["process.roles"].replace(",", "-")
        return cache_root() / "formatted" / "whole" / f"kafka-{self.install.version}-{roles}"

    def _command(self, main: str, *words: str, flags: tuple[str, ...] = ()) -> tuple[str, ...]:
        # the logging configuration is inside the jars' default: errors to standard output
        java = (str(self.install.java), *self.install.jvm_flags, HEAP, *JVM, *flags)
        return (*java, "-cp", self.install.classpath, main, *words)


@dataclass(frozen=True)
class DockerGround:
    """Starts brokers as containers, which KAFKA_* variables configure. Implements
    :class:`Ground`.
    """

    images: dict[str, Image]
    cluster: str

    def runtime(self, directory: Path) -> Runtime:
        """Return a new runtime of containers, with its own network."""
        from harness.runtimes.docker.runtime import DockerRuntime  # noqa: PLC0415 - brings the engine's client; processes need none

        return DockerRuntime(directory=directory, images=self.images)

    def format(self, name: str, settings: Mapping[str, str], directory: Path, cluster: str) -> None:
        """Return ``None``: the image formats an empty volume itself."""

    def formatted(self, settings: Mapping[str, str], directory: Path, cluster: str) -> bool:
        """Return false: the image formats the volume."""
        del settings, directory, cluster
        return False

    def keep_formatted(self, settings: Mapping[str, str], directory: Path) -> None:
        """Do nothing: the image formats the volume."""

    def broker(
        self,
        name: str,
        settings: Mapping[str, str],
        directory: Path,
        ports: Iterable[int],
        disk: int | None = None,
    ) -> NodeSpec:
        """Return the broker as a container that runs the image's own command."""
        data = (directory / "data").absolute()
        variables = {
            f"KAFKA_{key.upper().replace('.', '_')}": value for key, value in settings.items()
        }
        jvm = {
            "KAFKA_HEAP_OPTS": HEAP,
            "KAFKA_JVM_PERFORMANCE_OPTS": " ".join(JVM),
            "CLUSTER_ID": self.cluster,
        }
        return NodeSpec(
            name=name,
            role="broker",
            argv=(),
            env={**variables, **jvm},
            log=directory / f"{name}.log",
            container=ContainerSpec(
                "kafka",
                ports=tuple(ports),
                folders=() if disk else (data,),
                disk=SmallDisk(data, disk) if disk else None,
                elsewhere=((directory / "config", "/opt/kafka/config"),),
                host_pids=False,
                keep=True,
            ),
        )

    def toxiproxy(self, say: Callable[[str], None]) -> ToxiproxyProgram:
        """Make the Toxiproxy image available; return a program without a path."""
        self.bring(("toxiproxy",), say)
        return ToxiproxyProgram(None)

    def postgres(self, say: Callable[[str], None]) -> PostgresProgram:
        """Make the PostgreSQL image available; return its program."""
        self.bring(("postgres",), say)
        return PostgresImage(self._version("postgres"))

    def bring(self, images: Iterable[str], say: Callable[[str], None]) -> None:
        """Pull or build the images that are not available yet."""
        from harness.provision.images import ensure_images  # noqa: PLC0415

        self.images.update(
            ensure_images(tuple(name for name in images if name not in self.images), say)
        )

    def client(self, setup: ClientSetup, say: Callable[[str], None]) -> ClientSetup:
        """Return the client as it is in its image."""
        found = setup.contained()
        self.bring((found.image,), say)
        return found

    def versions(self) -> dict[str, str]:
        """Return the versions of Kafka and Python, and the images. Of an image that the user named,
        only the name is known.
        """
        images = {f"image {name}": str(image) for name, image in self.images.items()}
        return {"kafka": self._version("kafka"), "python": sys.version.split()[0], **images}

    def _version(self, name: str) -> str:
        """Return the version of an image's content; for an image that the user named, its name."""
        from harness.provision.images import OFFICIAL, stand_in_reference  # noqa: PLC0415

        named = self.images[name].reference
        return (
            named.rpartition(":")[2]
            if named in {OFFICIAL[name], stand_in_reference(name)}
            else f"as in {named}"
        )


def make_ground(runtime: str, say: Callable[[str], None], version: str = VERSION) -> Ground:
    """Download or build what Kafka needs in a runtime.

    Raises:
        EnvironmentFailure: something can be neither downloaded nor built.
    """
    if runtime == "process":
        return ProcessGround(ensure_kafka(say, version))
    from harness.provision.images import ensure_images  # noqa: PLC0415

    return DockerGround(ensure_images(("kafka", PROGRAMS_IMAGE), say), new_cluster_id())


def _properties(name: str, settings: Mapping[str, str], directory: Path) -> Path:
    """Write the broker's properties file beside its data; return its path. Nobody else may read it:
    a user's settings are among them.
    """
    return private(directory / f"{name}.properties", properties_file(settings).encode())
