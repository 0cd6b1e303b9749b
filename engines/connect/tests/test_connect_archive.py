"""Proves with a real JVM that a declared connector's worker starts with the class-data archive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from lostack_connect.archive import ensure_worker_archive
from lostack_connect.install import MAIN, VERSION

from harness.model.waiting import wait_until
from harness.provision.cache import cache_root
from harness.provision.jars import ensure_jars, read_jar_set
from harness.provision.java import find_java
from harness.provision.kafka import VERSION as KAFKA

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.rest]
LOADS_S = 60.0
LAUNCHES = """
import sys
from lostack_connect import install, launch
install.JVM += (sys.argv[1],)
sys.exit(launch.launch(sys.argv[2:]))
"""
"""Launches a worker with one more option of its JVM. In the environment it would be among what a
JVM says of itself, by which archives are told apart.
"""


def test_a_worker_loads_its_classes_from_the_archive(tmp_path: Path) -> None:
    """The JVM says so itself: an archive that does not fit it would pass over without a word.

    A worker loads its classes before it asks for its brokers, so it has none here.
    """
    ensure_worker_archive(print, KAFKA)
    java = find_java(cache_root(), print)
    jars = ensure_jars(read_jar_set(f"connect-{VERSION}"), cache=cache_root(), java=java, say=print)
    (tmp_path / "sink.json").write_text(json.dumps({"connector.class": "A"}))
    told = tmp_path / "classes.log"
    launched = subprocess.Popen(
        [
            *(sys.executable, "-P", "-c", LAUNCHES, f"-Xlog:class+load:file={told}"),
            *(str(tmp_path / "sink.json"), "--jars", str(jars)),
        ],
        env=os.environ | {"BOOTSTRAP_SERVERS": "127.0.0.1:1", "LOSTACK_WORK": str(tmp_path)},
        start_new_session=True,
    )

    def main() -> str:
        """Return the line about the worker's own main class; empty if it is not loaded yet."""
        if launched.poll() is not None:
            raise RuntimeError(f"the worker ended ({launched.returncode})")
        lines = told.read_text(encoding="utf-8").splitlines(True) if told.exists() else []
        return next((line for line in lines if f" {MAIN} " in line and line.endswith("\n")), "")

    try:
        line = wait_until(main, within_s=LOADS_S, because="the worker to load its main class")
    finally:
        os.killpg(launched.pid, signal.SIGKILL)
        launched.wait()
    assert "source: shared objects file (top)" in line
