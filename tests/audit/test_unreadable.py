"""What is read as an id and what is not, the same on every way of reading; and what is not convicts
nobody.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from harness.audit import logs
from harness.audit.batches import read
from harness.audit.failures import NotOursToReadError
from harness.audit.fetching import OffsetRange
from harness.audit.findings import Unread, Unreadable, as_json, as_text, rule
from harness.audit.here import can_read
from harness.audit.logs import Log, _hits, _noting, _read, read_rows, stretches_with
from harness.audit.partials import ARRIVED, OFFERED, count_rows
from harness.audit.spec import Rows, SpecError, parse
from harness.audit.texts import as_bytes, reader_of, reading_of, unread
from harness.cli import main
from harness.judge.verdict import Kind
from harness.model.record import Record
from harness.model.semantics import Semantic
from tests.audit.cases import findings, here, ids, on_spark
from tests.audit.test_record_batches import batch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from harness.audit.batches import Records
    from tests.audit.cases import Auditor
    from tests.audit.test_record_batches import Item

DecodedId = tuple[int | None, str | None, str]
"""Of one record: its number, its key where there is a number, and why there is none."""
LIMIT = "it is above 1099511627775"
TEXTS: list[tuple[bytes | None, int | None, str]] = [
    (b"7", 7, ""),
    (b"0", 0, ""),
    (b"000000000000000007", 7, ""),
    (b"00000000000000000007", 7, ""),
    (b"0" * 40, 0, ""),
    (b"0" * 64 + b"42", 42, ""),
    (b"1099511627775", (1 << 40) - 1, ""),
    (b"000001099511627775", (1 << 40) - 1, ""),
    (b"7\n", 7, ""),
    (b"007\r\n", 7, ""),
    ("7\u2028".encode(), 7, ""),
    (b"1099511627776", None, LIMIT),
    (b"9999999999999", None, LIMIT),
    (b"000009999999999999", None, LIMIT),
    (b"9223372036854775808", None, LIMIT),
    (b"18446744073709551616", None, LIMIT),
    (b"9" * 40 + b"\n", None, LIMIT),
    (None, None, "the value is missing"),
    (b"", None, "it is empty"),
    (b"\n", None, "it has white space around it"),
    (b"+7", None, "it has a sign"),
    (b"-7", None, "it has a sign"),
    (b"-0", None, "it has a sign"),
    (b" 7", None, "it has white space around it"),
    (b"7 ", None, "it has white space around it"),
    (b"7\t", None, "it has white space around it"),
    (b"7\n\n", None, "it has white space around it"),
    ("\u0663".encode(), None, "its digits are not 0 to 9"),
    ("7\uff17".encode(), None, "its digits are not 0 to 9"),
    ("\u00b2".encode(), None, "it is no whole number"),
    (b"\xff7", None, "it is not UTF-8"),
    (b"7\xff", None, "it is not UTF-8"),
    (b"\x00\x00\x00\x07", None, "it is no whole number"),
    (b"7.0", None, "it is no whole number"),
    (b"1e3", None, "it is no whole number"),
    (b"0x1F", None, "it is no whole number"),
    (b"1_000", None, "it is no whole number"),
    (b"order-7", None, "it is no whole number"),
    (b"lostack c0ffee k-1 1 00000000\n", None, "it is no whole number"),
]
ALPHABET = [
    b"0",
    b"7",
    b"9" * 7,
    b"000000",
    b"+",
    b"-",
    b" ",
    b"\n",
    b"\r",
    b"a:",
    b";",
    b"x",
    b"\xff",
    b"\xed\xa0\x80",
    "\u0663".encode(),
    "\u2028".encode(),
    "é".encode(),
    "\ufffd".encode(),
]
FRONTS = [b"", b"", b"", b"a:", b"b:", b"a;", b"x", b"-", "é:".encode(), b"\xff:"]
ENDS = [b"", b"", b"", b"\n", b"\r\n", b" ", b"x", b"\xff"]
PATTERNS = [
    r"^(\d+)$",
    r"(\d+)",
    r"^(.*):(\d+)$",
    r"^(\w*):(\d*)",
    r"([^;]+);(\d{1,20})",
    r"x(\d+)?",
]
NONE = "the pattern finds no number in it"


def random_texts(seed: int, count: int = 400) -> list[bytes | None]:
    """Draw texts that nearly are numbers, or keys and numbers."""
    dice = random.Random(seed)

    def text() -> bytes:
        noise = b"".join(dice.choices(ALPHABET, k=dice.choice([0, 0, 1, 3])))
        number = b"%0*d" % (
            dice.choice([1, 9, 18, 25]),
            dice.choice([7, dice.randrange(10**6), dice.randrange(10**14)]),
        )
        return noise + dice.choice(FRONTS) + number + dice.choice(ENDS)

    return [None if dice.random() < 0.03 else text() for _ in range(count)]


def topic(options: str) -> Rows:
    """Return the SPEC of a topic."""
    side = parse(f"kafka:localhost:9092/t#{options.replace('+', '%2B')}")
    assert isinstance(side, Rows)
    return side


def told(
    side: Rows, number: int | None, key: str | None, source: bytes | None, found: str | None
) -> DecodedId:
    """Bring a record into the form that all ways of reading are compared in."""
    said = unread(side, source, found)
    return (None, None, f"{said.text}: {said.why}") if number is None else (number, key or "", "")


def by_tasks(side: Rows, items: list[Item]) -> list[DecodedId]:
    """Read records as the tasks do that fetch a topic for themselves."""
    reading = reader_of(side)
    assert reading is not None
    keys, numbers, source, found = reading(read(batch(0, items), []))
    names = [None] * len(items) if keys is None else keys.to_pylist()
    rows = zip(
        numbers.to_pylist(),
        names,
        as_bytes(source),
        pc.cast(found, pa.string()).to_pylist(),
        strict=True,
    )
    return [told(side, *row) for row in rows]


def by_the_connector(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, side: Rows, items: list[Item]
) -> list[DecodedId]:
    """Read the same records as columns of Spark's connector."""
    from harness.audit import on_spark  # noqa: PLC0415

    schema = (
        "topic string, partition int, offset long, key binary, value binary, headers "
        "array<struct<key:string,value:binary>>"
    )
    frame = spark.createDataFrame([("t", 0, at, *item) for at, item in enumerate(items)], schema)
    monkeypatch.setattr(on_spark, "_topic", lambda *_: frame)
    rows = [row.asDict() for row in on_spark.rows_of(spark, side).orderBy("stands").collect()]
    return [
        told(
            side,
            row["number"],
            row.get("key"),
            None if row["source"] is None else bytes(row["source"]),
            row["found"],
        )
        for row in rows
    ]


