"""The examples in other languages, as they stand, in front of a real Kafka: each through `lostack
proxy` and its HTTP API alone.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from harness.provision.compiled import compiled
from harness.provision.jars import read_jar_set
from tests.docs.pages import ROOT
from tests.pipelines.test_attach import broker
from tests.proxy.test_server import SECRET, command, said_by
from tests.proxy.toolchains import fetched, go, jars_of, said

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

__all__ = ["broker"]
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.rest(together=True),
    pytest.mark.timeout(600),
    pytest.mark.parametrize("broker", [1], indirect=True),
]
EXAMPLES = ROOT / "examples" / "proxy"
CLIENT = "kafka-clients-4.3.0"


def go_test(folder: Path) -> list[str]:
    """Return the command that runs the tests in Go."""
    fetched([str(go()), "mod", "download"], folder)
    return [str(go()), "test", "-mod=readonly", "-count=1", "./..."]


def node_test(folder: Path) -> list[str]:
    """Return the command that runs the tests in JavaScript."""
    fetched(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    return ["node", "--test"]


def java_test(folder: Path) -> list[str]:
    """Return the command that runs the tests in Java."""
    java, jars = jars_of(read_jar_set("junit-1.14.4", folder), read_jar_set(CLIENT))
    jar = compiled("orders", sorted(folder.glob("*.java")), jars, print)
    console = "org.junit.platform.console.ConsoleLauncher"
    words = [str(java.path), "-cp", os.pathsep.join(map(str, [jar, *jars])), console, "execute"]
    return [*words, f"--scan-classpath={jar}", "--details=tree", "--disable-banner"]


RUNS: Mapping[str, Callable[[Path], list[str]]] = {
    "go": go_test,
    "node": node_test,
    "java": java_test,
}
LANGUAGES = [
    pytest.param("go", marks=pytest.mark.go),
    pytest.param("node", marks=pytest.mark.node),
    "java",
]


@dataclass(frozen=True)
class RunningProxy:
    """A proxy that stands already."""

    process: subprocess.Popen[str]
    api: str


@pytest.fixture
def proxy() -> Iterator[RunningProxy]:
    """One that knows no broker yet."""
    running = command()
    yield RunningProxy(running, said_by(running)["api"])
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
    running.communicate()


def ended(proxy: RunningProxy) -> tuple[int, str]:
    """End the proxy; return its exit code and what it complained of."""
    os.killpg(proxy.process.pid, signal.SIGTERM)
    _, error = proxy.process.communicate(timeout=60)
    return proxy.process.returncode, error


def copied(language: str, to: Path, *changes: tuple[str, str]) -> Path:
    """Copy the example of a language, with changes to its test."""
    folder = to / language
    shutil.copytree(EXAMPLES / language, folder, ignore=shutil.ignore_patterns("node_modules"))
    for old, new in changes:
        [test] = [
            file
            for file in folder.iterdir()
            if re.fullmatch(r"orders_test\.go|orders\.test\.js|OrdersTest\.java", file.name)
        ]
        text = test.read_text(encoding="utf-8")
        assert old in text
        test.write_text(text.replace(old, new), encoding="utf-8")
    return folder


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_lost_answer_makes_a_duplicate_of_what_is_not_idempotent(
    broker: str,
    tmp_path: Path,
    proxy: RunningProxy,
    language: str,
) -> None:
    """As the example's own tests say; each fault struck."""
    folder = copied(language, tmp_path)
    variables = {"KAFKA": broker, "LOSTACK_PROXY": proxy.api, "LOSTACK_PROXY_SECRET": SECRET}
    code, text = said(RUNS[language](folder), folder, **variables)
    assert code == 0, text
    assert ended(proxy) == (0, "")


PLANTED = {
    "go": (
        ('"order": 17}', '"order": 99}', "never struck"),
        ("{16, 17, 17, 18}", "{16, 17, 18}", "orders [16 17 17 18], not [16 17 18]"),
    ),
    "node": (
        ("order: 17", "order: 99", "never struck"),
        ("[16, 17, 17, 18]", "[16, 17, 18]", "to be strictly deep-equal"),
    ),
    "java": (
        ('"order": 17}', '"order": 99}', "never struck"),
        ("of(16, 17, 17, 18)", "of(16, 17, 18)", "but was: <[16, 17, 17, 18]>"),
    ),
}
"""What is put in the place of what, in a test, and what is then said."""


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("language", LANGUAGES)
def test_an_example_that_proves_nothing_fails(
    broker: str,
    tmp_path: Path,
    proxy: RunningProxy,
    language: str,
    number: int,
) -> None:
    """One whose fault is about an order that nobody places, and one that overlooks a duplicate."""
    old, new, wanted = PLANTED[language][number]
    folder = copied(language, tmp_path, (old, new))
    variables = {"KAFKA": broker, "LOSTACK_PROXY": proxy.api, "LOSTACK_PROXY_SECRET": SECRET}
    code, text = said(RUNS[language](folder), folder, **variables)
    assert (code, wanted in text) == (1, True), text
    exit_code, complaint = ended(proxy)
    assert (exit_code, "never struck" in complaint) == ((1, True) if number == 0 else (0, False))
