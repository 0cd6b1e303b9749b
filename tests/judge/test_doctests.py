"""The examples in docstrings are true: those of the harness, and those of the tests' own tools."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    file
    for folder in ("harness", "scenarios", "tests")
    for file in sorted((ROOT / folder).rglob("*.py"))
]
MODULES = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for file in FILES
    if file != Path(__file__) and "\n    >>> " in file.read_text(encoding="utf-8")
]
EXAMPLES_LEAST = 10


def examples_of(module: str) -> list[doctest.DocTest]:
    """Return the docstrings with examples of one module."""
    return [
        test
        for test in doctest.DocTestFinder().find(importlib.import_module(module))
        if test.examples
    ]


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_true(module: str) -> None:
    runner = doctest.DocTestRunner(
        optionflags=doctest.REPORT_ONLY_FIRST_FAILURE | doctest.NORMALIZE_WHITESPACE
    )
    said: list[str] = []
    for test in examples_of(module):
        runner.run(test, out=said.append)
    assert not runner.summarize(verbose=False).failed, "".join(said)


def test_there_are_examples() -> None:
    """The test above has something to run: examples have not silently gone."""
    assert (
        sum(len(test.examples) for module in MODULES for test in examples_of(module))
        >= EXAMPLES_LEAST
    )
