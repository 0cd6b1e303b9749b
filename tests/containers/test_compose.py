"""The compose file: the code's own versions, loopback only, health checks, and valid for both
generations of compose.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.model.waiting import wait_until
from harness.provision.images import OFFICIAL, OWN, ensure_image
from harness.runtimes.docker.engine import connect

FILE = Path(__file__).parents[2] / "docker-compose.yml"
TEXT = FILE.read_text()
BODY = TEXT.partition("\nservices:\n")[2].partition("\nvolumes:\n")[0]
SERVICES = dict(
    re.findall(r"^  ([a-z-]+):\n((?:(?:    .*)?\n|  *#.*\n)*)", BODY + "\n", re.MULTILINE)
)


def test_images_are_settings_with_the_versions_of_the_code() -> None:
    """Every service's image is a variable, and its default the one that the code would use."""
    known = {**OFFICIAL, **OWN}
    seen = {}
    for name, service in SERVICES.items():
        match = re.search(r"image: \$\{LOSTACK_IMAGE_(\w+):-(.+)\}", service)
        assert match, name
        seen[match[1].lower()] = match[2]
    assert seen == {name: known[name] for name in (*OFFICIAL, "matrix")}


def test_nothing_but_loopback_is_published_and_everything_that_stays_up_has_a_health_check() -> (
    None
):
    """A port without an address would be open to the network."""
    assert set(SERVICES) == {
        "kafka",
        "toxiproxy",
        "spark-master",
        "spark-worker",
        "postgres",
        "matrix",
    }
    for name, service in SERVICES.items():
        ports = re.findall(
            r'"([^"]+)"', "".join(re.findall(r"^    ports: (.*)$", service, re.MULTILINE))
        )
        assert all(port.startswith("127.0.0.1:") for port in ports), name
        assert ("healthcheck:" in service) == (name != "matrix"), name


def test_it_is_for_both_generations_of_compose() -> None:
    """``version:`` is what the newer one complains about, and 1.29 no longer needs."""
    assert not re.search(r"^version:", TEXT, re.MULTILINE)
    assert '"./reports:/reports"' in SERVICES["matrix"]


def there(command: tuple[str, ...]) -> bool:
    """Whether this generation of compose is here: a client without the plug-in has nothing to read
    the file with.
    """
    if not shutil.which(command[0]):
        return False
    return subprocess.run([*command, "version"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    "command",
    [each for each in (("docker", "compose"), ("docker-compose",)) if there(each)],
    ids=" ".join,
)
def test_compose_takes_it(command: tuple[str, ...]) -> None:
    """Every generation that is here reads the file; where there is none, this shows as not run,
    never as passed.
    """
    done = subprocess.run(
        [*command, "-f", FILE, "config", "-q"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.docker
def test_the_programs_in_the_image_run() -> None:
    """A program whose classes are not there would be one in name only."""
    image = ensure_image(connect(), "kafka", print)
    done = subprocess.run(
        [
            "docker",
            "run",
            "--rm",
            "--entrypoint",
            "/opt/kafka/bin/kafka-storage.sh",
            image.reference,
            "random-uuid",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert len(done.stdout.split()[-1]) == 22, done.stderr


@pytest.mark.docker
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("name", "services"),
    [("kafka", ["kafka"]), ("spark", ["spark-master", "spark-worker"]), ("postgres", ["postgres"])],
)
def test_it_becomes_healthy(tmp_path: Path, name: str, services: list[str]) -> None:
    """By the very check of the file, in a project of its own that publishes nothing and is taken
    down again.
    """
    if not shutil.which("docker-compose"):
        pytest.skip("there is no docker-compose here to start it")
    body = re.sub(
        r"^    ports:.*\n",
        "",
        "".join(f"  {each}:\n{SERVICES[each]}" for each in services),
        flags=re.MULTILINE,
    )
    (tmp_path / "docker-compose.yml").write_text(
        f"services:\n{body}\nvolumes:\n  kafka-data:\n  postgres-data:\n"
    )
    image = ensure_image(connect(), name, print)
    words = ["docker-compose", "-p", f"lostack-{name}-{os.getpid()}"]
    environment = {**os.environ, f"LOSTACK_IMAGE_{name.upper()}": image.reference}

    def compose(*more: str) -> str:
        done = subprocess.run(
            [*words, *more],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=90,
        )
        return done.stdout

    try:
        compose("up", "-d")
        containers = compose("ps", "-q").split()
        assert len(containers) == len(services)
        state = ["docker", "inspect", "-f", "{{.State.Health.Status}}", *containers]
        wait_until(
            lambda: set(subprocess.check_output(state, text=True).split()) == {"healthy"},
            within_s=90,
            because=f"{name} to be healthy",
            poll_s=0.5,
        )
    finally:
        compose("down", "-v")
