"""A failpoint at which work fails: the program is told so, once, and goes on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from harness import failpoint

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_work_fails_once_at_the_record_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at another record, and not a second time; what it did is a line of the history."""
    monkeypatch.setenv(failpoint.VARIABLE, str(tmp_path / "armed"))
    history = tmp_path / "failpoint.jsonl"
    failpoint.arm(
        tmp_path / "armed",
        "before-recording",
        record="k-2",
        action="fail",
        history=history,
        cell="c",
    )
    calls = [failpoint.failpoint("before-recording", record) for record in ("k-1", "k-2", "k-2")]
    assert calls == [False, True, False]
    [line] = [json.loads(line) for line in history.read_text().splitlines()]
    assert (line["event"], line["name"], line["record"], line["action"]) == (
        "failpoint",
        "before-recording",
        "k-2",
        "fail",
    )
