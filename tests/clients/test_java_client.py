"""The JVM beside a stage program: one life, one death; and what cannot be had is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.model.failures import EnvironmentFailure
from harness.model.semantics import Semantic
from harness.model.waiting import wait_until
from harness.provision.clients import java_versions, prepare_client
from harness.stages.producer_settings import ProducerSettings, SaveCursor
from harness.stages.settings import (
    AT_LEAST_ONCE,
    PLAIN,
    Settings,
    recipe,
)
from harness.stages.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

CALL = """
import sys, time
from harness.stages.clients import java
from harness.stages.stage import Stage
producer = java.make_producer(Stage.from_environment(), transactional_id="t")
print("made", flush=True)
sys.stdin.read()
"""
REFUSED = Settings(
    ProducerSettings(acks=1, retries=True, idempotence=True, cursor=SaveCursor.AFTER_ACK),
    recipe(PLAIN, Semantic.AT_LEAST_ONCE).consumer,
)


def _started(settings: Settings, folder: Path) -> subprocess.Popen[str]:
    """Start a program that makes a producer of the Java client; no broker is there."""
    stage = Stage(
        cell="c",
        key="abcdef01",
        name="producer",
        incarnation=1,
        bootstrap="127.0.0.1:1",
        topic_in="i",
        topic_out="o",
        topic_cursor="c",
        group="g",
        outbox="",
        sink="",
        history=str(folder),
        settings=settings,
        client="java",
    )
    variables = os.environ | stage.environment() | dict(prepare_client("java", print).variables)
    return subprocess.Popen(
        (sys.executable, "-c", CALL),
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.kafka
def test_the_jvm_dies_with_its_program_even_where_it_stands_still(tmp_path: Path) -> None:
    """SIGKILL of the program alone: the kernel kills the JVM, which could not have heard of it."""
    program = _started(AT_LEAST_ONCE, tmp_path)
    assert program.stdout is not None
    assert program.stdout.readline() == "made\n"
    (jvm,) = psutil.Process(program.pid).children()
    assert os.getpgid(jvm.pid) == os.getpgid(program.pid), "what is killed and paused is the group"
    jvm.suspend()
    wait_until(
        lambda: jvm.status() == psutil.STATUS_STOPPED, within_s=5, because="the JVM to stand still"
    )
    os.kill(program.pid, signal.SIGKILL)
    program.wait(10)
    wait_until(
        lambda: not jvm.is_running() or jvm.status() == psutil.STATUS_ZOMBIE,
        within_s=5,
        because="the JVM to be dead",
    )
    program.communicate()


@pytest.mark.kafka
def test_settings_that_the_client_refuses_are_told(tmp_path: Path) -> None:
    """One ack and idempotence: ConfigException of the Java client is a refusal, not a failure."""
    program = _started(REFUSED, tmp_path)
    _, told = program.communicate(timeout=60)
    assert "SettingsRefusedError: ConfigException: " in told


def test_a_version_whose_sums_are_not_known_is_told() -> None:
    assert {"3.8.0", "3.9.1"} < set(java_versions())
    with pytest.raises(
        EnvironmentFailure,
        match=(
            r"java==3\.7\.0: the checksums of its jars are not known; known versions: 3\.2\.1, "
            r"3\.3\.1, 3\.8\.0, 3\.9\.1"
        ),
    ):
        prepare_client("java==3.7.0", print)
