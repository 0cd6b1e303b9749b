"""What a Kafka stands on: processes of this machine, or containers. Here, and nowhere else, the two differ."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from harness.provision.cache import cache_root
from harness.provision.kafka import VERSION, ensure_kafka
from harness.provision.postgres import ensure_postgres
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
    """The server's program, or ``None`` where an image brings it."""

    path: Path | None


class Ground(Protocol):
    """Where brokers live, and how one is started there."""

    def runtime(self, directory: Path) -> Runtime:
        """Return a new runtime, for one deployment."""

    def format(self, name: str, settings: Mapping[str, str], directory: Path, cluster: str) -> NodeSpec | None:
        """Return the node that formats a broker's folder ``directory/data``; ``None`` where the broker does it itself."""

    def formatted(self, settings: Mapping[str, str], directory: Path, cluster: str) -> bool:
        """Format a broker's folder ``directory/data`` as one before it; return whether that could be done."""

    def keep_formatted(self, settings: Mapping[str, str], directory: Path) -> None:
        """Keep what was formatted by :meth:`format`, for :meth:`formatted`."""

    def broker(
        self, name: str, settings: Mapping[str, str], directory: Path, ports: Iterable[int], disk: int | None = None
    ) -> NodeSpec:
        """Return the broker as a node.

        ``settings``: those of ``server.properties``; ``ports``: those the harness connects to; ``disk``: how many bytes it may
        keep, on a disk of its own (where a ground has such).
        """

    def toxiproxy(self, say: Callable[[str], None]) -> ToxiproxyProgram:
        """Fetch or build the Toxiproxy server; return what it is started by."""

    def bring(self, images: Iterable[str], say: Callable[[str], None]) -> None:
        """Let nodes be started of these images, too; processes have no use for any.

        Raises:
            EnvironmentFailure: an image can neither be pulled nor built.
        """

    def client(self, setup: ClientSetup, say: Callable[[str], None]) -> ClientSetup:
        """Return a client as stages have it here.

        Raises:
            EnvironmentFailure: the image that it needs cannot be built.
        """

    def postgres(self, say: Callable[[str], None]) -> PostgresProgram:
        """Find or fetch PostgreSQL; return what a server is started by."""

    def versions(self) -> dict[str, str]:
        """Return what takes part, for the report."""


def new_cluster_id() -> str:
    """Return an id for a new cluster."""
    return new_id()


