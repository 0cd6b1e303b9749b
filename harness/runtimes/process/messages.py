"""What the runtime, the guardian and the fork server say to each other: one JSON object a line.

For the type checker only: the guardian and the fork server import nothing that they can do without.
"""

from __future__ import annotations

from typing import TypedDict


class Request(TypedDict, total=False):
    """What the guardian is asked (``do``), and what the fork server is asked to become."""

    id: int
    do: str
    node: str
    argv: list[str]
    env: dict[str, str]
    cwd: str | None
    log: str
    stdin: bool
    foreign: bool
    cgroup: bool
    """Whether the node gets a cgroup of its own."""
    module: str
    words: list[str]
    pid: int
    signal: int


class Answer(TypedDict, total=False):
    """What the guardian answers to a request (``id``), or says by itself (``event``)."""

    id: int
    event: str
    node: str
    second: int
    pid: int
    since: int
    cgroup: str
    error: str | None
    stage: str
    members: list[tuple[int, str, str]]
    left: list[tuple[int, str, str]]
    status: int | None
    signal: int | None
    t: int
