"""How clients come to a broker: encrypted or not, and by what they prove who they are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mechanism(StrEnum):
    """By what a client shows that it knows a password, in the words of SASL."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class Security:
    """``tls``: what passes is encrypted. ``mechanism``: who comes logs in; null: anybody may come."""

    tls: bool = False
    mechanism: Mechanism | None = None

    @property
    def protocol(self) -> str:
        """The name that it has in the settings of clients (``security.protocol``).

        >>> Security(tls=True, mechanism=Mechanism.PLAIN).protocol, Security().protocol
        ('SASL_SSL', 'PLAINTEXT')
        """
        plain = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{plain}" if self.mechanism else plain
