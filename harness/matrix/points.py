"""Tables of the failure points that every system has: the system's name for each, the prediction,
and what was measured.

A system names its lines (:class:`~harness.interfaces.PointsLine`); everything else comes from its
scenarios in the registry.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness import registry
from harness.controls import InProgram, OnWire, trigger_of
from harness.model.prediction import AtLeast, AtMost, Permitted
from harness.model.scenario import NotApplicable, Predicted
from harness.model.semantics import Semantic
from harness.pipelines.dialects import act_of
from harness.protocols.acts import Act
from harness.run.queue_system import ACTS, CLIENTS
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.interfaces import PointsLine
    from harness.model.prediction import Prediction
    from harness.model.scenario import Expectation, Scenario
    from harness.saved import CellResult
    from harness.wire.rules import StepName

    Measured = Mapping[str, Mapping[int, bool]]
    """By cell (without its runtime and seed) and seed: whether the outcome was the
    predicted one.
    """

POINTS: Final = {
    "request-lost": "send lost",
    "ack-lost": "receipt lost",
    "producer-crash-before-ack": "producer dies before it reads the receipt",
    "delivery-lost": "delivery lost",
    "commit-lost": "acknowledgement lost",
    "commit-ack-lost": "answer to the acknowledgement lost",
    "consumer-crash-before-recording": "consumer dies before its work",
    "consumer-crash-before-commit": "consumer dies after its work",
}
"""The heading of each column, by failure point."""
NOTHING, UNTRIED, OTHERWISE, BREAKS = "n/a", "?", "✗", "⚖"
LEGEND: Final = (
    "Each cell: at-most-once, at-least-once, exactly-once. **L** the record must be lost, "
    "**L+** with others, **D** it must be duplicated, (L) and (D) may be; **S** all stands "
    "still; 0 nothing is lost and nothing is duplicated, and a sign shows what protected it; "
    f"{NOTHING} the point does not exist there, or a library's clock decides the outcome (the "
    f"system's page says which); ¹ by other settings than the semantic's own; {BREAKS} the "
    f"promise must be seen broken there. {UNTRIED} predicted, but not yet run; {OTHERWISE} had "
    "another outcome."
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One semantic at a point of a line. ``name``: the name of its cells, without
    runtime and seed.
    """

    name: str
    theory: Expectation | None

    def text(self, measured: Measured) -> str:
        """Return the text of the cell: the prediction, and a mark for what was measured."""
        if not isinstance(self.theory, Predicted):
            return NOTHING
        seeds = measured.get(self.name, {})
        mark = UNTRIED if not seeds else "" if all(seeds.values()) else OTHERWISE
        return f"{symbol(self.theory)}{'¹' if self.theory.settings else ''}{mark}"


@dataclass(frozen=True, slots=True)
class Place:
    """A point of a line, and its scenario (or ``None``)."""

    line: PointsLine
    system: str
    point: str
    scenario: Scenario | None

    def cells(self) -> Iterator[Cell]:
        """Yield a cell for each semantic."""
        for semantic in Semantic:
            wanted = self.line.scenarios.get(self.point, self.point)
            there = self.scenario is not None and semantic in self.scenario.expect
            theory = (
                self.scenario.expectation(semantic, self.line.client, self.system)
                if self.scenario and there
                else None
            )
            yield Cell(
                f"{self.system}/{self.line.client}/{self.line.pipeline}/{wanted}/{semantic}", theory
            )


def places() -> list[list[Place]]:
    """Return the lines of every system, each with its points in order."""
    scenarios = list(registry.scenarios())
    return [
        [_place(line, system.name, point, scenarios) for point in POINTS]
        for system in registry.declared()
        for line in system.points
    ]


def _place(line: PointsLine, system: str, point: str, scenarios: Iterable[Scenario]) -> Place:
    wanted = line.scenarios.get(point, point)
    found = (
        each
        for each in scenarios
        if (each.id, str(each.pipeline), each.pipeline.system) == (wanted, line.pipeline, system)
    )
    return Place(line, system, point, next(found, None))


def symbol(theory: Predicted) -> str:
    """Return what theory predicts, in one or two letters.

    >>> from harness.model.prediction import Exactly
    >>> loses, doubles = Predicted(lost=AtLeast()), Predicted(duplicated=Exactly())
    >>> symbol(Predicted()), symbol(loses), symbol(doubles)
    ('0', 'L+', 'D')
    """
    if theory.stands:
        return "S"
    found = [
        _letter(name, prediction)
        for name, prediction in (("L", theory.lost), ("D", theory.duplicated))
    ]
    return ("".join(found) or "0") + (BREAKS if theory.control else "")


