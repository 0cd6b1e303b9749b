"""Which tier a test belongs to, that slices cut the rest into parts that lose nothing, and what a
commit is tested with.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from harness import registry
from harness.model.scenario import Suite
from tests.tiers import QUICK, ROOT, SEEDS, SLICES, chosen, due, slice_of

if TYPE_CHECKING:
    from pathlib import Path

ENGINE_CELLS_MOST = 6
"""What an engine may have among the cells of ``make test``."""
CONFTEST = """
import pytest
from tests.tiers import slice_of, tier_of, unit_of
pytest_plugins = ("tests.tiers", "tests.timing")
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        print("\\nfound", item.name, tier_of(item), slice_of(unit_of(item)))
"""
TESTS = """
import pytest
def test_pure(): pass
@pytest.mark.kafka
def test_broker(): pass
@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.parametrize("number", range(40))
def test_long(number): pass
@pytest.mark.docker
def test_container(): pass
"""
TOGETHER = """
import pytest
pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True)]
@pytest.mark.parametrize("number", range(40))
def test_shared(number): pass
"""
BY_WORD = """
import pytest
words = [pytest.param(word, marks=pytest.mark.rest(together=word)) for word in "abcdefghij"]
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("word", words)
def test_of(word, number): pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with tests of each tier."""
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n  kafka: x\n  docker: x\n  rest: x\naddopts = --strict-markers\n",
        "utf-8",
    )
    (tmp_path / "test_each.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "test_together.py").write_text(TOGETHER, encoding="utf-8")
    (tmp_path / "test_words.py").write_text(BY_WORD, encoding="utf-8")
    return tmp_path


def selected(project: Path, *words: str) -> list[str]:
    """Return the tests that a session would run."""
    done = session(project, "--collect-only", "-q", *words)
    return re.findall(r"^\S+\.py::(\S+)$", done.stdout, re.MULTILINE)


def session(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest there."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *QUICK, "-p", "no:cacheprovider", *words],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_each_test_has_one_tier_and_the_rest_is_slices(project: Path) -> None:
    """What it needs decides, and a mark; a module whose tests are run together is in one slice as a
    whole, and so are the tests of a word.
    """
    said = session(project, "--collect-only", "-q", "-s").stdout
    found = {
        name: (tier, int(number))
        for name, tier, number in re.findall(r"^found (\S+) (\S+) (\d+)$", said, re.MULTILINE)
    }
    assert (found["test_pure"][0], found["test_broker"][0], found["test_container"][0]) == (
        "fast",
        "core",
        "rest",
    )
    assert {tier for name, (tier, _) in found.items() if "[" in name} == {"rest"}
    assert len({number for name, (_, number) in found.items() if "shared" in name}) == 1
    assert len({number for name, (_, number) in found.items() if "long" in name}) > SLICES / 2
    words = [
        {number for name, (_, number) in found.items() if name.startswith(f"test_of[{word}-")}
        for word in "abcdefghij"
    ]
    assert {len(slices) for slices in words} == {1}
    assert len(set.union(*words)) > SLICES / 3
    assert selected(project, "--tier", "core", "--tier", "fast") == ["test_pure", "test_broker"]
    number = found["test_container"][1]
    assert sorted(selected(project, "--slice", str(number))) == sorted(
        name for name, (tier, its) in found.items() if (tier, its) == ("rest", number)
    )


def test_files_that_need_a_real_system_come_first(project: Path) -> None:
    """They take the longest: with one worker for each file none of them is the last."""
    (project / "test_alone.py").write_text("def test_alone(): pass\n", encoding="utf-8")
    assert selected(project, "--tier", "core", "--tier", "fast") == [
        "test_pure",
        "test_broker",
        "test_alone",
    ]


def test_a_slice_stays_where_it_is() -> None:
    """That others come does not move a unit: it is its name alone."""
    assert [slice_of(unit) for unit in ("plain/none", "plain/ack-lost", "tests/x.py::test_y")] == [
        11,
        14,
        14,
    ]


def test_twenty_commits_in_a_row_have_every_slice_and_then_comes_another_seed() -> None:
    """Each slice once, at one seed; after all seeds it begins again."""
    for first in (0, 60, 980):
        assert sorted(due(place)[0] for place in range(first, first + SLICES)) == [*range(SLICES)]
        assert len({due(place)[1] for place in range(first, first + SLICES)}) == 1
    assert {due(place)[1] for place in range(SLICES * SEEDS)} == set(range(1, SEEDS + 1))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_engine_has_its_turn(count: int) -> None:
    """Two at a time, none twice, all of them within as many commits as there are engines."""
    names = [f"engine-{number}" for number in range(count)]
    turns = [chosen(names, place) for place in range(count)]
    assert all(len(turn) == len(set(turn)) == min(2, count) for turn in turns)
    assert {name for turn in turns for name in turn} == set(names)


def test_an_engine_has_few_cells_in_make_test() -> None:
    """Six at most for any engine but Kafka and Spark, so that the suite can grow by
    five of them.
    """
    counts = Counter(
        engine
        for engine in registry.engines()
        for one in registry.scenarios()
        if one.suite is Suite.CORE and registry.runs(engine, one)
        for _ in one.expect
    )
    assert not {engine: count for engine, count in counts.items() if count > ENGINE_CELLS_MOST}


def test_a_red_slice_says_how_it_is_run_again_and_who_may_own_it(project: Path) -> None:
    """One line that reproduces it; the commits since it was last due."""
    (project / "test_each.py").write_text(
        TESTS.replace("(number): pass", "(number): assert False"), encoding="utf-8"
    )
    number = slice_of("test_each.py::test_long[0]")
    done = session(project, "--slice", str(number), "-p", "no:xdist")
    assert done.returncode == 1
    assert f"again: make slice SLICE={number} SEED=1" in done.stdout
    newest = subprocess.run(
        ["git", "log", "--format=%h %s", "-1"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert f"was due {SLICES} commits ago" in done.stdout
    assert newest.strip() in done.stdout


def test_what_is_due_here_can_be_asked() -> None:
    """Two numbers for the Makefile, the engines for CI."""
    asked = [
        subprocess.run(
            [sys.executable, "-m", "tests.due", what],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for what in ("slice", "engines")
    ]
    assert re.fullmatch(r"\d+ \d+\n", asked[0].stdout)
    assert set(asked[1].stdout.split()) <= set(registry.engines())


FOLDERS = sorted(
    {file.parent for file in (ROOT / "tests").glob("**/test_*.py")}
    | {ROOT / "tests" / "bench", ROOT / "tests"}
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_folder_says_in_one_line_what_it_proves(folder: Path) -> None:
    """Its ``__init__.py`` is that line."""
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    assert re.fullmatch(r'"""(Proves\b.+|What must hold .+)\.\n?"""\n', text, re.DOTALL), folder
    assert "\n\n" not in text
