"""Faults that need containers, and damages to a broker's files, by their names."""

from __future__ import annotations

from enum import StrEnum


class Harm(StrEnum):
    """A fault that needs containers."""

    MEMORY = "memory"
    """The container exceeds its memory limit and the kernel kills it. It is started again with more
    memory.
    """
    CONTAINER = "container"
    """The container is killed (SIGKILL). Another container takes its place on the same volume."""
    VOLUME = "volume"
    """The container is killed (SIGKILL) and its volume is lost. Another one starts on an empty
    volume; topics are made anew.
    """
    NETWORK = "network"
    """The container is disconnected from the network until it has given up its connections, and is
    then connected again.
    """
    DISK = "disk"
    """The disk fills up and the broker ends by itself. It is started again when there is room.
    (``Deployment.SMALL``)
    """


class Damage(StrEnum):
    """What becomes of a file of a broker that is down."""

    BIT = "bit-flipped"
    """One bit of a record is another one."""
    TAIL = "tail-cut"
    """A record and all behind it are cut off."""
