"""TLS that begins later than its connection: the client asks for it, and the server grants or
denies it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.wire.rules import Direction
from harness.wire.streams import TlsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from harness.wire.connection import Connection
    from harness.wire.inlet import Inlet
    from harness.wire.streams import Stream


def answer(conn: Connection, direction: Direction) -> None:
    """Note that the server has sent bytes or closed. Either one is its answer to a client that has
    asked for TLS.
    """
    if direction is Direction.RESPONSE:
        conn.answer_to_tls()


async def secure(
    conn: Connection,
    direction: Direction,
    inlet: Inlet,
    target: Stream,
    on: Callable[[], Awaitable[bool]],
) -> bool:
    """Follow a request for TLS, or its answer, among the bytes that ``on`` forwards. Return whether
    more bytes may come. The client waits for the server's answer; if the server grants TLS, it
    begins on both sides.

    Raises:
        TlsError: the other side has sent something in the clear before that.
    """
    if direction is Direction.REQUEST:
        answered = conn.ask_for_tls()
        going_on = await on()
        await answered.wait()
        if inlet.stream.secured and inlet.buffer:
            raise TlsError("the client has gone on in the clear before it was told that TLS begins")
        return going_on
    if conn.ends is None:
        conn.go_opaque(
            "TLS begins, and the wire has no certificate to end it with: connect without"
        )
        return False
    await on()
    if inlet.buffer:
        raise TlsError("the broker has gone on in the clear behind its word that TLS begins")
    await inlet.stream.speak_tls(conn.ends)
    await target.serve_tls(conn.ends)
    return True
