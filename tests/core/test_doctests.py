"""The examples in the docstrings of the core are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import harness.core

MODULES = sorted(module.name for module in pkgutil.iter_modules(harness.core.__path__, "harness.core."))
EXAMPLES_LEAST = 10


def examples_of(module: str) -> list[doctest.DocTest]:
    """Return the docstrings with examples of one module."""
    return [test for test in doctest.DocTestFinder().find(importlib.import_module(module)) if test.examples]


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_true(module: str) -> None:
    """Every example of the module gives the answer it shows."""
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_ONLY_FIRST_FAILURE)
    said: list[str] = []
    for test in examples_of(module):
        runner.run(test, out=said.append)
    assert not runner.summarize(verbose=False).failed, "".join(said)


def test_there_are_examples() -> None:
    """The test above has something to run: examples have not silently gone."""
    assert sum(len(test.examples) for module in MODULES for test in examples_of(module)) >= EXAMPLES_LEAST