def _letter(name: str, prediction: Prediction) -> str:
    if isinstance(prediction, AtMost | Permitted):
        return f"({name})"
    return f"{name}+" if isinstance(prediction, AtLeast) else name if prediction.must_show() else ""


def words(scenario: Scenario, client: str) -> str:
    """Return which frame is lost, or where a process dies, in the words of a client's protocol or
    of lostack's programs.
    """
    at = trigger_of(scenario.fault)
    if isinstance(at, OnWire):
        step = _step(at.api, client, scenario) if isinstance(at.api, Act) else at.api
        if step is None:
            return NOTHING
        return f"{step} →" if at.direction is Direction.REQUEST else f"← {step}"
    return at.name if isinstance(at, InProgram) else scenario.fault.id


def _step(act: Act, client: str, scenario: Scenario) -> StepName | None:
    """Return the step that an act means in the protocol of a client, ours or a package's."""
    if client in CLIENTS:
        return ACTS[CLIENTS[client]].get(act)
    return act_of(scenario.pipeline.system, act)


def _words(place: Place) -> str:
    return NOTHING if place.scenario is None else words(place.scenario, place.line.client)


def measured_in(results: Iterable[CellResult]) -> dict[str, dict[int, bool]]:
    """Return, by cell and seed, whether saved cells had the predicted outcome: in every run, if a
    cell was run several times.
    """
    found: dict[str, dict[int, bool]] = defaultdict(dict)
    for result in results:
        if not result.ended:
            continue
        plan = result.plan
        name = "/".join(
            (plan.system, plan.client, plan.pipeline, plan.scenario, str(plan.semantic))
        )
        found[name][plan.seed] = result.verdict.green and found[name].get(plan.seed, True)
    return dict(found)


def table(measured: Measured) -> str:
    """Return the table in Markdown: a line for each system and protocol, a column for
    each point.
    """
    rows = [["system, protocol", *POINTS.values(), "seeds"], ["---"] * (len(POINTS) + 2)]
    for line in places():
        cells = [list(place.cells()) for place in line]
        shown = (" ".join(cell.text(measured) for cell in point) for point in cells)
        rows.append([line[0].line.title, *shown, _seeds(cells, measured)])
    return _markdown(rows)


def vocabulary() -> str:
    """Return in Markdown each system's name for the points. An arrow shows the direction of a frame
    that is lost or not read.
    """
    rows = [["system, protocol", *POINTS.values()], ["---"] * (len(POINTS) + 1)]
    return _markdown([*rows, *([line[0].line.title, *map(_words, line)] for line in places())])


def semantics() -> str:
    """Return in Markdown the settings that make each semantic, by system."""
    rows = [["system, protocol", *Semantic], ["---"] * (len(Semantic) + 1)]
    return _markdown([*rows, *([line[0].line.title, *line[0].line.semantics] for line in places())])


def reasons() -> str:
    """Return in Markdown why each prediction holds, and why some points do not apply."""
    told: list[str] = []
    for line in places():
        told += [f"### {line[0].line.title}", ""]
        for place in line:
            if place.scenario is None:
                continue
            nowhere = {
                cell.theory.because
                for cell in place.cells()
                if isinstance(cell.theory, NotApplicable)
            }
            because = " ".join(
                (place.scenario.because, *(f"Not applicable: {why}." for why in sorted(nowhere)))
            )
            told.append(
                f"- **{POINTS[place.point]}** (`{place.scenario.id}`, {_words(place)}): {because}"
            )
        told.append("")
    return "\n".join(told).rstrip() + "\n"


def page(measured: Measured) -> str:
    """Return the whole page in Markdown: the legend, its table, names, semantics and reasons."""
    return "\n".join((LEGEND, "", table(measured), vocabulary(), semantics(), reasons()))


def _seeds(cells: Iterable[Iterable[Cell]], measured: Measured) -> str:
    """Return the seeds at which every cell of a line was run."""
    runs = [
        set(measured.get(cell.name, {}))
        for point in cells
        for cell in point
        if isinstance(cell.theory, Predicted)
    ]
    everywhere = sorted(set.intersection(*runs)) if runs else []
    if len(everywhere) > 2 and everywhere == list(range(everywhere[0], everywhere[-1] + 1)):  # noqa: PLR2004 - a range has an inside
        return f"{everywhere[0]} to {everywhere[-1]}"
    return ", ".join(map(str, everywhere)) or "none"


def _markdown(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"
