"""The protocols that are spoken on the routes of a wire."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from harness.wire.messages import WireError
from harness.wire.protocol import PLAIN, LogsIn
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.wire.messages import Route
    from harness.wire.protocol import Protocol

REGISTRY = "harness.protocols.listing"
"""The name of the module that lists the protocols. The wire imports none of them."""


def load(name: str) -> Protocol:
    """Make the protocol of a name in the registry.

    Raises:
        WireError: there is none of that name, or it cannot be imported.
    """
    place = importlib.import_module(REGISTRY).listed().get(name)
    if place is None:
        raise WireError(f"the wire does not read {name}")
    module, _, made = place.partition(":")
    try:
        protocol: Protocol = getattr(importlib.import_module(module), made)()
    except (ImportError, AttributeError) as error:
        raise WireError(f"the wire cannot read {name}: {error}") from error
    return protocol


def admit(protocol: Protocol, route: Route) -> None:
    """Give a protocol the passwords of a route's users.

    Raises:
        WireError: nobody logs in by it, or the users cannot be read; no password is in its message.
    """
    if not isinstance(protocol, LogsIn):
        raise WireError(f"route {route.name}: nobody logs in by {route.protocol}")
    try:
        protocol.admit(json.loads(Path(route.users).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise WireError(
            f"route {route.name}: the users in {route.users} cannot be read: {type(error).__name__}"
        ) from None


class Protocols:
    """The protocols of a wire; one object of each serves all its routes."""

    def __init__(self) -> None:
        self._by_name: dict[str, Protocol] = {}
        self._names: dict[str, str] = {}
        """The known topic ids, by the topic's name."""

    def of(self, route: Route) -> Protocol:
        """Return the protocol of a route.

        Raises:
            WireError: there is none of that name.
        """
        if route.protocol not in self._by_name:
            try:
                protocol = load(route.protocol)
                protocol.learn(self._names)
            except WireError as error:
                raise WireError(f"route {route.name}: {error}") from error
            self._by_name[route.protocol] = protocol
        return self._by_name[route.protocol]

    def learn(self, topics: Mapping[str, str]) -> None:
        """Give every protocol topic ids, by the topic's name.

        Raises:
            WireError: a protocol does not know them as topic ids.
        """
        try:
            for protocol in self._by_name.values():
                protocol.learn(topics)
        except ValueError as error:
            raise WireError(str(error)) from error
        self._names.update(topics)

    def errors(self, step: str) -> dict[str, bool]:
        """Return the errors with which a broker may answer a step, by their names; see
        :class:`harness.wire.protocol.Step`.
        """
        found: dict[str, bool] = {}
        for protocol in self._by_name.values():
            found |= protocol.steps.get((step, Direction.REQUEST), PLAIN).errors
        return found
