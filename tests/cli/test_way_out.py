"""Nothing that others have written reaches a terminal as more than text: one module prints, and
every command is tried.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import harness
from harness import cli, registry, systems
from harness.cli.application import COMMANDS
from harness.model.plan import sealed_anew
from harness.sweep import pipelines
from tests.cli import played
from tests.sweep.played import sweep_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.model.scenario import Scenario

HERE = Path(harness.__file__).parent
HOSTILE = "\x1b]0;gone\x07\x1b[2J\x9b31m\r\b\x7f\u202egnol\u2066\u200f"
"""What a terminal obeys: escape sequences in 7 bits and in 8, a carriage return, marks that turn
the direction of writing.
"""
OBEYED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
SAVED = (
    "judge saved",
    "judge saved --json",
    "report saved",
    "report saved --format markdown",
    "report saved --format json",
    "report saved --format junit",
    "report saved --format html",
    "report saved --record {record}",
    "report --compare saved other",
    "events saved",
    "events saved --json",
    "events saved --frames",
    "trend .",
    "clients saved",
    "points saved",
    "points --why saved",
    "report saved --publish published",
    "judge saved --baseline known.toml",
    "run --system memory --only none/exactly-once --baseline known.toml",
)
ELSEWHERE = {
    "demo",
    "list",
    "init",
    "check",
    "sweep",
    "soak",
    "export",
    "fetch",
    "regressions",
    "scoreboard",
    "images",
    "doctor",
    "account",
    "audit",
    "run",
    "proxy",
    "vendor",
}
"""Commands that read no saved run, or need a real system: the test of the one way out
holds them.
"""
FREE = frozenset(
    {"because", "error", "command", "machine", "system", "cores", "untried", "outcome", "commit"}
)
"""Fields in which any text may stand."""
PRINTS = frozenset(
    {
        "echo",
        "secho",
        "print",
        "print_exception",
        "print_exc",
        "write",
        "writelines",
        "prompt",
        "confirm",
    }
)
MAY = {"cli/telling.py", "cli/streams.py", "matrix/progress.py"}
"""The files that print for a command. The progress is of rich, which styles what it prints."""
OF_PROGRAMS = (
    "scoreboard/programs/",
    "stages/",
    "runtimes/process/",
    "runtimes/docker/guardian.py",
    "runtimes/disk.py",
    "wire/",
    "provision/spark_exercise.py",
    "provision/table_exercise.py",
)
"""Programs of their own, whose output goes into a log or to lostack."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two saved runs of cells that are kept, broken and void; and with a sweep that
    has a finding.
    """
    folder: Path = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        _play(patch)
        patch.chdir(folder)
        for name in ("other", "saved"):
            cells = " ".join(
                f"--only {each}/exactly-once" for each in ("none", "loses", "disarmed")
            )
            assert cli.main(shlex.split(f"run --system memory {cells}")) == 1
            Path("reports/latest").resolve().rename(name)
        Path("reports/history.jsonl").rename("history.jsonl")
        begun = "sweep --only plain/at-least-once --system memory --records 12 --jobs 1 --act lose"
        assert cli.main(shlex.split(begun)) == 1
        next(Path("reports/sweeps").glob("2*")).rename("swept")
        shutil.rmtree("reports")
    return folder


def _play(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(systems.SYSTEMS, "memory", "tests.cli.played:PLAYED")
    patch.setattr(registry, "scenarios", _scenarios)
    patch.setattr(pipelines, "sweep_of", sweep_of)
    patch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def _scenarios() -> tuple[Scenario, ...]:
    return played.SCENARIOS


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept: Path) -> Path:
    """A copy of that folder, in which the commands work."""
    _play(monkeypatch)
    copy = tmp_path / "world"
    shutil.copytree(kept, copy)
    monkeypatch.chdir(copy)
    return copy


def poisoned(value: Any, spare: Callable[[str], bool] = lambda _: False, key: str = "") -> Any:
    """Return a JSON value in which every text ends with what a terminal obeys; not those under the
    keys to spare.
    """
    if isinstance(value, dict):
        return {name: poisoned(part, spare, name) for name, part in value.items()}
    if isinstance(value, list):
        return [poisoned(part, spare, key) for part in value]
    return value + HOSTILE if isinstance(value, str) and not spare(key) else value


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the place of each text, and of one text in each list."""
    if isinstance(value, str):
        yield path
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:1])
        if isinstance(value, list)
        else ()
    )
    for key, part in inner:
        yield from places(part, (*path, key))


