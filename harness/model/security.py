"""How clients connect to a broker: whether the connection is encrypted, and how they log in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mechanism(StrEnum):
    """The SASL mechanism by which a client logs in with a password."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class Security:
    """``tls``: connections are encrypted. ``mechanism``: how clients log in; null: they need no
    login.
    """

    tls: bool = False
    mechanism: Mechanism | None = None

    @property
    def protocol(self) -> str:
        """The value of the clients' setting ``security.protocol``.

        >>> Security(tls=True, mechanism=Mechanism.PLAIN).protocol, Security().protocol
        ('SASL_SSL', 'PLAINTEXT')
        """
        plain = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{plain}" if self.mechanism else plain
