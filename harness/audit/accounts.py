"""The account of many cells on Spark: the rules of :mod:`harness.judge.accounting`, by
``groupBy(cell).applyInPandas``.

A shard is a cell, because every rule looks at one whole cell. One process accounts for a run cell
by cell; Spark accounts for the cells of many runs in parallel, with the same functions.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import pandas as pd
from pyspark.sql import functions as f

from harness.judge.accounting import Account, account
from harness.model import safe_files
from harness.model.ending import differences
from harness.model.history import HISTORY, SUFFIX, parse_history
from harness.model.plan import ENDS, PLAN_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

CELL_FOLDER: Final = rf"^(?:file:)?/*(/.*)/(?:history/.*|{re.escape(PLAN_FILE)})$"
"""A cell is the folder that has ``history``; its plan lies beside that."""
_GLOB: Final = re.compile(r"[\[\]{}*?\\]")
"""What Spark does not take as it is in a path."""
TYPES: Final = {"b": "boolean", "i": "long", "u": "long", "f": "double", "O": "string"}


def cells_on_spark(spark: SparkSession, folders: Sequence[Path]) -> DataFrame:
    """Account for every cell below ``folders``: one row per cell.

    Columns: ``cell`` (its folder), the counts of the report, ``cut_lines`` and ``damaged_lines`` of
    its history.
    """
    schema = ", ".join(
        f"`{name}` {kind}" for name, kind in _kinds(_cell_row("", account([]), 0, 0)).items()
    )

    def of_cell(files: pd.DataFrame) -> pd.DataFrame:
        folder, found, cut, damaged = _account(files)
        return _cell_row(folder, found, cut, damaged)

    return _files(spark, folders).groupBy("folder").applyInPandas(of_cell, schema)


def _files(spark: SparkSession, folders: Sequence[Path]) -> DataFrame:
    """Read each file of the histories whole, because only then a line cut by a crash differs from a
    damaged one.
    """
    paths = [str(folder.absolute() / name) for folder in folders for name in cell_files(folder)]
    files = (
        spark.read.format("binaryFile")
        .load([_GLOB.sub(r"\\\g<0>", path) for path in paths])
        .select("path", "content")
    )
    return files.withColumn("folder", f.regexp_extract("path", CELL_FOLDER, 1))


def cell_files(below: Path, name: str = "") -> Iterator[str]:
    """Yield the plans and histories of all cells below a folder, as paths from there.

    A cell is a folder that has a history. Nothing else in it is looked at: a program may have left
    links there. Links between runs, such as ``latest``, lead to nothing new.

    Raises:
        UnsafeFileError: a plan or a file of a history is a link, or another special file.
    """
    inside = safe_files.folders(below, name)
    if HISTORY in inside:
        yield from safe_files.files(below, PurePath(name, HISTORY), lambda n: n.endswith(SUFFIX))
        if PLAN_FILE in safe_files.names(below, name):
            yield str(PurePath(name, PLAN_FILE))
        return
    for each in inside:
        yield from cell_files(below, str(PurePath(name, each)))


def _account(files: pd.DataFrame) -> tuple[str, Account, int, int]:
    """Return the folder of one cell, its account, and how many lines of its history are cut and
    damaged.
    """
    inside = files["path"].str.rpartition(f"/{HISTORY}/")[2]  # the whole path of a plan
    named = files.assign(name=inside.where(~inside.str.endswith(f"/{PLAN_FILE}"), PLAN_FILE))
    named = named.sort_values("path")
    plans = named.loc[named["name"] == PLAN_FILE, "content"]
    plan = safe_files.parse_json(plans.iloc[0]) if len(plans) else {}
    lines = named[named["name"] != PLAN_FILE]
    contents = [(n, (content,)) for n, content in zip(lines["name"], lines["content"], strict=True)]
    history = parse_history(contents, plan.get("id"))
    missing = tuple(differences(contents)) if plan.get("schema", 1) >= ENDS else ()
    return (
        str(files["folder"].iloc[0]),
        account(history.events),
        len(history.cut_lines),
        len(history.damage) + len(missing),
    )


def _cell_row(folder: str, found: Account, cut: int, damaged: int) -> pd.DataFrame:
    return pd.DataFrame(
        [{"cell": folder, **found.counts, "cut_lines": cut, "damaged_lines": damaged}]
    )


def _kinds(rows: pd.DataFrame) -> dict[str, str]:
    return {str(name): TYPES[kind.kind] for name, kind in rows.dtypes.items()}
