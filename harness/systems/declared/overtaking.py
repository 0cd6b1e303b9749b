"""Hold the work of a declared stage on its way out, while the rest of the program runs on.

The tracer holds each thread at its first durable write, and the wire holds each request that sends
a result. First only the target is in hand: a program that collects records must keep it in memory
while its clock for commits ticks. Then the load goes on, so that the program comes to its work.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.abilities import HeldWork, SavedMarks
from harness.faults.triggers import rule_at
from harness.model import events as kinds
from harness.model.events import RulePhase, WorkPhase
from harness.model.failures import CellFailure
from harness.model.struck import RULE, hits_of
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.pipelines.traffic import STEPS
from harness.proofs.overtaken import MARK
from harness.wire.rules import Action, Direction, How

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.controls import InHand, OnWire
    from harness.run.controls import WireControls
    from harness.runtimes.process.traced import HeldThread
    from harness.systems.declared.feed.feed import DeclaredFeed
    from harness.systems.declared.programs.nodes import CommandNode
    from harness.systems.declared.programs.targets import FaultTargets
    from harness.systems.declared.programs.workers import Victim
    from harness.systems.declared.scene import Scene

RESTS_S: Final = 20.0
"""How long (seconds) a stage may take to have nothing in hand. The target is held that long, for
less than the 30 s that clients wait for an answer.
"""
WORKS_S: Final = 20.0
"""How long (seconds) a stage may take to come to its work when the load goes on; or longer, where
the dry run's silences were longer.
"""
SENDS_S: Final = 60.0
"""How long (seconds) a producer may take to send its first record."""
SENDS, SAVES, FIRST = "work", "position", "first"
"""The rules of the wire."""


@dataclass(eq=False)
class WorkOnItsWay(HeldWork):
    """Holds the work of one stage. Implements :class:`harness.abilities.HeldWork`. ``victim``: the
    process that the fault strikes alone, if it does; ``look``: called while something is
    awaited.
    """

    scene: Scene
    controls: WireControls
    nodes: FaultTargets
    feed: DeclaredFeed
    victim: Victim
    look: Callable[[], object]
    _stage: CommandNode | None = None
    _armed: list[str] = field(default_factory=list)
    """The rules that hold requests, while they are armed."""
    _spared: set[str | None] = field(default_factory=set)
    """What was held of other members, and has gone on, by the names of the holds."""
    _since: int = 0
    """When the work began to be held (monotonic ns)."""
    _held_at: float = 0.0

    # --- the ability ------------------------------------------------------------------------------

    def hold(self, work: InHand) -> None:
        """Hold what the stage writes and sends. Whatever it is still busy with is let go first.

        Raises:
            CellFailure: the stage never had nothing in hand.
            TracingError: the stage cannot be traced.
        """
        role = work.at.role
        self._stage = self.nodes.stage(role)
        self.controls.undo(self._let_go)
        saves = rule_at(work.saves, Action.MARK, SAVES, role=str(role), limit=None)
        self.controls.put_beside(saves)
        deadline = time.monotonic() + RESTS_S
        while not self._holds_nothing(work):
            self._let_go()
            if time.monotonic() > deadline:
                raise CellFailure(
                    f"the {role} did not rest for {work.quiet_s:.1f} s before it was given the "
                    f"target, so nobody can say whose work is held{_locked(work)}"
                )
        self._say(kinds.Work(role=self._node.name, phase=WorkPhase.WATCHED))

    def await_overtaken(self, work: InHand) -> bool:
        """Return whether a commit covered the target, or a record that came with it, while none of
        the work was done.
        """
        if not self.await_held(work):
            return False
        covered = self._within(work.within_s, self._covered)
        if covered:
            self._say(
                kinds.Work(role=self._node.name, phase=WorkPhase.COVERED, how=work.saves.api.label)
            )
        return covered

    def await_held(self, work: InHand) -> bool:
        """Wait until work is held, and let the load go on; say whether any is held."""
        self._within(work.within_s, lambda: self._held() or self._covered())
        self.feed.release()
        return self._within(self.scene.still(WORKS_S), self._held)

    def release(self, how: str | None = None) -> None:
        """Let the work be done. ``how``: what was awaited, if it was not a commit."""
        waited_s = round(time.monotonic() - self._held_at, 2) if self._held_at else None
        self._say(
            kinds.Work(role=self._node.name, phase=WorkPhase.RELEASED, how=how, waited_s=waited_s)
        )
        self._let_go()

    def discard(self) -> None:
        """Discard what the wire holds. What the tracer held died with the stage."""
        self._resolve(How.DISCARD)
        self._say(kinds.Work(role=self._node.name, phase=WorkPhase.DISCARDED))

    # --- inside -----------------------------------------------------------------------------------

    @property
    def _node(self) -> CommandNode:
        if self._stage is None:
            raise RuntimeError("the work of no stage is held")
        return self._stage

    def _holds_nothing(self, work: InHand) -> bool:
        """Begin to hold, and say whether nothing was held for ``quiet_s``."""
        self._since = time.monotonic_ns()
        if work.writes is not None:
            self._node.tracer.start(self.scene.writes, work.writes, self._struck())
        for number, at in enumerate(work.sends, start=1):
            rule = rule_at(at, Action.HOLD, f"{SENDS}-{number}", role=str(at.role), limit=None)
            self.scene.brokers.wire.arm(self.scene.cell.id, rule)
            self._armed.append(rule.id)
        return not self._within(work.quiet_s, self._stands)

    def _struck(self) -> list[int] | None:
        """Return the processes of the member that the fault strikes; ``None``: it strikes all, or
        the stage starts its processes itself, and any of them may do the work.
        """
        pid, processes = self.victim.pid, self._node.processes
        number = 0 if pid is None else processes.number_of(pid)
        return processes.by_number()[number] if number else None

    def _stands(self) -> bool:
        """Whether any thread or request is held."""
        return bool(self._threads() or self._requests())

    def _held(self) -> bool:
        """Whether any is held; the history notes the first."""
        if self._held_at:
            return True
        for standing in self._threads():
            write = standing.write
            self._say(
                kinds.Work(
                    role=self._node.name,
                    phase=WorkPhase.HELD,
                    how="write",
                    call=write.call,
                    files=write.files,
                    thread=write.tid,
                    pid=standing.pid,
                )
            )
            return True
        for hit in self._requests():
            self._say(
                kinds.Work(
                    role=self._node.name,
                    phase=WorkPhase.HELD,
                    how="frame",
                    call=hit.api,
                    held=hit.held,
                )
            )
            return True
        return False

    def _covered(self) -> bool:
        """Whether a position was saved behind a record that came with the target."""
        rules = self.scene.so_far.of(kinds.Rule)
        hits = [e for e in rules if e.phase == RulePhase.HIT and e.t >= self._since]
        given = {r for e in rules if e.rule == "fault" for r in e.records or ()}
        return any(not given.isdisjoint(e.records or ()) for e in hits if e.rule == SAVES)

    def _threads(self) -> Sequence[HeldThread]:
        """Return the threads that are held before a write."""
        tracing = self._node.tracer.tracing
        return () if tracing is None else tracing.standing()

    def _requests(self) -> list[kinds.Rule]:
        """Return the requests with results that were held since the work began to be held. Those
        of members that the fault does not strike go on.
        """
        struck, found = self._struck(), list[kinds.Rule]()
        owned = {e.conn: e.pid for e in self.scene.so_far.of(kinds.Owner)} if struck else {}
        for e in self.scene.so_far.of(kinds.Rule):
            if not e.rule.startswith(SENDS) or e.phase != RulePhase.HIT or e.t < self._since:
                continue
            if not struck or owned.get(e.conn) in struck:
                found.append(e)
            elif e.held not in self._spared:
                self._spared.add(e.held)
                self.scene.brokers.wire.resolve(e.held or "", How.RELEASE)
        return found

    def _within(self, seconds: float, condition: Callable[[], bool]) -> bool:
        """Wait for a condition, and say whether it came true.

        Raises:
            StageError: the stage ended by itself.
        """

        def looked() -> bool:
            self.look()
            if self._node.stopped_itself():
                raise self._node.error("ended while its work was held")
            return condition()

        try:
            return wait_until(looked, within_s=seconds, because="the work")
        except WaitTimeoutError:
            return False

    def _let_go(self) -> None:
        """Let whatever is held go on, and hold nothing more."""
        if self._stage is not None:
            self._stage.tracer.end()
        self._resolve(How.RELEASE)

    def _resolve(self, how: How) -> None:
        wire, cell = self.scene.brokers.wire, self.scene.cell.id
        rules = {*self._armed}
        while self._armed:  # first: nothing more is held
            wire.disarm(cell, self._armed.pop())
        for held in wire.holds() if rules else ():
            if held.cell == cell and held.rule in rules:
                wire.resolve(held.held, how)

    def _say(self, told: kinds.Work) -> None:
        if told.phase is WorkPhase.HELD:
            self._held_at = time.monotonic()
        self.scene.history.write(told)


def _locked(work: InHand) -> str:
    """Say what to do where a member is held before it locks a database."""
    if work.writes is None or not work.writes.locks:
        return ""
    return (
        "; to read its database counts, too, for that locks it: let it do so less often while it "
        "has no record in hand"
    )


@dataclass(eq=False)
class MarksInSource(SavedMarks):
    """Looks at what a producer saves while its request is held. Implements
    :class:`harness.abilities.SavedMarks`.
    """

    scene: Scene
    controls: WireControls
    nodes: FaultTargets
    feed: DeclaredFeed
    _stage: CommandNode | None = None

    def arm(self, sends: OnWire) -> None:
        """Arm the rule that holds the producer's first request: the first into the topic, if that
        can be told. A worker of Kafka Connect sends others before it is ready.
        """
        self._stage = self.nodes.stage(sends.role)
        topic = self.scene.brokers.destination(self.scene.pipeline.topic)
        told = "topic" in sends.api.selects(sends.direction)
        rule = rule_at(
            sends, Action.HOLD, FIRST, role=str(sends.role), topic=topic if told else None
        )
        self.controls.put_beside(rule)

    def watch(self) -> None:
        """Trace the producer from its first request on. If it never sends one, the fault does not
        fire.

        Raises:
            TracingError: the producer cannot be traced.
        """
        stage = self._node
        with suppress(WaitTimeoutError):
            wait_until(self._hits, within_s=SENDS_S, because="the producer's first request")
        self.controls.undo(stage.tracer.end)
        stage.tracer.start(self.scene.writes)
        self.scene.history.write(kinds.Work(role=self._node.name, phase=WorkPhase.WATCHED))
        for hit in self._hits():
            if hit.rule == FIRST:
                self.controls.resolve(hit.held, How.RELEASE)

    def await_saved(self, hold: str | None, within_s: float) -> bool:
        """Wait ``within_s`` seconds. Return whether the producer has saved anything since its first
        request: by a durable write, or one into a file; at a service, or at the broker on another
        connection; or by its answer to lostack's POST of the target.

        A mark may be saved before the request has left the client, and nobody can tell it from the
        mark of the record before. The wait lets one that comes with the request be saved whole.

        Raises:
            StageError: the producer ended by itself.
        """
        stage = self._node
        self.scene.history.write(
            kinds.Work(role=self._node.name, phase=WorkPhase.HELD, how="frame", held=hold)
        )
        with suppress(WaitTimeoutError):
            wait_until(
                stage.stopped_itself, within_s=within_s, because="the producer to save a mark"
            )
            raise stage.error("ended while its request was held")
        found = self._saved(stage)
        if found is not None:
            self.scene.history.write(
                kinds.Work(role=self._node.name, phase=WorkPhase.COVERED, how=found)
            )
        return found is not None

    def release(self) -> None:
        """Say that no mark was saved."""
        self._node.tracer.end()
        self.scene.history.write(
            kinds.Work(role=self._node.name, phase=WorkPhase.RELEASED, how=MARK)
        )

    @property
    def _node(self) -> CommandNode:
        if self._stage is None:
            raise RuntimeError("no producer is watched")
        return self._stage

    def _hits(self) -> list[kinds.Rule]:
        """Return the hits of the first request, and of the fault's own rule, which may be the
        same.
        """
        return hits_of(self.scene.so_far, (FIRST, RULE))

    def _saved(self, stage: CommandNode) -> str | None:
        """Say what was saved; ``None``: nothing."""
        if self.feed.has_taken_over(self.scene.load.target.id):
            return "answer to the POST"
        return stage.tracer.saved() or self._stored()

    def _stored(self) -> str | None:
        """Say what a service has answered the producer since its first request, or what the broker
        has stored for it. Answers on the held connection are about earlier records.
        """
        hits = self._hits()
        held = next((e for e in reversed(hits) if e.rule == "fault"), None)
        if held is None:
            return None
        since = min((e.t for e in hits if e.rule == FIRST), default=held.t)
        labels = self.scene.pipeline.dialect.stores | STEPS.keys()
        late = (
            e
            for e in self.scene.so_far.of(kinds.Frame)
            if (e.role, e.dir) == (held.role, Direction.RESPONSE)
            and e.api in labels
            and e.t >= since
            and e.conn != held.conn
            and not e.error
        )
        return next((f"{e.api} at {e.node}" for e in late), None)
