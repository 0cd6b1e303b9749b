"""Bulk programs: what values say, what a sink has, how far they are; and both programs against a
broker in this process.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from harness.model.semantics import Semantic
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.stages.bulk.consumer import saved_position
from harness.stages.bulk.marks import Mark, Marks
from harness.stages.bulk.records import END, decode, encode, runs
from harness.stages.bulk.results import Results
from harness.stages.bulk.telling import BulkStage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "stream00"
WITHIN_S = 60.0


def test_values_say_what_they_are() -> None:
    """Positions in their order, the end; anything else is strange: damage in head and filler,
    another partition, key or size.
    """
    values = encode(KEY, 1, 70_000, 5, size=100)
    (end,) = encode(KEY, 1, 0, 1, size=100, kind=END)
    came = decode([values[3], values[0], values[0], end], KEY, 1, 100)
    assert (came.positions.tolist(), came.strange, came.ended) == (
        [70_003, 70_000, 70_000],
        0,
        True,
    )
    assert decode(values, KEY, 0, 100).strange == 5
    assert decode(values, "stream01", 1, 100).strange == 5
    assert decode(values, KEY, 1, 99).strange == 5
    assert decode([], KEY, 1, 100).positions.tolist() == []


@pytest.mark.parametrize("at", [0, 15, 19, 23, 31, 32, 99])
def test_any_damage_is_seen(at: int) -> None:
    (value,) = encode(KEY, 1, 7, 1, size=100)
    damaged = value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
    assert decode([damaged], KEY, 1, 100)[1:] == (1, False)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("once", [True, False])
def test_a_sink_against_a_plain_loop(tmp_path: Path, seed: int, *, once: bool) -> None:
    """Polls at random, copies within a poll and over several, opened again in between as after a
    crash.
    """
    dice = random.Random(seed)
    plain, absorbed = Counter[int](), Counter[int]()
    file = tmp_path / "results.sqlite"
    for _ in range(30):
        begin = dice.randrange(300)
        positions = (
            [dice.randrange(begin, begin + 20) for _ in range(10)]
            if dice.random() < 0.5
            else range(begin, begin + 15)
        )
        with Results(file) as results:
            results.record(np.array(positions), once=once)
        for position in positions:
            (absorbed if once and plain[position] else plain)[position] += 1
    with Results(file) as results:
        for table, wanted in (("recorded", plain), ("absorbed", absorbed)):
            seen = Counter(
                at
                for _, first, count in results.since(table, 0)
                for at in range(first, first + count)
            )
            assert seen == +wanted


def test_runs() -> None:
    """Neighbours are one run; a copy, or a step back, begins another."""
    assert runs(np.array([4, 5, 6, 6, 2, 3])) == [(4, 3), (6, 1), (2, 2)]
    assert runs(np.array([], dtype=np.int64)) == []


def test_marks_are_shared(tmp_path: Path) -> None:
    """What one process writes another one reads; a number never goes back where it must not."""
    with Marks.create(tmp_path / "marks", [3, 9]) as mine, Marks(tmp_path / "marks") as other:
        assert other.read(1) == Mark(9, 9, 9, 9, 9)
        mine.put(1, "taken", 12)
        mine.advance(1, "done", 11)
        mine.advance(1, "done", 10)
        assert other.read(1) == Mark(12, 9, 9, 9, 11)
        assert other.read(0) == Mark(3, 3, 3, 3, 3)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """Return the address of librdkafka's own play of a broker, in this process."""
    producer: Any = Producer(
        {"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0}
    )
    for semantic in Semantic:
        producer.list_topics(f"t-{semantic}", timeout=10)  # asked for, a topic is made
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del producer


def start(stage: BulkStage, module: str) -> subprocess.Popen[bytes]:
    """Start a bulk program."""
    return subprocess.Popen(
        [sys.executable, "-m", f"harness.stages.bulk.{module}"],
        env={**os.environ, **stage.environment()},
    )


@pytest.mark.parametrize("semantic", Semantic)
def test_every_record_arrives_once_though_both_are_killed(
    tmp_path: Path, bootstrap: str, semantic: Semantic
) -> None:
    """A producer and a consumer that are killed and started again at some time: what is missing, or
    twice, is permitted.
    """
    end = 20_000
    Marks.create(tmp_path / "marks", [0, 0]).close()
    stage = BulkStage(
        cell="c",
        key=KEY,
        name="producer-1",
        incarnation=1,
        bootstrap=bootstrap,
        topic=f"t-{semantic}",
        group=f"g-{semantic}",
        partition=1,
        begin=0,
        end=end,
        unit=100,
        record_bytes=100,
        semantic=semantic,
        marks=str(tmp_path / "marks"),
        results=str(tmp_path / "results"),
        history=str(tmp_path / "history"),
    )
    reader = replace(stage, name="consumer-1")
    programs = [start(stage, "producer"), start(reader, "consumer")]
    with Marks(tmp_path / "marks") as marks:
        wait_until(lambda: marks.get(1, "done") > 500, within_s=WITHIN_S, because="records to flow")
        for each in programs:
            each.kill()
            each.wait()
        assert marks.get(1, "done") < end
        programs = [
            start(replace(stage, incarnation=2), "producer"),
            start(replace(reader, incarnation=2), "consumer"),
        ]
        wait_until(
            lambda: marks.get(1, "done") == end + 1,
            within_s=WITHIN_S,
            because="the end of the partition",
        )
        assert programs[0].wait(WITHIN_S) == 0
    programs[1].kill()
    programs[1].wait()
    with Results(tmp_path / "results") as results:
        seen = Counter(
            at
            for _, first, count in results.since("recorded", 0)
            for at in range(first, first + count)
        )
        assert results.strange() == 0
    lost, twice = end - len(seen), sum(count - 1 for count in seen.values())
    assert lost == 0 or semantic is Semantic.AT_MOST_ONCE
    assert twice == 0 or semantic is Semantic.AT_LEAST_ONCE
    assert lost < end // 2


class Answering:
    """Stands for a client: each question is answered by the next of these, the code of an error or
    an offset.
    """

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)

    def committed(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Return the offset that is next, or raise the error."""
        assert timeout > 0
        answer = self.answers.pop(0)
        if answer in ERRORS:
            raise KafkaException(KafkaError(answer))
        return [TopicPartition(asked[0].topic, asked[0].partition, answer)]


ERRORS = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)


def test_a_position_is_asked_for_again_while_the_broker_starts() -> None:
    """A broker that does not know its groups yet is asked again; what no asking changes is raised,
    as is one that never knows.
    """
    starting = Answering(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, 1007)
    assert saved_position(starting, "t", 1).offset == 1007
    assert starting.answers == []
    assert saved_position(Answering(OFFSET_INVALID), "t", 1).offset == OFFSET_BEGINNING
    refusing = Answering(KafkaError.GROUP_AUTHORIZATION_FAILED, 1007)
    with pytest.raises(KafkaException):
        saved_position(refusing, "t", 1)
    assert refusing.answers == [1007]
    with pytest.raises(WaitTimeoutError, match="the broker to know the position in t/1"):
        saved_position(Answering(*[KafkaError.NOT_COORDINATOR] * 1000), "t", 1, within_s=0.1)
