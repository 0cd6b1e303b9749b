"""Says what a check will do, and why: the requests of the dry run, the faults to come, and what no
cell tries.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.matrix.seen import PLUMBING, enough
from harness.model.scenario import NotApplicable
from harness.pipelines.at_services import AT_SERVICE, unseen
from harness.pipelines.silences import is_long, priced
from harness.pipelines.writes import AT_WRITE
from harness.report.summary import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.model.scenario import Scenario
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.shares import Share
    from harness.pipelines.traffic import StageTraffic


def untried(
    pipeline: Pipeline,
    scenarios: Sequence[Scenario],
    seen: Mapping[str, StageTraffic] | None = None,
) -> tuple[str, ...]:
    """Return a sentence for each stage that no scenario kills: its behaviour in a crash is
    untested.

    Also for a reader that keeps its own position, if no scenario kills it at a durable write, or at
    what it says to a service. Then a crash between result and position is untested, and that is
    where such programs fail. And for a stage that speaks to servers past the wire.
    """
    found = [unseen(role, one.elsewhere) for role, one in (seen or {}).items() if one.elsewhere]
    for stage in pipeline.stages:
        kills = [
            scenario for scenario in scenarios if stage.known in scenario.fault.evidence().killed
        ]
        reasons = [
            each.because
            for each in (s.expect[pipeline.claims] for s in kills)
            if isinstance(each, NotApplicable)
        ]
        if len(reasons) == len(kills):
            why = f" ({reasons[0]})" if reasons else ""
            found.append(f"The {stage.known} is not tried: no failure point kills it{why}.")
            continue
        between = [s for s in kills if s.failure_point in (AT_WRITE, AT_SERVICE)]
        at_writes = [s.expect[pipeline.claims] for s in between if s.failure_point == AT_WRITE]
        if (
            stage.position == "elsewhere"
            and at_writes
            and all(isinstance(s.expect[pipeline.claims], NotApplicable) for s in between)
        ):
            why = next(each.because for each in at_writes if isinstance(each, NotApplicable))
            found.append(
                f"A crash of the {stage.known} between its result and its position is not tried: "
                f"{why}."
            )
    return tuple(found)


def explanation(
    pipeline: Pipeline, seen: Mapping[str, StageTraffic], scenarios: Sequence[Scenario]
) -> Iterator[str]:
    """Yield the plan as lines: the requests of the stages in the dry run, the faults to come, and
    those that do not apply.
    """
    records, short = enough(pipeline, seen)
    load = f"{counted(records, 'record')} from {pipeline.input.kind} to {pipeline.output.kind}"
    yield f"{pipeline.name} claims {pipeline.claims}: {load}"
    for role, one in seen.items():
        yield (
            f"  {role}: {counted(one.connections, 'connection')} as {', '.join(one.clients)}; "
            f"requests: {_asked(one.requests)}"
        )
        for owner in one.processes if len(one.processes) > 1 else ():
            held = counted(owner.connections, "connection")
            yield (
                f"    process {owner.pid} ({without_folders(owner.command)}): {held}; "
                f"{_asked(owner.requests)}"
            )
        if told := _share(one.share):
            yield f"    {told}"
        yield from _behind_the_record(one)
    if short:
        yield (
            "  a fault may strike many records at once; a cell in which no other record moves "
            f"after it is void: {short}"
        )
    yield "failure points; each fault strikes at one record, of the middle third if not said else:"
    for scenario in scenarios:
        expectation = scenario.expect[pipeline.claims]
        if not isinstance(expectation, NotApplicable):
            price = f" ({priced(scenario)})" if is_long(scenario) else ""
            yield f"  {scenario.id}{price}: {scenario.because}"
    for scenario in scenarios:
        expectation = scenario.expect[pipeline.claims]
        if isinstance(expectation, NotApplicable):
            yield f"  not {scenario.id}: {expectation.because}"


def _behind_the_record(one: StageTraffic) -> Iterator[str]:
    """Say what a stage has written and said to services since it was given the target."""
    if one.written.made:
        yield f"    durable writes behind the record: {_asked(one.written.counts)}"
    for service, said in one.said.items():
        yield f"    said to the {service} behind the record: {_asked(said.counts)}"


def _share(share: Share) -> str:
    """Say of a stage that handled only some records which of them; nothing of other stages."""
    parts = [
        f"{done} {len(some)} of {share.offered} records; a fault strikes at one of these"
        for done, some in (
            ("it was given", share.some(sent=False)),
            ("it sent", share.some(sent=True)),
        )
        if some is not None
    ]
    return "; ".join(parts)


def without_folders(command: str) -> str:
    """Return a command without the folders in it.

    >>> without_folders("/shop/.venv/bin/python -u book.py /shop/reports/1/work/shop.db")
    'python -u book.py shop.db'
    """
    return re.sub(r"\S*/(?=\S)", "", command)


def _asked(requests: Mapping[str, int]) -> str:
    return (
        ", ".join(f"{name} {count}" for name, count in requests.items() if name not in PLUMBING)
        or "none"
    )
