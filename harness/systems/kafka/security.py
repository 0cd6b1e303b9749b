"""Secure a deployment: make certificates, users and passwords when it starts, and delete them when
it ends.

The clients trust the wire's certificate authority, and the wire trusts the brokers'. There are two,
so that a client that bypasses the wire cannot connect by accident. Connections between brokers, and
the observer's, stay unsecured.
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
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}
_MAP: Final = "listener.security.protocol.map"
_ITERATIONS: Final = 4096
"""The iterations of SCRAM: the minimum that a broker accepts."""


class Secured:
    """The secrets of one deployment, in their own folder below ``directory``."""

    def __init__(self, security: Security, directory: Path) -> None:
        self.security = security
        self._folder = (directory / "secrets").absolute()
        self._password = secrets.token_urlsafe(24)

    def make(self) -> None:
        """Create the certificates, users and passwords."""
        self._folder.mkdir(parents=True, mode=0o700)
        mechanism = self.security.mechanism
        if self.security.tls:
            self._run, self._broker = (
                make_certificates(self._folder / whose) for whose in ("wire", "broker")
            )
        access = Access(
            self.security.protocol,
            str(self._run.authority) if self.security.tls else "",
            mechanism or "",
            USER if mechanism else "",
            self._password if mechanism else "",
        )
        private(self._folder / "access.json", access.text().encode())
        private(self._folder / "users.json", json.dumps(access.users).encode())
        if mechanism is Mechanism.PLAIN:
            line = f'{jaas(mechanism, USER, self._password)[:-1]} user_{USER}="{self._password}";'
            private(self._folder / "broker.properties", f"plain={line}\n".encode())
        elif mechanism:
            user = f"{mechanism}=[name={USER},password={self._password},iterations={_ITERATIONS}]"
            private(self._folder / "format.arguments", f"--add-scram\n{user}\n".encode())

    def destroy(self) -> None:
        """Delete the folder with all secrets."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @cached_property
    def access(self) -> str:
        """The file with the credentials of lostack's own stages."""
        return str(self._folder / "access.json")

    @property
    def users(self) -> str:
        """The file with the users for the wire, which logs in to brokers itself; empty without
        SASL.
        """
        return str(self._folder / "users.json") if self.security.mechanism else ""

    def tls(self, host: str) -> Tls | None:
        """Return the wire's TLS settings for a broker's host; ``None`` without TLS."""
        return (
            Tls(str(self._run.server), str(self._broker.authority), host)
            if self.security.tls
            else None
        )

    def format_arguments(self) -> tuple[str, ...]:
        """Return further arguments of the storage tool, in a file, because every user can read a
        command line.
        """
        file = self._folder / "format.arguments"
        return (f"@{file}",) if file.exists() else ()

    @property
    def format_log(self) -> Path:
        """The log of the storage tool, which shows derived passwords and so belongs to
        the secrets.
        """
        return self._folder / "format.log"

    def settings(self, roles: Collection[str], known: Mapping[str, str]) -> dict[str, str]:
        """Return the security settings of a broker's listeners for roles. ``known``: the broker's
        other settings.
        """
        by_name = dict(each.split(":") for each in known[_MAP].split(","))
        mechanism = self.security.mechanism
        by_name |= {role.upper(): self.security.protocol for role in roles}
        found = {_MAP: ",".join(f"{name}:{protocol}" for name, protocol in by_name.items())}
        if self.security.tls:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._broker.server)}
        if mechanism:
            found["sasl.enabled.mechanisms"] = mechanism
            plain = mechanism is Mechanism.PLAIN
            told = (
                f"${{file:{self._folder / 'broker.properties'}:plain}}"
                if plain
                else f"{module(mechanism)} required;"
            )
            found |= {
                f"listener.name.{role}.{mechanism.lower()}.sasl.jaas.config": told for role in roles
            }
            found |= _FILES if plain else {}
        return found
