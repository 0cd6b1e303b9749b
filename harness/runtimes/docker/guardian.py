"""The guardian of a run's containers: a small process beside the harness that removes them when the
harness is gone.

Run as ``python -I guardian.py LABEL``, with a pipe from the harness as standard input. A line
``done`` ends the guardian. If the pipe ends without that line, the harness has died. Only things
with the label are removed.
"""

from __future__ import annotations

import signal
import sys

ATTEMPTS = 3
"""Seconds until the second look, which finds a container that was being started while the harness
died.
"""


def main() -> None:
    """Wait until the harness is done, or has died; then remove what it left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if "done" in sys.stdin.read():
        return
    from harness.runtimes.docker.engine import connect, remove  # noqa: PLC0415 - a third of a second, only where it is needed

    client = connect()
    for _ in range(ATTEMPTS):
        remove(client, sys.argv[1])


if __name__ == "__main__":
    main()
