"""``lostack scoreboard``: small programs on many Kafka clients, and what each keeps."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Jobs, jobs_of
from harness.cli.telling import complain, tell, tell_lines, warn
from harness.matrix.progress import make_progress
from harness.model.exits import ExitCode
from harness.model.failures import EnvironmentFailure


def scoreboard(
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Only rows that this glob matches, as java*, or kafkajs-2.2.4/consumer. May be "
            "repeated."
        ),
    ] = None,
    shard: Annotated[
        str, typer.Option(metavar="N/OF", help="Only this part of the rows, as 2/4.")
    ] = "1/1",
    seed: Annotated[int, typer.Option(help="The seed of all cells.", min=0)] = 1,
    jobs: Jobs = None,
    board: Annotated[
        Path, typer.Option(help="The folder of the board; rows that it has are not run again.")
    ] = Path("reports/scoreboard"),
    again: Annotated[bool, typer.Option(help="Run rows again that the board has.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Show the rows, and stop.")] = False,
    page: Annotated[bool, typer.Option("--page", help="Write the page anew, and stop.")] = False,
) -> None:
    """Crash small programs on many Kafka clients at every failure point, and write one table:
    which client keeps which promise.
    """
    from harness.scoreboard.board import Board, read_outcomes  # noqa: PLC0415 - nobody else needs it
    from harness.scoreboard.page import partial, write_page  # noqa: PLC0415
    from harness.scoreboard.predicting import read_predictions  # noqa: PLC0415
    from harness.scoreboard.table import chosen, read_clients, read_shard, rows_of  # noqa: PLC0415
    from harness.systems.declared.system import DeclaredSystem  # noqa: PLC0415

    rows = tuple(rows_of(read_clients()))
    meant = chosen(rows, only or (), read_shard(shard))
    if listed:
        tell_lines(f"{row.id}{f'  n/a: {row.missing}' if row.missing else ''}" for row in meant)
        return
    failed: list[str] = []
    if not page:
        mine = Board(
            board,
            DeclaredSystem(keep=True),
            shlex.join(["lostack", *sys.argv[1:]]),
            seed,
            jobs_of(jobs),
        )
        left = [row for row in meant if again or not mine.has(row)]
        if len(left) < len(meant):
            tell(f"{len(meant) - len(left)} of {len(meant)} rows are there already")
        try:
            for number, row in enumerate(left, 1):
                with make_progress(sys.stdout) as progress:
                    progress.say(f"row {number} of {len(left)}: {row.id}")
                    try:
                        mine.run(row, progress)
                    except EnvironmentFailure as error:
                        failed.append(f"{row.id} was not run: {error}")
                        progress.say(failed[-1])
        except KeyboardInterrupt:
            complain("interrupted: the same command goes on with the row that was under way")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        finally:
            mine.system.close()
    outcomes = read_outcomes(board)
    for file in write_page(board, outcomes, rows, read_predictions()):
        tell(f"page: {os.path.relpath(file)}")
    warn(*failed)
    if failed:
        raise typer.Exit(ExitCode.ENVIRONMENT)
    if told := partial(outcomes, rows):
        complain(told)
        raise typer.Exit(ExitCode.VOID)
