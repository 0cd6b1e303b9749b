"""Container images: which ones are used, and stand-ins with the same layout for machines without an
image registry.

The official images are the default, each pinned by version and each changed by a setting
(``LOSTACK_IMAGE_KAFKA`` and so on). If an official image is neither present nor can be pulled, a
stand-in is built from this machine's Java and Python and the locked artefacts. That takes seconds,
and happens again only when these change. Every report names the stand-ins.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shlex
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.provision.cache import cache_root, locked, need_space
from harness.provision.inside_pyspark import pyspark_version
from harness.provision.kafka import VERSION as KAFKA
from harness.provision.postgres import find_postgres
from harness.provision.stand_ins import POSTGRES, RECIPES
from harness.provision.toxiproxy import VERSION as TOXIPROXY
from harness.runtimes.docker.engine import HARNESS, Image, connect, owner_label, same_kernel
from harness.runtimes.docker.errors import SILENT, APIError, DockerException, ImageNotFound
from harness.runtimes.interface import JAVA_IMAGE, PROGRAMS_IMAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import docker
    from docker.models.containers import Container
    from docker.models.images import Image as DockerImage

    from harness.provision.rootfs import Rootfs

OFFICIAL: Final = {
    "kafka": f"apache/kafka:{KAFKA}",
    "toxiproxy": f"ghcr.io/shopify/toxiproxy:{TOXIPROXY}",
    "spark": f"apache/spark:{pyspark_version('--runtime docker')}",
    "postgres": f"postgres:{POSTGRES}",
}
"""The images that are used by default."""
OWN: Final = {
    PROGRAMS_IMAGE: "lostack:local",
    JAVA_IMAGE: "lostack-java:local",
    "driver": "lostack-driver:local",
    "matrix": "lostack-matrix:local",
}
"""Images that are always built from this installation: a cell's programs; the same with a Java, for
programs on jars; a Spark driver; and all of lostack, for the compose file.
"""
ON_TOP: Final = {"driver": "spark", JAVA_IMAGE: PROGRAMS_IMAGE}
"""Images that are built on top of another image from this list."""
NAMES: Final = ("kafka", "toxiproxy", "spark", *OWN, "postgres")
"""The images that lostack can build."""
FINGERPRINT: Final = "lostack.fingerprint"
STANDS_FOR: Final = "lostack.stand-in-for"
PULL_VARIABLE: Final = "LOSTACK_PULL"
NEEDED_MB: Final = 2000
ARCHIVE: Final = "/tmp/kafka.jsa"  # noqa: S108 - in a container
ARCHIVE_WITHIN_S: Final = 120.0
TRIAL: Final = {
    "KAFKA_HEAP_OPTS": "-Xmx256m",
    "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
"""As the brokers run: the archive must fit their heap."""


def wanted(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the image's reference: the one from its setting, or the default."""
    return environ.get(f"LOSTACK_IMAGE_{name.upper()}") or OFFICIAL.get(name) or OWN[name]


def stand_in_reference(name: str) -> str:
    """Return a stand-in's reference, which differs from the official image's. Its tag is the
    version of the software inside.
    """
    if name in OWN:
        return OWN[name]
    found = find_postgres() if name == "postgres" else None  # the machine's own, whichever that is
    return (
        f"lostack/stand-in-{name}:{found.version if found else OFFICIAL[name].rpartition(':')[2]}"
    )


def ensure_image(client: docker.DockerClient, name: str, say: Callable[[str], None]) -> Image:
    """Return an image; pull or build it if it is missing.

    Raises:
        EnvironmentFailure: the image can neither be pulled nor built. The message is one line.
    """
    reference = wanted(name)
    if name in OWN and reference == OWN[name]:
        return build_stand_in(client, name, say)
    found = _present(client, reference)
    if found is not None:
        return Image(name, reference, found.id, found.labels.get(STANDS_FOR))
    try:
        found = _pull(client, reference, say)
    except DockerException as error:
        if reference != OFFICIAL.get(name):
            because = f"image {reference} is missing and cannot be pulled ({_short(error)})"
            raise EnvironmentFailure(
                f"{because}; pull it, or unset LOSTACK_IMAGE_{name.upper()}"
            ) from error
        say(f"{reference} is missing and cannot be pulled: a stand-in is used")
        return build_stand_in(client, name, say)
    return Image(name, reference, found.id)


