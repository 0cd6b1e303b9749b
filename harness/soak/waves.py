"""A soak in waves: each wave has its own records and one fault at a random exact point, until all
records were offered.

Each wave is a cell with topics and groups of its own, on one broker that stays up. It is judged
when it ends. So every loss and duplicate belongs to the fault of its wave, and memory never holds
more than one wave. Each wave appends one line to ``soak.jsonl``; an interrupted soak continues
with those that have no line. The histories of green waves are removed, and of the others the
first :data:`MOST_SAVED` stay.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import statistics
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from harness.judge.verdict import WORST, Kind
from harness.latest import LATEST, MARK
from harness.matrix.alone import LOCK
from harness.matrix.keeping import REMOVED, clean, forget_unbegun, remove_from
from harness.matrix.progress import Listening
from harness.matrix.runner import RunPlan, run
from harness.model import safe_files
from harness.model.cell import DEFAULT_RECORDS, LEAST_RECORDS, MOST_RECORDS
from harness.model.code import code_of, digest_of
from harness.model.failures import EnvironmentFailure, UsageError
from harness.model.keep import Keep
from harness.pipelines.cells import DeclaredCell
from harness.pipelines.connectors import LAUNCHER
from harness.report.summary import counted
from harness.saved import CELLS, RUN_FILE, RunInfo, SavedRunError
from harness.systems.listing import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from harness.interfaces import Launcher
    from harness.matrix.listener import Progress
    from harness.model.cell import Cell
    from harness.saved import CellResult

SOAK_FILE: Final = "soak.json"
CODE: Final = "lostack"
"""The field of the settings that names the code with which it was begun."""
DECLARATION: Final = "declaration"
"""The field of the settings that has a digest of the pipeline's declaration."""
WAVES_FILE: Final = "soak.jsonl"
RUNS: Final = "runs"
FAULTS: Final = "faults"
LEGS: Final = "legs"
FOLDERS: Final = (RUNS, FAULTS, LEGS)
"""The folders of a soak: those of its runs if it is one of waves; of its faults and legs if it is a
stream.
"""
ROUND: Final = 10
"""How many waves are run before the number of records per wave is computed anew."""
GROWTH: Final = 8
"""A wave has at most this many times the records of the waves before it."""
MOST_SAVED: Final = 100
"""Of so many cells that are not green everything stays; of later ones their line does."""
SHOWN_IDS: Final = 200
NAMED: Final = 10
"""How many ids a line for a terminal names."""
COUNTED: Final = ("offered", "recorded", "lost", "duplicated", "phantom", "resurrected", "torn")


class HasSaved(Protocol):
    """A line of a cell that has ended."""

    @property
    def saved(self) -> str | None:
        """The folder of its history, if that stays."""


class SoakError(UsageError):
    """A soak cannot start or continue as asked; the message is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Wave:
    """The result of one fault: cell, counts, lost and duplicated records (the first SHOWN_IDS of
    each), verdict.
    """

    number: int
    cell: str
    scenario: str
    seed: int
    records: int
    """How many records it offered; if none, how many it was to offer."""
    counts: dict[str, int]
    lost: list[str]
    duplicated: list[str]
    verdict: str
    green: bool
    reason: str
    seconds: float
    saved: str | None
    """The folder of the wave's history, if that stays."""


@dataclass(frozen=True)
class Soak:
    """What a soak runs, and the folder in which it is saved.

    ``cells``: one for each fault that may be drawn; each wave sets its own seed and number of
    records.
    """

    folder: Path
    cells: tuple[Cell, ...]
    systems: tuple[Launcher, ...]
    records: int
    faults_per_minute: float
    seed: int
    command: str
    keep: Keep = Keep.BROKEN
    """Of which waves everything stays; of green ones nothing stays, unless it is of all."""

    def cell(self, number: int, records: int) -> Cell:
        """Return the cell of a wave. The number decides the fault, and (by the cell's seed) the
        record that the fault hits.
        """
        drawn = random.Random(f"{self.seed}/{number}").choice(self.cells)
        return replace(drawn, seed=self.seed * 1_000_000 + number, records=records)

    @property
    def asked(self) -> dict[str, object]:
        """The settings that must be the same when the soak continues."""
        files = {each.declared.file for each in self.cells if isinstance(each, DeclaredCell)}
        return {
            "faults": sorted(cell.id.rpartition("/")[0] for cell in self.cells),
            "seed": self.seed,
            "faults_per_minute": self.faults_per_minute,
            "keep": str(self.keep),
            DECLARATION: digest_of(*map(Path, filter(None, files))),
        }


