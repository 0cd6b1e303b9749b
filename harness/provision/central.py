"""Fetch a locked set of jars by HTTPS, without a resolver: each from its place in a Maven
repository.

The sums of all jars are in lostack's lists, and are compared after the fetch, so the repository
need not be trusted.
"""

from __future__ import annotations

import os
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from harness.model.failures import EnvironmentFailure
from harness.provision.download import download

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

MIRROR: Final = "LOSTACK_MAVEN_MIRROR"
"""The environment variable whose address takes the place of Maven Central's."""
AGENT: Final = {"User-Agent": "lostack"}
"""Some repositories refuse a program that does not say its name."""
AT_ONCE: Final = 4


class Module(NamedTuple):
    """A module of a repository."""

    organisation: str
    name: str
    revision: str
    kind: str = "jar"
    """The extension of its file in the repository."""
    classifier: str = ""
    """What its file's name has besides, if the module has several files."""

    @property
    def stem(self) -> str:
        """Return the name of its file, without the extension."""
        return "-".join(filter(None, (self.name, self.revision, self.classifier)))


def address_of(module: Module, environ: Mapping[str, str] = os.environ) -> str:
    """Return the address of a module's file in the repository."""
    root = (environ.get(MIRROR) or _central()).rstrip("/")
    folder = "/".join((*module.organisation.split("."), module.name, module.revision))
    return f"{root}/{quote(f'{folder}/{module.stem}.{module.kind}')}"


def _central() -> str:
    """Return the address at which jgo, a client of Maven repositories, finds Maven Central."""
    from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415 - it brings all of jgo

    return str(MAVEN_CENTRAL_URL)


def fetch_listed(
    name: str, modules: Sequence[Module], target: Path, say: Callable[[str], None]
) -> None:
    """Fetch the jars of the set ``name``, one for each module, into ``target``.

    Raises:
        EnvironmentFailure: a jar cannot be fetched. The message is one line.
    """
    say(f"fetching {name}: {len(modules)} jars (a few seconds, once)")

    def fetch(module: Module) -> None:
        file = target / f"{module.stem}.jar"
        download(urllib.request.Request(address_of(module), headers=AGENT), file)  # noqa: S310 - a pinned address, or the user's own

    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            list(pool.map(fetch, modules))
        except EnvironmentFailure as error:
            pool.shutdown(cancel_futures=True)
            raise EnvironmentFailure(
                f"cannot fetch the jars of {name}: {error}; check the network, or name a mirror "
                f"by {MIRROR}"
            ) from error
