"""Controls access to a wire: a client must reach its socket and know its secret.

The wire gets the secret by its environment, because every user can read a command line. On the same
machine it listens on a Unix socket in a folder of its own that only its user may enter. Elsewhere
(in a container) it listens on a port, and the secret alone decides.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.wire.messages import LOOPBACK, WireError

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET: Final = "LOSTACK_WIRE_SECRET"  # noqa: S105 - the name of the variable
SECRET_BYTES: Final = 32
WORDS: Final = 2 * SECRET_BYTES
"""How many characters a secret has."""
REFUSED: Final = "the wire refuses this control connection: its secret is wrong"
BACKLOG: Final = 16


def new_secret() -> str:
    """Return a random secret, for one wire."""
    return secrets.token_hex(SECRET_BYTES)


def told_secret() -> str:
    """Return the secret in this program's environment.

    Raises:
        WireError: there is none.
    """
    secret = os.environ.pop(SECRET, "")
    if len(secret) != WORDS or not secret.isascii():
        raise WireError(f"the variable {SECRET} must hold the control connection's secret")
    return secret


def is_right(told: bytes, secret: str) -> bool:
    """Compare what a connection has said with the secret, in the same time for each answer."""
    return hmac.compare_digest(told, greeting(secret))


def greeting(secret: str) -> bytes:
    """Return what a control connection begins with."""
    return f"{secret}\n".encode()


class PrivateFolder:
    """A folder with a Unix socket in it. Only its owner may enter it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="lostack-wire-"))
        self.path = self._folder / "control"

    def listen(self) -> socket.socket:
        """Listen on the socket."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _short(self.path) as path:
            sock.bind(path)
        sock.listen(BACKLOG)
        return sock

    def remove(self) -> None:
        """Remove the folder. Safe to call twice."""
        shutil.rmtree(self._folder, ignore_errors=True)


def connect(address: str | int, within_s: float) -> socket.socket:
    """Connect to a wire: to the path of its socket, or to its port on this machine.

    Raises:
        OSError: nobody listens there.
    """
    if isinstance(address, int):
        sock = socket.create_connection((LOOPBACK, address), timeout=within_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(within_s)
        with _short(Path(address)) as path:
            sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """Yield another path of a socket, as the kernel takes no longer ones than 107 bytes."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