def ensure_images(names: Iterable[str], say: Callable[[str], None]) -> dict[str, Image]:
    """Return images by their names, from the container engine of this machine.

    Raises:
        EnvironmentFailure: the engine cannot be used from here, or an image can neither be pulled
            nor built.
    """
    with contextlib.closing(connect()) as client:
        if trouble := same_kernel(client):
            raise EnvironmentFailure(trouble)
        return {name: ensure_image(client, name, say) for name in names}


def users_image(client: docker.DockerClient, reference: str, say: Callable[[str], None]) -> Image:
    """Return one of the user's images; pull it if it is missing.

    Raises:
        EnvironmentFailure: the image cannot be pulled, or the engine does not answer. The message
            is one line.
    """
    try:
        found = _present(client, reference) or _pull(client, reference, say)
    except DockerException as error:
        because = f"image {reference} is missing and cannot be pulled ({_short(error)})"
        raise EnvironmentFailure(f"{because}: build it, or correct its name") from error
    except SILENT as error:
        raise _no_answer(f"image {reference} cannot be had", error) from error
    return Image(reference, reference, str(found.id))


def built_image(
    client: docker.DockerClient, name: str, folder: Path, say: Callable[[str], None]
) -> Image:
    """Return the image that is built from a folder of the user's with a Dockerfile.

    Raises:
        EnvironmentFailure: it cannot be built. The message is one line.
    """
    cannot = f"the image of {folder} cannot be built"
    reference = f"lostack/built-{hashlib.sha256(bytes(folder)).hexdigest()[:12]}:local"
    say(f"building the image of {folder}")
    try:
        found, _ = client.images.build(path=str(folder), tag=reference, rm=True, forcerm=True)
    except DockerException as error:
        raise EnvironmentFailure(
            f"{cannot} ({_short(error)}): correct its Dockerfile; "
            f"docker build {shlex.quote(str(folder))} shows more"
        ) from error
    except SILENT as error:
        raise _no_answer(cannot, error) from error
    except OSError as error:  # of a file in the folder: the engine has not been asked yet
        raise EnvironmentFailure(
            f"{cannot} ({_short(error)}): let this user read each file in the folder, or name it "
            "in .dockerignore"
        ) from error
    return Image(name, reference, str(found.id))


def describe(client: docker.DockerClient, name: str) -> str:
    """Return a sentence for ``lostack doctor``: whether an image is present, or how a run gets it.
    Pulls and builds nothing.
    """
    reference = wanted(name)
    for each in dict.fromkeys((reference, stand_in_reference(name))):
        if _present(client, each) is not None:
            return f"{each} is there"
    how = "made" if reference == OWN.get(name) else "pulled, or a stand-in made,"
    return f"{reference} is {how} by the first run that needs it"


def build_stand_in(client: docker.DockerClient, name: str, say: Callable[[str], None]) -> Image:
    """Return the stand-in of an image; build it if its content has changed since the last build."""
    reference, cache = stand_in_reference(name), cache_root()
    with locked(cache / f"image-{name}", say):
        rootfs, changes = RECIPES[name](cache, say)
        below = build_stand_in(client, ON_TOP[name], say) if name in ON_TOP else None
        fingerprint = rootfs.fingerprint() + (below.id[-16:] if below else "")
        found = _present(client, reference)
        stands_for = OFFICIAL.get(name)
        if found is None or found.labels.get(FINGERPRINT) != fingerprint:
            say(f"building {reference}")
            labels = [
                f"LABEL {FINGERPRINT}={fingerprint}",
                *([f"LABEL {STANDS_FOR}={stands_for}"] if stands_for else []),
            ]
            if below is not None:
                _lay_over(client, below, rootfs, reference, [*changes, *labels])
            else:
                _import(client, rootfs, reference, [*changes, *labels])
            if name == "kafka":
                _archive(client, rootfs, reference, say)
                _import(client, rootfs, reference, [*changes, *labels])
            _forget(client, found)
            found = client.images.get(reference)
        return Image(name, reference, str(found.id), stands_for)


