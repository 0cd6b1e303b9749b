"""The plan of a sweep: the points that follow from its dry runs, and those that are chosen."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import registry
from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model import safe_files
from harness.model.events import ConnPhase
from harness.model.failures import UsageError
from harness.model.history import HISTORY, read_history
from harness.pipelines.cells import DeclaredCell
from harness.stages.settings import Settings
from harness.sweep.acts import LONG
from harness.sweep.cells import at_point, brokers_of
from harness.sweep.classes import Earlier, ProtocolState, RunReason, chosen, class_of, grouped
from harness.sweep.phases import has_load, name_of, phases
from harness.sweep.points import Capabilities, at_writes, in_programs, points
from harness.sweep.recovery import in_turn, seconds
from harness.sweep.saved_runs import DRY_RUNS
from harness.sweep.signature import usual_requests
from harness.sweep.steps import intersected, shared_roles, trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import History
    from harness.model.writes import Point as Write
    from harness.saved import CellResult
    from harness.sweep.classes import Chosen, Class
    from harness.sweep.outcomes import Outcome
    from harness.sweep.points import Point
    from harness.sweep.settings import SweepSettings
    from harness.sweep.steps import Steps

RESULT_FILE = "result.json"
UNLOADED = "no other record moves before it, or behind it"


@dataclass(frozen=True)
class Planned:
    """The plan that follows from the dry runs. ``seconds``: how long one of their cells took."""

    steps: Steps
    classes: dict[Class, tuple[Point, ...]]
    chosen: tuple[tuple[Point, RunReason], ...]
    inapplicable: tuple[tuple[Point, str], ...]
    """Points that are not possible with this system or on this machine, and why."""
    usual: frozenset[str]
    seconds: float

    @property
    def points(self) -> int:
        """How many points there are."""
        return sum(map(len, self.classes.values()))

    def nothing(self, asked: SweepSettings) -> str | None:
        """Return why there is no point at all, or ``None``."""
        if self.points:
            return None
        if not self.steps.frames:
            system = f"the system {asked.system}" if asked.system else asked.what
            return (
                f"{system} sends nothing through the wire, so there is no frame at which a fault "
                "could be placed"
            )
        if not self.steps.found:
            return (
                f"none of {self.steps.frames} frames has the same name in all {DRY_RUNS} runs "
                "without a fault"
            )
        if self.inapplicable:
            return f"no point is possible: {self.inapplicable[0][1]}"
        return f"the acts of --act {' '.join(asked.acts)} are possible at no step"


@dataclass(frozen=True)
class Planner:
    """Chooses the points of a sweep. ``base``: its pipeline's cell without a fault."""

    directory: Path
    settings: SweepSettings
    base: Cell
    kills_brokers: bool
    failpoints: tuple[tuple[str, str], ...]
    """The failpoints in its programs, by role and name."""

    def plan(self, dry: Sequence[CellResult], writes: Sequence[tuple[str, Write]]) -> Planned:
        """Return the plan that follows from the dry runs, and from the durable writes that they
        have shown, by role.

        Raises:
            UsageError: an older version of lostack made the dry runs.
        """
        histories = [read_history(result.directory / HISTORY, result.plan.id) for result in dry]
        if any(
            line.phase == ConnPhase.OPEN and line.protocol is None
            for each in histories
            for line in each.of(kinds.Conn)
        ):
            raise UsageError(
                f"the dry runs of {self.directory} are of an older lostack and do not say which "
                "protocol each connection speaks, so its steps would be named otherwise: begin "
                "a new sweep"
            )
        keys = [result.plan.key for result in dry]
        steps = intersected(
            [trace(history, key) for history, key in zip(histories, keys, strict=True)]
        )
        phase = phases(histories[0])
        in_phase = {
            place: phase[name_of(frame.line)] for place, (_, frame) in enumerate(steps.found)
        }
        acts = self.settings.acts
        can = self._can(histories[0], keys[0], writes)
        found = itertools.chain(
            points(steps, self.base.load(), can), in_programs(steps, can), at_writes(steps, can)
        )
        able, unable = self._applicable(
            point
            for point in found
            if (point.act.startswith(acts) if acts else point.act not in LONG)
        )
        loaded = self._loaded(steps, histories[0])
        unable += tuple((point, UNLOADED) for point in able if point.place not in loaded)
        able = [point for point in able if point.place in loaded]
        classes = grouped(able, in_phase)
        earlier = None if self.settings.shard[1] > 1 else self._earlier()
        mine = self._mine(chosen(classes, self.settings.seed, earlier))
        took_s = statistics.median(result.seconds for result in dry)
        return Planned(steps, classes, mine, unable, usual_requests(histories), took_s)

    def _earlier(self) -> Earlier:
        """Return what earlier sweeps of the same pipeline, client and system, in the same folder,
        have run and proved.
        """
        mine = self.settings.what, self.base.client, self.base.system
        ran: list[tuple[str, str, str]] = []
        beside = self.directory.parent
        for name in safe_files.folders(beside):
            with suppress(
                OSError, ValueError, KeyError, TypeError
            ):  # an unreadable run has shown nothing
                told = safe_files.read_json(beside, f"{name}/{RESULT_FILE}")
                if name < self.directory.name and mine == tuple(
                    told[each] for each in ("what", "client", "system")
                ):
                    ran += [
                        (str(one["class"]), str(one["hit"]), str(one["signature"]["verdict"]))
                        for one in told["outcomes"]
                        if one["proved"]
                    ]
        return Earlier(
            frozenset(each for planned, hit, _ in ran for each in (planned, hit)),
            frozenset(ProtocolState.name_in(hit) for _, hit, _ in ran),
            frozenset(
                ProtocolState.name_in(hit)
                for _, hit, verdict in ran
                if verdict in (Kind.BROKEN, Kind.STUCK)
            ),
        )

    def _mine(self, found: tuple[Chosen, ...]) -> tuple[Chosen, ...]:
        """Return the points of this shard."""
        part, parts = self.settings.shard
        return tuple(one for number, one in enumerate(found) if number % parts == part - 1)

    def _loaded(self, steps: Steps, history: History) -> set[int]:
        """Return the places of steps with load before and after them. Before the first record there
        is none.
        """
        first = self.base.load().records[0].id
        return {
            place
            for place, (step, frame) in enumerate(steps.found)
            if has_load(history, frame.line, step.at, first=first)
        }

    @property
    def hands_over(self) -> bool:
        """Whether one of its brokers can hand over what it leads: there are several of lostack's
        own.
        """
        return self.kills_brokers and brokers_of(self.base) > 1

    def _can(self, history: History, key: str, writes: Sequence[tuple[str, Write]]) -> Capabilities:
        """Return the capabilities of the pipeline, as a run without a fault shows them."""
        members = shared_roles(history, key)
        declared = isinstance(self.base, DeclaredCell)
        resends = declared or Settings.of(self.base.settings).producer.retries
        return Capabilities(
            self.kills_brokers,
            declared,
            members=members,
            failpoints=self.failpoints,
            resends=resends,
            hand_over=self.hands_over,
            reconnects=not declared,
            writes=tuple(writes),
        )

    def _applicable(
        self, found: Iterable[Point]
    ) -> tuple[list[Point], tuple[tuple[Point, str], ...]]:
        able, unable = [], []
        for point in found:
            because = point.illegal or registry.inapplicable(at_point(self.base, point))
            if because is None:
                able.append(point)
            else:
                unable.append((point, because))
        return able, tuple(unable)

    def deeper(
        self,
        planned: Planned,
        firsts: Sequence[Outcome],
        dry: CellResult,
        writes: Sequence[tuple[str, Write]],
    ) -> Planned:
        """Return the plan with a second fault in the recoveries from first ones. ``dry``: a run
        without a fault.
        """
        known = frozenset(step for step, _ in planned.steps.found)
        history = read_history(dry.directory / HISTORY, dry.plan.id)
        can = self._can(history, dry.plan.key, writes)
        found: dict[Class, list[Point]] = {}
        for point, phase in in_turn(
            [list(seconds(first, known, planned.usual, self.base.load(), can)) for first in firsts]
        ):
            found.setdefault(class_of(point, phase), []).append(point)
        classes = {each: tuple(inside) for each, inside in found.items()}
        both = planned.chosen + self._mine(chosen(classes, self.settings.seed))
        return dataclasses.replace(planned, classes=planned.classes | classes, chosen=both)
