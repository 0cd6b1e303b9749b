"""The listeners of a Kafka broker that are prepared for the wire, one for each stage."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


LISTENER = "LOSTACK_"
"""The prefix of a listener's name; the role follows in capitals."""


EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - what a broker's own settings say, not what is bound here


@dataclass(frozen=True, slots=True)
class Listener:
    """One broker's listener for one role: its own address, and the advertised port, on which the
    wire must listen (0: any, because the wire leads on from there).
    """

    node: str
    role: str
    host: str
    port: int
    wire_port: int


def is_loopback(host: str) -> bool:
    """Say whether a host is a loopback address of this machine.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "10.0.0.9")]
    [True, True, True, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def addresses(text: str) -> dict[str, tuple[str, int]]:
    """Parse a broker's ``listeners`` setting: name → host and port.

    >>> addresses("PLAINTEXT://:9092,LOSTACK_CONSUMER://127.0.0.1:9192")
    {'PLAINTEXT': ('', 9092), 'LOSTACK_CONSUMER': ('127.0.0.1', 9192)}
    """
    found = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, _, at = each.partition("://")
        host, _, port = at.rpartition(":")
        found[name.upper()] = (host.strip("[]"), int(port))
    return found


def listeners_of(
    node: str,
    host: str,
    settings: Mapping[str, str],
    roles: Iterable[str],
    protocol: str = "PLAINTEXT",
) -> tuple[Listener, ...]:
    """Return a broker's listeners for roles.

    ``protocol``: the security protocol of the pipeline's programs, which the listeners must have,
    too.

    Raises:
        EnvironmentFailure: a listener is missing or wrong; the message says what to add.
    """
    spoken = dict(
        each.split(":")
        for each in filter(
            None, settings.get("listener.security.protocol.map", "").upper().split(",")
        )
    )
    own = addresses(settings.get("listeners") or "")
    advertised = addresses(settings.get("advertised.listeners") or "")
    found = []
    for role in roles:
        name = LISTENER + role.upper()
        if name not in own or name not in advertised:
            raise EnvironmentFailure(
                f"{node} has no listener {name}: add to its settings "
                f"listeners=...,{name}://127.0.0.1:19092 and "
                f"advertised.listeners=...,{name}://127.0.0.1:29092 and "
                f"listener.security.protocol.map=...,{name}:{protocol} (any two free ports, "
                "different ones for each role and broker) and restart it"
            )
        at, port = own[name]
        told, wire_port = advertised[name]
        if not is_loopback(told) or wire_port == port:
            raise EnvironmentFailure(
                f"{node} advertises {name} at {told}:{wire_port}, and the wire must listen "
                "there: advertise a free port of 127.0.0.1 that is not the listener's own port "
                f"{port}"
            )
        if spoken.get(name, protocol) != protocol:
            raise EnvironmentFailure(
                f"{node} speaks {spoken[name]} at {name}, but the pipeline's programs speak "
                f"{protocol}: set listener.security.protocol.map=...,{name}:{protocol} on the "
                "broker, or change the pipeline's [security]"
            )
        found.append(Listener(node, role, host if at in EVERYWHERE else at, port, wire_port))
    return tuple(found)
