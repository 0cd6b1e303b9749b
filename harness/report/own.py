"""What only the report of a user's own pipeline says: what it claims, and which clients it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import Direction
from harness.pipelines.traffic import STEPS
from harness.report.reading import lines_of
from harness.report.summary import is_own

if TYPE_CHECKING:
    from harness.saved import CellResult, SavedRun


def labels_of(run: SavedRun) -> list[str]:
    """Return a short name for each cell of a run: for a user's own pipeline, its failure point."""
    if not is_own(run):
        return [result.plan.id for result in run.results]
    several = len({result.plan.pipeline for result in run.results}) > 1
    seeds = len(run.info.seeds) > 1
    return [
        (f"{plan.pipeline}: " if several else "")
        + plan.scenario
        + (f", seed {plan.seed}" if seeds else "")
        for plan in (result.plan for result in run.results)
    ]


def own_facts(run: SavedRun) -> dict[str, str]:
    """Return facts about the user's own pipelines, by name; none if the run has other pipelines,
    too.
    """
    if not is_own(run):
        return {}
    claims = {result.plan.pipeline: str(result.plan.semantic) for result in run.results}
    said = {"pipeline": ", ".join(f"{name} claims {semantic}" for name, semantic in claims.items())}
    for name in claims:
        found = next(
            filter(
                None, (clients_of(result) for result in run.results if result.plan.pipeline == name)
            ),
            {},
        )
        words = "; ".join(f"{role} {', '.join(clients)}" for role, clients in found.items())
        said |= {"clients" if len(claims) == 1 else f"clients of {name}": words} if words else {}
    return said


def clients_of(result: CellResult) -> dict[str, tuple[str, ...]]:
    """Return the client libraries of each stage, by role, as they name themselves to the broker;
    else their client ids.

    A role is missing if the wire saw no request of it, or if the history cannot be read.
    """
    roles = [
        str(stage.get("role"))
        for stage in result.plan.settings.get("stages", ())
        if isinstance(stage, dict)
    ]
    frames = [
        event
        for event in lines_of(result, kinds.Frame)
        if event.dir == Direction.REQUEST and event.api not in STEPS
    ]
    found = {}
    for role in roles:
        mine = [frame for frame in frames if frame.role == role]
        libraries = {frame.software for frame in mine if frame.software}
        ids = {frame.client for frame in mine if frame.client}
        if libraries or ids:
            found[role] = tuple(sorted(libraries)) or tuple(
                f"(client id {name})" for name in sorted(ids)
            )
    return found
