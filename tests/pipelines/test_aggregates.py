"""Results that are aggregates: what a total says of its records, which lie is found in it, and how
exactly.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.record import Record
from harness.pipelines.aggregates import (
    BASE,
    DIGITS,
    Aggregate,
    AggregateKind,
    amounts,
    spread,
    total_of,
)
from harness.pipelines.inputs import Input
from harness.pipelines.outputs import Output, OutputKind
from harness.pipelines.refusing import DeclarationError
from harness.systems.declared.outputs import Row
from harness.systems.declared.programs.errors import StageError
from harness.systems.declared.results.matcher import RecordMatcher
from harness.systems.declared.transport.authorities import Authorities
from harness.systems.declared.transport.positions import Positions
from harness.systems.kafka.log_copies import LogCopy, LogEnds, WholeLog
from tests.events import account
from tests.pipelines.scenes import KILLS, nobody, told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.judge.accounting import Account
    from harness.systems.declared.scene import Scene
    from tests.judge.scenes import Kept
    from tests.pipelines.scenes import Scenes

COUNT, SUM = Aggregate(of=AggregateKind.COUNT), Aggregate(of=AggregateKind.SUM)
BY_POSITION = {
    "aggregate": SUM,
    "input": Input(line='{"order": "{id}", "customer": "{key}", "cents": {position}}'),
}


def fill_in(scene: Scene, changed: dict[str, int]) -> None:
    """Write the totals of a cell, as they would be if each record was counted once; ``changed``:
    how often others were.
    """
    scene.work.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(scene.work / "totals.db") as database:
        database.execute("CREATE TABLE totals (customer TEXT, cents INTEGER)")
        for key, weights in scene.cell.totals().items():
            total = sum(weight * changed.get(record, 1) for record, weight in weights.items())
            database.execute("INSERT INTO totals VALUES (?, ?)", (key, total))
    database.close()


def accounted(scene: Scene) -> Account:
    """Return the account of what the totals of a cell say."""
    found, kept = RecordMatcher(scene), scene.history
    assert found.totals is not None
    found.totals.tell(found.rows())
    lines: Any = kept
    offered = [
        {"event": "offered", "record": r.id, "key": r.key, "position": r.position}
        for r in scene.load.records
    ]
    return account(
        [
            *offered,
            {"event": "cursor", "position": len(offered) + 1, "where": "stdin"},
            *lines.lines,
        ]
    )


def by_key(scene: Scene) -> list[str]:
    """Return the records of the key that has most."""
    return [*max(scene.cell.totals().values(), key=len)]


def test_every_record_of_right_totals_is_counted_once(scenes: Scenes) -> None:
    scene = scenes("totals")
    fill_in(scene, {})
    counts = accounted(scene).counts
    assert (counts["recorded"], counts["lost"], counts["duplicated"], counts["phantom"]) == (
        len(scene.known),
        0,
        0,
        0,
    )
    assert sorted(filter(None, RecordMatcher(scene).ids())) == sorted(scene.known)


@pytest.mark.parametrize(("lost", "doubled"), [(1, 0), (0, 1), (3, 0), (0, 3), (2, 2), (1, 3)])
def test_planted_losses_and_duplicates_are_named_to_the_record(
    scenes: Scenes, lost: int, doubled: int
) -> None:
    """Also where those of one key would cancel each other out in a plain count."""
    scene = scenes("totals")
    names = by_key(scene)
    gone, twice = frozenset(names[:lost]), frozenset(names[lost : lost + doubled])
    fill_in(
        scene,
        dict.fromkeys(gone, 0)
        | {record: 2 + number for number, record in enumerate(sorted(twice))},
    )
    found = accounted(scene)
    assert (found.lost, found.duplicated) == (gone, twice)
    assert found.counts["duplicated"] == sum(1 + number for number in range(len(twice)))
    ids = RecordMatcher(scene).ids()
    assert set(scene.known) - set(ids) == gone
    assert {record for record in twice if ids.count(record) > 1} == twice


@pytest.mark.parametrize("aggregate", [COUNT, SUM])
def test_counts_and_sums_of_positions_say_how_many_at_the_least(
    scenes: Scenes, aggregate: Aggregate
) -> None:
    for times, name in ((0, "lost"), (2, "duplicated")):
        scene = scenes("totals", pipeline=BY_POSITION | {"aggregate": aggregate})
        target = by_key(scene)[-1]
        fill_in(scene, {target: times})
        found = accounted(scene)
        assert found.counts[name] == 1
        assert (found.lost, found.duplicated) == (frozenset(), frozenset())
        [total] = found.totals
        assert total.alone == (target if aggregate is SUM else None)
        assert (found.counts["recorded"], found.counts["phantom"]) == (
            len(scene.known) - (name == "lost"),
            0,
        )
        assert (len(RecordMatcher(scene).ids()) < len(scene.known)) is (name == "lost"), (
            "the drain waits for what is missing"
        )


def test_a_key_without_a_total_has_lost_all_of_its_records(scenes: Scenes) -> None:
    scene = scenes("totals")
    fill_in(scene, {})
    key, weights = max(scene.cell.totals().items(), key=lambda each: len(each[1]))
    with sqlite3.connect(scene.work / "totals.db") as database:
        database.execute("UPDATE totals SET customer = 'nobody' WHERE customer = ?", (key,))
    database.close()
    found = accounted(scene)
    assert (found.lost, found.counts["phantom"]) == (frozenset(weights), 1)


def test_rows_that_are_no_totals_are_told(scenes: Scenes) -> None:
    """A query whose first column is no key would make everything lost."""
    scene = scenes("totals")
    found = RecordMatcher(scene)
    assert found.totals is not None
    with pytest.raises(
        StageError, match=r"no row of the output is a total of an offered key: .* 'x 5'.*pattern"
    ):
        found.totals.tell(["x 5"])


@pytest.mark.parametrize(
    "row", ["{key},69905.5", "{key},69,905", "{key},69905,EUR", '{{"of": "{key}", "sum": 69905}}']
)
def test_a_total_that_cannot_be_read_is_not_lost(scenes: Scenes, row: str) -> None:
    output = Output(kind=OutputKind.LINES, file="{work}/totals.csv")
    scene = scenes("totals", pipeline={"output": output, "invariants": ()})
    scene.work.mkdir(parents=True)
    totals = {key: sum(of.values()) for key, of in scene.cell.totals().items()}
    first, *others = totals
    rows = [row.format(key=first), *(f"{key},{totals[key]}" for key in others)]
    file = scene.work / "totals.csv"
    file.write_text("\n".join(rows))
    with pytest.raises(StageError, match=rf"names '{first}', .*pattern in \[aggregate\]"):
        accounted(scene)
    file.write_text("\n".join([*rows, f"{first},{totals[first]}"]))
    assert accounted(scene).lost == frozenset(), "a line of a log"


def test_a_line_of_a_log_hides_no_lost_total(scenes: Scenes) -> None:
    """Behind a fault a key's missing total is lost, whoever names the key: the run without a fault
    has shown that the pattern reads it.
    """
    output = Output(kind=OutputKind.LINES, file="{work}/totals.csv")
    scene = scenes("totals", fault=KILLS, pipeline={"output": output, "invariants": ()})
    scene.work.mkdir(parents=True)
    totals = {key: sum(of.values()) for key, of in scene.cell.totals().items()}
    gone, *others = totals
    rows = [f"received offset 3 of {gone}", *(f"{key},{totals[key]}" for key in others)]
    (scene.work / "totals.csv").write_text("\n".join(rows))
    assert accounted(scene).lost == frozenset(scene.cell.totals()[gone])


def test_a_dash_is_not_the_name_of_a_total_of_all(scenes: Scenes) -> None:
    """Such a total has no key: no line of a log names it."""
    one = Aggregate(of=AggregateKind.SUM, pattern=r"^total (?P<value>\d+)$")
    totals = RecordMatcher(scenes("totals", pipeline=BY_POSITION | {"aggregate": one})).totals
    assert totals is not None
    assert not totals.is_one("2026-01-01 12:00:00 - consumer - started")
    assert totals.is_one("total 1")


def test_a_key_whose_total_is_null_has_lost_all_of_its_records(scenes: Scenes) -> None:
    scene = scenes("totals")
    fill_in(scene, {})
    key, weights = max(scene.cell.totals().items(), key=lambda each: len(each[1]))
    with sqlite3.connect(scene.work / "totals.db") as database:
        database.execute("UPDATE totals SET cents = NULL WHERE customer = ?", (key,))
    database.close()
    assert accounted(scene).lost == frozenset(weights)


def test_totals_of_an_earlier_run_are_not_this_ones(scenes: Scenes) -> None:
    """They would be duplicates that nobody has made."""
    scene = scenes("totals")
    fill_in(scene, {})
    with pytest.raises(StageError, match="has records of this run before the run has begun"):
        RecordMatcher(scene).check_output_is_fresh()


def test_the_last_row_of_a_key_counts(scenes: Scenes) -> None:
    scene = scenes("totals")
    totals = RecordMatcher(scene).totals
    assert totals is not None
    rows = [
        f"{key} {total}"
        for key, of in scene.cell.totals().items()
        for total in (1, sum(of.values()))
    ]
    assert sorted(filter(None, totals.ids(rows))) == sorted(scene.known)


UNORDERED = [
    (Output(kind=OutputKind.LINES, file="{work}/part-*.csv"), "in several files .* one file"),
    (Output(kind=OutputKind.DELTA, file="{work}/totals"), r"rows of a table \(delta\)"),
    (
        Output(kind=OutputKind.SQLITE, file="{work}/t.db", query="SELECT k, v FROM t"),
        "end it with ORDER BY",
    ),
]
ORDERED = [
    Output(kind=OutputKind.LINES, file="{work}/totals.csv"),
    Output(kind=OutputKind.SQLITE, file="{work}/t.db", query="SELECT k, v FROM t ORDER BY rowid"),
]


@pytest.mark.parametrize(("output", "why"), UNORDERED)
def test_no_total_is_the_last_without_an_order(scenes: Scenes, output: Output, why: str) -> None:
    scene = scenes("totals", pipeline={"output": output, "invariants": ()})
    totals = RecordMatcher(scene).totals
    assert totals is not None
    rows = [f"{key} {sum(of.values())}" for key, of in scene.cell.totals().items()]
    totals.tell([*rows, rows[0]])
    with pytest.raises(StageError, match=rf"several totals of .*{why}.*one row for each key"):
        totals.tell([*rows, "k1 1"])
    assert totals.ids([*rows, "k1 1"]), "while it runs, nothing is said yet"


PARTS = [
    Output(kind=OutputKind.LINES, file="{work}/part-*.csv"),
    Output(kind=OutputKind.TOPIC, topic="t"),
]


@pytest.mark.parametrize("output", PARTS)
def test_a_key_s_last_total_is_known_in_each_file_and_partition(
    scenes: Scenes, output: Output
) -> None:
    """As where each of several writers has keys of its own; not if a key's are in two of them."""
    changed = {"output": output, "topics": ("orders", "t"), "invariants": ()}
    scene = scenes("totals", pipeline=changed)
    totals = RecordMatcher(scene).totals
    assert totals is not None
    rows = [f"{key} {sum(of.values())}" for key, of in scene.cell.totals().items()]
    placed = [Row.of_line(row, str(at % 2)) for at, row in enumerate(rows)]
    earlier = [Row.of_line(f"{row.split()[0]} 1", row.place) for row in placed]
    totals.tell([*earlier, *placed])
    assert {times for _, times in told(scene).of("folded", "record", "times")} == {1}
    with pytest.raises(StageError, match=r"several totals of .*one row for each key"):
        totals.tell([*placed, Row.of_line(earlier[0], "another")])


