"""Real readers that go back, on a real broker, and their right twin: what the wire shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from tests.pipelines.test_check import PROGRAMS, check

if TYPE_CHECKING:
    from pathlib import Path

    from harness.systems.declared.system import DeclaredSystem

FOLDER = PROGRAMS / "goes-back"
pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ("on", Kind.KEPT, "monotonic kept by"),
        ("reads-back", Kind.BROKEN, "monotonic is claimed: the consumer went back: it was given"),
        ("saves-back", Kind.BROKEN, "monotonic is claimed: the group billing saved position 2 of"),
    ],
)
def test_a_reader_that_goes_back_breaks_its_claim(
    system: DeclaredSystem, tmp_path: Path, how: str, kind: Kind, said: str
) -> None:
    """Even without a fault: at-least-once permits what it doubles."""
    text = (FOLDER / "pipeline.toml").read_text(encoding="utf-8").replace("HOW", how)
    text = text.replace("../../../../", f"{PROGRAMS.parents[2]}/")
    text = text.replace("consumer.py", f"{FOLDER}/consumer.py")
    file = tmp_path / "pipeline.toml"
    file.write_text(text, encoding="utf-8")
    found = check(system, tmp_path / "reports", file)["none"]
    assert found.verdict.kind is kind, found.verdict.reason
    assert said in found.verdict.reason
