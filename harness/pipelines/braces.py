"""Names in braces in a declaration, and the values that replace them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.pipelines.refusing import DeclarationError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LINES = ("id", "key", "position", "amount")
"""What may stand in braces in an input line."""
PLACES = (
    "bootstrap",
    "work",
    "input",
    "topic",
    "port",
    "python",
    "here",
    "ca",
    "username",
    "security_protocol",
    "mechanism",
)
"""What may stand in braces in a command, its environment, the url of an input, and an output."""
SECRETS = ("password", "jaas")
"""What may stand in braces in an environment only, which other users of the machine cannot see."""
SECURED = ("ca", "username", "security_protocol", "mechanism", *SECRETS)
"""Names that have a value only with a ``[security]``."""
OF_A_SERVICE = re.compile(r"(\w+)\.(port|dir)")
"""The name of a service's port or folder."""
_BRACES = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|(?<!\$)\{([^{}\s\"']+)\}")
"""A name in two pairs of braces (an escape: one pair stays), or in one pair. The shell's
``${NAME}`` does not match.
"""


def fill(text: str, values: Mapping[str, object]) -> str:
    """Replace names in braces by their values. A name in two pairs of braces keeps one pair.

    All other braces are left alone.

    >>> fill('{"id": "{id}", "home": "${id}", "as it is": "{{id}}"}', {"id": 7})
    '{"id": "7", "home": "${id}", "as it is": "{id}"}'
    """

    def filled(match: re.Match[str]) -> str:
        itself, name = match.groups()
        return f"{{{itself}}}" if itself else str(values.get(name, match[0]))

    return _BRACES.sub(filled, text)


def places(text: str) -> list[str]:
    """Return the names that stand in braces."""
    return [name for itself, name in _BRACES.findall(text) if not itself]


def check_secrets(where: str, text: str) -> None:
    """Raise :class:`DeclarationError` if a text that other users of the machine can see refers to a
    secret.
    """
    for name in places(text):
        if name in SECRETS:
            raise DeclarationError(
                f"{where}: every user of this machine can see it: pass {{{name}}} in the "
                "environment"
            )


def check_places(where: str, text: str, known: Iterable[str]) -> None:
    """Raise :class:`DeclarationError` if a name in braces has no value."""
    known = tuple(known)
    for name in places(text):
        if name.isidentifier() and name not in known:
            raise DeclarationError(
                f"{where}: {{{name}}} has no value; {nearest(name, known)} (to keep the braces "
                f"as text, write {{{{{name}}}}})"
            )


def check_services(text: str, services: Iterable[str]) -> None:
    """Raise :class:`DeclarationError` if a name in braces refers to the port or folder of a service
    that is not declared.
    """
    services = tuple(services)
    for name in places(text):
        match = OF_A_SERVICE.fullmatch(name)
        if match is not None and match[1] not in services:
            there = nearest(match[1], services) if services else "write a [[service]] of that name"
            raise DeclarationError(f"{{{name}}}: there is no service {match[1]}; {there}")
