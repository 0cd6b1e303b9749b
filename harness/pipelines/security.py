"""How a user's programs come to the brokers: by TLS, by a password; and what cannot be, by its name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.model.security import Mechanism, Security
from harness.pipelines.refusing import DeclarationError, choice

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
IDENTITY: Final = ("certificate", "key", "keystore", "keystore_location", "client_certificate", "client_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSecurity:
    """How the programs come to the brokers. lostack's own brokers have users and an authority made for the run."""

    protocol: str
    """``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``."""
    mechanism: str = ""
    """Of SASL: ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``."""
    ca: str = ""
    """With ``--attach``: the PEM file of the authority that signed the brokers' certificates. Without it: this machine's."""
    username: str = ""
    """With ``--attach``: who logs in."""
    password_from: str = ""
    """With ``--attach``: the environment variable in which lostack finds the password."""

    def __post_init__(self) -> None:
        choice("security: protocol", self.protocol, PROTOCOLS)
        if self.mechanism == "GSSAPI":
            raise DeclarationError("security: Kerberos (GSSAPI) cannot be: a ticket is for the host that the program sees, "
                                   "which is lostack's; give it a listener with SCRAM")  # fmt: skip
        if self.protocol.startswith("SASL") != bool(self.mechanism):
            raise DeclarationError(f"security: {self.protocol} {'has no' if self.mechanism else 'needs a'} mechanism")
        if self.mechanism:
            choice("security: mechanism", self.mechanism, Mechanism)
        if bool(self.username) != bool(self.password_from):
            raise DeclarationError("security: username and password_from belong together")
        if self.username and not self.mechanism:
            raise DeclarationError(f"security: nobody logs in by {self.protocol}: username means nothing")

    @property
    def security(self) -> Security:
        """Return what it asks of a broker."""
        return Security(self.protocol.endswith("SSL"), Mechanism(self.mechanism) if self.mechanism else None)

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
            raise DeclarationError(f"security: the environment variable {self.password_from} is not set") from None


def check_identity(data: Mapping[str, Any]) -> None:
    """Raise :class:`DeclarationError` where a program is to be known by a certificate of its own."""
    if named := next((name for name in data if name in IDENTITY), None):
        raise DeclarationError(f"security: {named}: an identity by certificate (mTLS identity) cannot be: TLS ends at lostack, "
                               "which would have to show it; give the program a listener with SCRAM")  # fmt: skip
