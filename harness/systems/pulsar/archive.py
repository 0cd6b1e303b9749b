"""Make the class-data archive of Pulsar's jars: start a broker, let it send itself a message, and
end it.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from harness.provision.archive import dump_flag, ensure_archive, require_dumped
from harness.provision.cache import cache_root
from harness.systems.pulsar.broker import PulsarBroker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.systems.pulsar.install import Install

DUMPED_S: Final = 60.0


def with_archive(install: Install, say: Callable[[str], None]) -> Install:
    """Return the installation with the JVM flags of its archive; make the archive if the cache has
    none.
    """
    archive = ensure_archive(
        install.java,
        install.jars,
        cache=cache_root(),
        say=say,
        make=lambda _, __, folder: _exercise(install, folder),
        recipe="pulsar",
    )
    return replace(install, flags=archive.flags, archive=archive.path)


def _exercise(install: Install, folder: Path) -> None:
    """Start a broker, let it send itself a message, and leave ``classes.jsa`` in ``folder``. Raises
    if a step fails.
    """
    archive, work = folder / "classes.jsa", folder / "runs" / "deployments" / "archive"
    work.mkdir(parents=True)
    broker = PulsarBroker(replace(install, flags=(dump_flag(archive),)), work)
    try:
        broker.start()
        broker.process().terminate(DUMPED_S)
    finally:
        broker.close()
    require_dumped(archive)
    shutil.rmtree(folder / "runs")
