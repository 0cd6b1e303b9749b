"""Copy a data folder that Kafka's tool has formatted once, for other brokers: the tool is a JVM and
takes a second.

Such a folder holds the ids of its cluster, node and directory, and the features of a new cluster,
which depend on the version: up to 4.3 in the file ``bootstrap.checkpoint``, since 4.4 in a folder
of its own. A broker that finds none of them starts all the same, with the oldest features, so the
folder is copied whole.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

META = "meta.properties"


def write_formatted(store: Path, settings: Mapping[str, str], data: Path, cluster: str) -> bool:
    """Write a broker's new data folder after the one in ``store``; return false if the store has
    none.

    ``settings``: the broker's settings, of which ``node.id`` is used; ``cluster``: the id of its
    cluster.
    """
    if not (store / META).is_file():
        return False
    _copy(store, data)
    said = dict(
        line.split("=", 1)
        for line in (store / META).read_text().splitlines()
        if line and not line.startswith("#")
    )
    said |= {"cluster.id": cluster, "node.id": settings["node.id"], "directory.id": new_id()}
    (data / META).write_text("".join(f"{name}={value}\n" for name, value in said.items()))
    return True


def keep_formatted(store: Path, data: Path) -> None:
    """Keep a data folder that Kafka's tool has just formatted, whole or not at all, unless the
    store has one already.
    """
    store.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=store.parent))
    try:
        _copy(data, making / data.name)
        (making / data.name).rename(store)
    except OSError:
        pass  # another process has kept one, or the disk is full: the tool formats the next broker
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _copy(folder: Path, to: Path) -> None:
    """Copy a folder's files, except hidden ones, into the new folder ``to``. Modes are not copied:
    those of a cache may be read-only.
    """
    to.mkdir(parents=True)
    for each in folder.iterdir():
        if each.name.startswith("."):
            continue
        if each.is_dir():
            _copy(each, to / each.name)
        else:
            shutil.copyfile(each, to / each.name)


def new_id() -> str:
    """Return a random id in Kafka's format: 16 bytes in base 64, never beginning with a dash."""
    while True:
        found = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not found.startswith("-"):
            return found
