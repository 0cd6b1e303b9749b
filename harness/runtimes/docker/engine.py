"""The container engine: reached or not, and what of ours is on it. Everything of ours carries labels; nothing else is touched."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import docker
import psutil
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN: Final = "lostack.run"
"""Label: which runtime of which run something belongs to."""
HARNESS: Final = "lostack.harness"
"""Label: the process that started it, as :func:`me` says it."""
ANSWER_WITHIN_S: Final = 60
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class EngineError(EnvironmentFailure):
    """The engine cannot be reached, refuses, or is gone; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is there: its name, its id, and what it stands in for."""

    name: str
    reference: str
    id: str
    stands_for: str | None = None

    def __str__(self) -> str:
        short = self.id.removeprefix("sha256:")[:12]
        return f"{self.reference} ({short}" + (f"; a STAND-IN for {self.stands_for})" if self.stands_for else ")")


@contextlib.contextmanager
def telling(what: str) -> Iterator[None]:
    """Turn what the engine's client raises into one line for the user.

    Raises:
        EngineError: the engine refuses, or does not answer.
    """
    try:
        yield
    except APIError as error:
        raise EngineError(f"{what}: {explained(error)}") from error
    except (DockerException, RequestException, OSError) as error:
        raise EngineError(f"{what}: the container engine does not answer ({_reason(error)})") from error


def explained(error: APIError) -> str:
    """Return what the engine says, and what to do where that is known."""
    said = str(error.explanation or error).splitlines()[0][:300]
    if "port is already allocated" in said or "address already in use" in said:
        return f"{said}; end what holds the port, and run again"
    if "no space left on device" in said:
        return f"{said}; the engine's disk is full: docker system df shows by what"
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
    """Say why this engine's containers cannot be driven from here, or return ``None``.

    Histories of several nodes are put in order by the kernel's monotonic clock, and cells' folders are shared with them.
    """
    with telling("asking the engine about itself"):
        theirs = str(client.info().get("KernelVersion"))
    ours = platform.release()
    if theirs != ours:
        return (
            f"the container engine runs on another kernel ({theirs}; here {ours}), so clocks and folders are not shared; "
            "run lostack on the engine's own machine"
        )
    return None


def me() -> str:
    """Name this process, for a label: host, boot, process id, and when it began."""
    process = psutil.Process()
    return f"{socket.gethostname()}/{_boot()}/{process.pid}/{process.create_time():.2f}"


def is_dead(owner: str) -> bool:
    """Say whether a process named by :func:`me` is certainly gone. One of another host never is."""
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
    """Remove what killed runs of this machine have left; return how many containers."""
    dead = {owner for each in _everything(client, HARNESS) if is_dead(owner := _label(each, HARNESS))}
    return sum(remove(client, f"{HARNESS}={owner}") for owner in sorted(dead))


def remove(client: docker.DockerClient, label: str) -> int:
    """Remove every container, network and volume with a label; return how many containers."""
    chosen = {"label": label}
    containers = client.containers.list(all=True, filters=chosen, ignore_removed=True)
    for container in containers:
        with contextlib.suppress(APIError):  # it is going already
            container.remove(force=True, v=True)
    for network in client.networks.list(filters=chosen):
        with contextlib.suppress(APIError):
            network.remove()
    for volume in client.volumes.list(filters=chosen):
        with contextlib.suppress(APIError):
            volume.remove(force=True)
    return len(containers)


def _everything(client: docker.DockerClient, label: str) -> list[Any]:
    chosen = {"label": label}
    return [
        *client.containers.list(all=True, filters=chosen, ignore_removed=True),
        *client.networks.list(filters=chosen),
        *client.volumes.list(filters=chosen),
    ]


def _label(thing: Any, name: str) -> str:
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
        return f"this user may not use the container engine at {where}: sudo usermod -aG docker $USER, then log in again"
    return f"no container engine answers at {where} ({reason}): start it (sudo systemctl start docker), or install one"


def _reason(error: Exception) -> str:
    text = str(error)
    for known in ("Permission denied", "No such file or directory", "Connection refused", "timed out"):
        if known in text:
            return known
    return text.splitlines()[0][:200] if text else type(error).__name__
