"""The runner under trouble: whatever breaks, what is saved says so, and nothing is called kept that
was not seen through.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.latest import LATEST, MARK
from harness.matrix import lanes
from harness.matrix.runner import RunBrokenError, run
from harness.model.failures import EnvironmentFailure
from harness.model.history import HISTORY
from harness.model.scenario import Deployment
from harness.model.semantics import Semantic
from harness.model.waiting import wait_until
from harness.saved import CELLS, RunInfo, load_run
from scenarios.plain import BROKER_CRASH_BEFORE_ACK
from tests.matrix.troubled import (
    OF_A_CELL,
    OF_A_RUN,
    TroubledSystem,
    Watched,
    named,
    only_run,
    plan_for,
    run_troubled,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.interfaces import Deployed
    from harness.model.cell import Cell
    from harness.saved import CellResult, SavedRun

WITHIN_S = 30.0


@pytest.fixture(autouse=True)
def nothing_runs_on() -> Iterator[None]:
    """However a run ends, it leaves no thread behind."""
    before = set(threading.enumerate())
    yield
    wait_until(
        lambda: set(threading.enumerate()) <= before,
        within_s=WITHIN_S,
        because="the threads of the run to end",
    )


def verdicts(saved: SavedRun) -> dict[str, Kind]:
    """Return the verdict of each cell that ran, by scenario."""
    return {result.plan.scenario: result.verdict.kind for result in saved.results}


# --- Ctrl-C ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", OF_A_CELL[1:-1])
def test_an_interrupted_run_is_partial_and_names_what_never_began(
    tmp_path: Path, step: str
) -> None:
    """Ctrl-C within a cell: those before are judged, this one is void, those after are named as
    missing.
    """
    cells = named(5)

    def interrupt(at: str, scenario: str) -> None:
        if (at, scenario) == (step, "cell-3"):
            os.kill(os.getpid(), signal.SIGINT)
            wait_until(lambda: None, within_s=WITHIN_S, because="the interrupt")

    saved = run_troubled(cells, tmp_path, interrupt)
    assert verdicts(saved) == {"cell-1": Kind.KEPT, "cell-2": Kind.KEPT, "cell-3": Kind.VOID}
    assert saved.results[-1].verdict.reason == "the run failed: the run was interrupted"
    assert saved.missing == tuple(cell.id for cell in cells[3:])
    assert (saved.info.complete, saved.info.interrupted, saved.whole) == (False, True, False)
    assert [result.ended for result in saved.results] == [True, True, False]
    assert (tmp_path / LATEST).resolve() == saved.directory
    again = load_run(saved.directory)
    assert (again.info, again.missing) == (saved.info, saved.missing)
    assert verdicts(again) == verdicts(saved)


def test_ctrl_c_while_setting_up_leaves_an_empty_partial_run(tmp_path: Path) -> None:
    """Nothing has begun: the saved run says that it is not complete, and every planned cell is
    missing.
    """

    def interrupt(at: str, scenario: str) -> None:
        if at == "set-up":
            raise KeyboardInterrupt

    saved = run_troubled(named(2), tmp_path, interrupt)
    assert (saved.results, len(saved.missing), saved.whole) == ((), 2, False)


def test_a_second_ctrl_c_waits_for_nobody(tmp_path: Path) -> None:
    """Where a cell takes its time to close, Ctrl-C again gets out at once; what is saved is not
    complete.
    """
    out = threading.Event()

    def interrupt(at: str, scenario: str) -> None:
        if at == "inject":
            os.kill(os.getpid(), signal.SIGINT)
            wait_until(lambda: None, within_s=WITHIN_S, because="the interrupt")
        if at == "close":
            os.kill(os.getpid(), signal.SIGINT)
            out.wait(WITHIN_S)

    try:
        with pytest.raises(KeyboardInterrupt):
            run_troubled(named(2), tmp_path, interrupt)
    finally:
        out.set()
    info = RunInfo.load(only_run(tmp_path))
    assert (info.complete, info.interrupted) == (False, True)


SECOND_CTRL_C = """
import os, signal, sys, threading
from pathlib import Path
from tests.matrix.troubled import named, run_troubled
from harness.model.waiting import wait_until