@pytest.mark.parametrize("output", ORDERED)
def test_the_last_total_counts_where_there_is_an_order(scenes: Scenes, output: Output) -> None:
    scene = scenes("totals", pipeline={"output": output, "invariants": ()})
    totals = RecordMatcher(scene).totals
    assert totals is not None
    rows = [f"{key} {sum(of.values())}" for key, of in scene.cell.totals().items()]
    totals.tell(["k1 1", *rows])
    assert {times for _, times in told(scene).of("folded", "record", "times")} == {1}


def test_one_total_of_all_has_no_key(scenes: Scenes) -> None:
    one = Aggregate(of=AggregateKind.SUM, pattern=r"(?P<value>\d+)$")
    scene = scenes("totals", pipeline=BY_POSITION | {"aggregate": one})
    totals, count = RecordMatcher(scene).totals, len(scene.known)
    assert totals is not None
    assert len(totals.ids([f"total {count * (count + 1) // 2}"])) == count
    assert len(totals.ids(["total 0"])) == 0


def test_amounts_fit_a_double_and_every_key_has_few_enough_records() -> None:
    records = [Record(f"k{n % 4}-{n}", f"k{n % 4}", n) for n in range(1, 2001)]
    keys = spread(records)
    made = amounts([dataclasses.replace(record, key=keys[record.id]) for record in records])
    assert max(made.values()) * BASE <= 2**52 == BASE**DIGITS
    with pytest.raises(DeclarationError, match="k1 has more than 13 records"):
        amounts(records)


