"""The codec of NATS keeps what the wire relies on of every protocol; the package keeps the whole
contract, on a real nats-server.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from lostack_nats.speaker import SPEAKER

from harness.contract.suite_protocols import *  # noqa: F403 - the suite itself

if TYPE_CHECKING:
    from pathlib import Path

    from harness.contract.speaker import Speaker

WITHIN_S = 240.0


@pytest.fixture
def speaker() -> Speaker:
    """How it is spoken."""
    return SPEAKER


@pytest.mark.server
@pytest.mark.rest
def test_the_package_keeps_the_contract(tmp_path: Path) -> None:
    """As its authors ask; no clause is skipped, and none of them is about nothing."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("--lostack-contract", "lostack-nats"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nlostack-nats brings systems: nats; protocols: nats; clients: nats-py; " in done.stdout
    assert "do not apply" not in done.stdout
    assert "skipped" not in done.stdout
