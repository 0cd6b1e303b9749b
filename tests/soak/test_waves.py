"""A soak: planted losses and duplicates are found in the wave of their fault, and a soak that was
ended goes on.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.cli import main
from harness.judge.verdict import Kind, Verdict
from harness.matrix.checking import Check
from harness.matrix.runner import RunBrokenError
from harness.model.cell import Cell
from harness.model.failures import CellFailure, EnvironmentFailure
from harness.model.keep import Keep
from harness.model.semantics import Semantic
from harness.saved import RUN_FILE, RunInfo
from harness.soak import waves
from harness.soak.waves import (
    GROWTH,
    SOAK_FILE,
    WAVES_FILE,
    Soak,
    SoakError,
    Wave,
    as_lines,
    read_waves,
    soak,
    wave_records,
)
from harness.systems.declared.system import DeclaredSystem
from scenarios import plain
from tests.memory.plants import Plant
from tests.memory.system import MemoryDeployed, MemorySystem
from tests.report.hostile import ACK_LOST, ALO, result

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from harness.saved import CellResult

EXAMPLES = Path(__file__).parents[2] / "examples"
FAULTS = (plain.ACK_LOST, plain.COMMIT_LOST, plain.DELIVERY_LOST, plain.PRODUCER_CRASH_BEFORE_SEND)


def left_of_killed(runs: Path, *cells: str) -> Path:
    """Make the folder of a run that was killed before these cells had ended."""
    run = runs / "20260101-000000"
    for name in cells:
        (run / "cells" / name / "history").mkdir(parents=True)
    RunInfo(
        id=run.name,
        started="2026-01-01T00:00:00+00:00",
        seconds=0.0,
        complete=False,
        planned=cells,
        not_applicable=(),
        seeds=(),
        records=24,
        versions={},
        machine={},
        command="lostack soak",
    ).save(run)
    return run


class Heard:
    """Progress that keeps what is said; presses Ctrl-C when so many cells have begun."""

    def __init__(self, most: int = 10**9) -> None:
        self.lines: list[str] = []
        self.began_cells = 0
        self.most = most

    def say(self, text: str) -> None:
        """Keep it."""
        self.lines.append(text)

    def planned(self, cells: Sequence[Cell]) -> None:
        """Ignore it."""

    def began(self, _: Cell, __: Path) -> None:
        """Count it."""
        self.began_cells += 1
        if self.began_cells > self.most:
            os.kill(os.getpid(), signal.SIGINT)

    def ended(self, result: CellResult) -> None:
        """Ignore it."""


def asked(
    folder: Path, *, records: int = 400, per_minute: float = 1e9, seed: int = 1, **plants: Plant
) -> Soak:
    """Ask for a soak of the in-memory system, at least once."""
    cells = tuple(
        Cell(one, Semantic.AT_LEAST_ONCE, "memory", "memory", "process", 0, 24) for one in FAULTS
    )
    return Soak(
        folder, cells, (MemorySystem(plants=plants),), records, per_minute, seed, "lostack soak"
    )


def test_a_soak_that_ends_before_its_first_cell_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lack(*_: object) -> None:
        raise EnvironmentFailure("no Java")

    soak(asked(tmp_path / "begun"), Heard(most=2))
    kept = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(MemorySystem, "prepare", lack)
    for name in ("begun", "fresh"):
        with pytest.raises(EnvironmentFailure, match=r"^no Java$"):
            soak(asked(tmp_path / name), Heard())
    assert sorted(tmp_path.rglob("*")) == kept


def test_what_ends_as_it_should(tmp_path: Path) -> None:
    """All records offered, each wave with its fault and its verdict; predicted duplicates are told;
    no history is kept.
    """
    heard = Heard()
    found = soak(asked(tmp_path), heard)
    assert found.kind is Kind.KEPT
    assert found.records >= 400
    assert found.total("recorded") == found.records
    assert len({wave.scenario for wave in found.waves}) > 1
    for wave in found.waves:
        assert len(wave.duplicated) == (wave.scenario in {"ack-lost", "commit-lost"})
    assert [wave.number for wave in found.waves] == list(range(len(found.waves)))
    assert len({wave.seed for wave in found.waves}) == len(found.waves)
    assert not any(path.is_dir() for path in (tmp_path / "runs").iterdir())
    assert "(100 %)" in [line for line in heard.lines if "records/s" in line][-1]
    assert read_waves(tmp_path / WAVES_FILE) == found.waves


def test_planted_losses_and_duplicates_are_found_in_their_fault(tmp_path: Path) -> None:
    """Two lost by one fault, three duplicated by another: these many, in each of their waves and in
    no other; histories stay.
    """
    plants: dict[str, Any] = {
        "delivery-lost": Plant(lose=2),
        "producer-crash-before-send": Plant(duplicate=3),
    }
    plan = asked(tmp_path, **plants)
    found = soak(plan, Heard())
    seen = {wave.scenario for wave in found.waves}
    assert {"delivery-lost", "producer-crash-before-send"} <= seen
    for wave in found.waves:
        assert len(wave.lost) == wave.counts["lost"] == 2 * (wave.scenario == "delivery-lost")
        planted = {"producer-crash-before-send": 3, "ack-lost": 1, "commit-lost": 1}.get(
            wave.scenario, 0
        )
        assert len(wave.duplicated) == wave.counts["duplicated"] == planted
        assert (wave.verdict == "broken") == (wave.scenario == "delivery-lost")
    assert found.kind is Kind.BROKEN
    told = as_lines(found, plan)
    lossy = next(wave for wave in found.waves if wave.lost)
    assert any(
        line.startswith(f"fault {lossy.number}, delivery-lost") and lossy.lost[0] in line
        for line in told
    )
    assert lossy.saved is not None
    assert (tmp_path / lossy.saved / "history").is_dir()
    assert told[-1] == "BROKEN"


def test_a_fault_that_never_fires_makes_the_whole_void(tmp_path: Path) -> None:
    plants: dict[str, Any] = {"delivery-lost": Plant(disarm=True)}
    found = soak(asked(tmp_path, **plants), Heard())
    assert found.kind is Kind.VOID
    assert {wave.scenario for wave in found.red} == {"delivery-lost"}


def test_it_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    """Ctrl-C within a wave, a line cut by a crash: the waves behind are those that
    would have been.
    """
    whole = soak(asked(tmp_path / "whole"), Heard())
    part = soak(asked(tmp_path / "part"), Heard(most=4))
    assert part.interrupted
    assert 0 < len(part.waves) < len(whole.waves)
    with (tmp_path / "part" / WAVES_FILE).open("a") as opened:
        opened.write('{"number": 9, "cel')
    rest = soak(asked(tmp_path / "part"), Heard())
    assert not rest.interrupted
    assert [(wave.number, wave.scenario, wave.seed) for wave in rest.waves] == [
        (wave.number, wave.scenario, wave.seed) for wave in whole.waves
    ]
    assert rest.waves[: len(part.waves)] == part.waves
    assert "PARTIAL, " in as_lines(part, asked(tmp_path))[-1]


class OwnFirst(MemorySystem):
    """Runs the cells that need a broker of their own before the others, as a declared one does."""

    one_cell = True


@pytest.mark.parametrize("most", [3, 5, 7])
def test_it_goes_on_where_waves_end_in_another_order(tmp_path: Path, most: int) -> None:
    """Every fault is run once, and none is left out."""
    cells = tuple(
        Cell(one, Semantic.AT_LEAST_ONCE, "memory", "memory", "process", 0, 24)
        for one in (*FAULTS, plain.BROKER_CRASH_BEFORE_ACK)
    )
    plan = replace(asked(tmp_path, records=480), cells=cells, systems=(OwnFirst(),))
    part = soak(plan, Heard(most=most))
    assert part.interrupted
    numbers = [wave.number for wave in part.waves]
    assert sorted(numbers) != list(range(len(numbers))), "they ended in order"
    whole = soak(plan, Heard())
    numbers = [wave.number for wave in whole.waves]
    assert sorted(numbers) == list(range(len(numbers)))


@pytest.mark.parametrize("voids", [{0}, {1}, {0, 1, 2}, range(1000)])
def test_a_wave_that_is_void_before_its_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, voids: Collection[int]
) -> None:
    """It has a line like any other, and its records are not offered again."""
    real = MemoryDeployed.cell_run

    def cell_run(deployed: MemoryDeployed, cell: Cell, *more: Any) -> Any:
        if cell.seed - 1_000_000 in voids:
            raise CellFailure("the topic could not be made")
        return real(deployed, cell, *more)

    monkeypatch.setattr(MemoryDeployed, "cell_run", cell_run)
    plan = asked(tmp_path, records=240)
    for _ in range(2):
        found = soak(plan, Heard())
        assert found.kind is Kind.VOID
        assert {wave.number for wave in found.red} == {*voids} & set(range(len(found.waves)))
        assert all(wave.records for wave in found.waves)
        assert found.tried >= 240 > found.records
        assert as_lines(found, plan)[-1].startswith(f"PARTIAL, {found.records} of 240 records: ")


class Lacking(MemorySystem):
    """Lacks what one fault needs."""

    def prepare_for(self, cells: Iterable[Cell], _say: object) -> dict[str, str]:
        """Return what its cells lack."""
        return {cell.id: "Toxiproxy" for cell in cells if cell.scenario is plain.COMMIT_LOST}


@pytest.mark.parametrize("lacks", [[False, True], [True, False], [True, True]])
def test_a_round_that_lacks_something_is_void(tmp_path: Path, lacks: list[bool]) -> None:
    """Also if it has only one wave, or is the first: other faults can be run."""
    plans = (
        replace(asked(tmp_path, records=36, seed=seed), systems=(Lacking(),)) for seed in range(99)
    )
    plan = next(
        each
        for each in plans
        if [each.cell(number, 24).scenario is plain.COMMIT_LOST for number in (0, 1)] == lacks
    )
    found = soak(plan, Heard())
    assert [wave.verdict for wave in found.waves] == ["void" if each else "kept" for each in lacks]
    assert ["Toxiproxy" in wave.reason for wave in found.waves] == lacks
    assert soak(plan, Heard()).waves == found.waves


def test_where_every_fault_lacks_something_nothing_is_run(tmp_path: Path) -> None:
    plan = replace(asked(tmp_path / "soak"), systems=(Lacking(),))
    plan = replace(plan, cells=tuple(c for c in plan.cells if c.scenario is plain.COMMIT_LOST))
    with pytest.raises(EnvironmentFailure, match=r"^Toxiproxy$"):
        soak(plan, Heard())
    assert not (tmp_path / "soak").exists()


def test_a_wave_whose_history_cannot_be_read_is_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a line, its history stays, and it is not run again."""
    monkeypatch.setattr("harness.model.history.MOST_BYTES", 1000)
    for _ in range(2):
        found = soak(asked(tmp_path, records=24), Heard())
        [wave] = found.waves
        assert found.kind is Kind.VOID
        assert "is larger than 1,000 bytes" in wave.reason
        assert wave.saved is not None
        assert (tmp_path / wave.saved / "history").is_dir()
        assert as_lines(found, asked(tmp_path, records=24))[-1].startswith("PARTIAL, 0 of 24")


