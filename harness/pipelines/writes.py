"""The failure points at a reading stage's durable writes: their names, and what the dry run makes of them.

Which calls a program makes shows in the dry run alone; a name must be there before, for ``--only`` and for pytest. So there are
:data:`~harness.model.writes.MOST` names of each stage, and the dry run says at which write each of them is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.faults import CrashAtWrite
from harness.model.writes import MOST, WRITES, Side, chosen
from harness.pipelines.dialects import Moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.model.scenario import Role
    from harness.model.writes import Point
    from harness.pipelines.dialects import Dialect

AT_WRITE = "crash-at-write"
"""The failure point that all of them are."""
_ORDINALS = {1: "first", 2: "second", 3: "third"}


@dataclass(frozen=True, slots=True)
class Written:
    """What a stage was seen to write durably while ``records`` came to it: how often each thread ``made`` each call.

    ``because`` is why nobody could look. ``files``: what it wrote into, below its work folder by ``{work}``.
    """

    made: Mapping[str, Sequence[int]] = field(default_factory=dict)
    records: int = 0
    because: str | None = None
    files: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How often each call was made."""
        return {call: sum(counts) for call, counts in self.made.items()}


UNWATCHED = Written(because="the dry run does not say which durable writes there were")


@dataclass(frozen=True, slots=True)
class WritePoint:
    """One of a stage's failure points: its name, its fault, what happens there, and why it does not apply, if so."""

    name: str
    fault: CrashAtWrite
    because: str
    reason: str | None = None


def write_points(role: Role, written: Written | None, dialect: Dialect) -> Iterator[WritePoint]:
    """Yield the failure points of a stage. ``written`` is ``None`` before the dry run: then every name may be one."""
    given = dialect.steps[Moment.DELIVERY]
    points = chosen(written.made, written.records) if written else ()
    found = [replace(point, files=written.files) if written and point.call in WRITES else point for point in points]
    for number in range(1, MOST + 1):
        name = f"{role}-{AT_WRITE}-{number}"
        if number <= len(found):
            yield WritePoint(name, CrashAtWrite(role, found[number - 1], given), _told(role, found[number - 1]))
        else:
            told = f"The {role} is killed at a durable write of its own behind the record."
            yield WritePoint(
                name, CrashAtWrite(role, given=given), told, None if written is None else _why_not(role, written, len(found))
            )


def _why_not(role: Role, written: Written, found: int) -> str:
    if written.because is not None:
        return written.because
    if found:
        return f"the dry run leads to {found} points at durable writes of the {role}, and to no more"
    if written.made:
        made = ", ".join(f"{call} {count}" for call, count in written.counts.items())
        return f"the dry run saw too few durable writes of the {role} to count on them ({made})"
    return f"the dry run saw no durable write of the {role} (an fsync, …), nor one into a file of its own"


def _told(role: Role, point: Point) -> str:
    """Say what happens at a point.

    >>> from harness.model.scenario import Role
    >>> from harness.model.writes import Point
    >>> _told(Role.CONSUMER, Point("unlink", 2, Side.AFTER))
    'The consumer is killed right behind its second unlink after it was given the record: that is done, and it does not know.'
    """
    into = " into a file" if point.call in WRITES else ""
    place = f"its {_ORDINALS.get(point.occurrence, f'{point.occurrence}th')} {point.call}{into} after it was given the record"
    if point.side is Side.BEFORE:
        return f"The {role} is killed right before {place}: that is never done."
    return f"The {role} is killed right behind {place}: that is done, and it does not know."
