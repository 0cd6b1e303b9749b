"""The audit's figures: ids per second and peak memory, side by side with Python sets, pandas and
DuckDB; then a topic.

    python -m tests.bench.audit --sizes 1e6,1e7,1e8 --topic 1e7 --engines
        here,spark,sets,pandas,duckdb --workers 1,2

Every size has planted losses and duplicates, and an engine that does not find exactly these is no
figure but an error. Each engine runs in a process of its own; its memory, and its CPU seconds, are
those of all its processes together (Spark: JVM and workers). On a machine that does something else
besides, the CPU seconds are the figure, and the load is beside it. ``--workers``: Spark once more,
on a standalone cluster of so many workers of one core (of theirs the CPU is not counted).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from harness.audit.auditing import audit
from harness.audit.spec import Rows, parse
from harness.model.safe_files import write_whole
from tests.audit.cluster import standalone

if TYPE_CHECKING:
    from collections.abc import Callable

PLANTED = 100
PART = 1 << 22
SETS_MOST = 20_000_000
"""Python sets beyond this need more memory than this is worth: 170 bytes an id."""
PARTITIONS = 3
PAYLOAD = 200
SAMPLE_S = 0.1

BenchResult: TypeAlias = tuple[int, int, float, float]
"""Lost, duplicated, seconds, CPU seconds."""


def write_ids(folder: Path, count: int) -> None:
    """Write ids 0 to ``count`` - 1 as Parquet, in order, with PLANTED of them missing and as many
    others twice.
    """
    folder.mkdir(parents=True)
    chosen = np.random.default_rng(1).choice(count, 2 * PLANTED, replace=False)
    lost, twice = np.sort(chosen[:PLANTED]), np.sort(chosen[PLANTED:])
    for part, first in enumerate(range(0, count, PART)):
        ids = np.arange(first, min(first + PART, count))
        more = twice[(twice >= first) & (twice < first + PART)]
        ids = np.sort(np.concatenate([ids[~np.isin(ids, lost)], more]))
        pq.write_table(pa.table({"id": ids}), folder / f"part-{part:03}.parquet")


# --- engines: each returns lost, duplicated, seconds and CPU seconds ------------------------------


def by_here(folder: Path, count: int) -> BenchResult:
    """Our audit, in one process."""
    since = _now()
    found = audit(f"range:0-{count - 1}", f"parquet:{folder}", engine="here")
    return found.lost, found.duplicated, *_spent(since)


def by_spark(folder: Path, count: int) -> BenchResult:
    """Our audit on Spark, warm: the session is up and has audited something small before."""
    from harness.audit.on_spark import audit_on_spark  # noqa: PLC0415
    from harness.audit.session import spark_session  # noqa: PLC0415

    side = parse(f"parquet:{folder}")
    small = parse(f"parquet:{folder}/part-000.parquet")
    assert isinstance(side, Rows)
    assert isinstance(small, Rows)
    with spark_session(master=os.environ.get("BENCH_MASTER", "local[2]")) as spark:
        audit_on_spark(spark, parse("range:0-99999"), small)
        since = _now()
        found = audit_on_spark(spark, parse(f"range:0-{count - 1}"), side)
        return found.lost, found.duplicated, *_spent(since)


def by_sets(folder: Path, count: int) -> BenchResult:
    """What everybody writes first."""
    since = _now()
    seen: set[int] = set()
    rows = 0
    for file in sorted(folder.iterdir()):
        ids = pq.read_table(file)["id"].to_pylist()
        rows += len(ids)
        seen.update(ids)
    return len(set(range(count)) - seen), rows - len(seen), *_spent(since)


def by_pandas(folder: Path, count: int) -> BenchResult:
    """One frame."""
    import pandas as pd  # noqa: PLC0415

    since = _now()
    ids = pd.read_parquet(folder)["id"]
    lost = int((~pd.Series(np.arange(count)).isin(ids)).sum())
    return lost, int(ids.duplicated().sum()), *_spent(since)


def by_duckdb(folder: Path, count: int) -> BenchResult:
    """Two queries."""
    import duckdb  # noqa: PLC0415

    since = _now()
    db = duckdb.connect()
    db.execute(f"CREATE VIEW arrived AS SELECT id FROM read_parquet('{folder}/*.parquet')")  # noqa: S608 - our own path
    lost = db.execute(
        "SELECT count(*) FROM range(?) o(id) ANTI JOIN arrived USING (id)", [count]
    ).fetchone()
    twice = db.execute("SELECT count(*) - count(DISTINCT id) FROM arrived").fetchone()
    assert lost is not None
    assert twice is not None
    return int(lost[0]), int(twice[0]), *_spent(since)


ENGINES: dict[str, Callable[[Path, int], BenchResult]] = {
    "here": by_here,
    "spark": by_spark,
    "sets": by_sets,
    "pandas": by_pandas,
    "duckdb": by_duckdb,
}


# --- measuring ------------------------------------------------------------------------------------


def measured(arguments: list[str], expected: tuple[int, int]) -> dict[str, Any]:
    """Run one engine in a process of its own; return its figures. Raises where it found something
    else than was planted.
    """
    since, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.audit", *arguments], stdout=subprocess.PIPE, text=True
    )
    peak = [0]
    sampler = threading.Thread(target=_sample, args=(program.pid, peak), daemon=True)
    sampler.start()
    out, _ = program.communicate()
    if program.returncode != 0:
        raise RuntimeError(f"{arguments} ended with {program.returncode}")
    lost, duplicated, rows, seconds, cpu_alone = json.loads(out.splitlines()[-1])
    if (lost, duplicated) != expected:
        raise RuntimeError(
            f"{arguments} found {lost} lost and {duplicated} duplicated instead of {expected}"
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "CPU s": round(cpu_alone, 2),
        "CPU s with start": round(cpu, 2),
        "load": round(os.getloadavg()[0], 1),
        "seconds": round(seconds, 2),
        "with start, s": round(time.monotonic() - since, 2),
        "million ids/s": round(rows / seconds / 1e6, 2),
        "peak MB": peak[0] >> 20,
    }


def _now() -> tuple[float, float]:
    """The time, and the CPU seconds of this process and everything below it so far, the dead among
    them.
    """
    root, cpu = psutil.Process(), 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        cpu += times.user + times.system + times.children_user + times.children_system
    return time.monotonic(), cpu


def _spent(since: tuple[float, float]) -> tuple[float, float]:
    now = _now()
    return now[0] - since[0], now[1] - since[1]


def _sample(pid: int, peak: list[int]) -> None:
    """Note the memory of a process and everything below it, for as long as it lives."""
    try:
        root = psutil.Process(pid)
        while root.is_running() and root.status() != psutil.STATUS_ZOMBIE:
            total = 0
            for process in (root, *root.children(recursive=True)):
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            peak[0] = max(peak[0], total)
            time.sleep(SAMPLE_S)
    except psutil.NoSuchProcess:
        return


def sizes(counts: list[int], engines: list[str]) -> dict[str, Any]:
    """Measure every engine at every size."""
    figures: dict[str, Any] = {}
    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "ids"
            write_ids(folder, count)
            for engine in engines:
                if engine == "sets" and count > SETS_MOST:
                    continue
                row = measured(["--one", engine, str(folder), str(count)], (PLANTED, PLANTED))
                figures.setdefault(f"{count:.0e}", {})[engine] = row
                print(f"{count:.0e} {engine:<7} {row}", flush=True)  # noqa: T201
    return figures


def workers(counts: list[int], numbers: list[int]) -> dict[str, Any]:
    """Measure Spark at every size on standalone clusters of so many workers."""
    figures: dict[str, Any] = {}
    for count in counts:
        for number in numbers:
            with tempfile.TemporaryDirectory() as name:
                write_ids(Path(name) / "ids", count)
                with standalone(Path(name), number) as master:
                    os.environ["BENCH_MASTER"] = master
                    row = measured(
                        ["--one", "spark", str(Path(name) / "ids"), str(count)], (PLANTED, PLANTED)
                    )
            figures.setdefault(f"{count:.0e}", {})[f"{number} workers"] = row
            print(f"{count:.0e} {number} workers {row}", flush=True)  # noqa: T201
    del os.environ["BENCH_MASTER"]
    return figures


def topic(count: int) -> dict[str, Any]:
    """Fill a topic by Spark, with PLANTED ids missing and as many twice, and audit it."""
    from harness import registry  # noqa: PLC0415
    from harness.model.scenario import Deployment  # noqa: PLC0415

    system = registry.system("kafka")
    system.prepare(print)
    with tempfile.TemporaryDirectory() as name:
        deployed: Any = system.deploy(Deployment.OWN, Path(name))
        try:
            deployed.transport.observer.create_topics(
                {"audit": (PARTITIONS, {}), "small": (PARTITIONS, {})}
            )
            row = measured(
                ["--one", "topic", deployed.transport.broker.bootstrap, str(count)],
                (PLANTED, PLANTED),
            )
        finally:
            deployed.close()
    print(f"topic {count:.0e} {row}", flush=True)  # noqa: T201
    return {f"{count:.0e} of {PAYLOAD} bytes": row}


def of_topic(servers: str, count: int) -> BenchResult:
    """Fill, then audit, warm."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    from harness.audit.on_spark import audit_on_spark  # noqa: PLC0415
    from harness.audit.session import spark_session  # noqa: PLC0415

    step = count // (2 * PLANTED)
    with spark_session(master="local[2]") as spark:
        ids = spark.range(count).where(f.col("id") % (2 * step) != 0)
        again = spark.range(PLANTED).select((f.col("id") * 2 * step + step).alias("id"))
        value = f.rpad(f.concat(f.col("id").cast("string"), f.lit(" ")), PAYLOAD, "x")
        both = ids.unionAll(again).select(
            value.alias("value"), (f.col("id") % PARTITIONS).cast("int").alias("partition")
        )
        few = spark.range(1000).select(f.col("id").cast("string").alias("value"))
        few.write.format("kafka").option("kafka.bootstrap.servers", servers).option(
            "topic", "small"
        ).save()
        both.write.format("kafka").option("kafka.bootstrap.servers", servers).option(
            "topic", "audit"
        ).save()
        side = parse(f"kafka:{servers}/audit#id=value&pattern=^(\\d%2B) ")
        assert isinstance(side, Rows)
        small = parse(f"kafka:{servers}/small#id=value")
        assert isinstance(small, Rows)
        audit_on_spark(spark, parse("range:0-999"), small)
        since = _now()
        found = audit_on_spark(spark, parse(f"range:0-{count - 1}"), side)
        return found.lost, found.duplicated, *_spent(since)


def main() -> None:
    """Measure, print, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--one", nargs=3, metavar=("ENGINE", "WHERE", "COUNT"), help=argparse.SUPPRESS
    )
    parser.add_argument("--sizes", default="1e6,1e7")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--topic", type=float, default=0)
    parser.add_argument("--workers", default="")
    given = parser.parse_args()
    if given.one:
        engine, where, count = given.one[0], given.one[1], int(given.one[2])
        lost, twice, *spent = (
            of_topic(where, count) if engine == "topic" else ENGINES[engine](Path(where), count)
        )
        print(json.dumps([lost, twice, count, *spent]))  # noqa: T201
        return
    counts = [int(float(word)) for word in given.sizes.split(",") if word]
    figures = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "ids": sizes(counts, [word for word in given.engines.split(",") if word]),
    }
    if given.workers:
        figures["standalone"] = workers(counts, [int(word) for word in given.workers.split(",")])
    if given.topic:
        figures["topic"] = topic(int(given.topic))
    Path("reports").mkdir(exist_ok=True)
    write_whole(Path("reports"), "bench-audit.json", json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