def interrupt(at, scenario):
    if at in ("inject", "close"):
        os.kill(os.getpid(), signal.SIGINT)
    if at == "inject":
        wait_until(lambda: None, within_s=60, because="the interrupt")
    if at == "close":
        threading.Event().wait(600)

try:
    run_troubled(named(2), Path(sys.argv[1]), interrupt)
except KeyboardInterrupt:
    print("out")
"""


def test_a_second_ctrl_c_ends_the_process_too(tmp_path: Path) -> None:
    """The interpreter does not wait for the cells under way either, once the run is given up."""
    ran = subprocess.run(
        [sys.executable, "-c", SECOND_CTRL_C, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.stdout, ran.returncode) == ("out\n", 0), ran.stderr


# --- a cell that fails ----------------------------------------------------------------------------


@pytest.mark.parametrize("step", OF_A_CELL)
def test_a_cell_that_fails_is_void_and_the_others_go_on(tmp_path: Path, step: str) -> None:
    """An exception in any step of a cell is its reason to be void; the run goes on and is whole."""

    def fail(at: str, scenario: str) -> None:
        if (at, scenario) == (step, "cell-2"):
            raise LookupError(f"no luck at {at}")

    saved = run_troubled(named(4), tmp_path, fail, jobs=2)
    assert verdicts(saved) == {
        "cell-1": Kind.KEPT,
        "cell-2": Kind.VOID,
        "cell-3": Kind.KEPT,
        "cell-4": Kind.KEPT,
    }
    assert (
        saved.results[1].verdict.reason
        == f"the run failed: LookupError: no luck at {step} (its traceback: traceback.txt)"
    )
    assert (saved.whole, saved.missing) == (True, ())


def test_the_first_failure_of_a_cell_is_the_one_that_is_told(tmp_path: Path) -> None:
    """A step that fails, and then the closing too: the reason is the step's."""

    def fail(at: str, scenario: str) -> None:
        if at in ("drain", "close"):
            raise LookupError(f"no luck at {at}")

    (result,) = run_troubled(named(1), tmp_path, fail).results
    assert (
        result.verdict.reason
        == "the run failed: LookupError: no luck at drain (its traceback: traceback.txt)"
    )


@pytest.mark.parametrize("odd", ["a link", "a FIFO"])
def test_a_history_that_cannot_be_read_voids_its_cell_alone(tmp_path: Path, odd: str) -> None:
    def leave(step: str, scenario: str) -> None:
        if (step, scenario) == ("drain", "cell-2"):
            [cell] = (only_run(tmp_path) / CELLS).glob("*.cell-2.*")
            left = cell / HISTORY / "more.jsonl"
            left.symlink_to("/dev/null") if odd == "a link" else os.mkfifo(left)

    saved = run_troubled(named(3), tmp_path, leave)
    assert verdicts(saved) == {"cell-1": Kind.KEPT, "cell-2": Kind.VOID, "cell-3": Kind.KEPT}
    assert saved.whole


# --- what every cell stands on --------------------------------------------------------------------


def broker_cells() -> tuple[Cell, ...]:
    """Return cells of both kinds of deployment."""
    own = named(3, BROKER_CRASH_BEFORE_ACK)
    return (
        *named(3),
        *(
            replace(
                cell, scenario=replace(cell.scenario, id=f"own-{cell.scenario.id}", together="")
            )
            for cell in own
        ),
    )


