"""How a consumer group changes while all its members live."""

from __future__ import annotations

from enum import StrEnum


class Change(StrEnum):
    """What happens to the group."""

    JOINS = "joins"
    """Another member joins."""
    COMES_AND_GOES = "comes-and-goes"
    """Another member joins and, as soon as it has partitions, leaves in order."""
    LEAVES = "leaves"
    """The member that has the record is told to end (SIGTERM), and leaves in its own way."""
    OTHER_LEAVES = "other-leaves"
    """All other members are told to end."""
    PUT_OUT = "put-out"
    """The group puts out the member that has the record, which is not told."""


__all__ = ["Change"]
