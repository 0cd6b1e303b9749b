"""Names in braces in a declaration, and what stands for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.pipelines.refusing import DeclarationError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LINES = ("id", "key", "position", "amount")
"""What may stand in braces in an input line."""
PLACES = ("bootstrap", "work", "input", "topic", "port", "python", "here", "ca", "username", "security_protocol", "mechanism")
"""What may stand in braces in a command, its environment, the url of an input, and an output."""
SECRETS = ("password", "jaas")
"""What may so in an environment, which nobody else sees."""
SECURED = ("ca", "username", "security_protocol", "mechanism", *SECRETS)
"""What there is with a ``[security]`` only."""
OF_A_SERVICE = re.compile(r"(\w+)\.(port|dir)")
"""A place of a service: its port, its folder."""
_BRACES = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|(?<!\$)\{([^{}\s\"']+)\}")
"""A name in two pairs of braces, which stands for itself in one; and what may be a place: not the shell's ``${NAME}``."""


def fill(text: str, values: Mapping[str, object]) -> str:
    """Put values where their names stand in braces; a name in two pairs of braces stands for itself in one.

    Every other brace is left alone.

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
    """Raise :class:`DeclarationError` where a secret would stand in the open."""
    for name in places(text):
        if name in SECRETS:
            raise DeclarationError(f"{where}: everybody may see it: give the program {{{name}}} by its environment")


def check_places(where: str, text: str, known: Iterable[str]) -> None:
    """Raise :class:`DeclarationError` where a name that nothing is put in for stands in braces."""
    known = tuple(known)
    for name in places(text):
        if name.isidentifier() and name not in known:
            raise DeclarationError(
                f"{where}: nothing is put in for {{{name}}}; {nearest(name, known)} (braces that are no place: {{{{{name}}}}})"
            )


def check_services(text: str, services: Iterable[str]) -> None:
    """Raise :class:`DeclarationError` where the port, or the folder, of a service is meant that there is not."""
    services = tuple(services)
    for name in places(text):
        match = OF_A_SERVICE.fullmatch(name)
        if match is not None and match[1] not in services:
            there = nearest(match[1], services) if services else "write a [[service]] of that name"
            raise DeclarationError(f"{{{name}}}: there is no service {match[1]}; {there}")
