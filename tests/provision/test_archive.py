"""The class-data archive where it cannot be made: said once, remembered for a while, then tried
again.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from harness.model.waiting import wait_until
from harness.provision import archive
from harness.provision.java import Java
from harness.runtimes.interface import NodeSpec
from harness.runtimes.process import GuardianDiedError, ProcessRuntime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def test_a_failure_is_remembered_but_not_for_ever(tmp_path: Path) -> None:
    """A machine too busy to make one goes without, is not asked again at once, and is asked again
    later.
    """
    java = Java(tmp_path / "java", 17, "a Java of this test")
    tried: list[str] = []

    def too_busy(*_: object) -> None:
        tried.append("failed")
        raise TimeoutError("still waiting for the archive's broker to listen")

    def quiet(java: Java, jars: Sequence[Path], directory: Path) -> None:
        del java, jars
        tried.append("made")
        (directory / "classes.jsa").write_bytes(b"classes")

    def ensured(make: object) -> archive.Archive:
        return archive.ensure_archive(java, (), cache=tmp_path, say=lambda _: None, make=make)  # type: ignore[arg-type]

    assert ensured(too_busy).flags == ()
    assert "still waiting" in ensured(quiet).because
    assert tried == ["failed"]
    marker = next(tmp_path.glob("archives/*/failed"))
    long_ago = time.time() - archive.TRIED_AGAIN_S - 1
    os.utime(marker, (long_ago, long_ago))
    assert ensured(quiet).path == marker.with_name("classes.jsa")
    assert tried == ["failed", "made"]
    assert not marker.exists()


def test_a_killed_guardian_is_no_failure_of_the_archive(tmp_path: Path) -> None:
    """It ends the run, as everywhere; nothing is remembered, whatever had to wait for what it
    guarded.
    """

    def killed(java: Java, jars: Sequence[Path], directory: Path) -> None:
        del java, jars
        with ProcessRuntime(directory=directory / "work") as runtime:
            node = runtime.start(NodeSpec("archive-broker", "broker", ("sleep", "60")))
            os.kill(runtime.guardian_pid, signal.SIGKILL)
            wait_until(
                lambda: archive._up(node, 1), within_s=20, because="the archive's broker to listen"
            )

    with pytest.raises(GuardianDiedError, match="SIGKILL"):
        archive.ensure_archive(
            Java(tmp_path / "java", 17, "a Java"),
            (),
            cache=tmp_path,
            say=lambda _: None,
            make=killed,
        )
    assert not [path for path in tmp_path.glob("archives/*") if path.is_dir()]