def test_a_total_that_no_counts_make_is_not_decoded() -> None:
    weights = {"a-1": 1, "a-2": 16}
    assert total_of(-3, weights, exact=True).missing == 2
    assert total_of(16**2 + 17, weights, exact=True).extra == 16
    assert total_of(2 + 48, weights, exact=True).times == {"a-1": 2, "a-2": 3}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("k1 17", ("k1", 17)),
        ("k1;17", ("k1", 17)),
        ('{"k1": 17}', ("k1", 17)),
        ("k1 = -3", ("k1", -3)),
        ("k.1, 17.0", ("k.1", 17)),
        ("customer,total", None),
        ("17", None),
        ("k1,1.1184811E7", ("k1", 11184811)),
        ("k1 -1.5e+3", ("k1", -1500)),
        ("k1 1E999999999", None),
        ("k1 1.5", None),
        ("", None),
        ("k1 None", None),
    ],
)
def test_what_a_row_is(text: str, found: tuple[str, int] | None) -> None:
    assert SUM.read(text) == (found and (found[0], "", found[1]))


def test_a_key_has_what_its_windows_have_together() -> None:
    """Of each window the last row counts; without a window the last row of the key."""
    rows = ["a 9 1", "a 10 16", "b 9 1", "a 10 272", "total 3"]
    by_hour = dataclasses.replace(SUM, pattern=r"^(?P<key>\w) (?P<window>\d+) (?P<value>\d+)$")
    assert by_hour.values(rows) == {"a": 273, "b": 1}
    plain = dataclasses.replace(SUM, pattern=r"^(?P<key>\w) \d+ (?P<value>\d+)$")
    assert plain.values(rows) == {"a": 272, "b": 1}


