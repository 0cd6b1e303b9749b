"""Check a pipeline from Python: what ``lostack check`` does, with the saved run as the result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.explaining import untried
from harness.matrix.progress import make_progress
from harness.matrix.seen import seen_in
from harness.pipelines import Pipeline, read_pipeline
from harness.report.renderers import write_reports
from harness.systems.declared.brokers.attached import AttachedKafka
from harness.systems.declared.brokers.attachment import Attachment
from harness.systems.declared.fetchable import check_declared
from harness.systems.declared.system import DeclaredSystem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.saved import SavedRun

Kafka: TypeAlias = DeclaredSystem
"""The brokers on which pipelines run: ``Kafka(keep=True)`` is lostack's own; ``close`` ends it."""


class DryRunError(Exception):
    """The pipeline did not keep its claim in a run without any fault, so faults say nothing. The
    message names the verdict, its reason and the saved run.
    """


def attached_kafka(
    bootstrap: str,
    pipeline: Pipeline | Path | str,
    *,
    remote: bool = False,
    listeners: bool = False,
) -> Kafka:
    """Return a Kafka that runs already, for one pipeline. End it with ``close``, which leaves the
    brokers running.

    ``bootstrap``: ``HOST:PORT`` of any broker. ``pipeline``: a declaration, or its file.
    ``remote``: it may be on another machine. ``listeners``: its brokers have a listener for each
    stage (docs/attach.md).

    Raises:
        DeclarationError: the declaration is wrong, or the cluster cannot be attached to.
    """
    attachment = Attachment(bootstrap, _declared(pipeline), remote, listeners)
    attachment.check()
    return DeclaredSystem(keep=True, source=AttachedKafka(attachment))


def check(
    pipeline: Pipeline | Path | str,
    *,
    only: Sequence[str] = (),
    seed: int = 1,
    reports: Path | str = "reports",
    kafka: Kafka | None = None,
) -> SavedRun:
    """Crash a pipeline at its failure points, one cell for each, and return the judged run.

    ``pipeline``: a declaration, or its file. ``only``: the names of failure points; by default all
    but those that take long (``lostack check --all``). ``seed``: draws targets, keys and sizes; the
    same seed draws the same. ``reports``: the folder below which the run and its reports are
    written. ``kafka``: brokers to run on, which stay open; by default lostack's own, for this check
    alone. Progress goes to standard error.

    Raises:
        DryRunError: the run without a fault did not keep the pipeline's claim.
        DeclarationError: the declaration is wrong, or a failure point is unknown.
        EnvironmentFailure: the machine lacks something.
    """
    declared = _declared(pipeline)
    check_declared(declared)
    system = kafka if kafka is not None else DeclaredSystem(keep=True)
    asked = Check(declared, system, Path(reports), "lostack.check", seed)
    try:
        asked.plan({}, only)  # a wrong name is told before anything is started
        with make_progress(sys.stderr) as progress:
            dry = asked.dry_run(progress)
            if dry.verdict.kind is not Kind.KEPT:
                raise DryRunError(
                    f"the run without a fault was {dry.verdict.kind}: {dry.verdict.reason}; "
                    f"saved in {dry.directory}"
                )
            seen = seen_in(dry)
            cells, rest = asked.plan(seen, only)
            every = [cell.scenario for part in asked.plan(seen, ()) for cell in part]
            saved = asked.faults(cells, rest, progress, untried(declared, every, seen))
    finally:
        if kafka is None:
            system.close()
    write_reports(saved)
    return saved


def _declared(pipeline: Pipeline | Path | str) -> Pipeline:
    return pipeline if isinstance(pipeline, Pipeline) else read_pipeline(Path(pipeline))
