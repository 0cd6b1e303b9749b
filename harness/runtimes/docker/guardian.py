"""The guardian of a run's containers: a small process beside the harness that removes them when the harness is gone.

Run as ``python -I guardian.py LABEL``, with a pipe of the harness as standard input: a line ``done`` ends it, the pipe's
end without that line means that the harness has died, however. Nothing but what carries the label is touched.
"""

from __future__ import annotations

import signal
import sys

ATTEMPTS = 3
"""A container that is being started while the harness dies shows up in the second look."""


def main() -> None:
    """Wait for the harness to be done, or gone."""
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
