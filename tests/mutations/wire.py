"""What stands between the programs and the broker, broken. It runs in a process of its own: see
``site/sitecustomize.py``.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.model.events import RulePhase
from harness.model.history import Line
from harness.model.tail import SoFar
from harness.model.waiting import wait_until
from harness.wire.cell import WireCell
from harness.wire.delivery import deliver
from harness.wire.holds import Holds
from harness.wire.lane import Lane
from harness.wire.messages import Resolved
from harness.wire.protocol import Move
from harness.wire.rules import Action, After, Direction
from tests.mutations.registry import cell, mutation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.events import Event
    from harness.wire.cell import FrameInFlight
    from harness.wire.connection import Connection, Hold
    from harness.wire.rules import ArmedRule, Rule


READ_S = 10.0
"""How long a reader may take to say that it was given what has come."""
ON = "tests/wire/test_rules_on_the_wire.py::test_{}"
SAID = "tests/wire/test_answers.py::test_{}"
COUNTS = "tests/wire/test_counting.py::test_{}"
IN = "tests/wire/test_contents.py::test_{}"


@mutation(
    {
        ON.format("a_dropped_request_never_arrives_and_the_connection_ends[drop]"): "at the broker",
        cell(
            "request-lost/at-most-once"
        ): "was kept from the broker and not sent again, but the log has it",
        cell("delivery-lost/at-least-once"): "no answer with it reached a reader",
    }
)
def what_is_dropped_goes_on() -> None:
    """What a rule drops is forwarded all the same, before the connection is cut; and said to be
    dropped.
    """
    right = Lane._act

    async def act(self: Lane, carried: FrameInFlight, cell: WireCell, armed: ArmedRule) -> bool:
        drops = (
            armed.rule.action in (Action.DROP, Action.CUT)
            and armed.rule.after is not After.BLACK_HOLE
        )
        if drops:
            await self._pipe.pass_on(carried.frame.size)
            if self._direction is Direction.RESPONSE:
                await asyncio.to_thread(await_delivery, cell, carried.insight.subject.records)
        return await right(self, carried, cell, armed)

    Lane._act = act  # type: ignore[method-assign]


def await_delivery(cell: WireCell, records: frozenset[str]) -> None:
    """Wait until a reader says it was given one of these: one that finds its connection's end right
    behind them drops both.
    """
    given = SoFar(cell._writer.path.parent).finder(
        kinds.Delivered, lambda event: event.record in records
    )
    wait_until(lambda: bool(given()), within_s=READ_S, because="a reader to be given what has come")


class _Mute:
    """Takes what is to be written of a cell, and does not write it."""

    def blind(self, *_: Any, **__: Any) -> None:
        """Say nothing."""

    def settle(self, *_: Any, **__: Any) -> None:
        """Say nothing."""

    def write_all(self, *_: Any, **__: Any) -> None:
        """Say nothing."""


@mutation(
    {
        ON.format("a_discarded_request_never_arrived"): r"== \[\]",
        cell("commit-lost/exactly-once"): "no absorbed for",
    }
)
def what_is_discarded_arrives() -> None:
    """A held request that is to be discarded is sent to the broker; and said to be discarded."""
    right = Holds._discard

    async def discard(self: Holds, hold: Hold, because: str | None) -> Resolved:
        carried = hold.carried
        if carried.direction is Direction.REQUEST and carried.payload is not None:
            mute: Any = _Mute()
            told = replace(carried, cell=mute)
            await deliver(hold.conn, Move(carried.payload), told, within_s=5.0)
        return await right(self, hold, because)

    Holds._discard = discard  # type: ignore[method-assign]


@mutation(
    {
        SAID.format("a_refused_request_never_arrives_and_its_connection_goes_on"): "x07answer",
        cell(
            "produce-refused+not-enough-replicas/at-least-once"
        ): "but the broker got it all the same|was kept from the broker",
    }
)
def what_is_refused_goes_on() -> None:
    """A request that is refused in the broker's name reaches the broker, too; and is said to have
    been kept from it.
    """
    right = Lane._answer

    async def answer(self: Lane, carried: FrameInFlight, cell: WireCell, rule: Rule) -> bool:
        if not rule.forward and carried.payload is not None:
            self._conn.session.sending(carried.frame)
            await self._target.sendall(carried.payload)
        return await right(self, carried, cell, rule)

    Lane._answer = answer  # type: ignore[method-assign]


@mutation(
    {
        SAID.format("a_forwarded_request_is_done_and_its_answer_swallowed"): "at the broker",
        cell(
            "produce-refused+request-timed-out+done/at-least-once"
        ): "did not answer a request with REQUEST_TIMED_OUT",
    }
)
def what_is_forwarded_is_not() -> None:
    """A request that is refused behind the broker's back never gets there; and is said to have been
    refused so.
    """
    right = Lane._answer

    async def answer(self: Lane, carried: FrameInFlight, cell: WireCell, rule: Rule) -> bool:
        return await right(self, carried, cell, replace(rule, forward=False))

    Lane._answer = answer  # type: ignore[method-assign]


@mutation(
    {
        SAID.format("a_refused_request_never_arrives_and_its_connection_goes_on"): "timed out",
        cell("produce-refused+not-enough-replicas/at-least-once"): "did not reach the client",
    }
)
def nobody_is_told() -> None:
    """A refusal is made, and said to have been given, and is not."""
    right = Lane.say

    async def say(self: Lane, refusal: bytes, *words: Any, **more: Any) -> None:
        del refusal
        await right(self, b"", *words, **more)

    Lane.say = say  # type: ignore[method-assign]


@mutation({COUNTS.format("the_kth_behind_an_anchor_is_the_one"): "assert "})
def what_was_before_counts() -> None:
    """A rule that counts since another has fired counts from when it was armed."""
    WireCell._counts = lambda *_: True  # type: ignore[method-assign]


@mutation(
    {
        ON.format("a_held_request_stalls_what_is_behind_it_and_keeps_the_order"): "assert ",
        cell("ack-held-until-consumed/at-least-once"): "the held frame waited for",
    }
)
def what_is_held_stays() -> None:
    """A held frame that is to go on does not."""

    async def release(self: Holds, hold: Hold, within_s: float) -> Resolved:
        del self, within_s
        return Resolved(hold.id, RulePhase.RELEASED, reached=False)

    Holds._release = release  # type: ignore[method-assign]


@mutation(
    {ON.format("a_held_request_stalls_what_is_behind_it_and_keeps_the_order"): r"assert False"}
)
def what_is_held_goes_on() -> None:
    """A frame that is held is forwarded at once, and said to be held: its kill is a race."""
    right = Holds.hold

    def hold(
        self: Holds, carried: FrameInFlight, cell: WireCell, rule: Rule, conn: Connection
    ) -> Hold:
        made = right(self, carried, cell, rule, conn)
        made.decided.set()
        return made

    Holds.hold = hold  # type: ignore[method-assign]


def kind_of(told: Event | Line) -> str:
    """Return the kind of a line."""
    return told.kind if isinstance(told, Line) else told.event


def silent_about(*silent: str) -> None:
    """Let the wire write no line of these kinds."""
    right = WireCell.write_all

    def write_all(self: WireCell, lines: Iterable[Event | Line]) -> None:
        right(self, [each for each in lines if kind_of(each) not in silent])

    WireCell.write_all = write_all  # type: ignore[method-assign]


@mutation(
    {
        IN.format("a_lost_request_was_never_sent"): r"assert \[\('unsent', 'a-2'\)",
        cell("none/at-least-once"): "but reports of none which records it carried",
        cell("request-lost/at-least-once"): "was kept from the broker",
    }
)
def says_nothing_of_what_is_sent() -> None:
    """No request is seen to carry any record."""
    silent_about("sent")


@mutation(
    {
        ON.format(
            "a_held_request_stalls_what_is_behind_it_and_keeps_the_order"
        ): "waited 5 s for hit 1 of r",
        cell("request-lost/at-most-once"): "the fault did not fire",
    }
)
def says_nothing_of_hits() -> None:
    """No rule is said to have been hit."""
    silent_about(kinds.RULE)


@mutation(
    {
        IN.format("a_lost_request_was_never_sent"): "EOFError",
        cell("request-lost/at-most-once"): "another record than its target",
    }
)
def hits_the_next_record() -> None:
    """A rule for one record acts on the first frame that carries another."""
    from harness.wire.rules import ArmedRule  # noqa: PLC0415 - what is broken

    def takes(self: ArmedRule, subject: Any) -> bool:
        return self.rule.record is None or bool(subject.records - {self.rule.record})

    ArmedRule.takes = takes  # type: ignore[method-assign]


@mutation(
    {
        IN.format("a_lost_request_was_never_sent"): r"\('sent', 'a-2'\)",
        cell(
            "request-lost/at-most-once"
        ): "that it dropped the request with .*, but also that it forwarded the request",
    }
)
def all_has_arrived() -> None:
    """Whatever was dropped, discarded or cut is said to have reached its destination."""
    right = WireCell.settle
    WireCell.settle = lambda self, carried, *, reached: right(self, carried, reached=True)  # type: ignore[method-assign]  # noqa: ARG005
