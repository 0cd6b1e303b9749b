"""Whatever is broken in the instrument, somebody says so: no mutation stays green, and without one
everything does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import chain
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from tests.mutations.registry import CELLS, SEAMS, VARIABLE, Mutation, all_of, table
from tests.tiers import QUICK, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ALL = tuple(chain.from_iterable(all_of(seam).values() for seam in SEAMS))
PLUGIN = "tests.mutations.plugin"
WITHIN_S = 300


def fast(mutation: Mutation) -> dict[str, str]:
    """Return the tests without a broker that must notice it."""
    return {test: said for test, said in mutation.red.items() if not test.startswith(CELLS)}


def cells(mutation: Mutation) -> dict[str, str]:
    """Return the cells on a real Kafka that must notice it."""
    return {test: said for test, said in mutation.red.items() if test.startswith(CELLS)}


def session(tests: Iterable[str], folder: Path, mutation: str = "") -> dict[str, str | None]:
    """Run tests in a session of their own. Return, by test, what it said when it failed, or
    ``None``.
    """
    report = folder / "report.xml"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *QUICK,
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "-p",
            PLUGIN,
            "-vv",
            "--lostack-suite",
            "core",
            "--lostack-reports",
            str(folder / "reports"),
            "--junitxml",
            str(report),
            *tests,
        ],
        cwd=ROOT,
        env={**os.environ, VARIABLE: mutation},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode in {0, 1}, (
        done.stdout + done.stderr
    )  # 1: some have failed; anything else is no test's word
    assert f"mutation: {mutation or 'none'}" in done.stdout
    found: dict[str, str | None] = {}
    for case in ET.parse(report).iter("testcase"):
        # what fails at its end, too, is there twice
        said = [said_in(child.text or "") for child in case if child.tag != "properties"]
        name = str(case.get("name"))
        found[name] = "\n".join([found.get(name) or "", *said]) or None
    return found


def said_in(failure: str) -> str:
    """Return what a failed test says, without its source: of an assertion pytest's own lines, of a
    cell all.
    """
    lines = failure.splitlines()
    return "\n".join([line for line in lines if re.match(r"E\s", line)] or lines)


def must_be_red(tests: dict[str, str], folder: Path, mutation: Mutation) -> None:
    """Every one of the tests fails, and says what it should."""
    found = session(tests, folder, mutation.name)
    for test, said in tests.items():
        failure = found[test.partition("::")[2]]
        assert failure is not None, f"{mutation.name} ({mutation.breaks}) was not noticed by {test}"
        assert re.search(said, failure), f"{test} failed, and not for this: {failure}"


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_every_mutation_says_what_it_breaks(mutation: Mutation) -> None:
    """In one line; and some fast test must notice it."""
    assert mutation.breaks.endswith(".")
    assert "\n" not in mutation.breaks
    assert fast(mutation)


def test_every_mutation_replaces_something_that_is_there() -> None:
    """What was renamed since would be broken no more, and nobody would notice the mutation."""
    argv = [sys.executable, "-m", "tests.mutations.targets"]
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_table_is_up_to_date() -> None:
    """What stands in the read-me is what is tried: ``python -m tests.mutations`` prints it."""
    assert table() in (ROOT / "tests" / "mutations" / "README.md").read_text(encoding="utf-8")


@pytest.mark.rest
@pytest.mark.timeout(WITHIN_S)
@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_fast_tests_notice_a_mutation(mutation: Mutation, tmp_path: Path) -> None:
    must_be_red(fast(mutation), tmp_path, mutation)


@pytest.mark.rest
@pytest.mark.kafka
@pytest.mark.timeout(WITHIN_S)
@pytest.mark.parametrize(
    "mutation", [one for one in ALL if cells(one)], ids=lambda mutation: mutation.name
)
def test_cells_notice_a_mutation(mutation: Mutation, tmp_path: Path) -> None:
    """No cell is green whose authorities, or whose wire, do not say what was there."""
    must_be_red(cells(mutation), tmp_path, mutation)


@pytest.mark.rest
@pytest.mark.timeout(WITHIN_S)
def test_without_a_mutation_the_fast_tests_are_green(tmp_path: Path) -> None:
    found = session(sorted({test for one in ALL for test in fast(one)}), tmp_path)
    assert set(found.values()) == {None}, found


@pytest.mark.rest
@pytest.mark.kafka
@pytest.mark.timeout(WITHIN_S)
def test_without_a_mutation_the_cells_are_green(tmp_path: Path) -> None:
    found = session(sorted({test for one in ALL for test in cells(one)}), tmp_path)
    assert set(found.values()) == {None}, found