def harmless(capsys: pytest.CaptureFixture[str]) -> str:
    """Hold what was printed to the rule; return it."""
    printed = "".join(capsys.readouterr())
    odd = {char for char in printed if char != "\n" and unicodedata.category(char) in OBEYED}
    assert not odd, f"a terminal obeys {odd}"
    return printed


def rewrite(file: Path, change: Callable[[Any], Any]) -> None:
    """Change the JSON of a file; a plan keeps a seal that fits."""
    text = json.dumps(change(json.loads(file.read_text(encoding="utf-8"))), ensure_ascii=False)
    file.write_text(
        sealed_anew(text) if file.name == "cell.json" else text,
        encoding="utf-8",
        errors="surrogatepass",
    )


def poison_lines(file: Path, spare: Callable[[str], bool]) -> None:
    """Poison each line of a file of JSON lines; raw, as a program of others would write them."""
    lines = [
        json.dumps(poisoned(json.loads(line), spare), ensure_ascii=False)
        for line in file.read_text().splitlines()
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_every_command_is_tried_or_named() -> None:
    tried = {line.split()[0] for line in SAVED}
    assert tried | ELSEWHERE == set(COMMANDS)


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_whole_run_of_hostile_texts(
    world: Path, everywhere: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """In each text of each file, or only where any text may stand, so that all can still be judged.
    In names of folders, too.
    """

    def spare(key: str) -> bool:
        return not everywhere and key not in FREE

    rewrite(world / "saved" / "run.json", lambda value: value | {"untried": ["never tried"]})
    for file in world.rglob("*.json"):
        rewrite(file, lambda value: poisoned(value, spare))
    for file in world.rglob("*.jsonl"):
        poison_lines(file, spare)
    for file in world.rglob("*.log"):
        file.write_text(f"Error: {HOSTILE}\n", encoding="utf-8")
    known = {"cell": f"*{HOSTILE}", "outcome": "broken", "because": HOSTILE}
    Path("known.toml").write_text(
        "[[known]]\n" + "".join(f"{key} = {json.dumps(known[key])}\n" for key in known)
    )
    printed = ""
    for line in (*SAVED, "report swept", "sweep --resume swept"):
        assert cli.main(shlex.split(line.format(record="k0-1"))) in {0, 1, 2, 4}, line
        printed += harmless(capsys)
    assert "\\x1b]0;gone" in printed
    for name in ("saved", "swept"):
        odd = f"{name}{HOSTILE}"
        Path(name).rename(odd)
        for command in ("judge", "report", "events", "clients", "points"):
            assert cli.main([command, odd]) in {0, 1, 2, 4}
            harmless(capsys)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("saved/run.json", "judge saved"),
        ("cell.json", "report saved --format markdown"),
        ("history", "events saved"),
        ("swept/sweep.json", "report swept"),
    ],
)
def test_each_text_alone(
    world: Path, name: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that no other damage hides it. It is seen in what is printed, at least in one place."""
    [cell] = (world / "saved" / "cells").glob("*loses*")
    for other in (world / "saved" / "cells").iterdir():
        if other != cell:
            shutil.rmtree(other)
    file = {"cell.json": cell / "cell.json", "history": cell / "history" / "runner.jsonl"}.get(
        name, world / name
    )
    text = file.read_text(encoding="utf-8")
    whole = file.suffix == ".json"
    data = (
        json.loads(text)
        if whole
        else {str(number): json.loads(each) for number, each in enumerate(text.splitlines())}
    )
    if file.name == "run.json":
        data["untried"] = ["never tried"]
    kinds = {_kind(data, place, whole=whole): place for place in places(data)}
    seen = 0
    for place in kinds.values():
        changed = json.loads(json.dumps(data))
        inner = changed
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] += HOSTILE
        parts = [changed] if whole else changed.values()
        told = "".join(json.dumps(part) + "\n" for part in parts)
        file.write_text(sealed_anew(told) if name == "cell.json" else told, encoding="utf-8")
        assert cli.main(shlex.split(line)) in {0, 1, 2, 4, 130}, place
        seen += "\\x1b]0;gone" in harmless(capsys)
    assert seen


def _kind(data: Any, place: tuple[str | int, ...], *, whole: bool) -> tuple[object, ...]:
    """Return what places of one kind share: of lines of a history, their event and the field."""
    return (
        place if whole else (data[place[0]].get("event"), data[place[0]].get("phase"), *place[1:])
    )


def test_the_names_of_cells_in_a_trend(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = world / "history.jsonl"
    text = file.read_text(encoding="utf-8")
    file.write_text(
        text.replace("/loses/", f"/loses{json.dumps(HOSTILE)[1:-1]}/"), encoding="utf-8"
    )
    assert cli.main(["trend", "."]) == 0
    assert "loses\\x1b]0;gone" in harmless(capsys)


def test_json_stays_json(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Characters that JSON would let through are written as its own escapes."""
    [cell] = (world / "saved" / "cells").glob("*loses*")
    poison_lines(cell / "history" / "runner.jsonl", lambda key: key != "record")
    capsys.readouterr()
    assert cli.main(["events", "saved", "--json", "--only", "loses"]) == 0
    lines = harmless(capsys).splitlines()
    assert any(HOSTILE in (json.loads(line).get("record") or "") for line in lines)


@pytest.mark.parametrize(
    "line",
    [
        "judge {odd}",
        "report {odd}",
        "report --format {odd}",
        "events {odd}",
        "trend {odd}",
        "points {odd}",
        "clients {odd}",
        "run --only {odd}",
        "run --baseline {odd}",
        "list --only {odd}",
        "check {odd}",
        "sweep {odd}",
        "export {odd}",
        "soak {odd}",
        "fetch {odd}",
        "regressions --only {odd}",
        "account {odd}",
        "audit --offered {odd} --arrived {odd}",
        "init {odd}",
        "init --compose {odd}",
        "{odd}",
        "run --{odd}",
    ],
)
def test_what_stands_on_the_command_line(
    line: str, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([word.replace("{odd}", HOSTILE) for word in line.split()]) in {2, 3}
    assert harmless(capsys)


MAY_PRINT = re.compile(rf"\b(?:print|input|{'|'.join(sorted(PRINTS))})\(")


def test_only_one_module_prints() -> None:
    files = {str(file.relative_to(HERE)): file for file in HERE.rglob("*.py")}
    assert files.keys() >= MAY
    found = [
        f"{name}:{node.lineno}"
        for name, file in files.items()
        if name not in MAY and not name.startswith(OF_PROGRAMS)
        if MAY_PRINT.search(text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and _prints(node.func)
    ]
    assert not found


def _prints(called: ast.expr) -> bool:
    """Whether a call prints: by typer, print, input, or a standard stream."""
    if isinstance(called, ast.Name):
        return called.id in {"print", "input"}
    if not isinstance(called, ast.Attribute) or called.attr not in PRINTS:
        return False
    return ast.unparse(called.value) in {
        "typer",
        "click",
        "sys.stdout",
        "sys.stderr",
        "sys.stdout.buffer",
        "traceback",
    }