def _forget(client: docker.DockerClient, image: DockerImage | None) -> None:
    """Remove an image whose name a new build has taken, unless containers still use it."""
    if image is not None:
        with contextlib.suppress(APIError):
            client.images.remove(image.id)


def _present(client: docker.DockerClient, reference: str) -> DockerImage | None:
    try:
        return client.images.get(reference)
    except ImageNotFound:
        return None


def _pull(client: docker.DockerClient, reference: str, say: Callable[[str], None]) -> DockerImage:
    if os.environ.get(PULL_VARIABLE) == "never":
        raise DockerException(f"{PULL_VARIABLE}=never")
    say(f"pulling {reference}")
    return client.images.pull(reference)


def _no_answer(what: str, error: Exception) -> EnvironmentFailure:
    return EnvironmentFailure(
        f"{what}: the container engine does not answer ({_short(error)}): start it, and run again"
    )


def _short(error: Exception) -> str:
    said = str(getattr(error, "explanation", None) or error) or type(error).__name__
    return said.splitlines()[0][:160]


def _import(
    client: docker.DockerClient, rootfs: Rootfs, reference: str, changes: list[str]
) -> None:
    repository, _, tag = reference.rpartition(":")
    need_space(Path(tempfile.gettempdir()), NEEDED_MB, f"the image {reference}")
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        rootfs.write(file)
        file.flush()
        try:
            client.api.import_image_from_file(
                file.name, repository=repository, tag=tag, changes=changes
            )
        except APIError as error:
            raise EnvironmentFailure(
                f"the container engine cannot import the image {reference} ({_short(error)}): "
                "lostack doctor says whether it works"
            ) from error


def _lay_over(
    client: docker.DockerClient, below: Image, rootfs: Rootfs, reference: str, changes: list[str]
) -> None:
    """Build an image from another one and the files on top of it."""
    repository, _, tag = reference.rpartition(":")
    with tempfile.TemporaryFile() as file:
        rootfs.write(file)
        file.seek(0)
        try:
            made = client.containers.create(below.id, ["true"], labels={HARNESS: owner_label()})
            try:
                made.put_archive("/", file)
                made.commit(repository, tag, changes=changes)
            finally:
                made.remove(force=True, v=True)
        except APIError as error:
            raise EnvironmentFailure(
                f"the container engine cannot build the image {reference} ({_short(error)}): "
                "lostack doctor says whether it works"
            ) from error


def _archive(
    client: docker.DockerClient, rootfs: Rootfs, reference: str, say: Callable[[str], None]
) -> None:
    """Add a class-data archive, as the official image has. A broker that starts and shuts down in
    order writes it.

    It only saves time: if it cannot be made, everything works without it.
    """
    say("making the class-data archive of the Kafka image")
    old = client.images.get(reference)
    made = client.containers.create(
        reference,
        environment={"KAFKA_OPTS": f"-XX:ArchiveClassesAtExit={ARCHIVE}", **TRIAL},
        labels={HARNESS: owner_label()},
        detach=True,
    )
    try:
        made.start()
        wait_until(
            lambda: _listens(made),
            within_s=ARCHIVE_WITHIN_S,
            because="a broker to start in a container",
            poll_s=0.2,
        )
        made.stop(timeout=int(ARCHIVE_WITHIN_S))
        data, _ = made.get_archive(ARCHIVE)
        with tarfile.open(fileobj=io.BytesIO(b"".join(data))) as archive:
            file = archive.extractfile(Path(ARCHIVE).name)
            rootfs.data("/opt/kafka/kafka.jsa", file.read() if file else b"")
    except (APIError, WaitTimeoutError) as error:
        say(f"no class-data archive could be made ({error}): brokers start more slowly")
    finally:
        made.remove(force=True, v=True)
        client.api.remove_image(old.id, force=True)


def _listens(container: Container) -> bool:
    """Return whether the broker listens on port 9092 (0x2384), by the kernel's tables inside the
    container.
    """
    container.reload()
    if container.status == "exited":
        raise WaitTimeoutError("the broker not to end at once", 0)
    return b":2384 " in container.exec_run(["cat", "/proc/net/tcp6", "/proc/net/tcp"]).output