@pytest.mark.parametrize(
    ("aggregate", "line", "said"),
    [
        (
            SUM,
            '{"id": "{id}", "key": "{key}"}',
            r"of = sum: put what is summed up, \{amount\} or \{position\}, into",
        ),
        (COUNT, '{"id": "{id}"}', r"put \{key\} into the input's line"),
        (
            Aggregate(of=AggregateKind.SUM, pattern=r"(?P<value>\d+)"),
            "{id} {amount}",
            "needs a total for each key",
        ),
    ],
)
def test_a_line_that_no_total_can_be_made_of(aggregate: Aggregate, line: str, said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        aggregate.check(line)


@pytest.mark.parametrize(
    ("pattern", "said"), [("(", "is not a regular expression"), (r"(\d+)", "has no group value")]
)
def test_a_pattern_that_finds_nothing(pattern: str, said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        Aggregate(of=AggregateKind.COUNT, pattern=pattern)


def asked_of(scene: Scene, copies: Sequence[LogCopy], output: Sequence[LogCopy] = ()) -> Kept:
    """Ask every authority of a cell whose topic, and whose output's, holds these copies; return
    what they said.
    """
    logs = {scene.pipeline.topic: copies, scene.pipeline.output.topic: output}
    observer: Any = scene.kafka.observer
    observer.log = lambda topic: WholeLog(
        {0: LogEnds(0, len(logs[topic]), len(logs[topic]))}, tuple(logs[topic])
    )
    observer.copies = lambda topic: logs[topic]
    found = RecordMatcher(scene)
    Authorities(scene, Positions(scene, {}, nobody(scene), found), found).observe()
    return told(scene)


def offered_in(scene: Scene) -> list[LogCopy]:
    """Return a copy of every record, as lostack offers it."""
    lines = scene.cell.lines()
    return [
        LogCopy(
            0, 0, offset, record.key.encode(), lines[record.id].encode(), None, None, visible=True
        )
        for offset, record in enumerate(scene.load.records)
    ]


def as_saved(kept: Kept) -> list[Any]:
    """Return lines as they are read back."""
    return [json.loads(json.dumps(line)) for line in kept.lines]


def still(saved: int = -1) -> SimpleNamespace:
    """Return an observer of a group that has saved this position."""
    return SimpleNamespace(positions=lambda *_: {0: saved})


def test_totals_and_invariants_are_asked_with_everything_else(scenes: Scenes) -> None:
    """What the database says is written down as totals, and no row is taken for a record."""
    scene = scenes("totals", observer=still())
    target = by_key(scene)[0]
    fill_in(scene, {target: 2})
    with sqlite3.connect(scene.work / "totals.db") as database:
        database.execute("CREATE TABLE booked (cents INTEGER)")
    database.close()
    kept = asked_of(scene, offered_in(scene))
    found = account(as_saved(kept))
    assert (found.duplicated, found.lost, found.counts["phantom"]) == (
        frozenset({target}),
        frozenset[str](),
        0,
    )
    assert not kept.of("recorded")
    [(asked, equals, holds)] = kept.of("invariant", "asked", "equals", "holds")
    assert asked.startswith("SELECT (SELECT coalesce")
    assert (equals, holds) == ("0", False), "nothing was booked"


def test_totals_in_a_topic_are_its_keys_and_values(scenes: Scenes) -> None:
    """Each version is a copy in the sink's log, and the last of a key counts."""
    output = Output(kind=OutputKind.TOPIC, topic="totals")
    changed = {"output": output, "topics": ("orders", "totals"), "invariants": ()}
    scene = scenes("totals", pipeline=changed, observer=still(48), named=("totals",))
    gone = by_key(scene)[-1]
    rows = [(key, sum(of.values()) - of.get(gone, 0)) for key, of in scene.cell.totals().items()]
    versions = [(key, 1) for key, _ in rows] + rows
    copies = [
        LogCopy(0, 0, n, key.encode(), str(total).encode(), None, None, visible=True)
        for n, (key, total) in enumerate(versions)
    ]
    found = account(as_saved(asked_of(scene, offered_in(scene), copies)))
    assert (found.lost, found.duplicated, found.counts["phantom"]) == (
        frozenset({gone}),
        frozenset[str](),
        0,
    )
    behind = scenes("totals", pipeline=changed, observer=still(0), named=("totals",))
    waits = account(as_saved(asked_of(behind, offered_in(behind), copies)))
    assert (waits.lost, waits.left) == (frozenset[str](), frozenset({gone})), (
        "what nobody has read yet is not lost"
    )


def test_an_output_without_a_total_without_a_fault_is_told(scenes: Scenes) -> None:
    """All would be lost."""
    scene = scenes("totals", pipeline={"invariants": ()}, observer=still())
    scene.work.mkdir(parents=True)
    with sqlite3.connect(scene.work / "totals.db") as database:
        database.execute("CREATE TABLE totals (customer TEXT, cents INTEGER)")
    database.close()
    with pytest.raises(StageError, match="no record is in the output"):
        asked_of(scene, offered_in(scene))


@pytest.mark.parametrize("kind", [OutputKind.SQLITE, OutputKind.TOPIC])
def test_rows_that_are_no_totals_are_told_by_the_pattern(scenes: Scenes, kind: OutputKind) -> None:
    """``[id]`` has no part in it."""
    output = Output(kind=kind, topic="orders") if kind is OutputKind.TOPIC else None
    changed = {"invariants": (), **({"output": output} if output else {})}
    copies = [LogCopy(0, 0, 0, b"k1", b"many", None, None, visible=True)]
    scene = scenes("totals", pipeline=changed, observer=SimpleNamespace(copies=lambda _: copies))
    scene.work.mkdir(parents=True)
    with sqlite3.connect(scene.work / "totals.db") as database:
        database.execute("CREATE TABLE totals (customer TEXT, cents TEXT)")
        database.execute("INSERT INTO totals VALUES ('k1', 'many')")
    database.close()
    said = RecordMatcher(scene).nothing_arrived()
    assert "none of its 1 rows holds a total: the pattern '" in said
    assert said.endswith("in [aggregate] finds none; the last is 'k1 many'")
