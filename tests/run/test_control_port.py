"""A control port of a Java program answers whoever knows its secret, and nobody else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.model.waiting import wait_until
from harness.provision.cache import cache_root
from harness.provision.compiled import compiled
from harness.provision.java import find_java
from harness.provision.server import CONTROL
from harness.run.control_port import VARIABLE, ControlPort
from harness.runtimes.ports import PortLease
from tests.wire.stranger import knock

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.rest
"""The compiler is fetched, and a JVM runs."""
SOURCE = """
package lostack;
public class Echo {
    public static void main(String[] words) throws Exception {
        ControlPort.answer(words[0], (asked, out) -> {
            if (asked.get(0).equals("fail")) {
                throw new IllegalStateException("as it was told to");
            }
            out.println(new ControlPort.Line().with("asked", String.join(" ", asked)));
        });
    }
}
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Return the command that starts a program with a control port, without its address."""
    source = tmp_path / "Echo.java"
    source.write_text(SOURCE)
    jar = compiled("echo", [source, CONTROL], [], lambda _: None)
    java = find_java(cache_root(), lambda _: None).path
    return [str(java), "-Xmx32m", "-cp", str(jar), "lostack.Echo"]


@pytest.fixture
def running(command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], ControlPort]]:
    """Run one."""
    with PortLease(1) as lease:
        port = ControlPort(lease.port, 5.0)
        process = subprocess.Popen(
            [*command, f"127.0.0.1:{port.number}"], env={**os.environ, **port.environment}
        )

        def answers() -> bool:
            try:
                return bool(port.ask("hello"))
            except OSError:
                return False

        wait_until(answers, within_s=30, because="the program to answer")
        yield process, port
        process.kill()
        process.wait()


def test_who_knows_the_secret_is_answered(
    running: tuple[subprocess.Popen[bytes], ControlPort],
) -> None:
    _, port = running
    assert port.ask("count", "k.in") == [{"asked": "count k.in"}]
    assert port.ask("a word+", "=ü") == [{"asked": "a word+ =ü"}]
    with pytest.raises(OSError, match=r"^the answer to fail is an error: [^\n]*as it was told to$"):
        port.ask("fail")


def test_another_user_is_not_answered(
    running: tuple[subprocess.Popen[bytes], ControlPort],
) -> None:
    """Neither without a secret, nor with a wrong one, nor with half of the right one."""
    process, port = running
    wrong = "0" * len(port.secret)
    for first in ([], [wrong], [port.secret[:20]], ["x" * (1 << 20)]):
        assert set(knock(process.pid, [*first, "hello", "hello" * 20])) <= {""}
    assert port.secret not in Path(f"/proc/{process.pid}/cmdline").read_text()
    assert port.ask("hello") == [{"asked": "hello"}]


def test_one_without_a_secret_does_not_listen(command: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [*command, "127.0.0.1:0"],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert f"the variable {VARIABLE} must hold the secret" in done.stderr