@pytest.mark.parametrize("step", [*OF_A_RUN, "drain", "close"])
def test_broken_ground_ends_the_run_with_its_one_line(tmp_path: Path, step: str) -> None:
    """EnvironmentFailure, wherever it is raised, ends the run and is raised by it as it is; the run
    is not complete.
    """

    def fail(at: str, scenario: str) -> None:
        if at == step:
            raise EnvironmentFailure(f"the guardian has died at {at}")

    with pytest.raises(EnvironmentFailure, match=f"^the guardian has died at {step}$"):
        run_troubled(broker_cells(), tmp_path, fail)
    if step in OF_A_RUN:  # of "check" cells may have begun
        return
    saved = load_run(only_run(tmp_path))
    assert not saved.whole
    assert f"the run failed: the guardian has died at {step}" in {
        result.verdict.reason for result in saved.results
    }


@pytest.mark.parametrize("error", [EnvironmentFailure, RuntimeError])
@pytest.mark.parametrize("step", ["set-up", "deploy"])
def test_a_run_that_ends_before_its_first_cell_leaves_nothing(
    tmp_path: Path, step: str, error: type[Exception]
) -> None:
    """Where Java cannot be had, say: no folder of that run, and ``latest`` is what it was."""

    def fail(at: str, scenario: str) -> None:
        if at == step:
            raise error("no Java")

    before = run_troubled(named(1), tmp_path).directory
    with pytest.raises(error, match=r"^no Java$"):
        run_troubled(broker_cells(), tmp_path, fail)
    assert only_run(tmp_path) == before
    assert (tmp_path / LATEST).resolve() == before


def test_the_logs_of_a_broker_that_did_not_start_stay(tmp_path: Path) -> None:
    """They say why; ``latest`` does not point to a run without a cell."""

    class Unstartable(TroubledSystem):
        def deploy(self, need: Deployment, directory: Path) -> Deployed:  # type: ignore[override]
            directory.mkdir(parents=True)
            (directory / "broker.log").write_text(f"why there is no {need} one")
            raise EnvironmentFailure(f"the broker did not start: see {directory}")

    plan = plan_for(named(1), tmp_path)
    with pytest.raises(EnvironmentFailure, match="did not start"):
        run(replace(plan, systems=(Unstartable(lambda _step, _scenario: None),)), Watched())
    assert [log.name for log in only_run(tmp_path).rglob("*.log")] == ["broker.log"]
    assert not (tmp_path / LATEST).exists()


def test_a_broker_that_did_not_come_back_is_nobody_elses_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "OWN_LANES", 1)
    deployed: list[str] = []

    def fail(at: str, scenario: str) -> None:
        if at == "deploy":
            deployed.append(scenario)
        if (at, scenario) == ("inject", "own-cell-1"):
            raise RuntimeError("the broker did not come back")

    own = tuple(cell for cell in broker_cells() if cell.scenario.deployment is Deployment.OWN)
    saved = run_troubled(own, tmp_path, fail)
    assert verdicts(saved) == {
        "own-cell-1": Kind.VOID,
        "own-cell-2": Kind.KEPT,
        "own-cell-3": Kind.KEPT,
    }
    assert len(deployed) == 2
    assert saved.whole


@pytest.mark.parametrize(("jobs", "brokers"), [(1, 1), (2, 2), (8, 2)])
def test_who_runs_one_cell_at_a_time_starts_one_broker_of_their_own_at_a_time(
    tmp_path: Path, jobs: int, brokers: int
) -> None:
    """Cells that kill their broker take turns on as many as there are jobs, and on two at most."""
    deployed: list[str] = []

    def note(at: str, scenario: str) -> None:
        if at == "deploy":
            deployed.append(scenario)

    own = tuple(cell for cell in broker_cells() if cell.scenario.deployment is Deployment.OWN)
    run_troubled(own, tmp_path, note, jobs)
    assert len(deployed) == brokers


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_where_a_deployment_takes_one_cell_as_many_are_up_as_cells_are_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """Whether they may kill their broker or not: as many cells at once as were asked for, never two
    on one deployment.
    """
    monkeypatch.setattr(TroubledSystem, "one_cell", True, raising=False)
    together, lock = threading.Barrier(jobs), threading.Lock()
    under_way: dict[str, int] = {}
    most: list[int] = []

    def note(at: str, _: str) -> None:
        lane = threading.current_thread()
        if at == "prepare":
            with lock:
                under_way[str(lane.ident)] = under_way.get(str(lane.ident), 0) + 1
                most.append(len(under_way))
                assert set(under_way.values()) == {1}
            if len(most) <= jobs:
                together.wait(WITHIN_S)
        if at == "close":
            with lock:
                del under_way[str(lane.ident)]

    saved = run_troubled(broker_cells(), tmp_path, note, jobs)
    assert set(verdicts(saved).values()) == {Kind.KEPT}
    assert max(most) == jobs
    deployed = [name for name in saved.info.phases if name.startswith("deploy-")]
    assert len(deployed) == len(set(deployed))
    assert jobs <= len(deployed) <= 2 * jobs


