"""The failure points that a wire alone can have, from the tables of points and of errors. Pure."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.pipelines.dialects import KAFKA
from harness.pipelines.points import POINTS
from harness.pipelines.silences import SILENCES, WAITS_S
from harness.protocols.kafka.steps import DENIED, DURABLE, Api
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
_LOST: Final = frozenset(KAFKA.steps[each.moment] for each in POINTS if each.moment in KAFKA.steps)
"""The frames at which a point of a pipeline strikes: each can be lost."""
_SILENT: Final = frozenset(KAFKA.steps[each.moment] for each in SILENCES)
FIRST: Final = ("REBALANCE_IN_PROGRESS", "NOT_ENOUGH_REPLICAS")
"""The errors that are tried where they are legal, in place of a request's first one."""
NEVER: Final = 1 << 30
"""A number that no frame has: a rule for it counts, and does nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A kind of frame. ``topic``: only those of this topic."""

    api: Api
    way: Direction
    topic: str | None = None

    @property
    def name(self) -> str:
        """Its name in those of points."""
        way = "request" if self.way is REQUEST else "answer"
        return f"{self.api.lower()}-{way}" + (f"-{_plain(self.topic)}" if self.topic else "")

    @property
    def place(self) -> tuple[str, Direction]:
        """Its API and way."""
        return str(self.api), self.way

    @property
    def about(self) -> bool:
        """Whether such a frame can be about a record."""
        return "record" in self.api.selects(self.way)

    def asked(self, do: str, nth: int, **more: object) -> dict[str, object]:
        """Return a fault at the ``nth`` such frame, as a proxy is asked for it. Where a frame can
        be about a record, one that is about none does not count.
        """
        about = {"record": ""} if self.about else {}
        plain = {"do": do, "api": str(self.api), "nth": nth, "topic": self.topic, **about, **more}
        return plain if do == "refuse" else {**plain, "answer": self.way is RESPONSE}


@dataclass(frozen=True, slots=True)
class Point:
    """A fault at one frame. ``waits_s``: how long a client usually waits for its time-out."""

    id: str
    asked: Mapping[str, object]
    because: str
    waits_s: float = 0.0


def steps(apis: Collection[tuple[str, Direction]], topics: Iterable[str]) -> Iterator[Step]:
    """Yield the steps at which there are points, of those that were seen. ``topics``: those whose
    names are the same in every run.
    """
    named: list[str | None] = [*sorted(topics)] or [None]
    for api in Api:
        for way in Direction:
            if (str(api), way) not in apis or not _acts(Step(api, way)):
                continue
            topical = "topic" in api.selects(way)
            yield from (Step(api, way, topic) for topic in (named if topical else [None]))


def points(counts: Mapping[Step, int], seed: int) -> tuple[Point, ...]:
    """Return all points. ``counts``: how many frames of each step there were without a fault; the
    one that is struck is drawn from their middle third.
    """
    return tuple(
        _point(step, act, _middle(step, count, seed), count)
        for step, count in counts.items()
        if count
        for act in _acts(step)
    )


def _middle(step: Step, count: int, seed: int) -> int:
    draw = random.Random(f"{seed}/{step.name}")
    return draw.randint((count + 2) // 3, max((count + 2) // 3, 2 * count // 3))


@dataclass(frozen=True, slots=True)
class _Act:
    do: str
    name: str
    what: str
    error: str | None = None
    applied: bool = False
    waits_s: float = 0.0


_LOSE: Final = _Act("lose", "lost", "never arrives, and its connection ends")
_LATE: Final = _Act(
    "late",
    "late",
    "leaves its connection, which ends; it arrives behind the one that takes its place",
)
_NEVER: Final = _Act(
    "never", "silent", "never arrives; its connection stays, and is silent", waits_s=WAITS_S
)


def _acts(step: Step) -> tuple[_Act, ...]:
    place = (step.api, step.way)
    acts = [_LOSE] if place in _LOST else []
    acts += [_LATE] if place in _LOST and step.way is REQUEST and step.api in DURABLE else []
    acts += [_NEVER] if place in _SILENT else []
    return (*acts, *(_refusals(step.api) if step.way is REQUEST else ()))


def _refusals(api: Api) -> Iterator[_Act]:
    """Yield one refusal of a request that is not carried out, and one of a request that is."""
    legal = [error for error in api.errors if error not in DENIED]
    plain = [error for error in FIRST if error in legal] + [
        error for error in legal if not api.errors[error]
    ]
    after = [error for error in legal if api.errors[error]]
    for error in plain[:1]:
        name = f"refused-{error.replace('_', '-').lower()}"
        yield _Act("refuse", name, f"is refused by {error}; the broker never sees it", error)
    for error in after[:1]:
        name = f"carried-out-and-refused-{error.replace('_', '-').lower()}"
        said = f"is carried out, and its client is told {error}"
        yield _Act("refuse", name, said, error, applied=True)


def _point(step: Step, act: _Act, nth: int, count: int) -> Point:
    way = "request" if step.way is REQUEST else "answer"
    of = f" of topic {step.topic}" if step.topic else ""
    about = " about a record" if step.about else ""
    more: dict[str, object] = {}
    if act.error is not None:
        more = {"error": act.error, "applied": act.applied}
    because = f"{step.api} {way}{of}{about} number {nth} (of {count} without a fault) {act.what}."
    asked = step.asked(act.do, nth, **more)
    return Point(f"{step.name}-{act.name}", asked, because, act.waits_s)


def _plain(topic: str) -> str:
    """Return a name as a file may have it. Kafka's topics have no other ones; a client may."""
    return re.sub(r"[^\w.-]", "_", topic)
