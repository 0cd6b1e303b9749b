"""The runtimes that the suite in ``test_runtimes.py`` is run against: one line for each of the
registry's.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.waiting import WaitTimeoutError, wait_until
from harness.runtimes.interface import ContainerSpec, NodeSpec
from harness.runtimes.process.runtime import ProcessRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from harness.runtimes.interface import Node, Runtime

WITHIN_S = 20.0
STILL_S = 0.3
"""For so long nothing moves of what stands still; what goes on moves every hundredth
of a second.
"""
TICKER = """
import sys, time
with open(sys.argv[1], "ab", buffering=0) as file:
    while True:
        file.write(b".")
        time.sleep(0.01)
"""
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], *sys.argv[2:]])
print(child.pid)
child.wait()
"""
"""Starts a program, says its process id, and waits for it."""
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Place:
    """A runtime, and a folder that its nodes see too."""

    name: str
    """What selects the runtime."""
    runtime: Runtime
    folder: Path
    make: Callable[[Path], AbstractContextManager[Runtime]]
    """Makes another one like it, which keeps its logs below a folder."""
    started: list[Node] = field(default_factory=list)

    def spec(self, program: str, *words: str, name: str = "", **more: Any) -> NodeSpec:
        """Return a Python program as a node; by default of a new name."""
        name = name or f"node-{next(_NUMBERS)}"
        argv = (self.runtime.python, "-u", "-c", program, *words)
        return NodeSpec(name, "tool", argv, container=ContainerSpec(folders=(self.folder,)), **more)

    def start(self, program: str, *words: str, name: str = "", **more: Any) -> Node:
        """Start it."""
        node = self.runtime.start(self.spec(program, *words, name=name, **more))
        self.started.append(node)
        return node

    def up(self, program: str, *words: str, name: str = "", **more: Any) -> Node:
        """Start it, and wait until it has said something."""
        node = self.start(program, *words, name=name, **more)
        wait_until(node.log_tail, within_s=WITHIN_S, because=f"{node.name} to say something")
        return node

    def ticking(self, file: Path) -> Node:
        """Start a node whose child writes into a file for ever, once it does; it has said the
        child's process id.
        """
        node = self.up(PARENT, TICKER, str(file))
        wait_until(file.exists, within_s=WITHIN_S, because="the child to write")
        assert moves(file, WITHIN_S)
        return node

    def file(self) -> Path:
        """Return a file that is not there yet, and that nodes can write."""
        return self.folder / f"file-{next(_NUMBERS)}"


def moves(file: Path, within_s: float) -> bool:
    """Whether a file grows."""
    size = file.stat().st_size
    try:
        wait_until(
            lambda: file.stat().st_size > size, within_s=within_s, because="the file to grow"
        )
    except WaitTimeoutError:
        return False
    return True


@contextmanager
def processes(directory: Path) -> Iterator[Runtime]:
    """Processes of this machine."""
    with ProcessRuntime(directory=directory) as runtime:
        yield runtime


@contextmanager
def containers(directory: Path) -> Iterator[Runtime]:
    """Containers of an engine."""
    from harness.provision.images import ensure_image  # noqa: PLC0415
    from harness.runtimes.docker.engine import connect  # noqa: PLC0415 - brings the engine's client; processes need none
    from harness.runtimes.docker.runtime import DockerRuntime  # noqa: PLC0415

    client = connect()
    images = {"lostack": ensure_image(client, "lostack", print)}
    client.close()
    with DockerRuntime(directory=directory, images=images) as runtime:
        yield runtime


RUNTIMES: dict[
    str, tuple[Callable[[Path], AbstractContextManager[Runtime]], tuple[pytest.MarkDecorator, ...]]
] = {
    "process": (processes, ()),
    "docker": (containers, (pytest.mark.docker, pytest.mark.timeout(180))),
}
"""How the suite gets at each, and what it needs. A new runtime is a line here."""


def runtime_params() -> list[Any]:
    """Return the runtimes as parameters of a fixture."""
    return [
        pytest.param((name, make), id=name, marks=marks) for name, (make, marks) in RUNTIMES.items()
    ]
