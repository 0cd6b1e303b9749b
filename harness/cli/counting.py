"""Counting beyond one run: ``lostack account`` and ``lostack audit``."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003 - typer reads it
from typing import Annotated

import typer

from harness.cli.options import AsJson  # noqa: TC001 - typer reads them
from harness.cli.telling import complain, tell, tell_json, tell_text
from harness.model.exits import ExitCode
from harness.model.extras import require
from harness.model.history import SUFFIX, HistoryError
from harness.model.semantics import Semantic


def account(
    directories: Annotated[
        list[Path], typer.Argument(help="Saved runs, or folders that hold many of them.")
    ],
    *,
    master: Annotated[
        str, typer.Option(help="Spark's master, e.g. local[4] or spark://host:7077.")
    ] = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Account for every cell of many saved runs again, on Spark: one line per cell, by the rules of
    a single run.
    """
    require("spark", "lostack account")
    from harness.audit.accounts import cell_files, cells_on_spark  # noqa: PLC0415 - PySpark takes half a second to import
    from harness.audit.session import spark_session  # noqa: PLC0415

    for directory in directories:
        if not any(name.endswith(SUFFIX) for name in cell_files(directory)):
            raise HistoryError(f"no history in {directory}")
    with spark_session(master=master, say=complain) as spark:
        rows = [
            row.asDict()
            for row in cells_on_spark(spark, directories).orderBy("cell").toLocalIterator()
        ]
    if as_json:
        tell_json(rows)
        return
    for row in rows:
        counts = ", ".join(
            f"{count} {name.replace('_', ' ')}"
            for name, count in row.items()
            if name != "cell" and count
        )
        tell(f"{os.path.relpath(row['cell'])}  {counts or 'nothing'}")


def audit(
    *,
    offered: Annotated[str, typer.Option(help="SPEC of the records that were offered.")],
    arrived: Annotated[str, typer.Option(help="SPEC of the records that arrived.")],
    semantic: Annotated[
        str | None, typer.Option(help="Judge by the promise of this semantic.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="Where to compare: here (ranges, Parquet, topics; on every core), spark, or auto."
        ),
    ] = "auto",
    master: Annotated[
        str | None, typer.Option(help="Spark's master, e.g. local[4] or spark://host:7077.")
    ] = None,
    jars: Annotated[
        list[Path] | None, typer.Option(help="A JDBC driver of yours. May be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare what was offered with what arrived, for data beyond any one history.

    SPEC: range:1-1000000 or range:a=1-500,b=1-300; kafka:HOST:PORT/TOPIC#id=json:$.seq;
    parquet:PATH#id=COLUMN&key=COLUMN; jdbc:URL#table=TABLE&id=COLUMN. An id is a whole number;
    leading zeros do not count. Rows without a readable id make the verdict void, unless
    unreadable=N allows up to N of them. Options after # (docs/audit.md says more): id, key,
    pattern, unreadable, order, partition, offset; of a topic kafka.* settings; of a table table,
    user, password_from, driver, readers.
    """
    if engine == "spark" or master or any(side.startswith("jdbc:") for side in (offered, arrived)):
        require("spark", "an audit on Spark")  # it has all that an audit needs
    from harness.audit import auditing, findings  # noqa: PLC0415 - pyarrow and perhaps PySpark; nobody else needs them
    from harness.audit.spec import shown  # noqa: PLC0415

    judged = None if semantic is None else _known(semantic)
    found = auditing.audit(
        offered, arrived, engine=engine, master=master, jars=jars or (), say=complain
    )
    if as_json:
        verdict = None if judged is None else findings.rule(found, judged)
        told = (
            None
            if verdict is None
            else {"semantic": judged, "kind": verdict.kind, "reason": verdict.reason}
        )
        sides = {"offered": shown(offered), "arrived": shown(arrived)}
        tell_json({"sides": sides, **findings.as_json(found), "verdict": told})
    else:
        tell_text(findings.as_text(found, judged))
    if judged is not None:
        from harness.judge.verdict import Kind  # noqa: PLC0415 - the whole judge, for a word

        kinds = {Kind.KEPT: ExitCode.KEPT, Kind.BROKEN: ExitCode.BROKEN}
        raise typer.Exit(kinds.get(findings.rule(found, judged).kind, ExitCode.VOID))


def _known(semantic: str) -> Semantic:
    """Return a semantic by its name. Raises UnknownNameError."""
    from harness.registry import known  # noqa: PLC0415 - brings what every system declares

    return Semantic(known(semantic, list(Semantic), "semantic"))
