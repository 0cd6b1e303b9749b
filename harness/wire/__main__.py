"""Run a wire: ``python -m harness.wire --history DIR``. It lives until its stdin ends or it gets
SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import signal
import sys
from pathlib import Path

from harness.model.history import HistoryError
from harness.wire.messages import LOOPBACK, WireError
from harness.wire.server import ControlServer
from harness.wire.wire import DEFAULT_DECODE_LIMIT

MAX_FILES = 1 << 16
COLLECTED_AFTER = 100_000
"""Objects made and not freed, from which on cycles are looked for."""


def main() -> int:
    """Serve; return 0 after an orderly end, 1 with one line on stderr otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.wire", description="A proxy that reads what passes through it."
    )
    parser.add_argument(
        "--history", type=Path, required=True, help="folder of the wire's own history"
    )
    parser.add_argument(
        "--control-host", default=LOOPBACK, help="address of the control connection"
    )
    parser.add_argument("--control-port", type=int, default=0, help="its port (0: a free one)")
    parser.add_argument(
        "--decode-limit",
        type=int,
        default=DEFAULT_DECODE_LIMIT,
        help="bytes of a frame that is read",
    )
    options = parser.parse_args()
    _allow_many_connections()
    _collect_seldom()
    try:
        asyncio.run(
            _serve(
                options.history, options.control_host, options.control_port, options.decode_limit
            )
        )
    except (HistoryError, WireError, OSError) as error:
        sys.stderr.write(f"wire: {error}\n")
        return 1
    return 0


def _allow_many_connections() -> None:
    """Raise the soft limit of open files: every connection takes two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _collect_seldom() -> None:
    """Look for cycles less often: records and their lines have none, and there are thousands of
    them in a frame.
    """
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER, *gc.get_threshold()[1:])


async def _serve(history: Path, host: str, port: int, decode_limit: int) -> None:
    loop = asyncio.get_running_loop()
    server = ControlServer(history, decode_limit=decode_limit)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    _watch_stdin(loop, stop)
    bound = await server.start(host, port)
    sys.stdout.write(json.dumps({"control": bound}) + "\n")
    sys.stdout.flush()
    server.wire.failure.add_done_callback(lambda _: stop.set())
    await stop.wait()
    await server.close()
    if server.wire.failure.done():
        raise WireError(server.wire.failure.result())


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """End when whoever started the wire has closed its end. A file or a closed stdin counts as
    ended.
    """

    def look() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            stop.set()

    try:
        loop.add_reader(0, look)
    except (OSError, ValueError):
        stop.set()


if __name__ == "__main__":
    sys.exit(main())
