"""How a user's programs connect to the brokers: by TLS and with a password. Unsupported ways are
refused with the reason.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.model.security import Mechanism, Security
from harness.pipelines.refusing import DeclarationError, choice

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
IDENTITY: Final = (
    "certificate",
    "key",
    "keystore",
    "keystore_location",
    "client_certificate",
    "client_key",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSecurity:
    """How the programs connect to the brokers. For lostack's own brokers, users and certificates
    are made for each run.
    """

    protocol: str
    """``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``."""
    mechanism: str = ""
    """For SASL: ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``."""
    ca: str = ""
    """With ``--attach``: the PEM file of the authority that signed the brokers' certificates. By
    default this machine's.
    """
    username: str = ""
    """With ``--attach``: the name of the user that logs in."""
    password_from: str = ""
    """With ``--attach``: the environment variable in which lostack finds the password."""

    def __post_init__(self) -> None:
        choice("security: protocol", self.protocol, PROTOCOLS)
        if self.mechanism == "GSSAPI":
            raise DeclarationError(
                "security: Kerberos (GSSAPI) is not supported: tickets are made for the host "
                "that the program connects to, which is lostack's; use a listener with SCRAM"
            )
        if self.protocol.startswith("SASL") != bool(self.mechanism):
            raise DeclarationError(
                f"security: {self.protocol} {'has no' if self.mechanism else 'needs a'} mechanism"
            )
        if self.mechanism:
            choice("security: mechanism", self.mechanism, Mechanism)
        if bool(self.username) != bool(self.password_from):
            raise DeclarationError(
                "security: username and password_from belong together: give both or neither"
            )
        if self.username and not self.mechanism:
            raise DeclarationError(f"security: {self.protocol} has no log-in: leave out username")

    @property
    def security(self) -> Security:
        """Return the security that a broker needs for it."""
        return Security(
            self.protocol.endswith("SSL"), Mechanism(self.mechanism) if self.mechanism else None
        )

    def password(self) -> str:
        """Return the user's password.

        Raises:
            DeclarationError: the environment variable is not set.
        """
        if not self.password_from:
            return ""
        try:
            return os.environ[self.password_from]
        except KeyError:
            raise DeclarationError(
                f"security: the environment variable {self.password_from} is not set: set it"
            ) from None


def check_identity(data: Mapping[str, Any]) -> None:
    """Raise :class:`DeclarationError` if a program must identify itself by its own certificate
    (mTLS).
    """
    if named := next((name for name in data if name in IDENTITY), None):
        raise DeclarationError(
            f"security: {named}: an identity by certificate (mTLS identity) is not supported: "
            "TLS ends at lostack, which does not have the certificate's key; use a listener "
            "with SCRAM"
        )
