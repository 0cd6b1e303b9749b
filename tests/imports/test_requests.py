"""The judge's names of requests are those of the codec that reads them, and stand in one place."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from harness.model.requests import Request
from harness.protocols.kafka.steps import Api

if TYPE_CHECKING:
    from collections.abc import Iterator

HARNESS = Path(__file__).parents[2] / "harness"
NAMES = {api.label for api in Api}


def test_the_codec_has_every_request_that_histories_are_judged_by() -> None:
    """By the same name: by another one nothing would ever be found."""
    assert {each.name: str(each) for each in Request}.items() <= {
        each.name: each.label for each in Api
    }.items()


def named(source: str) -> Iterator[str]:
    """Yield each text that is the name of a request."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            yield str(node.value)


def test_who_judges_names_no_request_by_a_text() -> None:
    """A misspelt text would never be equal, and nobody would notice."""
    assert list(named('x = "Fetch"; y = {"Produce": 1}; z = "fetches"')) == ["Fetch", "Produce"]
    found = {
        str(file.relative_to(HARNESS)): told
        for folder in ("judge", "proofs")
        for file in (HARNESS / folder).rglob("*.py")
        if (told := list(named(file.read_text(encoding="utf-8"))))
    }
    assert found == {}
