"""The frames behind a step in the dry run. They show when a program has repeated a request."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.model.scenario import Role
from harness.protocols.kafka.steps import Api
from harness.sweep.acts import (
    HOLD,
    LATE,
    LATE_NEXT,
    LATE_NEXT_KILL,
    READERS,
    REQUEST,
    RESPONSE,
    Happening,
    begin,
    request_of,
    trigger,
    words,
)
from harness.sweep.names import known_of
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.controls import OnWire
    from harness.model.record import Record
    from harness.sweep.steps import NamedFrame, Step


@dataclass(frozen=True, slots=True)
class FramesAfter:
    """The frames behind a step in the dry run. They show when a program has repeated a request that
    is held.
    """

    later: Sequence[tuple[Step, NamedFrame]]
    frame: NamedFrame
    records: Mapping[str, Record]
    here: Record
    again: bool
    """Whether the process repeats the request."""
    reconnects: bool
    """Whether the process reconnects even if its library does not."""

    def happenings(self, step: Step) -> Iterator[tuple[Happening, str]]:
        """Yield when a late request may arrive: after its sender has repeated it, and during what
        the sender does next.

        And to a producer's last answer about a record: a reader may be given the record before that
        arrives.
        """
        known = known_of(step, Direction(step.direction))
        if step.direction == RESPONSE and (given := self._given(step)) is not None:
            told = (
                f"{begin(words(step))} is on its way until the {given.role} is given the "
                "record; then it arrives."
            )
            yield Happening(HOLD, trigger(step), given), told
        if (
            step.direction != REQUEST
            or not known.movable
            or not known.durable
            or not (known.again or self.reconnects)
        ):
            return
        at, frame = trigger(step), begin(words(step))
        if self.again and (own := next(self._answers(beyond=False), None)) is not None:
            yield (
                Happening(LATE, at, own[1]),
                f"{frame} is on its way until its sender has asked again; then it arrives.",
            )
        if (following := self._next(step)) is not None:
            late = (
                f"{frame} is on its way until its sender has gone on to the next record; then it "
                "arrives"
            )
            yield Happening(LATE_NEXT, at, following), f"{late}."
            behind = self._commit_behind(step) or following
            yield Happening(LATE_NEXT_KILL, at, behind), f"{late}, and its sender is killed."

    def _given(self, step: Step) -> OnWire | None:
        """Return at what a reader is given a producer's record, where the answer is the last that
        stands before that.
        """
        if step.role != Role.PRODUCER or step.record is None or not request_of(step).durable:
            return None
        for later, _ in self.later:
            if later.record != step.record:
                continue
            if later.role == step.role and later.direction == REQUEST:
                return None  # the record is not visible before what it asks there
            if (
                later.role in READERS
                and later.direction == RESPONSE
                and later.api == Api.FETCH.label
            ):
                return trigger(later)
        return None

    def _next(self, step: Step) -> OnWire | None:
        """Return the frame at which a late request arrives: the next answer about its key or, if
        there is none, about any record. Records of one key are in one partition, and only there can
        the late request collide with a later one. The end of a transaction concerns all keys.
        """
        answers = list(self._answers(beyond=True))
        of_key = [
            answer
            for answer in answers
            if answer[0].key == self.here.key and step.api != Api.END_TXN.label
        ]
        return next((at for _, at in (*of_key, *answers)), None)

    def _commit_behind(self, step: Step) -> OnWire | None:
        """Return the commit but one behind that of a position, of its key: what the next one is
        about is worked on by then.

        Whoever saves the position first has not worked on it when that is answered: to die there
        does no harm.
        """
        if step.api != Api.OFFSET_COMMIT.label:
            return None
        mine = (later for later, frame in self.later if frame.process == self.frame.process)
        commits = (
            self.records.get(later.record or "")
            for later in mine
            if (later.api, later.direction) == (step.api, REQUEST)
        )
        places = dict.fromkeys(
            one.position for one in commits if one is not None and one.key == self.here.key
        )
        behind = next(
            itertools.islice((place for place in places if place > self.here.position), 1, None),
            None,
        )
        return (
            None
            if behind is None
            else replace(trigger(step), offset=behind - self.here.position, occurrence=1)
        )

    def _answers(self, *, beyond: bool) -> Iterator[tuple[Record, OnWire]]:
        """Yield the answers to this process about its record, or about later ones; their offsets
        count from the target. A reader fetches whatever becomes of its other requests, so an answer
        to a fetch does not show where the reader is.
        """
        for step, frame in self.later:
            if (
                frame.process != self.frame.process
                or step.direction != RESPONSE
                or step.api == Api.FETCH.label
            ):
                continue
            record = None if step.record is None else self.records.get(step.record)
            if record is None:
                continue
            offset = record.position - self.here.position
            if offset > 0 if beyond else offset == 0:
                at = replace(trigger(step), offset=offset)
                yield record, at
