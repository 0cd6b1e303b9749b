"""README's table of finds says what the committed runs say to which it leads."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.docs.pages import ROOT

FOLDER = "reports/published/bugs/"
VERSION = re.compile(r"\d+\.\d+\.\d+")


def rows(text: str) -> list[list[str]]:
    """Return the cells of each row of the table of finds."""
    table = text.partition("## What it has found")[2].partition("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("| 2")
    ]


ROWS = rows((ROOT / "README.md").read_text(encoding="utf-8"))


def runs(row: list[str]) -> list[dict[str, Any]]:
    """Return the reports of the runs to which a row leads."""
    return [
        json.loads((ROOT / FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        for name in re.findall(rf"\({FOLDER}([^)]+)\.md\)", " ".join(row))
    ]


def versions(told: list[dict[str, Any]], *, broken: bool) -> set[str]:
    """Return the versions of system and client in the cells of these runs that were broken, or that
    were kept. What a cell does not name itself is as its run says; in a pipeline of a user's that
    is all that took part.
    """
    return {
        version
        for run in told
        for cell in run["cells"]
        if (cell["verdict"] == "broken") is broken
        for part in _parts(cell, run["run"]["versions"])
        for version in VERSION.findall(
            part if "==" in part else run["run"]["versions"].get(part, "")
        )
    }


def _parts(cell: dict[str, Any], versions: dict[str, str]) -> tuple[str, ...]:
    return tuple(versions) if cell["system"] == "declared" else (cell["system"], cell["client"])


def test_there_are_finds() -> None:
    assert len(ROWS) >= 6


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1][:40])
def test_a_find_is_in_its_run(row: list[str]) -> None:
    """Each version that is called convicted has a broken cell, each acquitted one a kept cell."""
    told = runs(row)
    assert told
    _, _, convicted, acquitted = row
    labels = [re.sub(r"\([^)]*\)", "", cell) for cell in (convicted, acquitted)]
    for label, broken in zip(labels, (True, False), strict=True):
        named = set(VERSION.findall(label))
        assert named
        assert named <= versions(told, broken=broken)


def test_another_version_would_be_noticed() -> None:
    told = [
        {
            "run": {"versions": {"kafka": "4.9.9", "java": "4.9.8"}},
            "cells": [
                {"verdict": "broken", "system": "kafka==4.3.0", "client": "java==4.3.1"},
                {"verdict": "kept", "system": "kafka", "client": "java==4.3.1"},
            ],
        },
        {
            "run": {"versions": {"debezium-postgres": "3.7.0.Final"}},
            "cells": [{"verdict": "broken", "system": "declared", "client": "mine"}],
        },
    ]
    assert versions(told, broken=True) == {"4.3.0", "4.3.1", "3.7.0"}
    assert versions(told, broken=False) == {"4.9.9", "4.3.1"}
