"""Lists every protocol: lostack's own and those of other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.plugins import with_others
from harness.protocols import GROUP, PROTOCOLS

if TYPE_CHECKING:
    from collections.abc import Mapping


def listed() -> Mapping[str, str]:
    """Return the place (``module:class``) of each protocol by its name, lostack's own first.

    Raises:
        EnvironmentFailure: a name is taken twice.
    """
    return with_others(GROUP, PROTOCOLS)
