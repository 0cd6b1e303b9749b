"""How TLS ends in the wire: towards the clients of a route with a certificate of the run's own, towards its server as a client.

Who shows a certificate of its own (mTLS identity) shows it to the wire, which has nothing to show for it: that cannot be.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.wire.messages import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.wire.messages import Tls

_UNTRUSTED: Final = ("UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "BAD_CERTIFICATE", "CERTIFICATE_EXPIRED", "UNSUPPORTED_CERTIFICATE")
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE")
_IDENTITY: Final = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE")


@dataclass(frozen=True, slots=True)
class Ends:
    """Both ends of TLS on a route: the wire as ``server`` of its clients, and as ``client`` of the server called ``name``."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    name: str
    at_once: bool
    """From the first byte; else from where the protocol says."""


def make_ends(tls: Tls) -> Ends:
    """Read certificates and keys.

    Raises:
        WireError: a file cannot be used; one line.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.options |= ssl.OP_NO_RENEGOTIATION
    server.num_tickets = 0  # a client that leaves without having read them would be seen to break off
    try:
        server.load_cert_chain(tls.certificate)
        client = ssl.create_default_context(cafile=tls.authorities or None)
    except (OSError, ValueError) as error:
        raise WireError(f"the certificates cannot be read ({tls.certificate}, {tls.authorities}): {error}") from error
    client.options |= ssl.OP_NO_RENEGOTIATION
    return Ends(server, client, tls.name, tls.at_once)


def why_not_served(error: Exception) -> str:
    """Say why a client and the wire did not agree on TLS."""
    return _why(error, "the client", {
        _UNTRUSTED: "does not trust the wire's certificate: let it trust the authority of the run", _NO_TLS: "speaks no TLS",
    })  # fmt: skip


def why_not_let_in(error: Exception) -> str:
    """Say why a server and the wire did not agree on TLS, or why the server has ended it at once."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not trusted: {error.verify_message}"
    return _why(error, "the broker", {
        _IDENTITY: "asks for a certificate of the client's own (mTLS identity), which ends at the wire",
        _NO_TLS: "speaks no TLS there",
    })  # fmt: skip


def _why(error: Exception, who: str, known: Mapping[tuple[str, ...], str]) -> str:
    reason = getattr(error, "reason", None) or ""
    for words, what in known.items():
        if any(word in reason for word in words):
            return f"{who} {what} ({reason})"
    return f"{who} did not agree on TLS: {' '.join(str(error).split()) or type(error).__name__}"