def readable(side: Rows, value: bytes) -> bool:
    """Whether a value is read without Java."""
    try:
        by_tasks(side, [(None, value, [])])
    except NotOursToReadError:
        return False
    return True


def everywhere(texts: list[bytes | None]) -> list[Item]:
    """Make records that have each text as key, as value and in a header."""
    return [(text, text, [("n", text)]) for text in texts]


# --- one rule on every way ------------------------------------------------------------------------


@pytest.mark.parametrize("options", ["id=key", "id=value", "id=header:n"])
def test_what_tasks_read(options: str) -> None:
    """Each text as key, value and header of a fetched record: the number that it is, or why it is
    none.
    """
    said = by_tasks(topic(options), everywhere([text for text, _, _ in TEXTS]))
    assert [number for number, _, _ in said] == [number for _, number, _ in TEXTS]
    assert [why.rpartition(": ")[2] for _, _, why in said] == [why for _, _, why in TEXTS]


@pytest.mark.parametrize("batch_of_one", [True, False])
def test_a_texts_neighbours_do_not_change_it(batch_of_one: bool) -> None:
    """A column of plain digits is read at once, one with other texts in it is not: the very same
    numbers.
    """
    plain = [(text, number) for text, number, _ in TEXTS if number is not None]
    side = topic("id=value")
    items = everywhere([text for text, _ in plain])
    said = (
        [one for item in items for one in by_tasks(side, [item])]
        if batch_of_one
        else by_tasks(side, items)
    )
    assert [number for number, _, _ in said] == [number for _, number in plain]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str
)
def test_what_is_read_of_each_kind_of_column(tmp_path: Path, kind: pa.DataType) -> None:
    read_of_parquet(here, tmp_path, kind)


