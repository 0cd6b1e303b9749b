"""Run a distributed worker of Kafka Connect with one connector, as a stage of a declared pipeline:
``python -m lostack_connect.launch connector.json --stage NAME [name=value ...] --jars DIR
[--plugins DIR]``.

It ends as the worker does, or with status 1 when the worker refuses the connector or a task fails.
Brokers and the folder for its files come from the environment (``BOOTSTRAP_SERVERS``,
``LOSTACK_WORK``).
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import CellFailure, EnvironmentFailure
from harness.pipelines.connectors import Connector
from harness.pipelines.refusing import DeclarationError
from harness.provision.cache import cache_root
from harness.provision.java import find_java
from harness.runtimes.ports import PortLease
from harness.systems.declared.programs import several
from lostack_connect.install import VERSION, ConnectInstall, archive_flags
from lostack_connect.rest import RestError, WorkerApi
from lostack_connect.words import launched_words, own_topics_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LOOK_S: Final = 0.2
ASKED_AGAIN: Final = frozenset({404, 409, 500, 503})
"""What a worker answers that is not ready yet, or whose cluster is being formed."""
FAILED: Final = 500
"""The status of an error in the worker, which may pass; the others say that something will come."""
CAUSES: Final = 3
say: Final = partial(print, flush=True)
FIRST: Final = "1"
"""The number of the only worker, or the first of several."""


def plugin_path(plugins: Sequence[str], folder: Path) -> str:
    """Return the worker's ``plugin.path``. A folder of jars is one plugin, so it is shown to the
    worker below ``folder``; any other folder holds plugins.
    """
    found = []
    for number, each in enumerate(plugins):
        there = Path(each).absolute()
        if not there.is_dir():
            raise CellFailure(f"plugins: there is no folder {there}")
        if any(there.glob("*.jar")):
            (folder / f"{number}").mkdir(parents=True, exist_ok=True)
            link = folder / f"{number}" / there.name
            link.unlink(missing_ok=True)
            link.symlink_to(there)
            there = link.parent
        found.append(str(there))
    return ",".join(found)


@dataclass
class Launched:
    """A worker that runs, and its connector."""

    worker: subprocess.Popen[bytes]
    port: int
    """Of its REST interface."""
    connector: Connector

    alone: bool = True
    """Whether it is the only worker of its cluster, and has to run all tasks."""

    def follow(self, made: Path, *, makes: bool) -> int:
        """Say when the connector's tasks run, and return how the worker has ended. ``makes``:
        whether this worker makes the connector, unless ``made`` is there: of several only one does,
        since to make it again would start its tasks again.

        Raises:
            CellFailure: the worker refuses the connector, or it or a task fails.
        """
        known, running, rest = made.exists() or not makes, False, WorkerApi(self.port)
        refused, here = "", f"127.0.0.1:{self.port}"
        while (status := self.worker.poll()) is None:
            time.sleep(LOOK_S)
            try:
                if not known:
                    rest.put(self.connector.name, self.connector.config)
                    made.touch()
                    known = True
                told = rest.status(self.connector.name)
                # of another worker: what the status topic still says of a dead one
                if told["connector"]["worker_id"] == here:
                    fail_with("the connector", told["connector"])
                tasks = [each for each in told["tasks"] if each["worker_id"] == here]
                for task in tasks:
                    fail_with(f"the task {task['id']}", task)
                due = rest.tasks_of(self.connector.name) if self.alone and not running else 1
            except RestError as error:
                if error.status is not None and error.status not in ASKED_AGAIN:
                    raise
                if error.status == FAILED and str(error) != refused:
                    refused = str(error)
                    say(refused)
                continue
            works = len(tasks) >= max(due, 1) and all(each["state"] == "RUNNING" for each in tasks)
            if works and not running:
                running = True
                say(f"the connector {self.connector.name} is RUNNING")
        return status if status >= 0 else 128 - status

    def end(self) -> None:
        """Tell the worker to end, as whoever told this program."""
        self.worker.terminate()


def fail_with(what: str, state: Mapping[str, object]) -> None:
    """Raise :class:`CellFailure` if a connector or task has failed, as its status says."""
    if state["state"] == "FAILED":
        raise CellFailure(f"{what} has failed: {causes(state)}")


def causes(task: Mapping[str, object]) -> str:
    """Return why a task failed: the first causes of its trace, in one line."""
    lines = str(task.get("trace", "")).splitlines()
    said = [line for line in lines if line and not line.startswith(("\t", " "))]
    return " | ".join(said[:CAUSES])


def name_of(cluster: Path) -> str:
    """Return the name of the cluster whose workers share this folder, the same one in each life of
    each of them. A cell that is run again has the folder's path, and perhaps the broker, of its
    first run, and must not go on from the offsets of that.
    """
    given, own = cluster / "name", cluster / f"name-{os.getpid()}"
    if not given.exists():
        own.write_text(f"connect-{secrets.token_hex(4)}", encoding="utf-8")
        with suppress(FileExistsError):  # another worker was first
            os.link(own, given)
        own.unlink()
    return given.read_text(encoding="utf-8")


def launch(words: Sequence[str]) -> int:
    """Run a worker; return the status to end with.

    Raises:
        CellFailure: something is missing, the worker refuses the connector, or it or a task fails.
        DeclarationError: the connector cannot be read.
    """
    parser = ArgumentParser(prog="lostack_connect.launch")
    parser.add_argument("connector", type=Path)
    parser.add_argument("--stage", required=True)
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--plugins", action="append", default=[])
    parser.add_argument("worker", nargs="*")
    given = parser.parse_args(words)
    connector = Connector.read(given.connector)
    cluster = Path(os.environ["LOSTACK_WORK"]).absolute() / ".connect" / given.stage
    number = os.environ.get(several.VARIABLE, FIRST)
    scratch = cluster / number
    scratch.mkdir(parents=True, exist_ok=True)
    own = dict(word.partition("=")[::2] for word in given.worker)
    with PortLease(1) as lease:
        told = launched_words(
            own,
            bootstrap=os.environ["BOOTSTRAP_SERVERS"],
            cluster=name_of(cluster),
            port=lease.port,
            plugins=plugin_path(given.plugins, scratch / "plugins"),
        )
        # on a broker that is attached, lostack deletes them at the end
        (cluster / "topics").write_text("\n".join(own_topics_in(told)), encoding="utf-8")
        java = find_java(cache_root(), lambda _: None)
        jars = tuple(sorted(given.jars.glob("*.jar")))
        install = ConnectInstall(VERSION, java.path, jars, archive_flags(java, jars))
        launched = Launched(
            subprocess.Popen(install.command(told, scratch, Path(os.environ["TMPDIR"]))),
            lease.port,
            connector,
            alone=several.VARIABLE not in os.environ,
        )
        signal.signal(signal.SIGTERM, lambda *_: launched.end())
        try:
            return launched.follow(cluster / "made", makes=number == FIRST)
        finally:
            launched.worker.kill()
            launched.worker.wait()


if __name__ == "__main__":
    try:
        sys.exit(launch(sys.argv[1:]))
    except (CellFailure, DeclarationError, EnvironmentFailure) as failure:
        sys.exit(str(failure))
