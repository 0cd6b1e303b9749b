"""A topic audited without Spark: the same counts, records, places as a plain loop over what was
stored finds.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from harness.audit import auditing, cores, fetching, topics
from harness.audit.auditing import audit
from harness.audit.cores import Cores
from harness.audit.failures import AuditError
from harness.audit.findings import rule
from harness.audit.texts import plain_numbers, whole
from harness.judge.verdict import Kind
from harness.model.semantics import Semantic
from harness.model.waiting import wait_until
from tests.audit.cases import here
from tests.audit.log_broker import Stored, Topic, broker
from tests.audit.test_record_batches import batch, marker
from tests.audit.test_unreadable import TEXTS
from tests.wire.kafka_frames import CODECS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.audit.test_record_batches import Item

KEYS = (None, b"a", b"b")
OFFERED = 400


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut every partition into parts of a few offsets, read by two processes."""
    monkeypatch.setattr(topics, "LEAST", 7)
    monkeypatch.setattr(topics, "MOST", 23)
    monkeypatch.setattr(topics, "Cores", lambda: Cores(2))


def random_partition(
    dice: random.Random, visible: list[tuple[int, bytes | None, bytes | None]]
) -> Stored:
    """Store random batches: each compression, transactions that are committed and aborted, gaps,
    texts that are no ids.
    """
    stored = Stored(start=dice.choice([0, 0, 5]))
    at = stored.start
    for _ in range(dice.randint(0, 12)):
        items: list[Item] = []
        for _ in range(dice.randint(1, 9)):
            text = b"%0*d" % (
                dice.choice([1, 18, 20]),
                dice.choice([dice.randrange(OFFERED), dice.randrange(40), 5000]),
            )
            items.append(
                (dice.choice(KEYS), dice.choice([text] * 20 + [b"x", b"", None, b"-1"]), [])
            )
        kind = dice.choice(["plain", "committed", "aborted"])
        data = batch(
            at,
            items,
            codec=dice.choice(list(CODECS.values())),
            transactional=kind != "plain",
            producer=-1 if kind == "plain" else 7,
        )
        if kind != "aborted":
            visible += [(at + place, key, value) for place, (key, value, _) in enumerate(items)]
        first, at = at, at + len(items)
        stored.batches.append((at, data))
        if kind != "plain":
            stored.batches.append((at + 1, marker(at, 7, commit=kind == "committed")))
            at += 1
        if kind == "aborted":
            stored.aborted.append((first, 7, at - 1))
        at += dice.choice([0, 0, 3])
    return stored


@pytest.mark.parametrize(("seed", "keyed"), [(seed, seed % 2 > 0) for seed in range(10)])
def test_what_a_plain_loop_finds(seed: int, *, keyed: bool) -> None:
    """Random topics of one to four partitions: lost, duplicated, phantom, reordered and unreadable,
    to the record.
    """
    dice = random.Random(seed)
    seen: list[list[tuple[int, bytes | None, bytes | None]]] = [
        [] for _ in range(dice.randint(1, 4))
    ]
    partitions = [random_partition(dice, visible) for visible in seen]
    copies: Counter[tuple[str, int]] = Counter()
    places: dict[tuple[str, int], list[str]] = {}
    unreadable: list[str] = []
    rows: list[tuple[int, str, int]] = []
    for partition, visible in enumerate(seen):
        for offset, key, value in visible:
            if value is None or not value.isdigit():
                unreadable.append(f"t/{partition}/{offset}")
                continue
            name = (key or b"").decode() if keyed else ""
            copies[name, int(value)] += 1
            places.setdefault((name, int(value)), []).append(f"t/{partition}/{offset}")
            rows.append((partition, name, int(value)))
    spans = ("", "a") if keyed else ("",)
    offered = {(name, number) for name in spans for number in range(OFFERED)}
    spec = ",".join(f"{f'{name}=' if name else ''}0-{OFFERED - 1}" for name in spans)
    with broker(Topic("t", partitions, batches_a_fetch=dice.randint(1, 4))) as at:
        found = here(f"range:{spec}", f"kafka:{at}/t#id=value{'&key=key' if keyed else ''}")
    assert found.arrived == len(offered & copies.keys())
    assert {
        (span.key, n) for span in found.lost_ranges for n in range(span.first, span.last + 1)
    } == offered - copies.keys()
    assert found.duplicated == sum(count - 1 for one, count in copies.items() if one in offered)
    assert found.phantom == sum(count for one, count in copies.items() if one not in offered)
    assert (found.stored_twice, found.recorded_twice) == (found.duplicated, 0)
    assert found.reordered == out_of_order([row for row in rows if row[1:] in offered])
    assert found.unread_arrived.rows == len(unreadable)
    assert [one.place for one in found.unread_arrived.first] == unreadable[:3]
    assert len(found.examples) == sum(
        min(
            10,
            sum(
                1
                for one, count in copies.items()
                if (count > 1 if one in offered else True) and (one in offered) is mine
            ),
        )
        for mine in (True, False)
    )
    assert all(
        list(one.places) == sorted(places[one.key, one.number or 0])[:10] for one in found.examples
    )
    assert len(found.unseen) == sum(stored.start > 0 for stored in partitions)