def test_the_disk_does_not_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed command had left is removed, and of waves that are not green a few stay."""
    monkeypatch.setattr(waves, "MOST_SAVED", 2)
    plants: dict[str, Any] = {"delivery-lost": Plant(lose=2)}
    plan = asked(tmp_path, **plants)
    soak(plan, Heard(most=8))
    left_of_killed(tmp_path / "runs", "green", "half")
    found = soak(plan, Heard())
    assert len(found.red) > 2
    saved = [wave.saved for wave in found.red]
    assert all(saved[:2])
    assert not any(saved[2:])
    there = (tmp_path / "runs").glob("2*/cells/*")
    assert sorted(str(each.relative_to(tmp_path)) for each in there) == sorted(filter(None, saved))


def test_the_log_of_a_broker_that_died_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure names the log; a soak that goes on removes the cells beside it."""
    real = MemoryDeployed.cell_run
    log = Path("deployments", "own-1", "broker.log")

    def cell_run(deployed: MemoryDeployed, cell: Cell, directory: Path, *more: Any) -> Any:
        if cell.seed - 1_000_000 == 4:
            (directory.parents[1] / log).parent.mkdir(parents=True)
            (directory.parents[1] / log).write_text("OutOfMemoryError")
            raise EnvironmentFailure("the broker ended by itself: see its log")
        return real(deployed, cell, directory, *more)

    plan = asked(tmp_path, records=480)
    monkeypatch.setattr(MemoryDeployed, "cell_run", cell_run)
    with pytest.raises(RunBrokenError, match="see its log") as failed:
        soak(plan, Heard())
    monkeypatch.setattr(MemoryDeployed, "cell_run", real)
    soak(plan, Heard())
    assert [each.parents[2] for each in (tmp_path / "runs").rglob(log.name)] == [
        failed.value.directory
    ]
    assert not list((tmp_path / "runs").glob("2*/cells/*"))


