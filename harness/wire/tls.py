"""TLS ends in the wire: to clients it shows a certificate of the run's own authority, to the server
it is a TLS client.

Client certificates (mTLS identity) are not possible: the wire gets the client's certificate, but
has no private key to present it to the server.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.wire.messages import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.wire.messages import Tls

_UNTRUSTED: Final = (
    "UNKNOWN_CA",
    "CERTIFICATE_UNKNOWN",
    "BAD_CERTIFICATE",
    "CERTIFICATE_EXPIRED",
    "UNSUPPORTED_CERTIFICATE",
)
_NO_TLS: Final = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "UNKNOWN_PROTOCOL",
    "RECORD_LAYER_FAILURE",
)
_IDENTITY: Final = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE")


@dataclass(frozen=True, slots=True)
class Ends:
    """Both TLS contexts of a route: ``server`` towards clients, ``client`` towards the server,
    whose certificate has ``name``.
    """

    server: ssl.SSLContext
    client: ssl.SSLContext
    name: str
    at_once: bool
    """Whether TLS begins at the first byte; else where the protocol says."""


def make_ends(tls: Tls) -> Ends:
    """Read certificates and keys, and return the TLS contexts of a route.

    Raises:
        WireError: a certificate or key cannot be read; one line.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.num_tickets = (
        0  # a client that leaves without having read them would be seen to break off
    )
    try:
        server.load_cert_chain(tls.certificate)
        client = trusting(tls.authorities)
    except (OSError, ValueError) as error:
        raise WireError(
            f"cannot read the certificates ({tls.certificate}, {tls.authorities}): {error}"
        ) from error
    for context in (server, client):
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF  # by default on in Python 3.11.2
    return Ends(server, client, tls.name, tls.at_once)


def trusting(authorities: str) -> ssl.SSLContext:
    """Return a client's context that trusts the authorities of a file, or this machine's if the
    name is empty.

    It judges a broker's certificate alike on every Python, and no stricter than the Java client
    does. By default Python 3.13 and later refuse an authority without KeyUsage, and earlier ones an
    intermediate authority without its root.

    Raises:
        OSError: the file cannot be read, or has no certificate.
    """
    context = ssl.create_default_context(cafile=authorities or None)
    context.verify_flags = (
        context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN
    ) & ~ssl.VERIFY_X509_STRICT
    return context


def is_torn(error: ssl.SSLError) -> bool:
    """Whether the connection ended without a TLS close, as when the peer is killed.

    Python 3.11.2 raises an :class:`ssl.SSLError` here where newer ones raise an
    :class:`ssl.SSLEOFError`.
    """
    return isinstance(error, ssl.SSLEOFError) or error.reason == "UNEXPECTED_EOF_WHILE_READING"


def why_not_served(error: Exception) -> str:
    """Say in one line why the TLS handshake with a client failed."""
    return _why(
        error,
        "the client",
        {
            _UNTRUSTED: (
                "does not trust the wire's certificate: let it trust the authority of the run"
            ),
            _NO_TLS: "does not use TLS",
        },
    )


def why_not_let_in(error: Exception) -> str:
    """Say in one line why the TLS handshake with a server failed, or why the server closed the
    connection right after it.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not trusted: {error.verify_message}"
    return _why(
        error,
        "the broker",
        {
            _IDENTITY: (
                "asks for the client's certificate (mTLS identity), which cannot pass the wire"
            ),
            _NO_TLS: "does not use TLS on this port",
        },
    )


def _why(error: Exception, who: str, known: Mapping[tuple[str, ...], str]) -> str:
    reason = getattr(error, "reason", None) or ""
    for words, what in known.items():
        if any(word in reason for word in words):
            return f"{who} {what} ({reason})"
    return (
        f"the TLS handshake with {who} failed: "
        f"{' '.join(str(error).split()) or type(error).__name__}"
    )
