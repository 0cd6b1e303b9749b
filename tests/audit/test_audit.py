"""The audit in this process and on Spark against the core's account, plain sets, and bad input."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.audit.auditing import audit
from harness.audit.failures import AuditError
from harness.audit.findings import Span, as_json, as_text, rule
from harness.audit.here import audit_here
from harness.audit.session import spark_session
from harness.audit.spec import NumberedRange, SpecError, parse, shown
from harness.judge.verdict import Kind
from harness.model.failures import EnvironmentFailure
from harness.model.semantics import Semantic
from tests.audit.cases import Case, findings, here, ids, on_spark, random_case, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.audit.cases import Auditor


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that Hypothesis may use many times over."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# --- agreement ------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.integers(0, 1 << 32), st.sampled_from([0, 1, 5, 60]))
def test_in_this_process_it_agrees_with_the_account(seed: int, size: int) -> None:
    case = random_case(random.Random(seed), size)
    with tempfile.TemporaryDirectory() as name:
        found = told(here(*case.write(Path(name))))
    assert found == case.by_core()


@pytest.mark.spark
@pytest.mark.parametrize(("seed", "size"), [(1, 60), (2, 5), (4, 0)])
def test_on_spark_it_agrees_with_the_account(
    spark: SparkSession, folder: Path, seed: int, size: int
) -> None:
    """The same on Spark; few cases, for each is several jobs."""
    case = random_case(random.Random(seed), size)
    assert told(on_spark(spark, *case.write(folder))) == case.by_core()


def test_a_range_stands_for_its_numbers(auditor: Auditor, folder: Path) -> None:
    """Numbers 0 to 99,999 in three pages: two lost runs, one of them over the edge of a page, one
    duplicate, one phantom.
    """
    lost = {*range(32_760, 32_780), 99_999}
    numbers = [number for number in range(100_000) if number not in lost]
    arrived = ids(folder / "a.parquet", [*numbers, 77, 100_000])
    found = auditor("range:0-99999", arrived)
    assert found.lost_ranges == (Span("", 32_760, 32_779), Span("", 99_999, 99_999))
    assert (found.lost, found.duplicated, found.phantom, found.lost_ranges_total) == (21, 1, 1, 2)
    assert found.reordered is None
    assert found.stored_twice is None
    examples = [
        (str(example.anomaly), example.number, example.copies, example.places)
        for example in found.examples
    ]
    assert examples == [
        ("duplicated", 77, 2, ("a.parquet:77", "a.parquet:99979")),
        ("phantom", 100_000, 1, ("a.parquet:99980",)),
    ]


def test_a_hot_key_among_many(auditor: Auditor, folder: Path) -> None:
    """One key has all but a few of the rows; each key is counted by itself."""
    case = Case(offered=[("hot", n) for n in range(50_000)] + [(f"k{n}", 1) for n in range(300)])
    for key, number in case.offered:
        if (key, number) not in {("hot", 40_000), ("k7", 1)}:
            case.arrive(key, number)
    found = auditor(*case.write(folder))
    assert found.lost_ranges == (Span("hot", 40_000, 40_000), Span("k7", 1, 1))
    assert (found.duplicated, found.phantom, found.reordered) == (0, 0, 0)


def test_one_id_a_thousand_times(auditor: Auditor, folder: Path) -> None:
    """A poison record in a loop: every copy is counted."""
    arrived = ids(folder / "a.parquet", [5] * 1000)
    found = auditor("range:5-5", arrived)
    assert (found.arrived, found.duplicated, found.duplicated_ids) == (1, 999, 1)


def test_offered_twice_is_said_and_counts_once(auditor: Auditor, folder: Path) -> None:
    found = auditor(ids(folder / "o.parquet", [1, 2, 2, 3]), ids(folder / "a.parquet", [1, 2, 3]))
    assert (found.offered, found.offered_again, found.lost, found.duplicated) == (3, 1, 0, 0)


def test_an_empty_side(auditor: Auditor, folder: Path) -> None:
    """Nothing arrived: all is lost. Nothing was offered: what arrived is phantom, and of nothing at
    all no verdict.
    """
    nothing = ids(folder / "n.parquet", [])
    some = ids(folder / "s.parquet", [1, 2])
    assert auditor(some, nothing).lost == 2
    assert auditor(nothing, some).phantom == 2
    assert rule(auditor(nothing, nothing), Semantic.EXACTLY_ONCE).kind is Kind.VOID


def test_ids_as_text_and_by_pattern(auditor: Auditor, folder: Path) -> None:
    """Text holds the number, or a pattern finds key and number in it; the rest is unreadable, the
    first three with places.
    """
    texts = ["7", "8", "x", None, "99999999999999999999", "1.5"]
    found = auditor("range:7-9", ids(folder / "t.parquet", texts, pa.string()))
    assert (found.arrived, found.lost, found.phantom, found.unread_arrived.rows) == (2, 1, 0, 4)
    assert [one.place for one in found.unread_arrived.first] == [
        f"t.parquet:{row}" for row in (2, 3, 4)
    ]
    keyed = ids(folder / "k.parquet", ["a-1", "b-1", "nonsense", "a-2"], pa.string())
    found = auditor("range:a=1-2,b=1-1", f"{keyed}#pattern=^(.*)-(\\d%2B)$")
    assert (found.arrived, found.lost, found.phantom, found.unread_arrived.rows) == (3, 0, 0, 1)


# --- bad input ------------------------------------------------------------------------------------


def test_numbers_out_of_range_are_no_ids_on_either_side(auditor: Auditor, folder: Path) -> None:
    """Below zero, above 2⁴⁰ - 1 (and above 2⁶³), null: unreadable, and no more is known of them."""
    strange = ids(folder / "s.parquet", [1, -1, 1 << 40, None])
    found = auditor("range:1-1", strange)
    assert (found.arrived, found.phantom, found.unread_arrived.rows) == (1, 0, 3)
    assert [str(one) for one in found.unread_arrived.first] == [
        "'-1' (it has a sign, at s.parquet:1)",
        "'1099511627776' (it is above 1099511627775, at s.parquet:2)",
        "null (the value is missing, at s.parquet:3)",
    ]
    found = auditor(strange, strange)
    assert (found.offered, found.arrived, found.unread_offered.rows) == (1, 1, 3)
    assert found.unread_offered.first == found.unread_arrived.first
    wide = ids(folder / "w.parquet", [1, (1 << 64) - 1], pa.uint64())
    assert [str(one) for one in auditor("range:1-1", wide).unread_arrived.first] == [
        "'18446744073709551615' (it is above 1099511627775, at w.parquet:1)"
    ]


def test_a_damaged_file_is_an_error_and_no_half_report(auditor: Auditor, folder: Path) -> None:
    ids(folder / "d" / "part-0.parquet", list(range(1000)))
    ids(folder / "d" / "part-1.parquet", list(range(1000, 90_000)))
    file = folder / "d" / "part-1.parquet"
    file.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(AuditError, match=r"part-1.parquet"):
        auditor("range:0-89999", f"parquet:{folder}/d")


def test_what_is_not_there_is_an_error(auditor: Auditor, folder: Path) -> None:
    with pytest.raises(AuditError, match="nowhere"):
        auditor("range:1-2", f"parquet:{folder}/nowhere")
    one = ids(folder / "a.parquet", [1])
    with pytest.raises(AuditError, match=r"no column 'seq' \(there are: id\)"):
        auditor("range:1-2", f"{one}#id=seq")
    with pytest.raises(AuditError, match="ids are whole numbers"):
        auditor("range:1-2", ids(folder / "f.parquet", [1.5], pa.float64()))


def test_no_permission(folder: Path) -> None:
    """A file that may not be read is named."""
    one = ids(folder / "a.parquet", [1])
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (folder / "a.parquet").chmod(0)
    with pytest.raises(AuditError, match="Permission denied"):
        here("range:1-1", one)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("range:5-1", "must go upwards"),
        ("range:a", "a range is"),
        ("range:1-5,3-9", "overlap"),
        ("nonsense", "no SPEC"),
        ("kafka:localhost/t", "a topic is"),
        ("kafka:h:1/t#what=1", "what"),
        ("parquet:", "the path is missing"),
        ("parquet:/x#partition=p", "both partition= and offset="),
        ("parquet:/x#pattern=(", "no regular expression"),
        ("parquet:/x#pattern=x", "one group"),
        ("jdbc:sqlite:/x", "the table is missing"),
        ("parquet:/x#id=a&id=b", "an option twice"),
    ],
)
def test_a_spec_that_is_none_says_why(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        parse(text)


def test_a_spec_keeps_its_secrets() -> None:
    for text in (
        "jdbc:postgresql://u:pw1@h/d#table=t&password=pw1",
        "jdbc:x?password=pw1&a=b#table=t",
        "kafka:h:1/t#kafka.sasl.jaas.config=org.x required password='pw1';",
    ):
        assert "pw1" not in shown(text)


def test_a_range_that_arrived_is_refused() -> None:
    """What arrived must be looked at."""
    with pytest.raises(SpecError, match="cannot be a range"):
        audit("range:1-2", "range:1-2")
    assert isinstance(parse("range:1-2"), NumberedRange)


def test_what_sparks_file_sink_wrote_is_not_read_by_listing(folder: Path) -> None:
    one = ids(folder / "out" / "part-0.parquet", [1])
    (folder / "out" / "_spark_metadata").mkdir()
    with pytest.raises(AuditError, match="--engine spark"):
        here("range:1-1", f"parquet:{folder}/out")
    assert audit_here(parse("range:1-1"), parse(one)).lost == 0  # type: ignore[arg-type]


# --- the verdict ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "amo", "alo", "eos"),
    [
        ({}, "kept", "kept", "kept"),
        ({"lost": 1}, "kept", "broken", "broken"),
        ({"duplicated": 1}, "broken", "kept", "broken"),
        ({"phantom": 1}, "broken", "broken", "broken"),
        ({"reordered": 5}, "kept", "kept", "kept"),
        ({"offered": 0}, "void", "void", "void"),
        ({"lost": 1, "unseen": ("open",)}, "void", "void", "void"),
        ({"duplicated": 1, "unseen": ("open",)}, "broken", "void", "broken"),
        ({"phantom": 1, "unknown": ("gone",)}, "void", "void", "void"),
        ({"phantom": 1, "unseen": ("open",)}, "broken", "broken", "broken"),
    ],
)
def test_the_verdict_follows_the_promise_table(
    counts: dict[str, object], amo: str, alo: str, eos: str
) -> None:
    """Late is not lost, and nobody is convicted of what could not be looked at."""
    found = findings(**counts)
    assert [str(rule(found, semantic).kind) for semantic in Semantic] == [amo, alo, eos]


def test_the_report_as_text_and_as_json(folder: Path) -> None:
    found = here("range:a=1-1000000", ids(folder / "a.parquet", []))
    text = as_text(found, Semantic.AT_LEAST_ONCE)
    assert "lost        1000000: a=1-1000000\n" in text
    assert "BROKEN  at-least-once" in text
    assert json.loads(json.dumps(as_json(found)))["lost_ranges"] == [
        {"key": "a", "first": 1, "last": 1_000_000}
    ]


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.spark
def test_a_table_by_jdbc(spark: SparkSession, folder: Path) -> None:
    """SQLite through its driver: key, number, order and origin of each row; by one reader and by
    two.
    """
    file = folder / "sink.db"
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(
            "CREATE TABLE results (n INTEGER PRIMARY KEY, k TEXT, seq INTEGER, p INTEGER, o "
            "INTEGER)"
        )
        rows = [
            ("a", 1, 0, 0),
            ("a", 3, 0, 2),
            ("a", 2, 0, 1),
            ("a", 2, 0, 1),
            ("a", 3, 0, 9),
            ("b", 1, 0, 5),
        ]
        db.executemany("INSERT INTO results (k, seq, p, o) VALUES (?, ?, ?, ?)", rows)
    spec = f"jdbc:sqlite:{file}#table=results&id=seq&key=k&order=n&partition=p&offset=o"
    assert on_spark(spark, "range:a=1-4", f"{spec}&readers=2").arrived == 3
    found = on_spark(spark, "range:a=1-4", spec)
    assert (
        found.arrived,
        found.lost,
        found.duplicated,
        found.stored_twice,
        found.recorded_twice,
    ) == (3, 1, 2, 1, 1)
    assert (found.phantom, found.reordered) == (1, 1)
    assert "from 0/9" in str(found.examples)


@pytest.mark.spark
def test_a_table_that_cannot_be_read(spark: SparkSession, folder: Path) -> None:
    """No such table, no such server: one line that says so."""
    with closing(sqlite3.connect(folder / "empty.db")) as db, db:
        db.execute("CREATE TABLE other (n INTEGER)")
    with pytest.raises(AuditError, match="no such table"):
        on_spark(spark, "range:1-4", f"jdbc:sqlite:{folder}/empty.db#table=results&id=seq")
    with pytest.raises(AuditError, match="no column 'seq'"):
        on_spark(spark, "range:1-4", f"jdbc:sqlite:{folder}/empty.db#table=other&id=seq")


@pytest.mark.spark
def test_a_second_session_in_one_process_is_refused(spark: SparkSession) -> None:
    """PySpark keeps its JVM in a global: two would mix."""
    with (
        pytest.raises(EnvironmentFailure, match="open in this process already"),
        spark_session(master="local[1]"),
    ):
        pass


@pytest.mark.spark
def test_an_open_session_is_nobody_elses(spark: SparkSession) -> None:
    """What is started meanwhile, a pipeline that has a Spark of its own for instance, is not led
    into our JVM.
    """
    assert spark.range(3).count() == 3
    assert not [name for name in os.environ if name.startswith("PYSPARK_GATEWAY")]
