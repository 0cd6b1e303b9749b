"""`lostack audit` as it is typed: exit codes, output, one line for every mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.audit.spec import Rows, SpecError, parse
from harness.cli import main

GOLDEN = Path(__file__).parents[1] / "judge" / "golden"


@pytest.fixture
def arrived(tmp_path: Path) -> str:
    """Write ids 1 to 9 but for 5, and 3 twice."""
    pq.write_table(pa.table({"id": [1, 2, 3, 3, 4, 6, 7, 8, 9]}), tmp_path / "a.parquet")
    return f"parquet:{tmp_path}/a.parquet"


def test_the_password_of_a_table_need_not_stand_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes from an environment variable, or from a file; what cannot be had is told."""
    spec = "jdbc:postgresql://h/db#table=t&user=me&password_from="
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    monkeypatch.chdir(tmp_path)
    Path("secret").write_text("hunter3\n", encoding="utf-8")
    for place, password in (("SHOP_PASSWORD", "hunter2"), ("./secret", "hunter3")):
        side = parse(spec + place)
        assert isinstance(side, Rows)
        assert side.more == {"user": "me", "password": password}
        assert password not in side.text
    for wrong, says in (
        ("UNSET_VARIABLE", "is not set"),
        ("./none", "cannot read"),
        ("hunter-2", "never the password itself"),
        ("SHOP_PASSWORD&password=x", "not both"),
    ):
        with pytest.raises(SpecError, match=says) as caught:
            parse(spec + wrong)
        assert "hunter" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (
            "range:1-9 --semantic at-least-once",
            1,
            "BROKEN  at-least-once: at-least-once forbids what was found: 1 lost",
        ),
        (
            "range:1-9 --semantic at-most-once",
            1,
            "BROKEN  at-most-once: at-most-once forbids what was found: 1 duplicated",
        ),
        (
            "range:1-4,6-9 --semantic at-least-once",
            0,
            "KEPT  at-least-once: 8 of 8 arrived; permitted: 1 duplicated",
        ),
        ("range:1-9", 0, "lost        1: 5\n"),
    ],
)
def test_the_exit_code_is_the_verdict(
    capsys: pytest.CaptureFixture[str], arrived: str, words: str, code: int, says: str
) -> None:
    """0 kept, 1 broken, and 0 where nobody asked for a verdict."""
    assert main(["audit", "--arrived", arrived, "--offered", *words.split()]) == code
    assert says in capsys.readouterr().out


def test_nothing_offered_is_void(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "n.parquet")
    none = f"parquet:{tmp_path}/n.parquet"
    assert main(["audit", "--offered", none, "--arrived", none, "--semantic", "exactly-once"]) == 4
    assert "VOID  exactly-once: nothing was offered" in capsys.readouterr().out


def test_as_json(capsys: pytest.CaptureFixture[str], arrived: str) -> None:
    assert (
        main(
            [
                "audit",
                "--offered",
                "range:1-9",
                "--arrived",
                arrived,
                "--semantic",
                "exactly-once",
                "--json",
            ]
        )
        == 1
    )
    told = json.loads(capsys.readouterr().out)
    assert told["lost_ranges"] == [{"key": "", "first": 5, "last": 5}]
    assert (told["offered"], told["arrived"], told["duplicated"], told["reordered"]) == (
        9,
        8,
        1,
        None,
    )
    assert told["verdict"]["kind"] == "broken"
    assert told["sides"]["offered"] == "range:1-9"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--offered", "range:9-1", "--arrived", "parquet:/x"], 2, "must go upwards"),
        (["--offered", "range:1-9", "--arrived", "range:1-9"], 2, "cannot be a range"),
        (["--offered", "range:1-9", "--arrived", "parquet:/nowhere/at/all"], 3, "No such file"),
        (
            ["--offered", "range:1-9", "--arrived", "parquet:/x", "--semantic", "at-last-once"],
            2,
            "at-least-once",
        ),
        (
            ["--offered", "range:1-9", "--arrived", "parquet:/x", "--engine", "magic"],
            2,
            "no engine named",
        ),
        (
            ["--offered", "range:1-9", "--arrived", "jdbc:oracle:thin#table=t"],
            3,
            "no JDBC driver for 'oracle'",
        ),
        (
            [
                "--offered",
                "range:1-9",
                "--arrived",
                "jdbc:oracle:thin#table=t",
                "--jars",
                "/no.jar",
            ],
            3,
            "does not exist",
        ),
        (
            ["--offered", "range:1-9", "--arrived", "kafka:h:1/t", "--engine", "here"],
            3,
            "--engine spark",
        ),
    ],
)
def test_a_mistake_is_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, says: str
) -> None:
    assert main(["audit", *words]) == code
    told = capsys.readouterr()
    assert says in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_the_accounts_of_many_cells() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "harness.cli",
            "account",
            str(GOLDEN),
            "--master",
            "local[2]",
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    rows = {Path(row["cell"]).name: row for row in json.loads(done.stdout)}
    assert rows.keys() == {path.name for path in GOLDEN.iterdir() if (path / "history").exists()}
    assert rows["broken-ack"]["lost"] == 1
    assert rows["void-damaged"]["damaged_lines"] > 0