def test_lanes_of_one_cell_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TroubledSystem, "one_cell", True, raising=False)
    folders: list[Path] = []
    deploy = TroubledSystem.deploy

    def deployed(system: TroubledSystem, need: Deployment, at: Path) -> object:
        folders.append(at)
        return deploy(system, need, at)

    monkeypatch.setattr(TroubledSystem, "deploy", deployed)
    run_troubled(broker_cells(), tmp_path, jobs=3)
    assert len(folders) == len(set(folders)) >= 3


def test_no_broker_is_started_for_the_last_cell_that_kills_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TroubledSystem, "one_cell", True, raising=False)
    begun: list[Deployment] = []
    over = threading.Semaphore(0)
    deploy = TroubledSystem.deploy

    def slowly(system: TroubledSystem, need: Deployment, at: Path) -> object:
        begun.append(need)
        if need is Deployment.OWN:
            for _ in range(3):
                over.acquire(timeout=WITHIN_S)
            threading.Event().wait(0.3)
        return deploy(system, need, at)

    monkeypatch.setattr(TroubledSystem, "deploy", slowly)
    saved = run_troubled(
        broker_cells()[:4],
        tmp_path,
        lambda at, _: over.release() if at == "close" else None,
        jobs=3,
    )
    assert set(verdicts(saved).values()) == {Kind.KEPT}
    assert begun.count(Deployment.OWN) == 1


