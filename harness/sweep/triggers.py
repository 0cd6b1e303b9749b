"""Triggers as a scenario file has them: tables of plain values, read and written by their types."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from harness.controls import AtWrite, InProgram, OnWire
from harness.model.plain import made
from harness.model.scenario import Role
from harness.model.writes import CALLS, WRITES, Point, Side
from harness.sweep.names import protocol_of, shared, step_named
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from harness.controls import Trigger


class FrameTable(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A frame on the wire. ``protocol``: only where several protocols have such a step."""

    role: Role
    api: str
    direction: Direction
    protocol: str = ""
    offset: int = 0
    occurrence: int = 1
    since: FrameTable | None = None

    @staticmethod
    def of(at: OnWire) -> FrameTable:
        """Return the table of a trigger.

        Raises:
            TypeError: it is counted from a failpoint, which no file can say.
        """
        if isinstance(at.since, InProgram):
            raise TypeError(f"no scenario file can say that {at} is counted from a failpoint")
        return FrameTable(
            at.role,
            at.api.label,
            at.direction,
            protocol_of(at.api) if shared(at.api.label) else "",
            at.offset,
            at.occurrence,
            None if at.since is None else FrameTable.of(at.since),
        )

    def trigger(self) -> OnWire:
        """Return what it says.

        Raises:
            ValueError: no step is called so, or those of several protocols are.
        """
        name = step_named(self.protocol, self.api)
        if name is None and not self.protocol and shared(self.api):
            raise ValueError(
                f"several protocols have a step called {self.api}; say which as its protocol"
            )
        if name is None:
            raise ValueError(f"no step is called {self.api}")
        since = None if self.since is None else self.since.trigger()
        return OnWire(self.role, name, self.direction, self.offset, self.occurrence, since)


class WriteTable(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A durable write of a stage, counted from the frame that brings it the record."""

    role: Role
    call: str
    occurrence: int
    side: Side
    since: FrameTable
    files: tuple[str, ...] = ()

    @staticmethod
    def of(at: AtWrite) -> WriteTable:
        """Return the table of a trigger."""
        where = at.point
        since = FrameTable.of(at.since)
        return WriteTable(at.role, where.call, where.occurrence, where.side, since, where.files)

    def trigger(self) -> AtWrite:
        """Return what it says.

        Raises:
            ValueError: there is no such call, or it is counted from elsewhere.
        """
        if self.call not in CALLS + WRITES:
            raise ValueError(f"no durable write is called {self.call}")
        since = self.since.trigger()
        if since != OnWire(self.role, since.api, since.direction):
            raise ValueError(
                "since must be a frame that brings the record to the stage whose durable writes "
                "are counted"
            )
        where = Point(self.call, self.occurrence, self.side, self.files)
        return AtWrite(self.role, where, since)


class FailpointTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A failpoint inside a program."""

    role: Role
    failpoint: str

    @staticmethod
    def of(at: InProgram) -> FailpointTable:
        """Return the table of a trigger."""
        return FailpointTable(at.role, at.name)

    def trigger(self) -> InProgram:
        """Return what it says."""
        return InProgram(self.role, self.failpoint)


def frame_read(plain: object) -> OnWire:
    """Return the frame that plain data name.

    Raises:
        ValueError: they are no table of a frame, or there is no such frame.
    """
    return made(FrameTable, plain, "the frame").trigger()


def trigger_read(plain: object) -> Trigger | AtWrite:
    """Return the trigger that plain data name.

    Raises:
        ValueError: they are no table of a trigger, or there is no such place.
    """
    if not isinstance(plain, dict):
        raise ValueError("at must be a table")  # noqa: TRY004 - a wrong file
    if "call" in plain:
        return made(WriteTable, plain, "the durable write").trigger()
    if "failpoint" in plain:
        return made(FailpointTable, plain, "the failpoint").trigger()
    return frame_read(plain)


def inline(at: Trigger | AtWrite) -> str:
    """Return a trigger as an inline table of TOML.

    >>> inline(InProgram(Role.CONSUMER, "before-commit"))
    '{role = "consumer", failpoint = "before-commit"}'
    """
    if isinstance(at, AtWrite):
        table: WriteTable | FailpointTable | FrameTable = WriteTable.of(at)
    elif isinstance(at, InProgram):
        table = FailpointTable.of(at)
    else:
        table = FrameTable.of(at)
    return _as_toml(msgspec.to_builtins(table, enc_hook=str))


def _as_toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_as_toml(each)}" for name, each in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
