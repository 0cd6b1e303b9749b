"""Finds the clients of stage programs that other packages bring."""

from __future__ import annotations

import importlib.util
from typing import Final

from harness.model.failures import EnvironmentFailure
from harness.plugins import with_others
from harness.stages.clients import ADAPTERS, QUEUE_ADAPTERS

GROUP: Final = "lostack.clients"
"""The group of entry points in which packages register their clients: the name, and the module of
the adapter (:mod:`harness.stages.clients.queues`).
"""


def brought_adapter(client: str) -> str:
    """Return the module of a client that another package brings; empty: lostack has it itself.

    Raises:
        EnvironmentFailure: nobody brings this client, or its module is not there.
    """
    ours = ADAPTERS | QUEUE_ADAPTERS
    if client in ours:
        return ""
    known = with_others(GROUP, ours)
    if client not in known:
        raise EnvironmentFailure(
            f"no package brings the client {client}: register its adapter module in {GROUP} "
            f"(known: {', '.join(known)})"
        )
    where = known[client]
    try:
        found = importlib.util.find_spec(where)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise EnvironmentFailure(
            f"the client {client}, which a package registers in {GROUP}, has no module {where}"
        )
    return where
