"""Histories are read as types: by attributes, not by names of fields as texts."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from harness.model import kinds
from harness.model.events import CLASSES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

HARNESS: Final = Path(__file__).parents[2] / "harness"
FIELDS: Final = {name for kind in CLASSES.values() for name in kind.__struct_fields__}
NO_LINES: Final = frozenset({"account", "counts", "found", "part", "records", "row", "self"})
"""What is read by text in the judge and is no line of a history: counts, and rows of an account."""
OTHER_DATA: Final = {
    "pipelines/aggregates.py": {"match"},  # of a regular expression
    "pipelines/fixes.py": {"plan.settings['output']", "stage"},  # a saved plan
    "pipelines/reading.py": {"data"},  # a declaration
    "proofs/locks.py": {"course.plan.settings"},  # a saved plan
    "run/control_port.py": {"said[0]"},  # what a Java program answers
    "run/queue_journal.py": {"entry"},  # of a broker's journal
    "run/queue_server.py": {"said"},  # what a broker's control port answers
    "services/toxiproxy/client.py": {"answer.json()"},  # of Toxiproxy
    "sweep/found.py": {"plain"},  # a scenario file
    "sweep/sweeping.py": {"told"},  # the result of another sweep
    "systems/activemq/compaction.py": {"each", "ended"},  # what a broker's control port answers
    "systems/activemq/journal.py": {"entry"},  # of a broker's journal
    "systems/artemis/journal.py": {"entry"},  # of a broker's journal
    "systems/flink/job.py": {"each", "told"},  # of the JobManager's checkpoints
    "systems/flink/rest.py": {"task"},  # of Flink's REST API
    "systems/kafka/new_groups.py": {"admin.describe_groups([group])[group]"},  # of a group
    "systems/kafka/observer.py": {  # what Kafka's admin client tells
        "described[0]",
        "quorum['topics'][0]",
        "told",
    },
    "systems/memory/log.py": {"copy.where"},  # fields of a line that is to be written
    "systems/memory/queue.py": {"message.where", "there.where"},  # as those
    "systems/storm/cluster.py": {"line"},  # what a Java program answers
}
"""By module, subjects that are no line of a history: whole, as they stand in the source."""
MOST: Final = {
    "judge": 0,
    "matrix": 0,
    "pipelines": 0,
    "proofs": 0,
    "report": 19,
    "run": 0,
    "saved.py": 0,
    "services": 0,
    "soak": 0,
    "sweep": 0,
    "systems": 0,
}
"""By package or module, how many reads of a field by text there are at most, other than events'
among them. It only falls.
"""


def reads(source: str, besides: Collection[str] = ()) -> Iterator[str]:
    """Yield each read of a field of an event by its name as a text, as ``subject.name``.
    ``besides``: subjects that are no line of a history.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Subscript(value=value, slice=ast.Constant(value=str(name)), ctx=ast.Load()):
                pass
            case ast.Call(
                func=ast.Attribute(value=value, attr="get"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                pass
            case _:
                continue
        subject = ast.unparse(value)
        root = subject.partition(".")[0].partition("[")[0]
        if name in FIELDS and root not in NO_LINES and subject not in besides:
            yield f"{subject}.{name}"


def reads_of(package: str) -> list[str]:
    """Return the reads by text in a package, or in a module."""
    where = HARNESS / package
    return [
        f"{file.relative_to(HARNESS)}: {each}"
        for file in (sorted(where.rglob("*.py")) if where.is_dir() else [where])
        for each in reads(
            file.read_text(encoding="utf-8"), OTHER_DATA.get(str(file.relative_to(HARNESS)), ())
        )
    ]


@pytest.mark.parametrize("package", MOST)
def test_a_history_is_read_by_attributes(package: str) -> None:
    """As many reads by text as there may be, and not one less: the limit falls with them."""
    found = reads_of(package)
    assert len(found) == MOST[package], found[:20]


def test_a_read_by_text_is_seen() -> None:
    """By index, and by ``get``; what is written is none, nor what no event has."""
    source = 'e["record"]; e.get("phase", 1); e["record"] = 1; e["no field"]; row["record"]'
    assert list(reads(source)) == ["e.record", "e.phase"]
    assert list(reads(source, {"e"})) == []


@pytest.mark.parametrize("module", OTHER_DATA)
def test_data_that_is_no_line_is_still_read(module: str) -> None:
    """A subject that nobody reads any more leaves the list."""
    source = (HARNESS / module).read_text(encoding="utf-8")
    for subject in OTHER_DATA[module]:
        assert list(reads(source, OTHER_DATA[module] - {subject})), subject


def literals(source: str) -> Iterator[str]:
    """Yield each comparison of a phase with a text."""
    for node in ast.walk(ast.parse(source)):
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


def test_every_kind_has_its_name() -> None:
    """Who writes names a kind by a constant; who reads, by its class."""
    named = {
        value
        for name, value in vars(kinds).items()
        if name.isupper() and isinstance(value, str) and value in CLASSES
    }
    assert named == CLASSES.keys()


def test_a_program_of_ours_needs_no_library_to_write_its_history() -> None:
    """In an environment of its own there is its client, and nothing of ours but this package."""
    code = (
        "import sys; sys.modules['msgspec'] = None; import harness.failpoint, harness.stages.stage,"
        " harness.stages.producer, harness.stages.queue_consumer"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
