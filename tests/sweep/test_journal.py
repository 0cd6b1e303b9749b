"""The planted pipeline with a bug that one crash does not show: what its programs do, crash by
crash. The broker is made up.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "journal"
BROKER = '''
"""A topic of one partition and one group; its position is a file. It ends its client where $DIES says."""
import collections, json, os, pathlib
SAVED = pathlib.Path(os.environ["SAVED"])
TopicPartition = collections.namedtuple("TopicPartition", "topic partition")
Message = collections.namedtuple("Message", "partition offset value")


def reach(where):
    if os.environ["DIES"] == where:
        os._exit(9)


class KafkaConsumer:
    def __init__(self, *topics, **settings):
        reach("connect")
        self.at = self.committed(None) or 0

    def committed(self, partition):
        if partition is not None:
            reach("committed")
        return int(SAVED.read_text()) if SAVED.exists() else None

    def commit(self):
        reach("commit request")
        SAVED.write_text(str(self.at))
        reach("commit response")

    def __iter__(self):
        while self.at < 3:
            self.at += 1
            yield Message(0, self.at - 1, json.dumps({"order": f"o{self.at}", "customer": "c"}))
'''  # noqa: E501
ONCE = ("connect", "commit request", "commit response")


def recorded(program: str, folder: Path, *crashes: str) -> list[str]:
    """Return what the program has recorded at the end, in lives that end at these places, and one
    that ends by itself.
    """
    (folder / "kafka.py").write_text(BROKER)
    for dies in (*crashes, ""):
        ended = subprocess.run(
            [sys.executable, HERE / program, folder / "orders.db", folder / "journal"],
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": str(folder),
                "SAVED": str(folder / "saved"),
                "DIES": dies,
                "BOOTSTRAP_SERVERS": "",
            },
        )
        assert ended.returncode == (9 if dies else 0)
    with sqlite3.connect(folder / "orders.db") as database:
        return [
            number for (number,) in database.execute("SELECT number FROM orders ORDER BY rowid")
        ]


@pytest.mark.parametrize("program", ["consumer.py", "right.py"])
@pytest.mark.parametrize("dies", ONCE)
def test_one_crash_loses_nothing(program: str, dies: str, tmp_path: Path) -> None:
    assert set(recorded(program, tmp_path, dies)) == {"o1", "o2", "o3"}


@pytest.mark.parametrize("second", ["connect", "committed"])
def test_a_crash_of_the_recovery_loses_what_was_in_the_journal(second: str, tmp_path: Path) -> None:
    for program, lost in (("consumer.py", {"o1"}), ("right.py", set[str]())):
        folder = tmp_path / program
        folder.mkdir()
        assert {"o1", "o2", "o3"} - set(
            recorded(program, folder, "commit response", second)
        ) == lost
        before = tmp_path / f"before-{program}"
        before.mkdir()
        assert set(recorded(program, before, "commit request", second)) == {"o1", "o2", "o3"}


def test_the_twins_differ_in_nothing_but_the_mistake() -> None:
    declared = [
        tomllib.loads((HERE / name).read_text()) for name in ("pipeline.toml", "right.toml")
    ]
    assert [each["stage"][1].pop("command").split()[1] for each in declared] == [
        "consumer.py",
        "right.py",
    ]
    assert declared[0] | {"name": "journal-right"} == declared[1]
    said = [
        (HERE / name).read_text().split('"""', 2)[2].splitlines()
        for name in ("consumer.py", "right.py")
    ]
    assert len(said[0]) == len(said[1])
    rest = [[line for line in lines if "journal.unlink(" not in line] for lines in said]
    assert rest[0] == rest[1]