def test_what_is_not_of_the_soak_stays(tmp_path: Path) -> None:
    """Somebody's notes, and a run that somebody has copied."""
    plan = asked(tmp_path, records=240)
    soak(plan, Heard(most=5))
    runs = tmp_path / "runs"
    for name in ("notes", "20260101-000001"):
        (runs / name).mkdir()
        (runs / name / "analysis.txt").write_text("hours of work")
    killed = left_of_killed(runs, "half")
    shutil.copytree(killed, runs / "kept")
    before = {each for each in runs.rglob("*") if not each.is_relative_to(killed)}
    soak(plan, Heard())
    assert before <= {*runs.rglob("*")}
    assert not killed.exists()


def test_what_cannot_be_removed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's file belongs to another user: the soak goes on, and its run can be found."""
    real = os.unlink
    owned = True

    def unlink(path: Any, **more: Any) -> None:
        if owned and os.fspath(path).endswith("owned"):
            raise PermissionError(1, "Operation not permitted", path)
        real(path, **more)

    plan = asked(tmp_path, records=240)
    soak(plan, Heard(most=5))
    killed = left_of_killed(tmp_path / "runs", "half", "other")
    (killed / "cells" / "half" / "owned").touch()
    monkeypatch.setattr(os, "unlink", unlink)
    whole = soak(plan, Heard())
    assert whole.kind is Kind.KEPT
    assert [each.name for each in killed.rglob("owned")] == ["owned"]
    assert (killed / RUN_FILE).exists()
    assert not list(killed.rglob("other"))
    owned = False
    assert soak(plan, Heard()).waves == whole.waves
    assert not killed.exists()


