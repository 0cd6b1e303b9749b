"""Where deployments live: what is the same in processes and in containers, and what is not."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import registry
from harness.provision.java import Java
from harness.provision.java_program import JavaProgram
from harness.provision.server import Install
from harness.run.control_port import ControlPort
from harness.run.queue_server import QueueServer
from harness.run.runtimes import PROCESSES, Runtimes, prepare_runtimes
from harness.runtimes.docker.engine import Image
from harness.runtimes.docker.runtime import DockerRuntime
from harness.runtimes.interface import JAVA_IMAGE, PROGRAMS_IMAGE
from harness.runtimes.process.runtime import ProcessRuntime
from harness.systems.activemq.system import CLASSIC
from harness.systems.artemis.system import ARTEMIS
from harness.systems.pulsar.broker import PulsarBroker
from harness.systems.pulsar.install import Install as PulsarInstall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.run.queue_server import Product
    from harness.runtimes.interface import Runtime

PROGRAM = JavaProgram(Path("/jdk/bin/java"), (), (Path("/cache/a/1.jar"),), "lostack.Broker")


EVERYWHERE = DockerRuntime.bind


class Elsewhere(ProcessRuntime):
    """A runtime of processes that binds and names its nodes as one of containers does."""

    bind = EVERYWHERE

    def address(self, node: str) -> str:
        """Return the node's name."""
        return node


class Contained(Runtimes):
    """Makes such runtimes."""

    def make(self, directory: Path) -> Runtime:
        """Return one."""
        return Elsewhere(directory=directory)


CONTAINED = Contained(
    {name: Image(name, f"{name}:local", "sha256:0123") for name in (PROGRAMS_IMAGE, JAVA_IMAGE)}
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a deployment, in that of a run."""
    found = tmp_path / "deployments" / "one"
    found.mkdir(parents=True)
    return found


@pytest.mark.parametrize("product", [CLASSIC, ARTEMIS], ids=["activemq", "artemis"])
def test_a_broker_in_a_container_listens_to_others_and_publishes_one_port(
    product: Product, folder: Path
) -> None:
    """It sees its jars and its deployment's folder where they lie, has process ids of its own, and
    comes back as the same one.
    """
    broker = QueueServer(product, Install(PROGRAM, "1", "17"), folder, CONTAINED)
    try:
        spec = broker.spec()
        control = broker.ports[0]
        assert spec.argv[:6] == (
            "java",
            "-cp",
            "/cache/a/1.jar",
            "lostack.Broker",
            "broker",
            str(folder / "data"),
        )
        assert spec.argv[6] == f"{EVERYWHERE}:{control}"
        assert all(f"://{EVERYWHERE}:" in word for word in spec.argv[7:])
        wants = spec.container
        assert (wants.image, wants.ports, wants.folders) == (
            JAVA_IMAGE,
            (control,),
            (folder, Path("/cache/a")),
        )
        assert wants.keep
        assert not wants.host_pids
        assert {(route.listen_host, route.upstream_host) for route in broker.routes()} == {
            (EVERYWHERE, "broker-1")
        }
        assert broker.spec() == spec, "else its restart is another container"
    finally:
        broker.close()


@pytest.mark.parametrize(
    ("runtimes", "bind", "wire"),
    [(PROCESSES, "127.0.0.1", "127.0.0.1"), (CONTAINED, EVERYWHERE, "wire")],
)
def test_a_pulsar_leads_its_clients_to_the_wire(
    runtimes: Runtimes, bind: str, wire: str, folder: Path
) -> None:
    """Where that is found: by its name in containers."""
    install = PulsarInstall(Java(Path("/jdk/bin/java"), 17, ""), (Path("/cache/a/1.jar"),), "1")
    broker = PulsarBroker(install, folder, runtimes)
    try:
        spec = broker.spec()
        file = Path(spec.argv[spec.argv.index("--config") + 1])
        said = dict(line.split("=", 1) for line in file.read_text(encoding="utf-8").splitlines())
        http = broker.ports[1]
    finally:
        broker.close()
    assert (said["bindAddress"], said["webServicePort"]) == (bind, str(http))
    assert all(f":pulsar://{bind}:" in each for each in said["bindAddresses"].split(","))
    assert all(f":pulsar://{wire}:" in each for each in said["advertisedListeners"].split(","))
    assert (spec.container.image, spec.container.ports) == (JAVA_IMAGE, (http,))


def test_a_broker_that_is_a_process_listens_on_loopback(folder: Path) -> None:
    broker = QueueServer(CLASSIC, Install(PROGRAM, "1", "17"), folder)
    try:
        words = broker.spec().argv
    finally:
        broker.close()
    assert words[0] == "/jdk/bin/java"
    assert words[6].startswith("127.0.0.1:")
    assert not any(EVERYWHERE in word for word in words)


def test_the_images_are_told(tmp_path: Path) -> None:
    """A report says what containers were made of; processes are made of none."""
    assert CONTAINED.versions() == {
        "image lostack": "lostack:local (0123)",
        "image java": "java:local (0123)",
    }
    assert PROCESSES.versions() == {}
    assert prepare_runtimes("process", print) is PROCESSES
    with PROCESSES.make(tmp_path) as made:
        assert made.name == "process"


@pytest.mark.parametrize("name", ["activemq==5.18.6", "artemis==2.44.0", "flink==1.19.3"])
def test_what_is_made_of_jars_has_its_versions_in_containers_too(name: str) -> None:
    assert registry.systems("docker", name) == (name,)


@pytest.fixture
def hanging_up() -> Iterator[int]:
    """Return a port where each connection is taken, and closed: what the engine does for a
    container that does not listen yet.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.recv(100)

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_who_hangs_up_has_not_answered(hanging_up: int, folder: Path) -> None:
    """A journal of nothing would be a broker that has lost everything."""
    broker = QueueServer(CLASSIC, Install(PROGRAM, "1", "17"), folder)
    try:
        broker._control = ControlPort(hanging_up, 5.0)
        for ask in (
            broker.answers,
            lambda: broker.messages("/queue/a"),
            lambda: broker.count("/queue/a"),
        ):
            with pytest.raises(
                OSError, match=r"^broker-1: the connection was closed without an answer to \w+$"
            ):
                ask()
    finally:
        broker.close()
