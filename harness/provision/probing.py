"""Ask a broker that speaks TLS for a first answer, to tell at once what its certificate lacks."""

from __future__ import annotations

import socket
import ssl
from typing import Final

from harness.model.failures import EnvironmentFailure
from harness.wire.tls import trusting, why_not_let_in

ANSWER_S: Final = 10.0
_HELLO: Final = bytes([0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 0, 255, 255])
"""An ApiVersions request without a client id."""


def probe(host: str, port: int, authority: str, named: str) -> None:
    """Open a TLS connection to a broker and wait for its first answer. ``authority``: the PEM file
    by which it is trusted (empty: this machine's). ``named``: what the file is called in a message.

    Raises:
        EnvironmentFailure: there is no trust, or the broker wants a certificate; the message says
            why.
        OSError: nobody answers.
    """
    try:
        context = trusting(authority)
    except OSError as error:
        raise EnvironmentFailure(f"{named}: {authority}: {error.strerror or error}") from error
    try:
        with (
            socket.create_connection((host, port), timeout=ANSWER_S) as sock,
            context.wrap_socket(sock, server_hostname=host) as secured,
        ):
            secured.sendall(_HELLO)
            secured.recv(1)  # a broker that misses a client certificate says so only now
    except ssl.SSLError as error:
        at = f"[{host}]" if ":" in host else host
        raise EnvironmentFailure(f"the cluster at {at}:{port}: {why_not_let_in(error)}") from error