@dataclass
class Soaked:
    """The results of a soak so far."""

    waves: list[Wave] = field(default_factory=list)
    interrupted: bool = False

    @property
    def records(self) -> int:
        """Records offered so far."""
        return sum(wave.counts["offered"] for wave in self.waves)

    @property
    def tried(self) -> int:
        """Records of all waves so far, also of those that were void before they offered any."""
        return sum(wave.records for wave in self.waves)

    @property
    def kind(self) -> Kind:
        """The verdict on the whole: the worst of all waves, or void if there is no wave."""
        seen = {Kind(wave.verdict) for wave in self.waves}
        return next((kind for kind in WORST if kind in seen), Kind.VOID)

    @property
    def red(self) -> list[Wave]:
        """The waves that are not green."""
        return [wave for wave in self.waves if not wave.green]

    def total(self, name: str) -> int:
        """Return a count over all waves."""
        return sum(wave.counts[name] for wave in self.waves)


def soak(asked: Soak, progress: Progress, *, clock: Callable[[], float] = time.monotonic) -> Soaked:
    """Run waves until all records were tried, or until Ctrl-C. A soak in the folder is continued.
    Who calls this keeps other commands out of the folder.

    Raises:
        SoakError: the folder has a soak with other settings, or a run ended before all its waves.
        Exception: whatever :func:`harness.matrix.runner.run` raises.
    """
    again = begun(asked.folder, asked.asked, modules=modules_of(asked.systems, asked.cells))
    found = Soaked(read_waves(asked.folder / WAVES_FILE) if again else [])
    if again and asked.keep is not Keep.ALL:
        tidy(asked.folder, found.waves)
    try:
        _go_on(asked, found, progress, clock)
    except EnvironmentFailure:
        if not again:
            forget_unbegun(asked.folder, SOAK_FILE, MARK, LOCK)
        raise
    return found