def test_what_is_read_of_parquet(auditor: Auditor, tmp_path: Path) -> None:
    read_of_parquet(auditor, tmp_path, pa.binary())


def read_of_parquet(auditor: Auditor, tmp_path: Path, kind: pa.DataType) -> None:
    """Audit all texts (where a column is of text, those that are) beside a range."""
    some = [
        (text, number, why)
        for text, number, why in TEXTS
        if why != "it is not UTF-8" or "binary" in str(kind)
    ]
    texts = [
        None if text is None else text if "binary" in str(kind) else text.decode()
        for text, _, _ in some
    ]
    spec = ids(tmp_path / "t.parquet", texts, kind)
    bad = [(row, why) for row, (_, number, why) in enumerate(some) if number is None]
    found = auditor("range:0-99,1099511627775-1099511627775", spec)
    assert found.arrived == len({number for _, number, _ in some if number is not None})
    assert found.arrived + found.duplicated == len(some) - len(bad)
    assert (found.phantom, found.unread_arrived.rows) == (0, len(bad))
    assert [(one.place, one.why) for one in found.unread_arrived.first] == [
        (f"t.parquet:{row}", why) for row, why in bad[:3]
    ]


def test_why_each_is_no_id_of_parquet(tmp_path: Path) -> None:
    """Three at a time, so that every one is shown."""
    strange = [(text, why) for text, number, why in TEXTS if number is None]
    for at in range(0, len(strange), 3):
        some = strange[at : at + 3]
        found = here(
            "range:0-9", ids(tmp_path / f"{at}.parquet", [text for text, _ in some], pa.binary())
        )
        assert [one.why for one in found.unread_arrived.first] == [why for _, why in some]


@pytest.mark.parametrize(
    ("pattern", "text", "number", "key"),
    [
        (r"^(\d+)$", "0000000000000000000007", 7, ""),
        (r"(\d+)", "\u06635", 5, ""),
        (r"^(\d+)$", "7\r", 7, ""),
        (r"(\d+)", "-7", 7, ""),
        (r"^(\w+)-(\d+)$", "a-007", 7, "a"),
        (r"^(\w+)-(\d+)$", "é-7", None, ""),
        (r"^(.*):(\d+)$", ":7", 7, ""),
        (r"(\d+)", "99999999999999999999", None, ""),
    ],
)
def test_patterns_find_what_java_finds(
    *, tmp_path: Path, pattern: str, text: str, number: int | None, key: str
) -> None:
    spec = ids(tmp_path / "t.parquet", [text], pa.string())
    found = here(
        f"range:{key}=7-7,{key}=5-5" if key else "range:5-5,7-7",
        f"{spec}#pattern={pattern.replace('+', '%2B')}",
    )
    assert (found.arrived, found.unread_arrived.rows) == ((0, 1) if number is None else (1, 0))
    lost = [span.first for span in found.lost_ranges]
    assert lost == [one for one in (5, 7) if one != number]


def test_patterns_that_may_be_read_differently_are_sparks(tmp_path: Path) -> None:
    one = ids(tmp_path / "t.parquet", ["a7"], pa.string())
    for pattern, plain in ((r"a(\d)", True), (r"(?<=a)(\d)", False), (r"(?i)A(\d)", False)):
        assert can_read(parse(f"{one}#pattern={pattern}")) == plain


@pytest.mark.spark
@pytest.mark.parametrize(
    "options",
    [
        "id=key",
        "id=header:n&key=value",
        f"id=value&pattern={PATTERNS[2]}",
        *(
            pytest.param(each, marks=pytest.mark.rest(together="spark"))
            for each in (
                "id=value",
                "id=header:n",
                "id=value&key=key",
                *(f"id=value&pattern={each}" for each in PATTERNS if each != PATTERNS[2]),
                f"id=key&key=value&pattern={PATTERNS[0]}",
            )
        ),
    ],
)
def test_tasks_and_sparks_connector_read_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    """All texts, and random ones that nearly are numbers: number, key, what is shown of an
    unreadable one, and why.
    """
    side = topic(options)
    texts = [*(text for text, _, _ in TEXTS), *random_texts(5)]
    others = random_texts(6, len(texts))
    items: list[Item] = [
        (other if "&key=key" in options else text, text, [("n", text)])
        for text, other in zip(texts, others, strict=True)
    ]
    fetched = by_tasks(side, items)
    assert len({number for number, _, _ in fetched}) > 5
    assert None in {number for number, _, _ in fetched}
    assert by_the_connector(spark, monkeypatch, side, items) == fetched


