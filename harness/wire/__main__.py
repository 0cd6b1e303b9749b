"""Run a wire: ``python -m harness.wire --history DIR``. It lives until its stdin ends or it gets
SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import resource
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.model.history import HistoryError
from harness.wire.door import PrivateFolder, told_secret
from harness.wire.messages import LOOPBACK, WireError
from harness.wire.server import ControlServer
from harness.wire.sockets import bind
from harness.wire.wire import DEFAULT_DECODE_LIMIT

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

MAX_FILES = 1 << 16
COLLECTED_AFTER = 100_000
"""The number of surviving new objects that starts a garbage collection."""


def main() -> int:
    """Serve; return 0 after an orderly end, 1 with one line on stderr otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.wire", description="A proxy that reads what passes through it."
    )
    parser.add_argument(
        "--history", type=Path, required=True, help="folder of the wire's own history"
    )
    parser.add_argument(
        "--run", type=Path, required=True, help="folder below which all its files lie"
    )
    parser.add_argument(
        "--control-port",
        type=int,
        help="port of the control connection (without it: a Unix socket that only this user may "
        "connect to)",
    )
    parser.add_argument("--control-host", default=LOOPBACK, help="address of that port")
    parser.add_argument(
        "--decode-limit",
        type=int,
        default=DEFAULT_DECODE_LIMIT,
        help="bytes of a frame that is read",
    )
    parser.add_argument(
        "--forget", action="store_true", help="remove the folder of --run when stdin has ended"
    )
    options = parser.parse_args()
    _allow_many_connections()
    _collect_seldom()
    try:
        secret = told_secret()
        asyncio.run(_serve(options, secret))
    except (HistoryError, WireError, OSError) as error:
        sys.stderr.write(f"wire: {error}\n")
        return 1
    return 0


def _allow_many_connections() -> None:
    """Raise the soft limit of open files, because each connection needs two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _collect_seldom() -> None:
    """Run the garbage collector less often. A frame makes thousands of objects, and none of them is
    in a cycle.
    """
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER, *gc.get_threshold()[1:])


async def _serve(options: argparse.Namespace, secret: str) -> None:
    loop = asyncio.get_running_loop()
    server = ControlServer(options.history, options.run, secret, decode_limit=options.decode_limit)
    stop, alone = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    _watch_stdin(loop, stop, alone)
    server.wire.failure.add_done_callback(lambda _: stop.set())
    async with _listening(options) as (sock, address):
        await server.start(sock)
        sys.stdout.write(json.dumps({"control": address}) + "\n")
        sys.stdout.flush()
        await stop.wait()
        await server.close()
    if options.forget and alone.is_set():
        shutil.rmtree(options.run, ignore_errors=True)
    if server.wire.failure.done():
        raise WireError(server.wire.failure.result())


@contextlib.asynccontextmanager
async def _listening(
    options: argparse.Namespace,
) -> AsyncIterator[tuple[socket.socket, str | int]]:
    """Listen for control connections; yield the socket, and the address to connect to."""
    if options.control_port is not None:
        sock = await bind(options.control_host, options.control_port)
        yield sock, sock.getsockname()[1]
        return
    folder = PrivateFolder()
    try:
        yield folder.listen(), str(folder.path)
    finally:
        folder.remove()


def _watch_stdin(
    loop: asyncio.AbstractEventLoop, stop: asyncio.Event, alone: asyncio.Event
) -> None:
    """Set both events when the parent process closes the wire's standard input. A file, or a closed
    standard input, only sets ``stop``.
    """

    def look() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            alone.set()
            stop.set()

    try:
        loop.add_reader(0, look)
    except (OSError, ValueError):
        stop.set()


if __name__ == "__main__":
    sys.exit(main())
