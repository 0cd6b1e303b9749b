"""The container engine: connect to it, and find and remove what lostack made on it. Things without
its labels are not touched.
"""

from __future__ import annotations

import contextlib
import os
import platform
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import docker
import psutil
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker.models.containers import Container
    from docker.models.networks import Network
    from docker.models.volumes import Volume

RUN: Final = "lostack.run"
"""The label that names the runtime and run to which something belongs."""
HARNESS: Final = "lostack.harness"
"""The label that names the process that made something, as :func:`owner_label` gives it."""
ANSWER_WITHIN_S: Final = 60
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class EngineError(EnvironmentFailure):
    """The container engine cannot be reached, refuses a request, or is gone. The message says what
    to do.
    """


@dataclass(frozen=True, slots=True)
class Image:
    """A present image: its name, its id, and the official image that it replaces, if it is a
    stand-in.
    """

    name: str
    reference: str
    id: str
    stands_for: str | None = None

    def __str__(self) -> str:
        short = self.id.removeprefix("sha256:")[:12]
        return f"{self.reference} ({short}" + (
            f"; a STAND-IN for {self.stands_for})" if self.stands_for else ")"
        )


@contextlib.contextmanager
def telling(what: str) -> Iterator[None]:
    """Turn exceptions of the engine's client into an error of one line. ``what``: what was being
    done.

    Raises:
        EngineError: the engine refuses, or does not answer.
    """
    try:
        yield
    except APIError as error:
        raise EngineError(f"{what}: {explained(error)}") from error
    except (DockerException, RequestException, OSError) as error:
        raise EngineError(
            f"{what}: the container engine does not answer ({_reason(error)})"
        ) from error


def explained(error: APIError) -> str:
    """Return the engine's message, with what to do about it if lostack knows that."""
    said = str(error.explanation or error).splitlines()[0][:300]
    if "port is already allocated" in said or "address already in use" in said:
        return f"{said}; end the program that uses the port, and run again"
    if "no space left on device" in said:
        return f"{said}; the engine's disk is full: see what uses it by docker system df"
    return said


def connect() -> docker.DockerClient:
    """Return a client of the engine.

    Raises:
        EngineError: there is no engine, or this user may not use it.
    """
    try:
        client = docker.from_env(timeout=ANSWER_WITHIN_S)
        client.ping()
    except (DockerException, RequestException, OSError) as error:
        raise EngineError(_no_engine(error)) from error
    return client


def same_kernel(client: docker.DockerClient) -> str | None:
    """Say why lostack cannot use this engine's containers from this machine; return ``None`` if it
    can.

    It must run on the same kernel: the kernel's monotonic clock puts the histories of several nodes
    in order, and containers share the cells' folders.
    """
    with telling("asking the engine about itself"):
        theirs = str(client.info().get("KernelVersion"))
    ours = platform.release()
    if theirs != ours:
        return (
            f"the container engine runs on another kernel ({theirs}; here {ours}), so clocks and "
            "folders are not shared; run lostack on the engine's own machine"
        )
    return None


def owner_label() -> str:
    """Return this process's name for a label: its host, boot, process id and start time."""
    process = psutil.Process()
    return f"{socket.gethostname()}/{_boot()}/{process.pid}/{process.create_time():.2f}"


def is_dead(owner: str) -> bool:
    """Return whether a process named by :func:`owner_label` is certainly gone. For a process of
    another host the answer is no.
    """
    try:
        host, boot, pid, began = owner.split("/")
    except ValueError:
        return False
    if host != socket.gethostname():
        return False
    if boot != _boot():
        return True
    try:
        return f"{psutil.Process(int(pid)).create_time():.2f}" != began
    except (psutil.NoSuchProcess, ValueError):
        return True


def remove_leftovers(client: docker.DockerClient) -> int:
    """Remove what killed runs of this machine left on the engine; return how many containers were
    removed.
    """
    dead = {
        owner for each in _everything(client, HARNESS) if is_dead(owner := _label(each, HARNESS))
    }
    return sum(remove(client, f"{HARNESS}={owner}") for owner in sorted(dead))


def remove(client: docker.DockerClient, label: str) -> int:
    """Remove every container, network and volume with a label; return how many containers were
    removed.
    """
    chosen = {"label": label}
    containers = client.containers.list(all=True, filters=chosen, ignore_removed=True)
    for container in containers:
        with contextlib.suppress(APIError):  # it is being removed already
            container.remove(force=True, v=True)
    for network in client.networks.list(filters=chosen):
        with contextlib.suppress(APIError):
            network.remove()
    for volume in client.volumes.list(filters=chosen):
        with contextlib.suppress(APIError):
            volume.remove(force=True)
    return len(containers)


def _everything(client: docker.DockerClient, label: str) -> list[Container | Network | Volume]:
    chosen = {"label": label}
    return [
        *client.containers.list(all=True, filters=chosen, ignore_removed=True),
        *client.networks.list(filters=chosen),
        *client.volumes.list(filters=chosen),
    ]


def _label(thing: Container | Network | Volume, name: str) -> str:
    labels = thing.attrs.get("Labels") or thing.attrs.get("Config", {}).get("Labels") or {}
    return str(labels.get(name, ""))


def _boot() -> str:
    try:
        return BOOT.read_text().strip()[:8]
    except OSError:
        return "unknown"


def _no_engine(error: Exception) -> str:
    where = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    reason = _reason(error)
    if "Permission denied" in reason:
        return (
            f"this user may not use the container engine at {where}: sudo usermod -aG docker "
            "$USER, then log in again"
        )
    return (
        f"no container engine answers at {where} ({reason}): start it (sudo systemctl start "
        "docker), or install one"
    )


def _reason(error: Exception) -> str:
    text = str(error)
    for known in (
        "Permission denied",
        "No such file or directory",
        "Connection refused",
        "timed out",
    ):
        if known in text:
            return known
    return text.splitlines()[0][:200] if text else type(error).__name__
