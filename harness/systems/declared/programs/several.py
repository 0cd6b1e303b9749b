"""Start several members of a stage, each by the stage's own command, as an orchestrator starts
replicas. Standard library only: it is run by its path, and starts at once.

``python several.py DOWN_S AGAIN COUNT WORD...``: the command is ``WORD...``; the first COUNT
members are started. ``AGAIN`` is 1 if a member that ended by itself is started again, ``DOWN_S`` is
how long it stays down. A line ``start N`` on standard input starts another member, after
``leave N`` a member that ends is not started again. Each has its number in ``LOSTACK_MEMBER``.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

VARIABLE = "LOSTACK_MEMBER"
"""The environment variable with the member's number, which its own children inherit."""
LIVES = 3
"""How often a member may end by itself before all members are given up."""


class StageMembers:
    """The members of one stage."""

    def __init__(self, words: list[str], *, down_s: float, again: bool) -> None:
        self.words = words
        self.down_s = down_s
        self.again = again
        self.living: dict[int, int] = {}
        """Process id -> number."""
        self.due: list[tuple[float, int]] = []
        """When a member that has ended is started again, and its number."""
        self.leaving: set[int] = set()
        self.ends: dict[int, int] = {}
        """How often each has ended by itself."""
        self.ending = False
        self.status = 0

    def start(self, number: int) -> None:
        """Start a member."""
        self.leaving.discard(number)
        pid = os.posix_spawnp(
            self.words[0],
            self.words,
            {**os.environ, VARIABLE: str(number)},
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
            setsigdef=[signal.SIGTERM, signal.SIGCHLD],
        )
        self.living[pid] = number

    def reap(self) -> list[tuple[int, int]]:
        """Return the members that have ended: number and status."""
        gone = []
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                if pid in self.living:
                    gone.append((self.living.pop(pid), os.waitstatus_to_exitcode(status)))
        return gone

    def ended(self, number: int, status: int) -> None:
        """Start a member again that has ended, unless it was to leave or all are to end."""
        if number in self.leaving or self.ending:
            return
        if status != -signal.SIGKILL:  # a kill is a fault, and no fault of its own
            self.ends[number] = self.ends.get(number, 0) + 1
            os.write(1, f"member #{number} ended with status {status}\n".encode())
            if not self.again or self.ends[number] >= LIVES:
                self.status = status if status > 0 else 1
                self.end()
                return
        self.due.append((time.monotonic() + self.down_s, number))

    def end(self) -> None:
        """Tell all members to end, and start none again."""
        self.ending = True
        self.due.clear()
        for pid in self.living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def told(self, word: str, lines: list[bytes]) -> None:
        """Do what those lines of standard input say that have this word."""
        for line in lines:
            said, number = line.decode().split()
            if said != word:
                continue
            if word == "start":
                self.start(int(number))
            else:
                self.leaving.add(int(number))

    def begin_due(self) -> None:
        """Start the members whose time has come."""
        now = time.monotonic()
        ready = [number for at, number in self.due if at <= now]
        self.due = [(at, number) for at, number in self.due if at > now]
        for number in ready:
            self.start(number)

    def run(self, count: int) -> int:
        """Run until all have ended; return the status."""
        read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self.end())
        for number in range(1, count + 1):
            self.start(number)
        asked, waiting = b"", [read, 0]
        lines: list[bytes]
        while self.living or self.due:
            within_s = max(0.0, min((at for at, _ in self.due), default=0.0) - time.monotonic())
            ready, _, _ = select.select(waiting, [], [], within_s if self.due else None)
            if read in ready:
                os.read(read, 4096)
            gone, lines = self.reap(), []
            if 0 in waiting and select.select([0], [], [], 0)[0]:
                said = os.read(0, 4096)
                *lines, asked = (asked + said).split(b"\n")
                if not said:
                    waiting.remove(0)
            # `leave` is written before the member ends, `start` of the same one behind its end
            self.told("leave", lines)
            for number, status in gone:
                self.ended(number, status)
            self.told("start", lines)
            self.begin_due()
        return self.status


if __name__ == "__main__":
    down, starts_again, first, *command = sys.argv[1:]
    sys.exit(StageMembers(command, down_s=float(down), again=starts_again == "1").run(int(first)))
