"""Images: their names, their settings, and what a stand-in is made of. Nothing here needs an
engine.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import io
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any

import docker
import pytest

import harness
from harness import cli, registry
from harness.model.failures import EnvironmentFailure
from harness.provision import images, postgres, stand_ins
from harness.provision.images import NAMES, OFFICIAL, stand_in_reference, wanted
from harness.provision.kafka import VERSION
from harness.provision.postgres import PostgresInstall
from harness.provision.rootfs import Rootfs
from harness.runtimes.docker.engine import Image
from harness.systems.kafka.launcher import DockerGround

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_official_images_are_the_default_and_each_is_a_setting() -> None:
    """All are pinned by version, and a stand-in is never called like the official one."""
    assert wanted("kafka", {}) == OFFICIAL["kafka"]
    assert (
        wanted("kafka", {"LOSTACK_IMAGE_KAFKA": "mirror.example/kafka:1"})
        == "mirror.example/kafka:1"
    )
    for name in NAMES:
        assert ":" in wanted(name, {}).rpartition("/")[2]
        assert stand_in_reference(name).startswith("lostack")


def test_what_a_run_would_find_of_an_image_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        images, "_present", lambda _, reference: reference if "java" in reference else None
    )
    said = {name: images.describe(None, name) for name in ("kafka", "lostack", "java")}
    assert said == {
        "kafka": (
            f"{OFFICIAL['kafka']} is pulled, or a stand-in made, by the first run that needs it"
        ),
        "lostack": "lostack:local is made by the first run that needs it",
        "java": "lostack-java:local is there",
    }


@pytest.mark.parametrize(
    "reference",
    ["kafka", "mirror.example:5000/kafka", "mirror.example:5000/kafka:4.3", "kafka@sha256:0a"],
)
def test_a_reference_is_pulled_as_it_was_named(
    reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port is no tag, and half a digest none either: the engine's client takes it apart."""
    monkeypatch.delenv(images.PULL_VARIABLE, raising=False)
    asked: list[tuple[object, ...]] = []
    client = SimpleNamespace(
        images=SimpleNamespace(pull=lambda *words, **options: asked.append((*words, options)))
    )
    images._pull(client, reference, lambda _: None)
    assert asked == [(reference, {})]


class Engine:
    """What answers to a build at a socket as an engine that dies: the rest of the answer, or all of
    it, is missing. ``said``: what it sends before it dies.
    """

    def __init__(self, path: Path, said: bytes) -> None:
        self.said = said
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        try:
            to, _ = self.listener.accept()
        except OSError:  # closed: nothing was asked
            return
        with to, to.makefile("rb") as asked:
            asked.readline()
            head = http.client.parse_headers(asked)
            asked.read(int(head["Content-Length"]))
            to.sendall(self.said)


def built(folder: Path, said: bytes = b"") -> str:
    """Build the image of a folder by an engine that dies, and return the error's message."""
    with tempfile.TemporaryDirectory() as short:
        path = Path(short, "engine")
        engine = Engine(path, said)
        client = docker.DockerClient(base_url=f"unix://{path}", version="1.41")
        with (
            contextlib.closing(engine.listener),
            contextlib.closing(client),
            pytest.raises(EnvironmentFailure) as told,
        ):
            images.built_image(client, "mine", folder, lambda _: None)
    assert "\n" not in str(told.value)
    return str(told.value)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "said", [b"", CHUNKED, CHUNKED + b"20\r\n{", CHUNKED + b'f\r\n{"stream": "a"}\r\n']
)
def test_an_engine_that_dies_while_it_builds_is_told(tmp_path: Path, said: bytes) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n", encoding="utf-8")
    assert "the container engine does not answer" in built(tmp_path, said)


