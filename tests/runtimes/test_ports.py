"""Leases of ports: no two runs share a port, whoever runs them, and nobody can stop or mislead a
run by what lies in a folder that all users write to.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.model.failures import EnvironmentFailure
from harness.runtimes import ports
from harness.runtimes.ports import PortLease, candidates, ephemeral_range

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = 65534
LEASES = f"""
import os, sys
from harness.runtimes import ports
if os.getuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
ports.candidates = lambda _: [int(word) for word in sys.argv[1:]]
with ports.PortLease(1) as lease:
    print(lease.port, flush=True)
    sys.stdin.read()
"""
"""Leases one of the ports as another user (where the tests run as root) until its input ends."""


def free(count: int) -> list[int]:
    """Return ports that can be leased now."""
    with PortLease(count) as lease:
        return list(lease.ports)


def only(monkeypatch: pytest.MonkeyPatch, found: list[int]) -> None:
    """Let there be no other ports."""
    monkeypatch.setattr(ports, "candidates", lambda _: found)


def test_leased_ports_are_leased_once() -> None:
    with PortLease(20) as one, PortLease(20) as other:
        assert not set(one.ports) & set(other.ports)
        assert len({*one.ports, *other.ports}) == 40
        assert {*one.ports, *other.ports} <= set(candidates(ephemeral_range()))


def test_what_another_user_has_leased_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """And can be had when that user's program has died, in whatever way."""
    one, other = free(2)
    only(monkeypatch, [one, other])
    theirs = subprocess.Popen(
        [sys.executable, "-c", LEASES, str(one)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert theirs.stdin is not None
    assert theirs.stdout is not None
    with theirs.stdin, theirs.stdout:
        assert int(theirs.stdout.readline()) == one
        with PortLease(1) as ours:
            assert ours.port == other
        with pytest.raises(EnvironmentFailure, match="2 free loopback ports are needed"):
            PortLease(2)
        theirs.kill()
        theirs.wait()
    with PortLease(2) as both:
        assert set(both.ports) == {one, other}


@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_what_somebody_puts_into_the_temporary_folder_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A folder that is called as the leases once were, a link to a folder of ours, or a file."""
    hostile = tmp_path / f"lostack-ports-{os.getuid()}"
    (tmp_path / "ours").mkdir()
    if kind == "folder":
        hostile.mkdir()
    elif kind == "link":
        hostile.symlink_to(tmp_path / "ours")
    else:
        hostile.touch()
    if os.getuid() == 0:
        os.chown(hostile, NOBODY, NOBODY, follow_symlinks=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with PortLease(3) as lease:
        assert len(lease.ports) == 3
    assert list((tmp_path / "ours").iterdir()) == []