def out_of_order(rows: list[tuple[int, str, int]]) -> int:
    """Count, per partition and key, first copies whose number is below one before."""
    highest: dict[tuple[int, str], int] = {}
    met: set[tuple[int, str, int]] = set()
    count = 0
    for row in rows:
        if row in met:
            continue
        met.add(row)
        count += row[2] < highest.get(row[:2], -1)
        highest[row[:2]] = max(row[2], highest.get(row[:2], -1))
    return count


def many(numbers: list[int], size: int = 50) -> Stored:
    """Store numbers in batches."""
    stored = Stored()
    for first in range(0, len(numbers), size):
        some = numbers[first : first + size]
        stored.batches.append(
            (first + len(some), batch(first, [(b"%018d" % n, b"v", []) for n in some]))
        )
    return stored


def test_planted_losses_and_duplicates_are_found_exactly() -> None:
    """Twenty partitions; five ids missing, four twice, one of these in another partition."""
    lost, twice = {3, 500, 501, 502, 1999}, [7, 8, 1000]
    parts: list[list[int]] = [[] for _ in range(20)]
    for number in range(2000):
        if number not in lost:
            parts[number % 20].append(number)
    for number in twice:
        parts[number % 20].append(number)
    parts[1].append(42)
    with broker(Topic("t", [many(part) for part in parts])) as at:
        found = here("range:0-1999", f"kafka:{at}/t#id=key")
    assert [str(span) for span in found.lost_ranges] == ["3", "500-502", "1999"]
    assert [(one.number, one.copies) for one in found.examples] == [
        (7, 2),
        (8, 2),
        (42, 2),
        (1000, 2),
    ]
    assert found.examples[2].places == ("t/1/99", "t/2/2")
    assert rule(found, Semantic.EXACTLY_ONCE).kind is Kind.BROKEN


def test_two_topics_and_an_open_transaction() -> None:
    """What another topic offers; what stands behind an open transaction is not called lost."""
    behind = many(list(range(90)))
    behind.stable = 60
    with (
        broker(Topic("t", [behind], policy="compact,delete")) as right,
        broker(Topic("in", [many(list(range(90)))])) as left,
    ):
        found = here(f"kafka:{left}/in#id=key", f"kafka:{right}/t#id=key")
    assert (found.offered, found.arrived, found.lost) == (90, 60, 30)
    assert found.unseen == (
        "partition 0 of t has 30 offsets behind an open transaction",
        "t is compacted: copies may have been removed",
    )
    assert rule(found, Semantic.AT_LEAST_ONCE).kind is Kind.VOID


def test_no_such_topic_and_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.audit.extents.ANSWER_WITHIN_MS", 200)
    with (
        broker(Topic("t", [Stored()])) as at,
        pytest.raises(AuditError, match="there is no such topic"),
    ):
        here("range:0-1", f"kafka:{at}/other#id=key")
    with pytest.raises(AuditError, match="no broker answers there"):
        here("range:0-1", f"kafka:{at}/t#id=key")


