"""Kinds of events and their phases are named by what the types know, not by texts."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_type_hints

from msgspec import structs

from harness.model import kinds
from harness.model.events import CLASSES, FaultPhase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import StrEnum

ROOT: Final = Path(__file__).parents[2]
HARNESS: Final = ROOT / "harness"
WAVE_NAMES: Final = {name for name in vars(kinds) if name.endswith("_WAVE")}
EVENT: Final = re.compile(r"""["']event["']""")
ROUTE: Final = "route"
"""A line of the wire's own history, which no judge reads."""


def literals(source: str) -> Iterator[str]:
    """Yield each comparison of a phase with a text."""
    for node in ast.walk(ast.parse(source if ".phase" in source else "")):
        match node:
            case ast.Compare(left=ast.Attribute(attr="phase"), comparators=[with_what]):
                for each in ast.walk(with_what):
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield ast.unparse(node)


def test_a_phase_is_compared_with_its_enumeration() -> None:
    """A phase that no enumeration has would never be equal, and nobody would notice."""
    assert list(literals('a.phase == "hit"; b.phase in {"x", Y}; c.phase == Y; d == "hit"')) == [
        "a.phase == 'hit'",
        "b.phase in {'x', Y}",
    ]
    found = {
        str(file.relative_to(HARNESS)): told
        for file in HARNESS.rglob("*.py")
        if (told := list(literals(file.read_text(encoding="utf-8"))))
    }
    assert found == {}


def written(source: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the phase of each event that is written with its phase as a text, and
    each phase that a fault says.
    """
    may = "phase=" in source or ".say(" in source
    for node in ast.walk(ast.parse(source if may else "")):
        match node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Name(id="controls") | ast.Attribute(attr="_controls" | "controls"),
                    attr="say",
                ),
                args=[ast.Constant(value=str(phase)), *_],
            ):
                yield kinds.FAULT, phase
            case ast.Call(args=args, keywords=keywords):
                named = [kinds_named(each) for each in args]
                for each in keywords:
                    match each:
                        case ast.keyword(arg="phase", value=ast.Constant(value=str(phase))):
                            yield next(filter(None, named), ""), phase


def kinds_named(argument: ast.expr) -> str:
    """Return the kind of event that an argument names, or nothing."""
    match argument:
        case ast.Attribute(value=ast.Name(id="kinds"), attr=name) if name.isupper():
            return str(getattr(kinds, name))
        case ast.Constant(value=str(text)):
            return text
    return ""


def phases_of(kind: str) -> type[StrEnum]:
    """Return the phases of a kind of event."""
    if kind == kinds.FAULT:  # read as a text: a package of another author may say more
        return FaultPhase
    phases: type[StrEnum] = get_type_hints(CLASSES[kind])["phase"]
    return phases


def test_a_phase_that_is_written_is_one_that_its_enumeration_has() -> None:
    """Another one would be met only when its history is read."""
    planted = 'h.write(kinds.CELL, phase="begun"); n(c, "conn", phase="x"); controls.say("armed")'
    assert sorted(written(planted)) == [("cell", "begun"), ("conn", "x"), ("fault", "armed")]
    found = [
        (str(file.relative_to(ROOT)), kind, phase)
        for folder in ("harness", "engines")
        for file in (ROOT / folder).rglob("*.py")
        for kind, phase in written(file.read_text(encoding="utf-8"))
        if kind != ROUTE
    ]
    assert len({phase for _, kind, phase in found if kind == kinds.FAULT}) > 1
    assert [each for each in found if each[2] not in {*map(str, phases_of(each[1]))}] == []


def test_a_name_of_a_kind_is_that_of_a_class() -> None:
    """Who has no class names a kind by a constant; all others name its class."""
    named = {
        name.lower(): value
        for name, value in vars(kinds).items()
        if name.isupper() and isinstance(value, str) and name not in WAVE_NAMES
    }
    assert named
    assert {name: value for name, value in named.items() if value not in CLASSES} == {}
    assert [name for name, value in named.items() if name != value] == []


def test_a_program_of_ours_needs_no_library_to_write_its_history() -> None:
    """In an environment of its own there is its client, and nothing of ours but this package."""
    code = (
        "import sys; sys.modules['msgspec'] = None; import harness.failpoint, harness.stages.stage,"
        " harness.stages.producer, harness.stages.queue_consumer"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def named(source: str) -> Iterator[tuple[str, set[str], bool]]:
    """Yield the kind, and the names of fields, of each line that a program of ours writes; and
    whether these are all.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr="write"), args=[kind], keywords=keywords):
                if name := kinds_named(kind):
                    names = {each.arg for each in keywords if each.arg}
                    yield name, names, len(names) == len(keywords)


def wrong(kind: str, names: set[str], *, all_: bool) -> set[str]:
    """Return which fields of a line its kind has not, or which it lacks."""
    fields = structs.fields(CLASSES[kind])
    needed = {each.encode_name for each in fields if each.required} if all_ else set()
    return (names - {each.encode_name for each in fields}) | (needed - names)


def test_what_a_program_writes_is_what_its_kind_has() -> None:
    """It has no types to write by (it has the standard library alone): its calls are held against
    them here. All others write objects.
    """
    planted = 'w.write(kinds.SAVED, ofset=1); w.write(kinds.DOUBT, error="x")'
    planted += "; w.write(kinds.TAKEN, record=r); w.write(kinds.TAKEN, **told)"
    told = [wrong(kind, names, all_=whole) for kind, names, whole in named(planted)]
    assert told == [{"ofset"}, {"record"}, set(), set()]
    found = [
        (str(file.relative_to(ROOT)), *each)
        for file in (*(HARNESS / "stages").rglob("*.py"), HARNESS / "failpoint.py")
        for each in named(file.read_text(encoding="utf-8"))
    ]
    assert len(found) > 20
    assert [each for each in found if wrong(each[1], each[2], all_=each[3])] == []


def keyed(source: str) -> Iterator[int]:
    """Yield the line of each place that reads the kind of an event out of a line of a history,
    instead of asking for its class.
    """
    for node in ast.walk(ast.parse(source if EVENT.search(source) else "")):
        match node:
            case (
                ast.Subscript(slice=ast.Constant(value="event"), ctx=ast.Load())
                | ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value="event"), *_])
            ):
                yield node.lineno


def test_lines_of_a_history_are_read_by_their_decoder_alone() -> None:
    """All others get objects, whose attributes the type checker knows."""
    assert list(keyed('a["event"]\nb.get("event", "")\nc["event"] = d\n{"event": e}')) == [1, 2]
    found = {
        str(file.relative_to(HARNESS))
        for file in HARNESS.rglob("*.py")
        if any(keyed(file.read_text(encoding="utf-8")))
    }
    outside = {each for each in found if not each.startswith("model/")}
    assert "model/history.py" in found
    assert outside == {"runtimes/process/link.py"}  # messages of a helper process, no history
