"""Pipelines on a real broker that only two faults show to be wrong, and their right twins."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from tests.pipelines.test_check import PROGRAMS, check

if TYPE_CHECKING:
    from pathlib import Path

    from harness.systems.declared.system import DeclaredSystem

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600), pytest.mark.rest]


def written(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """Return the declaration of the programs, with changes in its text."""
    programs = folder / "programs"
    if not programs.exists():
        for each in ("pairs", "split"):
            shutil.copytree(PROGRAMS / each, programs / each)
    file = programs / name / "pipeline.toml"
    text = file.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    changed = file.with_name("changed.toml")
    changed.write_text(text, encoding="utf-8")
    return changed


@dataclass(frozen=True)
class Wrong:
    """A wrong program: what stands in the declaration of the right one instead, a fault that it
    survives, and the pair that shows it.
    """

    name: str
    right: str
    wrong: str
    single: str
    pair: str


KINDS = [
    Wrong(
        "pairs",
        "producer.py {input} right",
        "producer.py {input} skips",
        "producer-crash-before-send",
        "killed-twice-while-sending",
    ),
    Wrong(
        "pairs",
        "producer.py {input} right",
        "producer.py {input} trusts",
        "ack-lost",
        "ack-lost-then-killed",
    ),
    Wrong(
        "pairs",
        "consumer.py {work} right",
        "consumer.py {work} early",
        "told-to-end-while-reading",
        "told-to-end-while-reading-then-killed",
    ),
    Wrong(
        "split",
        "kafka-clients-4.1.1",
        "kafka-clients-4.1.0",
        "request-lost",
        "refused-too-large-then-killed",
    ),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.pair)
def test_the_second_fault_takes_away_what_mends_the_first(
    system: DeclaredSystem, tmp_path: Path, kind: Wrong
) -> None:
    """The wrong program is kept at the first fault, and loses records at the pair; the right one
    loses none.
    """
    single, pair = kind.single, kind.pair
    file = written(tmp_path, kind.name, (kind.right, kind.wrong))
    found = check(system, tmp_path / "wrong", file, single, pair)
    assert found[single].verdict.kind is Kind.KEPT, found[single].verdict.reason
    assert found[pair].verdict.kind is Kind.BROKEN, found[pair].verdict.reason
    assert found[pair].judgement.account.lost
    assert found[pair].verdict.by_fault
    right = check(system, tmp_path / "right", written(tmp_path, kind.name), pair)[pair]
    assert right.verdict.kind is Kind.KEPT, right.verdict.reason
    assert right.verdict.fired == 1
