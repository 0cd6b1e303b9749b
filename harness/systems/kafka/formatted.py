"""Data folders that Kafka's own tool has formatted once, written again for other brokers: the tool is a JVM, and takes a second.

Such a folder holds the ids of its cluster, node and folder, and what features a new cluster has, which its version decides.
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
    """Write a broker's new data folder as the one that is kept in ``store``. Return whether there is one.

    ``settings``: the broker's, of which its number counts; ``cluster``: the id of the cluster that it is to belong to.
    """
    if not (store / META).is_file():
        return False
    data.mkdir(parents=True)
    for file in store.iterdir():
        if file.name != META:
            shutil.copyfile(file, data / file.name)
    said = dict(line.split("=", 1) for line in (store / META).read_text().splitlines() if line and not line.startswith("#"))
    said |= {"cluster.id": cluster, "node.id": settings["node.id"], "directory.id": new_id()}
    (data / META).write_text("".join(f"{name}={value}\n" for name, value in said.items()))
    return True


def keep_formatted(store: Path, data: Path) -> None:
    """Keep a data folder that Kafka's tool has just formatted, whole or not at all. Another one may be kept already."""
    store.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=store.parent))
    try:
        for file in data.iterdir():
            if file.is_file() and not file.name.startswith("."):
                shutil.copyfile(file, making / file.name)
        making.rename(store)
    except OSError:  # somebody else has kept one, or there is no room: the next broker is formatted by the tool
        shutil.rmtree(making, ignore_errors=True)


def new_id() -> str:
    """Return an id as Kafka writes them: 16 bytes in base 64; none that could be taken for an option."""
    while True:
        found = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not found.startswith("-"):
            return found