def test_a_launcher_may_want_fewer_deployments_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its own may be more than one program."""
    deployed: list[str] = []

    def note(at: str, _: str) -> None:
        if at == "deploy":
            deployed.append(at)

    monkeypatch.setattr(TroubledSystem, "own_at_once", 1, raising=False)
    run_troubled(
        tuple(cell for cell in broker_cells() if cell.scenario.deployment is Deployment.OWN),
        tmp_path,
        note,
        8,
    )
    assert len(deployed) == 1


def test_what_was_judged_before_the_ground_broke_can_be_reported(tmp_path: Path) -> None:
    def fail(at: str, scenario: str) -> None:
        if (at, scenario) == ("prepare", "cell-2"):
            raise EnvironmentFailure("the guardian has died")

    with pytest.raises(RunBrokenError, match=r"^the guardian has died$") as caught:
        run_troubled(named(3), tmp_path, fail)
    saved = load_run(caught.value.directory)
    assert (verdicts(saved)["cell-1"], saved.whole) == (Kind.KEPT, False)


def test_ground_that_breaks_ends_the_waits_of_the_cells_on_it(tmp_path: Path) -> None:
    """A guardian that dies while a cell waits: the wait ends at once, and the cell is void."""
    waiting = threading.Event()

    def fail(at: str, scenario: str) -> None:
        if at == "drain":
            waiting.set()
            wait_until(lambda: None, within_s=10 * WITHIN_S, because="what will never be")
        if at == "check" and waiting.is_set():
            raise EnvironmentFailure("the guardian has died")

    with pytest.raises(EnvironmentFailure, match=r"^the guardian has died$"):
        run_troubled(named(2), tmp_path, fail)
    assert verdicts(load_run(only_run(tmp_path))) == {"cell-1": Kind.VOID}


def test_nobody_to_work_is_no_complete_run(tmp_path: Path) -> None:
    saved = run_troubled(named(2), tmp_path, jobs=0)
    assert (saved.info.complete, len(saved.missing)) == (False, 2)


def test_progress_that_fails_ends_the_run(tmp_path: Path) -> None:
    """Where nobody reads the progress any more, the run ends with that error and is
    not complete.
    """

    class Unread(Watched):
        def ended(self, result: CellResult) -> None:
            raise BrokenPipeError(result.plan.id)

    with pytest.raises(BrokenPipeError):
        run(plan_for(named(3), tmp_path), Unread())
    info = RunInfo.load(only_run(tmp_path))
    assert (info.complete, info.interrupted) == (False, False)


def test_progress_is_told_everything_once(tmp_path: Path) -> None:
    """Every cell is planned, begins and ends exactly once, on every kind of deployment; results
    come in planned order.
    """
    cells, watched = broker_cells(), Watched()
    saved = run(plan_for(cells, tmp_path, jobs=3), watched)
    ids = [cell.id for cell in cells]
    assert watched.cells == ids
    assert sorted(watched.begun) == sorted(ids)
    assert sorted(result.plan.id for result in watched.results) == sorted(ids)
    assert [result.plan.id for result in saved.results] == ids


# --- where it is written --------------------------------------------------------------------------


def test_two_runs_at_once_get_two_folders(tmp_path: Path) -> None:
    """Runs that begin at the same instant in one reports folder, itself not there yet, never share
    a file.
    """
    together = threading.Barrier(4)
    saved: list[SavedRun] = []

    def begin() -> None:
        together.wait(WITHIN_S)
        saved.append(run_troubled(named(1), tmp_path / "not" / "there"))

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)
    beside = {LATEST, MARK}
    runs = [path for path in (tmp_path / "not" / "there").iterdir() if path.name not in beside]
    assert len({one.directory for one in saved}) == len(runs) == 4
    assert all(one.whole and verdicts(one) == {"cell-1": Kind.KEPT} for one in saved)


@pytest.mark.parametrize("way", ["file", "below-a-file", "dangling-link", "read-only"])
def test_a_reports_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """EnvironmentFailure says which folder, why, and what to do, before anything has begun."""
    reports = tmp_path / "reports"
    if way == "file":
        reports.write_text("")
    elif way == "below-a-file":
        reports.write_text("")
        reports /= "deeper"
    elif way == "dangling-link":
        reports.symlink_to(tmp_path / "nowhere" / "deeper")
    else:

        def refuse(path: Path, *_: object, **__: object) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

        monkeypatch.setattr(Path, "mkdir", refuse)
    begun: list[str] = []
    with pytest.raises(EnvironmentFailure) as caught:
        run_troubled(named(1), reports, lambda step, _: begun.append(step))
    said = str(caught.value)
    assert said.startswith(f"cannot write reports to {reports}: ")
    assert said.endswith("; choose another folder with --reports")
    assert "\n" not in said
    assert not begun


@pytest.mark.parametrize(("file", "begins"), [("run.json", False), ("cell.json", True)])
def test_a_plan_that_cannot_be_written_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, begins: bool
) -> None:
    """A full disk under run.json or cell.json is EnvironmentFailure with one line, and no cell is
    judged.
    """
    replace_by = os.replace

    def full(part: str, name: str, **more: int) -> None:
        if file in str(name):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        replace_by(part, name, **more)

    monkeypatch.setattr(os, "replace", full)
    begun: list[str] = []
    with pytest.raises(
        EnvironmentFailure,
        match=r"^cannot write reports to .*: No space left on device; choose another folder",
    ):
        run_troubled(named(2), tmp_path, lambda step, _: begun.append(step))
    assert (begun != []) is begins
    assert "cell_run" not in begun


def test_a_cell_planned_twice_is_refused(tmp_path: Path) -> None:
    """Two cells of one name would write into one history: the run does not begin, and leaves no
    folder.
    """
    with pytest.raises(ValueError, match=r"cell-1.* is planned twice"):
        run_troubled((*named(2), *named(1)), tmp_path)
    assert not list(tmp_path.iterdir())
    other = replace(named(1)[0], semantic=Semantic.EXACTLY_ONCE)
    assert run_troubled((*named(1), other), tmp_path).whole


RUN_WITH_LITTLE_ROOM = """
import json, resource, sys
from pathlib import Path
from harness.model.history import HistoryError
from harness.model.failures import EnvironmentFailure
from tests.matrix.troubled import named, run_troubled

hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for limit in map(int, sys.argv[2:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        run_troubled(named(2), Path(sys.argv[1]) / str(limit))
        print(json.dumps(["whole", ""]))
    except (HistoryError, EnvironmentFailure) as error:
        print(json.dumps([type(error).__name__, str(error)]))
"""


@pytest.fixture(scope="module")
def little_room(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, list[str]]:
    """Return how runs ended that had room for files of so many bytes: by their reports folder."""
    limits = [100, 1500, *range(4000, 21_000, 2000), 1_000_000]
    reports = tmp_path_factory.mktemp("room")
    here = os.pathsep.join(sys.path)
    ran = subprocess.run(
        [sys.executable, "-c", RUN_WITH_LITTLE_ROOM, str(reports), *map(str, limits)],
        capture_output=True,
        text=True,
        timeout=10 * WITHIN_S,
        check=True,
        # Python would leave half a compiled file of a module that is imported with little room
        env={**os.environ, "PYTHONPATH": here, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    return {
        reports / str(limit): json.loads(line)
        for limit, line in zip(limits, ran.stdout.splitlines(), strict=True)
    }


def test_a_disk_that_fills_up_is_one_clear_line(little_room: dict[Path, list[str]]) -> None:
    """Wherever a file stops growing, the run ends with one line that names it; only with room for
    all is it whole.
    """
    *short, room = little_room.values()
    assert room == ["whole", ""]
    assert {kind for kind, _ in short} == {"HistoryError", "EnvironmentFailure"}
    for kind, said in short:
        assert said.startswith(
            "cannot write the history " if kind == "HistoryError" else "cannot write reports to "
        )
        assert "\n" not in said


def test_what_a_full_disk_leaves_is_half_judged_by_nobody(
    little_room: dict[Path, list[str]],
) -> None:
    """The saved run is not complete; its cell is void when judged again: what was not written down
    is neither lost nor kept.
    """
    for reports, (kind, _) in little_room.items():
        if kind == "HistoryError":
            saved = load_run(only_run(reports))
            assert not saved.whole
            assert verdicts(saved) == {"cell-1": Kind.VOID}, reports


# --- once more ------------------------------------------------------------------------------------


def test_what_is_not_enough_is_run_once_more(tmp_path: Path) -> None:
    """The second time counts; the first is put aside, and nothing is made of it."""
    cells, ran, asked = named(3), list[str](), list[None]()

    def note(at: str, scenario: str) -> None:
        if at == "prepare":
            ran.append(scenario)

    def again() -> set[str]:
        asked.append(None)
        return {cells[1].id}

    watched = Watched()
    saved = run(replace(plan_for(cells, tmp_path, note), again=again), watched)
    assert sorted(ran) == ["cell-1", "cell-2", "cell-2", "cell-3"]
    assert len(asked) == 1
    assert verdicts(saved) == dict.fromkeys(("cell-1", "cell-2", "cell-3"), Kind.KEPT)
    assert saved.whole
    assert [folder.name for folder in (saved.directory / "aside").iterdir()] == [cells[1].slug]
    assert verdicts(load_run(saved.directory)) == verdicts(saved)