def test_everything_stays_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what an interrupted command kept, and all that is red; who forgets the option hears of
    it.
    """
    monkeypatch.setattr(waves, "MOST_SAVED", 1)
    plants: dict[str, Any] = {"delivery-lost": Plant(lose=2)}
    plan = replace(asked(tmp_path, **plants), keep=Keep.ALL)
    soak(plan, Heard(most=6))
    before = set(tmp_path.glob("runs/2*/cells/*"))
    for other in (Keep.BROKEN, Keep.NONE):
        with pytest.raises(SoakError, match=r"was begun with other settings \(keep\)"):
            soak(replace(plan, keep=other), Heard())
    found = soak(plan, Heard())
    after = set(tmp_path.glob("runs/2*/cells/*"))
    assert before < after
    assert {wave.cell for wave in found.waves} <= {
        json.loads((each / "cell.json").read_text())["id"] for each in after
    }
    assert len(found.red) > 1
    assert all(wave.saved for wave in found.red)


@pytest.mark.parametrize(
    "change", [{"counts": {}}, {"counts": None}, {"verdict": "good"}, {"more": 1}]
)
def test_a_line_that_no_soak_writes(tmp_path: Path, change: dict[str, object]) -> None:
    soak(asked(tmp_path, records=30), Heard())
    file = tmp_path / WAVES_FILE
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps(json.loads(first) | change), *rest, ""]))
    with pytest.raises(SoakError, match=r"is damaged: .*; start anew"):
        soak(asked(tmp_path, records=30), Heard())


@pytest.mark.parametrize(
    "words", [("--semantic", "at-most-once"), ("--system", "pulsar"), ("--client", "java")]
)
def test_a_declaration_says_what_is_soaked(
    capsys: pytest.CaptureFixture[str], words: tuple[str, str]
) -> None:
    """An option that says otherwise is refused, and not passed over."""
    assert main(["soak", "pipeline.toml", *words]) == 2
    told = (
        f"lostack: {words[0]} is only for lostack's own pipelines: leave it out; pipeline.toml "
        "itself decides that\n"
    )
    assert capsys.readouterr().err == told


def test_another_soak_does_not_go_on(tmp_path: Path) -> None:
    soak(asked(tmp_path, records=30), Heard())
    with pytest.raises(SoakError, match=r"was begun with other settings \(seed\)"):
        soak(asked(tmp_path, records=30, seed=2), Heard())
    (tmp_path / WAVES_FILE).write_text('{"number": 1}\n')
    with pytest.raises(SoakError, match="is damaged"):
        soak(asked(tmp_path, records=30), Heard())


def test_one_fault_is_one(tmp_path: Path) -> None:
    """In the line while it runs, and in the last ones."""
    heard, plan = Heard(), asked(tmp_path, records=24)
    found = soak(plan, heard)
    assert len(found.waves) == 1
    assert ", 1 fault; " in [line for line in heard.lines if "records/s" in line][-1]
    assert as_lines(found, plan)[-2].startswith("1 fault; 24 offered")


@pytest.mark.parametrize(("kind", "code"), [(Kind.VOID, 4), (Kind.STUCK, 4), (Kind.BROKEN, 1)])
def test_a_dry_run_that_is_not_kept_ends_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: Kind,
    code: int,
) -> None:
    """One line with the reason and what to do; no fault is tried, and what was started is ended."""
    closed: list[DeclaredSystem] = []
    monkeypatch.setattr(
        Check,
        "dry_run",
        lambda *_: result(ACK_LOST, ALO, Verdict(kind, "the consumer never asked for records")),
    )
    monkeypatch.setattr(DeclaredSystem, "close", lambda system: closed.append(system))  # noqa: PLW0108 - bound to it
    file = EXAMPLES / "orders" / "pipeline.toml"
    assert main(["soak", str(file), "--reports", str(tmp_path)]) == code
    told = capsys.readouterr()
    assert told.err == (
        f"lostack: the dry run without a fault is {kind}: the consumer never asked for records; "
        f"lostack check {file} says more\n"
    )
    assert len(closed) == 1
    assert not list(tmp_path.rglob(SOAK_FILE))


def test_a_wrong_name_is_told_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = EXAMPLES / "orders" / "pipeline.toml"
    words = ("--reports", str(tmp_path / "reports"), "--only", "no-such-point")
    assert main(["soak", str(file), *words]) == 2
    assert "there is no failure point no-such-point" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_how_many_records_a_wave_has(tmp_path: Path) -> None:
    """So many that it takes as long as a fault may take; never many times the waves before, never
    more than are left.
    """
    base = Wave(
        0,
        "c",
        "s",
        1,
        24,
        {"offered": 24},
        [],
        [],
        "kept",
        green=True,
        reason="",
        seconds=2.0,
        saved=None,
    )
    plan = asked(tmp_path, records=10**6, per_minute=6)
    assert wave_records([], plan) == 24
    assert wave_records([base], plan) == GROWTH * 24
    more = replace(
        base, records=192, counts={"offered": 192}, seconds=2.84
    )  # 5 ms a record beside 2 s
    assert wave_records([base, more], plan) == 192 * GROWTH
    most = replace(base, records=1536, counts={"offered": 1536}, seconds=9.56)
    assert wave_records([base, more, most], plan) == 24 + 8 * 200
    assert wave_records([base], asked(tmp_path, records=100, per_minute=6)) == 76
    assert json.dumps(plan.asked)


@pytest.mark.parametrize(
    ("words", "pipeline", "system"),
    [
        ("work-queue", "work-queue", "nats"),
        ("one-redis", "one-redis", "redis"),
        ("quorum --semantic at-least-once", "quorum", "rabbitmq"),
        ("streams --system redis", "streams", "redis"),
        ("plain --system redis", "streams", "redis"),
    ],
)
def test_a_pipeline_of_a_package_is_soaked_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, pipeline: str, system: str
) -> None:
    """On its own system; ``plain`` is a name that all of them have."""
    asked: list[Any] = []

    def soak(one: Any, _progress: object) -> Any:
        asked.append(one)
        return SimpleNamespace(kind=Kind.KEPT, interrupted=False)

    monkeypatch.setattr("harness.cli.soak.run_soak", soak)
    monkeypatch.setattr("harness.cli.soak.as_lines", lambda *_: [])
    assert main(["soak", *shlex.split(words), "--reports", str(tmp_path)]) == 0
    [one] = asked
    assert {(cell.pipeline, cell.system) for cell in one.cells} == {(pipeline, system)}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("soak streams", "streams is a pipeline of streams and redis: name one with --system"),
        ("sweep --only one-redis", "one-redis is a pipeline of redis: add --system redis"),
    ],
)
def test_a_pipeline_of_another_system_needs_it(
    capsys: pytest.CaptureFixture[str], words: str, says: str
) -> None:
    assert main(shlex.split(words)) == 2
    assert says in capsys.readouterr().err