def test_a_folder_that_the_engine_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FRM scratch\n", encoding="utf-8")
    said = b'{"message": "unknown instruction: FRM"}'
    head = (
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    told = built(tmp_path, head % len(said) + said)
    assert "(unknown instruction: FRM): correct its Dockerfile" in told


def test_a_file_that_this_user_cannot_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user may leave it out by .dockerignore, if the image does not need it."""
    (tmp_path / "Dockerfile").write_text("FROM scratch\n", encoding="utf-8")
    (tmp_path / "secret").write_text("", encoding="utf-8")

    def refuse(file: str, mode: str) -> IO[Any]:  # whoever tests as root may read every file
        if Path(file).name == "secret":
            raise PermissionError(errno.EACCES, "Permission denied", file)
        return Path(file).open(mode)

    monkeypatch.setattr("docker.utils.build.open", refuse, raising=False)
    told = built(tmp_path)
    assert str(tmp_path / "secret") in told
    assert ".dockerignore" in told


def test_a_folder_of_the_name_of_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n", encoding="utf-8")
    (tmp_path / ".dockerignore").mkdir()
    assert "Is a directory" in built(tmp_path)


def test_an_engine_that_dies_while_it_is_asked_for_an_image_is_told(tmp_path: Path) -> None:
    client = docker.DockerClient(base_url=f"unix://{tmp_path}/nobody", version="1.41")
    with (
        contextlib.closing(client),
        pytest.raises(EnvironmentFailure, match="the container engine does not answer"),
    ):
        images.users_image(client, "mine", lambda _: None)


def test_the_version_of_an_image_that_somebody_named_is_not_made_up() -> None:
    """The report says 4.3.0 of the images that are 4.3.0, and of another only what it is called."""
    own = {
        name: Image("kafka", name, "sha256:0")
        for name in (OFFICIAL["kafka"], stand_in_reference("kafka"))
    }
    for image in own.values():
        assert DockerGround({"kafka": image}, "c").versions()["kafka"] == VERSION
    other = Image("kafka", "mirror.example/kafka:4.1.0", "sha256:0")
    assert (
        DockerGround({"kafka": other}, "c").versions()["kafka"]
        == "as in mirror.example/kafka:4.1.0"
    )


def test_the_stand_in_of_postgres_is_called_by_the_server_that_it_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the only one whose version is not the official image's; where there is no server, one
    line says what helps.
    """
    server = PostgresInstall(tmp_path, "15.18", None)
    monkeypatch.setattr(images, "find_postgres", lambda: server)
    assert stand_in_reference("postgres") == "lostack/stand-in-postgres:15.18"
    image = Image("postgres", stand_in_reference("postgres"), "sha256:0", OFFICIAL["postgres"])
    assert str(image).endswith(f"a STAND-IN for postgres:{stand_ins.POSTGRES})")
    monkeypatch.setattr(postgres, "find_postgres", lambda: None)
    with pytest.raises(
        EnvironmentFailure,
        match=(
            r"^no stand-in for postgres:.* can be built from this machine's server: .*install "
            r"one"
        ),
    ):
        stand_ins.RECIPES["postgres"](tmp_path, print)
    (tmp_path / "pg_config").write_text("")
    monkeypatch.setattr(stand_ins, "ensure_postgres", lambda: server)
    with pytest.raises(
        EnvironmentFailure, match=r"^no stand-in for postgres:[^\n]*pg_config[^\n]*$"
    ):
        stand_ins.RECIPES["postgres"](tmp_path, print)


def made(rootfs: Rootfs) -> dict[str, tarfile.TarInfo]:
    """Return what is in the archive."""
    file = io.BytesIO()
    rootfs.write(file)
    file.seek(0)
    with tarfile.open(fileobj=file) as archive:
        return {info.name: info for info in archive.getmembers()}


@pytest.fixture
def rootfs(tmp_path: Path) -> Iterator[Rootfs]:
    """Return one with a shell and a folder."""
    (tmp_path / "kept").write_text("x")
    (tmp_path / "skipped.diz").write_text("x")
    rootfs = Rootfs()
    rootfs.program(Path("/bin/sh"))
    rootfs.tree("/opt/tree", tmp_path, ("*.diz",))
    return rootfs  # type: ignore[return-value]


def test_a_program_brings_its_libraries_and_a_tree_leaves_out_what_it_is_told(
    rootfs: Rootfs,
) -> None:
    """The loader and libc come along; every path is there once."""
    names = made(rootfs)
    assert any("libc.so" in name for name in names)
    assert "opt/tree/kept" in names
    assert not any(name.endswith(".diz") for name in names)
    assert names["bin/sh"].mode & 0o111


def test_the_fingerprint_changes_with_what_is_inside(rootfs: Rootfs) -> None:
    """The same content, the same print; one more letter, another one."""
    before = rootfs.fingerprint()
    assert rootfs.fingerprint() == before
    rootfs.text("/etc/note", "a")
    with_a = rootfs.fingerprint()
    rootfs.text("/etc/note", "b")
    assert len({before, with_a, rootfs.fingerprint()}) == 3


def test_a_module_comes_with_what_it_compiles_to(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("x = 1\n")
    rootfs = Rootfs()
    rootfs.python("/opt/m.py", tmp_path / "m.py")
    assert {name.split("/")[-1].split(".")[-1] for name in made(rootfs)} == {"py", "pyc"}


def with_ours() -> tuple[Rootfs, list[str]]:
    """Return an image with nothing but what is ours."""
    rootfs = Rootfs()
    stand_ins._ours(rootfs)
    return rootfs, []


def test_every_image_with_our_modules_has_what_they_read() -> None:
    home = Path(harness.__path__[0])
    wanted = {
        f"/opt/lostack/harness/{file.relative_to(home)}"
        for file in home.rglob("*")
        if file.is_file()
    }
    assert any(name.endswith("/messages/ShareFetchRequest.json") for name in wanted)
    assert {name for name in wanted if not name.endswith(".pyc")} <= with_ours()[0].entries.keys()


def test_the_image_of_the_whole_command_has_what_a_run_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules, and what they bring besides: without the file of known breaks no run begins."""
    monkeypatch.setattr(stand_ins, "_lostack", lambda *_: with_ours())
    monkeypatch.setattr(stand_ins, "_java", lambda *_: None)
    monkeypatch.setattr(stand_ins, "_needed_by", lambda _: [])
    monkeypatch.setattr(stand_ins, "find_java", lambda *_: None)
    monkeypatch.setattr(stand_ins, "read_jar_set", lambda name: SimpleNamespace(name=name, sums={}))
    monkeypatch.setattr(stand_ins, "ensure_jars", lambda *_, **__: tmp_path)
    rootfs, _ = stand_ins._matrix(tmp_path, print)
    home = registry.baseline().parents[2]
    own = [
        file
        for folder in ("harness", "harness/scenarios")
        for file in (home / folder).rglob("*")
        if file.is_file()
    ]
    wanted = {
        f"/opt/lostack/{file.relative_to(home)}"
        for file in own
        if file.suffix not in {".py", ".pyc"}
    }
    assert "/opt/lostack/harness/scenarios/baseline.toml" in wanted
    assert wanted <= rootfs.entries.keys()
    assert {
        f"/opt/lostack/harness/scenarios/{name}.py" for name in ("__init__", "plain")
    } <= rootfs.entries.keys()


def test_no_engine_is_one_line_and_the_machine_s_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What to do is in it; exit code 3, no traceback."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert (
        cli.main(
            ["run", "--runtime", "docker", "--only", "ack-lost", "--reports", str(tmp_path / "r")]
        )
        == 3
    )
    said = capsys.readouterr().err
    assert "no container engine answers at" in said
    assert "start it" in said
    assert "Traceback" not in said


def test_a_system_that_does_not_run_in_containers_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line with those that do; nothing is started."""
    assert cli.main(["run", "--runtime", "docker", "--system", "memory"]) == 2
    assert (
        "memory does not run in runtime docker; these do: activemq, artemis, flink, kafka, "
        "pulsar, spark, streams\n"
    ) in capsys.readouterr().err
    assert cli.main(["run", "--runtime", "dokcer"]) == 2
    assert "did you mean docker" in capsys.readouterr().err


IMPORTED = """
import importlib.metadata, sys
import harness.protocols.kafka.session, harness.protocols.postgres.session, harness.wire.__main__
import harness.protocols.amqp.session, harness.protocols.core.session, harness.protocols.openwire.session
import harness.protocols.pulsar.session, harness.protocols.stomp.session
import harness.stages.producer, harness.stages.queue_consumer, harness.stages.queue_processor
import harness.stages.clients.jms, harness.stages.clients.pulsar_java, harness.stages.clients.stomp_py
tops = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
found = importlib.metadata.packages_distributions()
print(*sorted({each for top in tops for each in found.get(top, ())}))
"""  # noqa: E501


def test_programs_in_containers_find_all_that_they_import() -> None:
    """The image of our own programs has every package of the wire, of the protocols that it reads
    there, and of the stages.
    """
    told = subprocess.run(
        [sys.executable, "-c", IMPORTED],
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    ).stdout
    needed = set(told.replace("_", "-").split()) - {"lostack", "setuptools", "editables"}
    assert "kafka-python" in needed
    assert needed <= set(stand_ins.PACKAGES)
