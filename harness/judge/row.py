"""What the counting rules read of an event, with every field present."""

from __future__ import annotations

import msgspec

from harness.model.places import Removal, Waiting
from harness.model.states import Hop


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules read of an event. A missing number is -1, a missing flag false, a missing text
    null.
    """

    t: int = -1
    record: str | None = None
    key: str | None = None
    position: int = -1
    hop: Hop | None = None
    topic: str | None = None
    attempt: str | None = None
    intact: bool = False
    visible: bool = False
    order: int = -1
    reached: bool = False
    outcome: str | None = None
    transaction: str | None = None
    request: str | None = None
    where: str | None = None
    by: str | None = None
    foreign: bool = False
    place: str | None = None
    waiting: Waiting | None = None
    why: Removal | None = None
    later: str | None = None
    passed: bool = False
    to: str | None = None
    told_by: str | None = None
    how: str | None = None
    version: int = -1
    times: int = -1
    redelivered: bool = False
    missing: int = -1
    extra: int = -1
    expected: int = -1
    found: int = -1
    alone: str | None = None
