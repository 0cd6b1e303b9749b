"""What the package's page says of its examples: late acknowledgement on Celery loses, an early one
duplicates, a stream with a group does neither; and the servers besides the default one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lostack_redis.install import WHEELS, versions

EXAMPLES = Path(__file__).parents[1] / "examples"
WITHIN_S = 400.0
POINTS = ("delivery-lost", "consumer-crash-before-delivery", "acknowledgement-lost")
CELERY = ("delivery-lost", "consumer-crash-before-delivery", "session-commit-lost")

pytestmark = [pytest.mark.rest(together=True), pytest.mark.timeout(600)]


def lostack(folder: Path, *words: str) -> dict[str, str]:
    """Run lostack in a folder; return the outcome of each cell, by its scenario."""
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
        env=None,
    )
    report = folder / "reports" / "latest" / "report.json"
    assert report.exists(), done.stdout + done.stderr
    cells = json.loads(report.read_text(encoding="utf-8"))["cells"]
    return {f"{each['scenario']}/{each['semantic']}": each["outcome"] for each in cells}


def only(names: tuple[str, ...]) -> list[str]:
    """Return the words that select failure points."""
    return [word for name in names for word in ("--only", name)]


def test_late_acknowledgement_loses_what_is_on_its_way(tmp_path: Path) -> None:
    """At both points, and nowhere else; behind the work it is run again."""
    told = lostack(tmp_path, "check", str(EXAMPLES / "celery" / "pipeline.toml"), *only(CELERY))
    assert told == {
        "delivery-lost/at-least-once": "broken",
        "consumer-crash-before-delivery/at-least-once": "broken",
        "session-commit-lost/at-least-once": "kept",
    }


@pytest.mark.parametrize(
    ("example", "outcome"), [("celery-early", "broken"), ("celery-once", "kept")]
)
def test_early_acknowledgement_does_not_wait(example: str, outcome: str, tmp_path: Path) -> None:
    """The task is done before its worker is killed with the acknowledgement on its way, and done
    again: only a sink that has a key records it once.
    """
    words = only(("session-commit-lost",))
    told = lostack(tmp_path, "check", str(EXAMPLES / example / "pipeline.toml"), *words)
    assert told == {"session-commit-lost/at-most-once": outcome}


def test_a_stream_with_a_group_keeps_it(tmp_path: Path) -> None:
    told = lostack(tmp_path, "check", str(EXAMPLES / "streams" / "pipeline.toml"), *only(POINTS))
    assert told == {f"{name}/at-least-once": "kept" for name in POINTS}


@pytest.mark.parametrize("hasty", [True, False])
def test_who_is_hasty_with_one_order_in_five_is_met_where_five_are_struck(
    tmp_path: Path, hasty: bool
) -> None:
    """And missed where one is. The right twin is kept at both."""
    folder = tmp_path / "streams"
    shutil.copytree(EXAMPLES / "streams", folder)
    worker = folder / "worker.py"
    text, recorded = worker.read_text(encoding="utf-8"), "        with database:\n"
    early = "        if int(fields['order'].split('-')[1].split('.')[0]) % 5 == 0:\n"
    early += "            broker.xack('orders', 'workers', name)\n"
    assert recorded in text
    if hasty:
        worker.write_text(text.replace(recorded, early + recorded), encoding="utf-8")
    once = "acknowledgement-answer-lost"
    words = only((once, f"{once}-in-turn"))
    told = lostack(tmp_path, "check", str(folder / "pipeline.toml"), "--all", *words)
    assert told == {
        f"{once}/at-least-once": "kept",
        f"{once}-in-turn/at-least-once": "broken" if hasty else "kept",
    }


@pytest.mark.parametrize("version", [each for each in versions() if each != next(iter(WHEELS))])
def test_other_servers_do_the_same(version: str, tmp_path: Path) -> None:
    told = lostack(
        tmp_path, "run", "--system", f"redis=={version}", "--suite", "day", *only(("ack-lost",))
    )
    assert len(told) == 3
    assert set(told.values()) == {"kept"}