def test_what_is_not_read_here_goes_on_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker too old, a topic too great: said, and handed on; with --engine here an error."""
    handed: list[str] = []
    monkeypatch.setattr(auditing, "_on_spark", lambda *_: handed.append("spark"))
    said: list[str] = []
    with broker(Topic("t", [many([1, 2])], fetch_version=4)) as at:
        audit("range:1-2", f"kafka:{at}/t#id=key", say=said.append)
        with pytest.raises(
            AuditError, match=r"the broker does not speak FetchRequest 11: use --engine spark"
        ):
            here("range:1-2", f"kafka:{at}/t#id=key")
    monkeypatch.setattr(topics, "AT_REST_BYTES", 10)
    with broker(Topic("t", [many([1, 2])])) as at:
        audit("range:1-2", f"kafka:{at}/t#id=key", say=said.append)
        with pytest.raises(AuditError, match="too many ids for this machine"):
            here("range:1-2", f"kafka:{at}/t#id=key")
    assert handed == ["spark", "spark"]
    assert "does not speak" in said[0]
    assert "the audit runs on Spark instead" in said[1]


def test_a_flipped_bit_is_told() -> None:
    """A checksum that is wrong ends the audit: nothing is counted of what may be something else."""
    stored = many(list(range(30)))
    end, data = stored.batches[0]
    stored.batches[0] = (end, data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
    with (
        broker(Topic("t", [stored])) as at,
        pytest.raises(AuditError, match="at offset 0 is damaged: its checksum is wrong"),
    ):
        here("range:0-29", f"kafka:{at}/t#id=key")


# --- the processes --------------------------------------------------------------------------------


def squares(low: int, high: int) -> Iterator[int]:
    """Give squares; dies at 13."""
    for number in range(low, high):
        if number == 13:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 14:
            raise fetching.UnreadableError("fourteen")
        yield number * number


def test_what_processes_give_comes_in_the_order_of_the_tasks() -> None:
    """Five tasks of different length on three of them; and again."""
    crew = Cores(3)
    tasks = [(0, 5), (5, 5), (5, 6), (6, 13), (20, 5000)]
    try:
        for _ in range(2):
            found = list(crew.done(squares, tasks))
            assert found == [
                (at, number * number) for at, task in enumerate(tasks) for number in range(*task)
            ]
    finally:
        crew.close()


def test_a_process_that_dies_or_fails_ends_the_work() -> None:
    """One line with the signal; the error itself; and no process is left."""
    for tasks, said in (([(1, 3), (13, 14)], "died .signal 9."), ([(14, 15)], "fourteen")):
        crew = Cores(2)
        pids = [process.pid for process, _, _ in crew._workers]
        with pytest.raises((AuditError, fetching.UnreadableError), match=said):
            list(crew.done(squares, tasks))
        crew.close()
        assert not any(psutil.pid_exists(pid) for pid in pids)


def test_processes_end_with_the_one_that_has_them() -> None:
    """SIGKILL of the parent, which can free nothing then."""
    program = (
        "from harness.audit.cores import Cores; c = Cores(2); print(*(w[0].pid for w in "
        "c._workers), flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.kill()
    wait_until(
        lambda: not any(map(psutil.pid_exists, pids)), within_s=10, because="the processes to end"
    )


def test_cores_are_those_that_may_be_used() -> None:
    """The machine may have more."""
    crew = cores.Cores()
    try:
        assert len(crew) == len(os.sched_getaffinity(0))
    finally:
        crew.close()


# --- numbers at once ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_numbers_read_at_once_are_those_read_one_by_one(seed: int) -> None:
    """Digits of any length, padded or not; where one text is odd or too great, nothing is read."""
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    dice = random.Random(seed)
    odd: list[bytes] = [text for text, number, _ in TEXTS if text and number is None]
    texts = [
        b"%0*d" % (dice.choice([1, 5, 18, 25, 64]), dice.randrange(10 ** dice.randint(1, 12)))
        for _ in range(50)
    ]
    for extra in ([], [dice.choice(odd)], [b"1099511627776"], [b"1" * 19], [b""]):
        some = [*texts, *extra]
        at = np.cumsum([70, *(len(text) for text in some[:-1])])
        data = b"9" * 70 + b"".join(some) + b"7" * 70
        found: Any = plain_numbers(data, at, np.array([len(text) for text in some]))
        if extra:
            assert found is None
        else:
            assert (
                found.tolist()
                == [int(text) for text in some]
                == whole(pa.array(text.decode() for text in some)).to_pylist()
            )