def _go_on(asked: Soak, found: Soaked, progress: Progress, clock: Callable[[], float]) -> None:
    """Run waves until all records were tried, or until Ctrl-C.

    Waves of a round may end in any order. So a soak that is continued may lack any of the numbers,
    and those come next.
    """
    since, before = clock(), found.records
    while found.tried < asked.records and not found.interrupted:
        records = wave_records(found.waves, asked)
        left = asked.records - found.tried
        many = min(ROUND if found.waves else 1, max(1, left // records))
        done = {wave.number for wave in found.waves}
        free = (each for each in itertools.count() if each not in done)
        cells = {number: asked.cell(number, records) for number in itertools.islice(free, many)}
        numbers = {cell.id: number for number, cell in cells.items()}

        def ended(
            result: CellResult, numbers: dict[str, int] = numbers, records: int = records
        ) -> None:
            if not result.ended:
                return
            wave = _wave(numbers[result.plan.id], result, asked.folder, records)
            if asked.keep is not Keep.ALL and not has_room(found.waves):
                wave = replace(wave, saved=None)
            _append(asked.folder / WAVES_FILE, wave)
            found.waves.append(wave)
            progress.say(progress_line(found, asked, clock() - since, found.records - before))

        plan = RunPlan(
            systems=asked.systems,
            cells=tuple(cells.values()),
            not_applicable=(),
            reports=asked.folder / RUNS,
            jobs=1,
            command=asked.command,
            seeds=tuple(cell.seed for cell in cells.values()),
            records=records,
            keep=asked.keep,
            others=asked.cells,
        )
        saved = run(plan, Listening(progress, ended))
        found.interrupted = saved.info.interrupted
        if not found.interrupted and len(saved.results) < many:
            raise SoakError(f"a run ended before all its waves were run: see {saved.directory}")
        if asked.keep is not Keep.ALL:
            tidy(asked.folder, found.waves)


def wave_records(waves: Sequence[Wave], asked: Soak) -> int:
    """Return how many records the next waves have, such that the faults come at the asked rate.

    The smallest waves show how many seconds a wave needs besides its records, the last waves how
    many a record needs. Waves that offered none show neither.
    """
    left = max(asked.records - sum(wave.records for wave in waves), LEAST_RECORDS)
    waves = [wave for wave in waves if wave.counts["offered"]]
    if not waves:
        return min(DEFAULT_RECORDS, left)
    least = min(wave.records for wave in waves)
    beside = statistics.median(wave.seconds for wave in waves if wave.records == least)
    last = [wave for wave in waves[-ROUND:] if wave.records == waves[-1].records]
    size, seconds = last[0].records, statistics.median(wave.seconds for wave in last)
    each = (seconds - beside) / (size - least) if size > least else 0.0
    room = 60 / asked.faults_per_minute - beside
    wanted = 0.0 if room <= 0 else room / each + least if each > 0 else GROWTH * size
    return int(min(max(wanted, LEAST_RECORDS), GROWTH * size, MOST_RECORDS, left))


def progress_line(found: Soaked, asked: Soak, seconds: float, records: int) -> str:
    """Return the line about progress: records, faults, rate, time left, findings."""
    rate = records / seconds if seconds > 0 else 0.0
    left = (asked.records - found.records) / rate if rate else 0.0
    minutes, rest = divmod(int(max(left, 0)), 60)
    share = min(100, round(100 * found.records / asked.records))
    told = f"{found.total('lost')} lost, {found.total('duplicated')} duplicated"
    done = (
        f"{found.records:,} of {asked.records:,} records ({share} %), "
        f"{counted(len(found.waves), 'fault')}"
    )
    return (
        f"{done}; {rate:,.0f} records/s, {minutes}:{rest:02} left; {told}, {len(found.red)} not "
        "green"
    )


def as_lines(found: Soaked, asked: Soak) -> list[str]:
    """Return the lines that a terminal shows at the end: each wave with a finding, the totals, the
    verdict.
    """
    lines: list[str] = []
    for wave in found.waves:
        named = [
            _named(word, ids)
            for word, ids in (("lost", wave.lost), ("duplicated", wave.duplicated))
            if ids
        ]
        if named or not wave.green:
            said = "; ".join([*named, wave.reason])
            lines.append(
                f"fault {wave.number}, {wave.scenario}, seed {wave.seed}: {wave.verdict}; {said}"
            )
            lines += (
                [f"  saved: {os.path.relpath(asked.folder / wave.saved)}"] if wave.saved else []
            )
    told = [name for name in COUNTED if name in {"offered", "recorded"} or found.total(name)]
    counts = ", ".join(f"{found.total(name):,} {name}" for name in told)
    whole = (
        ""
        if found.records >= asked.records
        else f"PARTIAL, {found.records:,} of {asked.records:,} records: "
    )
    return [
        *lines,
        f"{counted(len(found.waves), 'fault')}; {counts}",
        f"{whole}{found.kind.upper()}",
    ]


def _named(word: str, ids: Sequence[str]) -> str:
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return f"{word} {', '.join(ids[:NAMED])}{more}"


def read_waves(file: Path) -> list[Wave]:
    """Read the waves of a file. A last line that a crash cut off is removed from the file.

    Raises:
        SoakError: a line before the last one is damaged.
    """
    try:
        return [_read_wave(parsed_line(file, line)) for line in whole_lines(file)]
    except (ValueError, TypeError) as error:
        raise SoakError(f"{file} is damaged: {error}; start anew, without --resume") from None


def whole_lines(file: Path) -> list[bytes]:
    """Return the lines of a file; none if there is no file. A last line that a crash cut off is
    removed from the file.

    Raises:
        SoakError: it is not a plain file.
    """
    try:
        data = safe_files.read_bytes(file.parent, file.name)
        *lines, cut = data.split(b"\n")
        if cut:
            safe_files.truncate(file.parent, file.name, len(data) - len(cut))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SoakError(f"cannot read {file}: {error.strerror}") from error
    return lines


def parsed_line(file: Path, line: bytes) -> Any:
    """Return the value of a line.

    Raises:
        SoakError: the line is no JSON.
    """
    try:
        return safe_files.parse_json(line)
    except ValueError as error:
        raise SoakError(f"{file} is damaged: {error}; start anew, without --resume") from None


def _read_wave(plain: Any) -> Wave:
    """Return the wave of a line's value.

    Raises:
        ValueError: it has an unknown verdict or too few counts.
        TypeError: it has not the fields of a wave.
    """
    wave = Wave(**plain)
    if not set(COUNTED) <= set(wave.counts) or wave.verdict not in set(Kind):
        raise ValueError(f"the line of fault {wave.number} has an unknown verdict or lacks counts")
    return wave


def modules_of(systems: Iterable[Launcher], cells: Iterable[Cell]) -> set[str]:
    """Return modules of the packages by which cells are run: those of the systems, of the brokers
    of declared pipelines, and of the workers of their connectors.
    """
    modules = {type(each).__module__ for each in systems}
    places = listed()
    for declared in (each.declared for each in cells if isinstance(each, DeclaredCell)):
        modules.add(places[declared.system].partition(":")[0])
        modules |= {LAUNCHER for stage in declared.stages if stage.connector}
    return modules


def begun(
    folder: Path,
    asked: Mapping[str, object],
    name: str = SOAK_FILE,
    modules: Iterable[str] = (),
) -> bool:
    """Begin a soak in its folder; return whether it had begun before. ``name``: the file of its
    settings. ``modules``: their packages are part of what must be the same.

    Raises:
        SoakError: the folder has another soak, one of other code, or a damaged one.
    """
    file = folder / name
    code = code_of(*sorted(modules))
    folder.mkdir(parents=True, exist_ok=True)
    for each in FOLDERS:
        safe_files.check_plain(folder, each)
    if not safe_files.exists(folder, name):
        safe_files.write_whole(folder, name, json.dumps({CODE: code, **asked}, indent=1))
        return False
    try:
        before = safe_files.read_json(folder, name)
    except ValueError as error:
        raise SoakError(f"{file} is damaged: {error}; start anew, without --resume") from None
    differs = [
        each
        for each, value in asked.items()
        if not isinstance(before, dict) or before.get(each) != value
    ]
    if differs:
        names = ", ".join(differs)
        raise SoakError(
            f"{folder} was begun with other settings ({names}): give those, or start anew, "
            "without --resume"
        )
    if before.get(CODE) != code:
        raise SoakError(
            f"{folder} was begun by lostack {before.get(CODE, 'of an older version')}, and this is "
            f"{code}: continue with that one, or start anew, without --resume"
        )
    return True


def _wave(number: int, result: CellResult, folder: Path, records: int) -> Wave:
    row = result.row()
    account = result.judgement.account
    return Wave(
        number,
        row["id"],
        row["scenario"],
        row["seed"],
        account.counts["offered"] or records,
        {name: int(account.counts.get(name, 0)) for name in COUNTED},
        sorted(account.lost)[:SHOWN_IDS],
        sorted(account.duplicated)[:SHOWN_IDS],
        row["verdict"],
        row["green"],
        row["reason"],
        row["seconds"],
        None if row["green"] else str(result.directory.relative_to(folder)),
    )


def _append(file: Path, wave: Wave) -> None:
    safe_files.append_line(file.parent, file.name, json.dumps(asdict(wave)).encode(), durable=True)


def has_room(before: Iterable[HasSaved]) -> bool:
    """Whether everything may stay of one more cell that is not green."""
    return sum(one.saved is not None for one in before) < MOST_SAVED


def tidy(folder: Path, ended: Iterable[HasSaved]) -> None:
    """Remove what does not stay of the runs below a folder: cells that no line names, also those
    that a killed command had not ended, and runs without any other cell.

    What cannot be removed stays, and so does a folder that is not a run under its own name.
    """
    stays = {folder / one.saved for one in ended if one.saved}
    for each in safe_files.folders(folder, RUNS):
        with suppress(OSError, SavedRunError):
            _tidy_run(folder / RUNS / each, stays)
    latest = folder / RUNS / LATEST
    if latest.is_symlink() and not latest.exists():
        latest.unlink()


def _tidy_run(run: Path, stays: Collection[Path]) -> None:
    """Remove the cells of a run that do not stay, and a run without cells. Of a run that failed or
    was killed the logs beside its cells stay: they may say why.
    """
    info = RunInfo.load(run)
    if info.id != run.name:
        return
    cells = run / CELLS
    remove_from(cells, run, [n for n in safe_files.folders(run, CELLS) if cells / n not in stays])
    clean(run)
    if safe_files.folders(run, CELLS) or safe_files.exists(run, REMOVED):
        return
    if info.complete or info.interrupted:
        shutil.rmtree(run, ignore_errors=True)
    else:
        forget_unbegun(run, RUN_FILE)
