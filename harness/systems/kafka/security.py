"""A secured deployment: certificates, users and passwords of its own, made when it starts and deleted when it ends.

The clients trust the wire and the wire trusts the brokers: two authorities, so that who goes past the wire is not let in by
accident. Between the brokers, and for the observer, nothing changes.
"""

from __future__ import annotations

import json
import secrets
import shutil
from functools import cached_property
from typing import TYPE_CHECKING, Final

from harness.model.security import Mechanism
from harness.provision.certificates import make_certificates, private
from harness.stages.access import Access, jaas, module
from harness.wire.messages import Tls

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from harness.model.security import Security

USER: Final = "lostack"
_FILES: Final = {
    "config.providers": "file", "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}  # fmt: skip
_MAP: Final = "listener.security.protocol.map"
_ITERATIONS: Final = 4096
"""Of SCRAM: the least that a broker takes."""


class Secured:
    """What one deployment needs, in a folder of its own below ``directory``."""

    def __init__(self, security: Security, directory: Path) -> None:
        self.security = security
        self._folder = (directory / "secrets").absolute()
        self._password = secrets.token_urlsafe(24)

    def make(self) -> None:
        """Write everything down."""
        self._folder.mkdir(parents=True, mode=0o700)
        mechanism = self.security.mechanism
        if self.security.tls:
            self._run, self._broker = (make_certificates(self._folder / whose) for whose in ("wire", "broker"))
        access = Access(self.security.protocol, str(self._run.authority) if self.security.tls else "",
                        mechanism or "", USER if mechanism else "", self._password if mechanism else "")  # fmt: skip
        private(self._folder / "access.json", access.text().encode())
        private(self._folder / "users.json", json.dumps(access.users).encode())
        if mechanism is Mechanism.PLAIN:
            line = f'{jaas(mechanism, USER, self._password)[:-1]} user_{USER}="{self._password}";'
            private(self._folder / "broker.properties", f"plain={line}\n".encode())
        elif mechanism:
            user = f"{mechanism}=[name={USER},password={self._password},iterations={_ITERATIONS}]"
            private(self._folder / "format.arguments", f"--add-scram\n{user}\n".encode())

    def destroy(self) -> None:
        """Delete everything."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @cached_property
    def access(self) -> str:
        """The file that tells our own stages how they are let in."""
        return str(self._folder / "access.json")

    @property
    def users(self) -> str:
        """The file that tells the wire, which may have to log in itself."""
        return str(self._folder / "users.json") if self.security.mechanism else ""

    def tls(self, host: str) -> Tls | None:
        """Return how TLS ends in the wire, on its way to a broker's host."""
        return Tls(str(self._run.server), str(self._broker.authority), host) if self.security.tls else None

    def format_arguments(self) -> tuple[str, ...]:
        """Return what formatting is told besides, in a file, as everybody may see a command."""
        file = self._folder / "format.arguments"
        return (f"@{file}",) if file.exists() else ()

    @property
    def format_log(self) -> Path:
        """Where formatting prints to, which shows what a broker knows of its users' passwords."""
        return self._folder / "format.log"

    def settings(self, roles: Collection[str], known: Mapping[str, str]) -> dict[str, str]:
        """Return what a broker, of which the settings are known so far, is told of the listeners of roles."""
        by_name, mechanism = dict(each.split(":") for each in known[_MAP].split(",")), self.security.mechanism
        by_name |= {role.upper(): self.security.protocol for role in roles}
        found = {_MAP: ",".join(f"{name}:{protocol}" for name, protocol in by_name.items())}
        if self.security.tls:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._broker.server)}
        if mechanism:
            found["sasl.enabled.mechanisms"] = mechanism
            plain = mechanism is Mechanism.PLAIN
            told = f"${{file:{self._folder / 'broker.properties'}:plain}}" if plain else f"{module(mechanism)} required;"
            found |= {f"listener.name.{role}.{mechanism.lower()}.sasl.jaas.config": told for role in roles}
            found |= _FILES if plain else {}
        return found