@dataclass(frozen=True)
class ProcessGround:
    """Java on this machine."""

    install: KafkaInstall

    def runtime(self, directory: Path) -> Runtime:
        """Return a runtime of processes."""
        return ProcessRuntime(directory=directory)

    def format(self, name: str, settings: Mapping[str, str], directory: Path, cluster: str) -> NodeSpec:
        """Kafka's own tool, as upstream's scripts call it."""
        config = _properties(name, settings, directory)
        return NodeSpec(
            name=f"{name}-format", role="tool", log=directory / f"{name}.log",
            argv=self._command("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(config)),
        )  # fmt: skip

    def formatted(self, settings: Mapping[str, str], directory: Path, cluster: str) -> bool:
        """As the tool has formatted one of this version before, on this machine."""
        return write_formatted(self._store(settings), settings, directory / "data", cluster)

    def keep_formatted(self, settings: Mapping[str, str], directory: Path) -> None:
        """Keep it in the cache."""
        keep_formatted(self._store(settings), directory / "data")

    def broker(
        self, name: str, settings: Mapping[str, str], directory: Path, ports: Iterable[int], disk: int | None = None
    ) -> NodeSpec:
        """Return its program: a plain ``java``, on the disk of this machine.

        What it unpacks for itself, and leaves when it is killed, is cleared away by its next start.
        """
        del ports, disk
        config, scratch = _properties(name, settings, directory), (directory / "tmp").absolute()
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        return NodeSpec(
            name=name, role="broker", log=directory / f"{name}.log", env={"KAFKA_OPTS": ""},
            argv=self._command("kafka.Kafka", str(config), flags=(f"-Djava.io.tmpdir={scratch}",)),
        )  # fmt: skip

    def toxiproxy(self, say: Callable[[str], None]) -> ToxiproxyProgram:
        """Return its program: a server found on this machine, or built."""
        return ToxiproxyProgram(ensure_toxiproxy(cache_root(), say))

    def bring(self, images: Iterable[str], say: Callable[[str], None]) -> None:
        """Leave them."""

    def client(self, setup: ClientSetup, say: Callable[[str], None]) -> ClientSetup:
        """Return it as it is."""
        del say
        return setup

    def postgres(self, say: Callable[[str], None]) -> PostgresProgram:
        """Return its program: a server found on this machine."""
        del say
        return InstalledPostgres(ensure_postgres())

    def versions(self) -> dict[str, str]:
        """Kafka, Java and Python."""
        return {"kafka": self.install.version, "java": self.install.java_version, "python": sys.version.split()[0]}

    def _store(self, settings: Mapping[str, str]) -> Path:
        roles = settings["process.roles"].replace(",", "-")
        return cache_root() / "formatted" / f"kafka-{self.install.version}-{roles}"

    def _command(self, main: str, *words: str, flags: tuple[str, ...] = ()) -> tuple[str, ...]:
        # the logging configuration is inside the jars' default: errors to standard output
        java = (str(self.install.java), *self.install.jvm_flags, HEAP, *JVM, *flags)
        return (*java, "-cp", self.install.classpath, main, *words)


@dataclass(frozen=True)
class DockerGround:
    """Images in an engine. Brokers are configured as ``apache/kafka`` is: by KAFKA_* variables."""

    images: dict[str, Image]
    cluster: str

    def runtime(self, directory: Path) -> Runtime:
        """Return a runtime of containers, on a network of its own."""
        from harness.runtimes.docker.runtime import DockerRuntime  # noqa: PLC0415 - brings the engine's client; processes need none

        return DockerRuntime(directory=directory, images=self.images)

    def format(self, name: str, settings: Mapping[str, str], directory: Path, cluster: str) -> None:
        """Leave it to the image, which formats an empty volume."""

    def formatted(self, settings: Mapping[str, str], directory: Path, cluster: str) -> bool:
        """Leave it to the image."""
        del settings, directory, cluster
        return False

    def keep_formatted(self, settings: Mapping[str, str], directory: Path) -> None:
        """Keep nothing: nothing is formatted here."""

    def broker(
        self, name: str, settings: Mapping[str, str], directory: Path, ports: Iterable[int], disk: int | None = None
    ) -> NodeSpec:
        """Return its program: the image's own command."""
        data = (directory / "data").absolute()
        variables = {f"KAFKA_{key.upper().replace('.', '_')}": value for key, value in settings.items()}
        jvm = {"KAFKA_HEAP_OPTS": HEAP, "KAFKA_JVM_PERFORMANCE_OPTS": " ".join(JVM), "CLUSTER_ID": self.cluster}
        return NodeSpec(
            name=name, role="broker", argv=(), env={**variables, **jvm}, log=directory / f"{name}.log",
            container=ContainerSpec("kafka", ports=tuple(ports), folders=() if disk else (data,),
                                    disk=SmallDisk(data, disk) if disk else None,
                                    elsewhere=((directory / "config", "/opt/kafka/config"),), host_pids=False, keep=True),
        )  # fmt: skip

    def toxiproxy(self, say: Callable[[str], None]) -> ToxiproxyProgram:
        """Return its program: its image."""
        self.bring(("toxiproxy",), say)
        return ToxiproxyProgram(None)

    def postgres(self, say: Callable[[str], None]) -> PostgresProgram:
        """Return its program: its image."""
        self.bring(("postgres",), say)
        return PostgresImage(self._version("postgres"))

    def bring(self, images: Iterable[str], say: Callable[[str], None]) -> None:
        """Take those that are not there yet to one's own."""
        from harness.provision.images import ensure_images  # noqa: PLC0415

        self.images.update(ensure_images(tuple(name for name in images if name not in self.images), say))

    def client(self, setup: ClientSetup, say: Callable[[str], None]) -> ClientSetup:
        """Return it as it is found in its image."""
        found = setup.contained()
        self.bring((found.image,), say)
        return found

    def versions(self) -> dict[str, str]:
        """Kafka and the images, with what they stand in for; of an image that somebody named, only its name is known."""
        images = {f"image {name}": str(image) for name, image in self.images.items()}
        return {"kafka": self._version("kafka"), "python": sys.version.split()[0], **images}

    def _version(self, name: str) -> str:
        """Return the version of what an image holds; of one that somebody named, only the name is known."""
        from harness.provision.images import OFFICIAL, stand_in_reference  # noqa: PLC0415

        named = self.images[name].reference
        return named.rpartition(":")[2] if named in {OFFICIAL[name], stand_in_reference(name)} else f"as in {named}"


def make_ground(runtime: str, say: Callable[[str], None], version: str = VERSION) -> Ground:
    """Fetch or build what Kafka needs in a runtime.

    Raises:
        EnvironmentFailure: something can be neither fetched nor built.
    """
    if runtime == "process":
        return ProcessGround(ensure_kafka(say, version))
    from harness.provision.images import ensure_images  # noqa: PLC0415

    return DockerGround(ensure_images(("kafka", PROGRAMS_IMAGE), say), new_cluster_id())


def _properties(name: str, settings: Mapping[str, str], directory: Path) -> Path:
    """Write ``server.properties`` beside the broker's data."""
    file = directory / f"{name}.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file