@pytest.mark.spark
def test_ids_in_json(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number and a text of digits are the same; what is no number of JSON is not there."""
    values = {
        b'{"seq":7}': 7,
        b'{"seq":"7"}': 7,
        b'{"seq":"007"}': 7,
        b'{"seq": 1099511627775}': (1 << 40) - 1,
        b'{"seq":"+7"}': "it has a sign",
        b'{"seq":-7}': "it has a sign",
        b'{"seq":7.0}': "it is no whole number",
        b'{"seq":1e3}': "it is no whole number",
        b'{"seq":" 7"}': "it has white space around it",
        b'{"seq":""}': "it is empty",
        b'{"seq":18446744073709551616}': LIMIT,
        b'{"seq":true}': "it is no whole number",
        b'{"seq":null}': "there is no value at $.seq",
        b'{"seq":007}': "there is no value at $.seq",
        b"{}": "there is no value at $.seq",
        b"7": "there is no value at $.seq",
        b"": "there is no value at $.seq",
        b"\xff": "there is no value at $.seq",
        '{"seq":"\u0663"}'.encode(): "its digits are not 0 to 9",
    }
    side = topic("id=json:$.seq")
    said = by_the_connector(spark, monkeypatch, side, [(None, value, []) for value in values])
    assert [
        why.rpartition(": ")[2] if number is None else number for number, _, why in said
    ] == list(values.values())
    assert said[4][2] == """'{"seq":"+7"}': it has a sign"""
    ours: list[Item] = [(None, value, []) for value in values if readable(side, value)]
    assert len(ours) > len(values) - 4
    assert by_tasks(side, ours) == by_the_connector(spark, monkeypatch, side, ours)
    keyed = topic("id=json:$.seq&key=json:$.k")
    said = by_the_connector(
        spark,
        monkeypatch,
        keyed,
        [(None, b'{"seq":7,"k":"a"}', []), (None, b'{"seq":7,"k":"\xff"}', [])],
    )
    assert said[0] == (7, "a", "")
    assert said[1][2].endswith("its key is not UTF-8")


def test_two_keys_that_are_no_utf8_are_not_one() -> None:
    """With U+FFFD for what cannot be read the two would be copies of one id."""
    items: list[Item] = [
        (b"\xff", b"7", []),
        (b"\xfe", b"007", []),
        (b"a", b"7", []),
        (None, b"7", []),
        (b"", b"7", []),
    ]
    assert by_tasks(topic("id=value&key=key"), items) == [
        (None, None, "'7': its key is not UTF-8"),
        (None, None, "'007': its key is not UTF-8"),
        (7, "a", ""),
        (7, "", ""),
        (7, "", ""),
    ]
    keyed: list[Item] = [(None, b"\xff:7", []), (None, b"\xfe:7", []), (None, b"a:7", [])]
    assert [number for number, _, _ in by_tasks(topic("id=value&pattern=^(.):(\\d+)$"), keyed)] == [
        None,
        None,
        7,
    ]
    assert [number for number, _, _ in by_tasks(topic("id=value&pattern=^.:(\\d+)$"), keyed)] == [
        7,
        7,
        7,
    ]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.binary(),
        pa.int64(),
        *(pa.dictionary(pa.int32(), kind) for kind in (pa.string(), pa.binary(), pa.int64())),
    ],
    ids=str,
)
def test_keys_of_each_kind(tmp_path: Path, kind: pa.DataType) -> None:
    """Text, bytes that are not all text, a dictionary, numbers: beside ids of numbers,
    and of text.
    """
    keys_of_parquet(here, tmp_path, kind)


def test_keys_of_parquet(auditor: Auditor, tmp_path: Path) -> None:
    """Here and on Spark, where they are not all UTF-8."""
    keys_of_parquet(auditor, tmp_path, pa.binary())


def keys_of_parquet(auditor: Auditor, tmp_path: Path, kind: pa.DataType) -> None:
    """Audit one id of three keys, the last of them null."""
    keys: list[Any] = [1, 2, None] if "int64" in str(kind) else ["1", "2", None]
    partly = "binary" in str(kind)
    if partly:
        keys = [b"1", b"\xff", None]
    for number, numbers in ((7, pa.int64()), ("007", pa.string())):
        pq.write_table(
            pa.table({"id": pa.array([number] * 3, numbers), "k": pa.array(keys, kind)}),
            tmp_path / "k.parquet",
        )
        found = auditor("range:7-7,1=7-7,2=7-7", f"parquet:{tmp_path}/k.parquet#key=k")
        assert (found.arrived, found.duplicated) == ((2, 0) if partly else (3, 0))
        assert [one.why for one in found.unread_arrived.first] == (
            ["its key is not UTF-8"] if partly else []
        )


# --- the first ones, and where they stand ---------------------------------------------------------


def test_the_first_three_of_several_files(auditor: Auditor, tmp_path: Path) -> None:
    """In order of file and row, on either side, and no more than three; a long text is cut, and
    escaped.
    """
    ids(tmp_path / "d" / "a.parquet", ["1", "2"], pa.string())
    ids(tmp_path / "d" / "b.parquet", ["3", "x" * 100, "4", "b\n\x1b"], pa.string())
    spec = ids(tmp_path / "d" / "c.parquet", ["\ufeff5", "c", "d"], pa.string()).replace(
        "/c.parquet", ""
    )
    found = auditor(spec, spec)
    assert found.unread_offered == found.unread_arrived
    assert (found.unread_arrived.rows, found.unread_arrived.stated) == (5, 0)
    assert [str(one) for one in found.unread_arrived.first] == [
        f"'{'x' * 40}'... of 100 bytes (it is no whole number, at b.parquet:1)",
        r"'b\n\x1b' (it is no whole number, at b.parquet:3)",
        r"'\ufeff5' (it is no whole number, at c.parquet:0)",
    ]
    assert (found.offered, found.arrived, found.lost) == (4, 4, 0)


def test_the_first_three_of_a_topic_that_tasks_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two partitions in fetches of ten records: counted, and found again by what was noted of each
    fetch, in whatever order.
    """
    items: dict[int, list[Item]] = {
        partition: [(None, b"x%d" % at if at in bad else b"%018d" % at, []) for at in range(30)]
        for partition, bad in ((0, {25}), (1, {3, 4, 5, 12, 29}))
    }
    asked: list[OffsetRange] = []

    def fetched(stretch: OffsetRange) -> Any:
        asked.append(stretch)
        for at in range(stretch.first, stretch.end, 10):
            yield read(batch(at, items[stretch.partition][at : min(at + 10, stretch.end)]), [])

    monkeypatch.setattr(logs, "fetched", fetched)
    side = topic("id=value")
    log = Log(side, tuple(OffsetRange("h:1", "t", partition, 0, 30) for partition in (0, 1)))
    chunks: list[np.ndarray[Any, Any]] = []
    summaries = [
        next(
            count_rows(
                _noting(read_rows(side, stretch), chunks), ARRIVED, ordered=False, phantoms={}
            )
        ).to_pylist()[0]
        for stretch in reversed(log.stretches)
    ]
    assert [(row["unreadable"], row["damaged"]) for row in summaries] == [(5, 0), (1, 0)]
    where = stretches_with(
        log, np.zeros(0, dtype=np.int64), np.concatenate(chunks), unreadable=True
    )
    assert [(one.partition, one.first, one.end) for one in where] == [(0, 20, 30), (1, 0, 20)]
    assert not stretches_with(
        log, np.zeros(0, dtype=np.int64), np.concatenate(chunks), unreadable=False
    )

    def hits(
        records: Records, stretch: OffsetRange, wanted: list[int], *, unreadable: bool
    ) -> list[dict[str, Any]]:
        read_ = _read(side, records)
        return list(
            _hits(
                read_, records, stretch, np.array(wanted, dtype=np.int64), unreadable=unreadable
            ).to_pylist()
        )

    rows = [
        row
        for stretch in where
        for records in fetched(stretch)
        for row in hits(records, stretch, [7], unreadable=True)
    ]
    nameless = [row for row in rows if row["number"] is None]
    assert [(row["place"], row["source"], row["found"]) for row in nameless] == [
        ("t/0/25", b"x25", "x25"),
        ("t/1/3", b"x3", "x3"),
        ("t/1/4", b"x4", "x4"),
        ("t/1/5", b"x5", "x5"),
        ("t/1/12", b"x12", "x12"),
    ]
    assert [(row["place"], row["source"]) for row in rows if row["number"] is not None] == [
        ("t/1/7", None)
    ]
    assert nameless[0]["stands"] == {"partition": 0, "offset": 25}
    last = next(fetched(where[0]))
    assert not hits(last, where[0], [], unreadable=False)


def test_a_fetch_of_nothing_but_strange_texts_is_cut_to_three(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = read(batch(0, [(None, b"x", [])] * 1000), [])
    side = topic("id=value")
    found = _hits(
        _read(side, records),
        records,
        OffsetRange("h:1", "t", 0, 0, 1000),
        np.zeros(0, dtype=np.int64),
        unreadable=True,
    )
    assert found["place"].to_pylist() == ["t/0/0", "t/0/1", "t/0/2"]


# --- our own messages -----------------------------------------------------------------------------


def payloads() -> list[bytes | None]:
    """Make ten messages: two of ours, four of ours and damaged, and what cannot be told from a
    stranger's.
    """
    good, other = (
        Record(f"k-{number}", "k", number, "filler").encode("c0ffee") for number in (1, 2)
    )
    return [
        good,
        other,
        good[:-1],
        good.replace(b"filler", b"fi\xffler"),
        good[:12],
        b"lostack c0ffee k-3 x 00000000\n",
        good[3:],
        b'{"seq": 1}',
        b"",
        None,
    ]


@pytest.mark.spark
def test_a_damaged_message_of_ours_is_a_phantom_and_a_strange_one_is_unreadable(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Our word in front says whose it was; where it is not there, nobody can say."""
    spec = f"{ids(tmp_path / 'p.parquet', payloads(), pa.binary())}#id=lostack:id"
    found = on_spark(spark, "range:c0ffee=1-2", spec)
    assert (found.arrived, found.lost, found.phantom, found.damaged, found.unread_arrived.rows) == (
        2,
        0,
        4,
        4,
        4,
    )
    assert [(str(one), one.places) for one in found.examples] == [
        (f"phantom (damaged) at p.parquet:{row}", (f"p.parquet:{row}",)) for row in (2, 3, 4, 5)
    ]
    assert [one.why for one in found.unread_arrived.first] == [
        "it is not one of lostack's messages"
    ] * 3
    assert rule(found, Semantic.AT_MOST_ONCE).kind is Kind.VOID
    stated = on_spark(spark, "range:c0ffee=1-2", f"{spec}&unreadable=4")
    assert (
        rule(stated, Semantic.AT_MOST_ONCE).reason
        == "at-most-once forbids what was found: 4 phantom"
    )
    damaged = ids(tmp_path / "d.parquet", payloads()[2:6], pa.binary())
    assert (
        rule(
            on_spark(spark, "range:c0ffee=1-2", f"{damaged}#id=lostack:id"), Semantic.AT_MOST_ONCE
        ).kind
        is Kind.BROKEN
    )
    both = on_spark(spark, spec, spec)
    assert (both.offered, both.unread_offered.rows, both.damaged) == (2, 8, 4)
    assert both.unread_offered.first[0].why == "it is one of lostack's messages, but damaged"


@pytest.mark.spark
def test_ours_with_a_position_above_the_limit_and_a_strange_key(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intact, so that it is no phantom; a key that is no text is a stream of its own."""
    from harness.audit import on_spark  # noqa: PLC0415

    items: list[Item] = [
        (b"\xff", Record("k-9", "k", 1 << 40).encode("c0ffee"), []),
        (b"\xfe", Record("k-1", "k", 1).encode("c0ffee"), []),
    ]
    said = by_the_connector(spark, monkeypatch, topic("id=lostack"), items)
    assert said[0][2].endswith(LIMIT)
    assert said[1] == (1, "c0ffee", "")
    rows = on_spark.rows_of(spark, topic("id=lostack")).collect()
    assert {row["stream"] for row in rows} == {"c0ffee FF", "c0ffee FE"}
    assert not any(row["damaged"] for row in rows)


def test_a_damaged_message_that_was_offered_is_unreadable() -> None:
    """What was offered is not known then: nobody can be convicted of it."""
    rows = pa.record_batch(
        {"number": pa.array([1, None, None], pa.int64()), "damaged": pa.array([False, True, False])}
    )
    for side, expected in ((OFFERED, (2, 0)), (ARRIVED, (1, 1))):
        summary = next(count_rows([rows], side, ordered=False, phantoms={})).to_pylist()[0]
        assert (summary["unreadable"], summary["damaged"]) == expected


# --- the verdict ----------------------------------------------------------------------------------

ONE = Unread("'x'", "it is no whole number", "t/0/1")


@pytest.mark.parametrize(
    ("counts", "kind", "says"),
    [
        (
            {"duplicated": 5, "lost": 3, "phantom": 1, "unread_arrived": Unreadable(1, 0, (ONE,))},
            "void",
            (
                "1 of 16 rows that arrived cannot be read as an id: 'x' (it is no whole number, at "
                "t/0/1); correct"
            ),
        ),
        (
            {"duplicated": 5, "offered_again": 2, "unread_offered": Unreadable(4, 3, (ONE, ONE))},
            "void",
            "4 of 15 rows offered cannot",
        ),
        ({"duplicated": 5, "unread_arrived": Unreadable(3, 3)}, "broken", "5 duplicated"),
        ({"lost": 5, "unread_arrived": Unreadable(3, 3)}, "broken", "5 lost"),
        ({"phantom": 5, "unread_offered": Unreadable(2, 3)}, "broken", "5 phantom"),
        (
            {"unread_arrived": Unreadable(2, 3), "unread_offered": Unreadable(1, 1)},
            "kept",
            (
                "9 of 9 arrived; 1 unreadable offered, 1 permitted; 2 unreadable that arrived, 3 "
                "permitted"
            ),
        ),
        ({"unread_arrived": Unreadable(0, 3)}, "kept", "9 of 9 arrived"),
        (
            {"arrived": 0, "lost": 9, "unread_arrived": Unreadable(3, 3)},
            "void",
            "none of 3 rows that arrived could be read",
        ),
        (
            {"arrived": 0, "lost": 9, "unread_arrived": Unreadable(3, 0, (ONE,))},
            "void",
            "3 of 3 rows that arrived cannot",
        ),
        ({"arrived": 0, "lost": 9, "unread_arrived": Unreadable(0, 0)}, "broken", "9 lost"),
        ({"arrived": 0, "lost": 9, "phantom": 1, "damaged": 1}, "broken", "9 lost, 1 phantom"),
        (
            {"offered": 0, "arrived": 0, "phantom": 9, "unread_offered": Unreadable(3, 3)},
            "void",
            "none of 3 rows offered could be read",
        ),
        ({"offered": 0, "arrived": 0, "phantom": 9}, "void", "nothing was offered"),
    ],
)
def test_what_could_not_be_read_convicts_nobody(
    counts: dict[str, object], kind: str, says: str
) -> None:
    """Unless it is a stated few; and then a side of which nothing else was read convicts nobody
    either.
    """
    ruling = rule(findings(**counts), Semantic.EXACTLY_ONCE)
    assert str(ruling.kind) == kind
    assert says in ruling.reason


def test_the_report_tells_of_both_sides() -> None:
    """In words and as JSON: how many, how many were stated, the first of them."""
    found = replace(
        findings(phantom=2),
        damaged=1,
        unread_offered=Unreadable(1, 2, (ONE,)),
        unread_arrived=Unreadable(7, 0, (ONE,)),
    )
    text = as_text(found, None)
    assert "phantom     2, of them 1 damaged\n" in text
    assert "unreadable  1 offered (2 permitted)\n  'x' (it is no whole number, at t/0/1)\n" in text
    assert "unreadable  7 that arrived (0 permitted)\n" in text
    assert "unreadable" not in as_text(findings(), None)
    plain = json.loads(json.dumps(as_json(found)))
    first = [{"text": "'x'", "why": "it is no whole number", "place": "t/0/1"}]
    assert plain["unreadable"] == {
        "offered": {"rows": 1, "stated": 2, "first": first},
        "arrived": {"rows": 7, "stated": 0, "first": first},
    }
    assert plain["damaged"] == 1


@pytest.mark.parametrize(
    "spec",
    ["kafka:h:1/t#unreadable=3", "parquet:/x#unreadable=3", "jdbc:sqlite:/x#table=t&unreadable=3"],
)
def test_a_few_can_be_stated_of_every_side(spec: str) -> None:
    side, plain = parse(spec), parse(spec.replace("unreadable=3", "id=a"))
    assert isinstance(side, Rows)
    assert isinstance(plain, Rows)
    assert (side.unreadable, plain.unreadable) == (3, 0)


@pytest.mark.parametrize("given", ["", "x", "-1", "1.5", "٣", "²", "9" * 30])
def test_what_is_stated_is_a_number(given: str) -> None:
    for name in ("unreadable", "readers"):
        with pytest.raises(SpecError, match=f"{name} must be a number from"):
            parse(f"jdbc:sqlite:/x#table=t&{name}={given}")


@pytest.mark.parametrize(
    ("offered", "arrived", "code", "says"),
    [
        (
            "",
            "",
            4,
            (
                "'a' (it is no whole number, at o.parquet:3), null (the value is missing, at "
                "o.parquet:4); 1 of 4 rows that"
            ),
        ),
        (
            "unreadable=2",
            "",
            4,
            "VOID  exactly-once: 1 of 4 rows that arrived cannot be read as an id: '+3'",
        ),
        (
            "unreadable=2",
            "unreadable=1",
            0,
            (
                "KEPT  exactly-once: 3 of 3 arrived; 2 unreadable offered, 2 permitted; 1 "
                "unreadable that"
            ),
        ),
        ("unreadable=1", "unreadable=9", 4, "VOID  exactly-once: 2 of 5 rows offered"),
    ],
)
def test_the_command(
    *,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    offered: str,
    arrived: str,
    code: int,
    says: str,
) -> None:
    """Void is 4, and the reason has the texts."""
    left = ids(tmp_path / "o.parquet", ["01", "02", "3", "a", None], pa.string())
    right = ids(tmp_path / "a.parquet", ["1", "002", "3", "+3"], pa.string())
    words = [
        "--offered",
        f"{left}#{offered}",
        "--arrived",
        f"{right}#{arrived}",
        "--semantic",
        "exactly-once",
    ]
    assert main(["audit", *words]) == code
    assert says in capsys.readouterr().out


def test_the_help_says_how_to_state_a_few(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the SPECs are explained."""
    assert main(["audit", "--help"]) == 0
    assert "unreadable=" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["range:\u0661-\u0665", "range:a=1-\uff17"])
def test_a_range_is_of_the_digits_0_to_9(text: str) -> None:
    with pytest.raises(SpecError, match="a range is"):
        parse(text)


def test_padded_ids_of_another_verifier(auditor: Auditor, tmp_path: Path) -> None:
    """Keys of 18 digits, each there: kept; a text of a million zeros is no trouble, nor is one of
    other digits behind it.
    """
    spec = ids(tmp_path / "k.parquet", [f"{number:018d}" for number in range(1000)], pa.string())
    found = auditor("range:0-999", spec)
    assert (found.arrived, found.lost, found.phantom, found.unread_arrived.rows) == (1000, 0, 0, 0)
    assert rule(found, Semantic.EXACTLY_ONCE).kind is Kind.KEPT
    long = ids(tmp_path / "l.parquet", ["0" * 1_000_000 + "5", "0" * 1_000_000 + "x"], pa.string())
    found = auditor("range:5-5", long)
    assert (found.arrived, found.unread_arrived.rows) == (1, 1)
    assert len(found.unread_arrived.first[0].text) < 100


def test_reading_ids_needs_a_pattern_that_is_plain() -> None:
    assert reading_of(topic("id=value&pattern=(?<=a)(\\d)")) is None
