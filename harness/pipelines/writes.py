"""The failure points at a reading stage's durable writes: their names, and the write that the dry
run finds for each.

Only the dry run shows which calls a program makes, but ``--only`` and pytest need the names before.
So each stage has :data:`~harness.model.writes.MOST` names, and the dry run decides which write each
of them stands for.
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
"""The common failure point of all these scenarios."""
_ORDINALS = {1: "first", 2: "second", 3: "third"}


@dataclass(frozen=True, slots=True)
class Written:
    """The durable writes of a stage in the dry run, while ``records`` came to it: how often each
    thread ``made`` each call.

    ``because``: why the writes could not be observed. ``files``: the files that it wrote, and will
    in another run, too; ``unrepeated``: those whose names no other run has, which ``made`` does not
    count. Those in its work folder begin with ``{work}``.
    """

    made: Mapping[str, Sequence[int]] = field(default_factory=dict)
    records: int = 0
    because: str | None = None
    files: tuple[str, ...] = ()
    unrepeated: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How often each call was made."""
        return {call: sum(counts) for call, counts in self.made.items()}


UNWATCHED = Written(because="the dry run did not observe durable writes")


@dataclass(frozen=True, slots=True)
class WritePoint:
    """A failure point at a durable write: its name, its fault, what happens there, and why it does
    not apply (if so).
    """

    name: str
    fault: CrashAtWrite
    because: str
    reason: str | None = None


def write_points(role: Role, written: Written | None, dialect: Dialect) -> Iterator[WritePoint]:
    """Yield the failure points of a stage. ``written`` is ``None`` before the dry run; then every
    name may apply.
    """
    given = dialect.steps[Moment.DELIVERY]
    points = chosen(written.made, written.records) if written else ()
    found = [
        replace(point, files=written.files) if written and point.call in WRITES else point
        for point in points
    ]
    for number in range(1, MOST + 1):
        name = f"{role}-{AT_WRITE}-{number}"
        if number <= len(found):
            yield WritePoint(
                name, CrashAtWrite(role, given, found[number - 1]), _told(role, found[number - 1])
            )
        else:
            told = (
                f"The {role} is killed at one of its durable writes after it was given the record."
            )
            yield WritePoint(
                name,
                CrashAtWrite(role, given),
                told,
                None if written is None else _why_not(role, written, len(found)),
            )


def _why_not(role: Role, written: Written, found: int) -> str:
    if written.because is not None:
        return written.because
    return _found(role, written, found) + _left_out(written)


def _found(role: Role, written: Written, found: int) -> str:
    if found:
        return f"the dry run found only {found} points at durable writes of the {role}"
    if written.made:
        made = ", ".join(f"{call} {count}" for call, count in written.counts.items())
        return f"the dry run saw too few durable writes of the {role} to choose one ({made})"
    return (
        f"the dry run saw no durable write of the {role} (such as an fsync), or write to its own "
        "files"
    )


def _left_out(written: Written) -> str:
    """Say which writes are no points; empty if none was left out.

    >>> _left_out(Written(unrepeated=("{work}/out/k0-2.json",)))
    '; writes into files whose names no other run has are left out, as of temporary ones, or of one
    for each record ({work}/out/k0-2.json)'
    """
    if not written.unrepeated:
        return ""
    return (
        "; writes into files whose names no other run has are left out, as of temporary ones, or "
        f"of one for each record ({written.unrepeated[0]})"
    )


def _told(role: Role, point: Point) -> str:
    """Say what happens at a point.

    >>> from harness.model.scenario import Role
    >>> from harness.model.writes import Point
    >>> _told(Role.CONSUMER, Point("unlink", 2, Side.AFTER))
    'The consumer is killed right after its second unlink after it was given the record: the call is
    done, but not returned.'
    """
    into = " into a file" if point.call in WRITES else ""
    place = (
        f"its {_ORDINALS.get(point.occurrence, f'{point.occurrence}th')} {point.call}{into} "
        "after it was given the record"
    )
    if point.side is Side.BEFORE:
        return f"The {role} is killed right before {place}: the call is never done."
    return f"The {role} is killed right after {place}: the call is done, but not returned."
