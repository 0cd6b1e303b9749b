"""Every protocol, ours and those of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.plugins import with_others
from harness.protocols import GROUP, PROTOCOLS

if TYPE_CHECKING:
    from collections.abc import Mapping


def listed() -> Mapping[str, str]:
    """Return where each protocol is, by its name, ours first.

    Raises:
        EnvironmentFailure: a name is taken twice.
    """
    return with_others(GROUP, PROTOCOLS)
