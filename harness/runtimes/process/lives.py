"""The living nodes with their members, and the jobs on all members of a node (pause, resume, end),
each step by step.

Standard library only, because the guardian uses nothing else.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # ``typing`` would cost a tenth of the start-up
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from harness.runtimes.process import cgroups, members
    from harness.runtimes.process.forks import Forks
    from harness.runtimes.process.members import Members, Process, kill_group
    from harness.runtimes.process.messages import Answer
    from harness.runtimes.process.second import Second
else:
    import cgroups
    import members
    from members import kill_group

POLL_S = 0.005
GONE_WITHIN_S = 15.0
"""For how many seconds ``exited`` is held back for members that the kernel has not removed yet."""
STILL_WITHIN_S = 15.0
"""How many seconds all members may take to be paused or resumed."""


class Life:
    """One life of a node, from its start to ``exited``."""

    __slots__ = ("asked", "dead_at", "foreign", "job", "members", "name", "pid")

    def __init__(self, name: str, members: Members, *, foreign: bool) -> None:
        self.name = name
        self.members = members
        self.pid = members.leader
        self.foreign = foreign
        self.job: Generator[float, None, object] | None = None
        """The job on its members; each turn of the loop does one step."""
        self.asked = False
        """Whether its kill was requested."""
        self.dead_at: int | None = None
        """When its own process was seen to have ended (monotonic ns)."""

    @property
    def ending(self) -> bool:
        """Whether its end has begun, by itself or on request."""
        return self.asked or self.dead_at is not None


class ProcessLives:
    """All lives that have not ended, by the process id of their node."""

    def __init__(self, second: Second, forks: Forks, send: Callable[[Answer], None]) -> None:
        """Begin without nodes. ``send`` sends a message to the harness."""
        self.all: dict[int, Life] = {}
        self.pid = os.getpid()
        self.second = second
        self.forks = forks
        self.send = send

    def begin(self, life: Life, job: Generator[float, None, object]) -> None:
        """Begin a job on a node. It replaces the present job."""
        if life.job is not None:
            life.job.close()
        life.job = job
        self.step(life)

    def step(self, life: Life) -> float | None:
        """Do the next step of a node's job; return how many seconds to wait for the following one,
        if there is one.
        """
        if life.job is None:
            return None
        try:
            return next(life.job)
        except StopIteration:
            life.job = None
            return None

    def steps(self) -> list[float]:
        """Do the next step of every job; return how many seconds to wait for each
        following step.
        """
        return [
            wait_s for life in list(self.all.values()) if (wait_s := self.step(life)) is not None
        ]

    def pause(self, life: Life, asked: int) -> Generator[float, None, None]:
        """Stop all members, and answer."""
        answer: Answer = {"error": "it has ended", "stage": "signal"}
        try:
            found = yield from members.hold(lambda: self.members_of(life), STILL_WITHIN_S)
            answer = {"pid": life.pid, "members": [one.told() for one in found]}
        except TimeoutError as error:
            answer = {
                "error": f"{len(error.args)} of its processes did not stand still",
                "stage": "still",
            }
        finally:
            self.send({"id": asked, **answer})

    def resume(self, life: Life, asked: int) -> Generator[float, None, None]:
        """Resume all members, and answer when none is stopped."""
        answer: Answer = {"error": "it has ended", "stage": "signal"}
        deadline = time.monotonic() + STILL_WITHIN_S
        try:
            found = self.members_of(life)
            members.release(found)
            # if all members end meanwhile, this is the answer
            answer = {"pid": life.pid, "members": [one.told() for one in found]}
            while (
                still := [one for one in found if "T" in members.thread_states(one.pid)]
            ) and time.monotonic() < deadline:
                yield members.LOOK_S
            if still:
                answer = {"error": f"{len(still)} of its processes did not go on", "stage": "still"}
        finally:
            self.send({"id": asked, **answer})

    def end(self, life: Life, asked: int | None = None) -> Generator[float, None, None]:
        """Kill all members, wait until nothing is left, reap the node's own process, and send
        ``exited``.
        """
        killed: dict[int, members.Member] = {}

        def note(found: list[members.Member]) -> None:
            nonlocal asked
            kill_group(life.pid)
            if life.members.cgroup:
                cgroups.kill(life.members.cgroup)
            killed.update((one.pid, one) for one in found if one.pid != life.pid)
            if asked is not None:
                self.send({"id": asked, "pid": life.pid})
                asked = None

        looked: list[Mapping[int, Process]] = []
        """The table that showed that nobody is unsure: the first search needs no other."""

        def search() -> list[members.Member]:
            return self.members_of(life, looked.pop() if looked else None)

        sure_by = time.monotonic() + members.UNSURE_S
        while life.dead_at is not None and not looked:
            table = members.look()
            if self.unsure(life, table) and time.monotonic() < sure_by:
                yield members.LOOK_S
            else:
                looked.append(table)
        left = yield from members.end(search, GONE_WITHIN_S, note)
        note([])
        while (seen := os.waitid(os.P_PID, life.pid, os.WEXITED | os.WNOHANG)) is None:
            yield POLL_S  # nothing else ends: it sits in the kernel
        del self.all[life.pid]
        self.second.tell(b"-", life.members)
        if life.members.cgroup:
            cgroups.remove(life.members.cgroup)
        if life.foreign and life.asked:
            strays = self.strays(members.look())
            left += [
                members.Member(one.pid, one.start, "stray")
                for one in strays
                if one.start >= life.members.since
            ]
        by_itself = seen.si_code == os.CLD_EXITED
        self.send(
            {
                "event": "exited",
                "node": life.name,
                "pid": life.pid,
                "t": life.dead_at or time.monotonic_ns(),
                "status": seen.si_status if by_itself else None,
                "signal": None if by_itself else seen.si_status,
                "members": [one.told() for one in killed.values()],
                "left": [one.told() for one in left if one.pid != life.pid],
            }
        )

    def members_of(
        self, life: Life, table: Mapping[int, Process] | None = None
    ) -> list[members.Member]:
        """Return the living members of a node. ``table``: that of now, if it is known."""
        table = members.look() if table is None else table
        return life.members.find(table, self.strays_of(life, table) if life.foreign else ())

    def strays(self, table: Mapping[int, Process]) -> list[Process]:
        """Return the guardian's children that belong to no node."""
        known = {self.second.pid, self.forks.pid, *self.all}
        orphans = [
            each
            for each in table.values()
            if each.parent == self.pid and each.pid not in known and each.alive
        ]
        if not orphans:
            return []
        claimed = {one.pid for life in self.all.values() for one in life.members.find(table)}
        return [each for each in orphans if each.pid not in claimed]

    def strays_of(self, life: Life, table: Mapping[int, Process]) -> set[int]:
        """Return the strays that only this node can have started, because no other foreign node
        lived at their start.
        """
        others = [
            each.members.since for each in self.all.values() if each.foreign and each is not life
        ]
        return {
            each.pid for each in self.strays(table) if all(since > each.start for since in others)
        }

    def unsure(self, life: Life, table: Mapping[int, Process]) -> bool:
        """Return whether an orphan may be a member, which is unknown until its environment can be
        read.
        """
        return any(each.unread and each.start >= life.members.since for each in self.strays(table))
