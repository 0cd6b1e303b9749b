"""What a user is told when the container engine refuses: one clear line each, with what to do. No
engine is needed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from docker.errors import APIError, DockerException, ImageNotFound

from harness.model.failures import EnvironmentFailure
from harness.provision.images import PULL_VARIABLE, ensure_image
from harness.runtimes.docker.engine import EngineError, connect, telling

if TYPE_CHECKING:
    from pathlib import Path

REFUSALS = {
    (
        "driver failed programming external connectivity: Bind for 127.0.0.1:9092 failed: port is "
        "already allocated"
    ): "end the program that uses the port, and run again",
    "listen tcp4 127.0.0.1:9092: bind: address already in use": (
        "end the program that uses the port, and run again"
    ),
    "write /var/lib/docker/tmp/x: no space left on device": (
        "the engine's disk is full: see what uses it by docker system df"
    ),
}


@pytest.mark.parametrize(("said", "told"), REFUSALS.items())
def test_what_the_engine_refuses_says_what_to_do(said: str, told: str) -> None:
    with (
        pytest.raises(EngineError, match="cannot start node a: ") as caught,
        telling("cannot start node a"),
    ):
        raise APIError(said, explanation=said)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_engine_that_is_gone_is_one_line() -> None:
    with pytest.raises(EngineError) as caught, telling("asking for the state of node a"):
        raise ConnectionRefusedError(111, "Connection refused")
    assert str(caught.value) == (
        "asking for the state of node a: the container engine does not answer (Connection refused)"
    )


def test_no_engine_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(
        EngineError,
        match=r"no container engine answers at unix://.*: start it \(sudo systemctl start docker\)",
    ):
        connect()


def test_permission_denied_names_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(**_: Any) -> None:
        raise DockerException(
            "Error while fetching server API version: ('Connection aborted.', "
            "PermissionError(13, 'Permission denied'))"
        )

    monkeypatch.setattr("harness.runtimes.docker.engine.docker.from_env", denied)
    with pytest.raises(
        EngineError, match=r"may not use the container engine at .*: sudo usermod -aG docker \$USER"
    ):
        connect()


def test_an_image_that_is_named_and_cannot_be_pulled_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stand-in takes the place of the official one only, never of one that somebody named."""

    def missing(_: str) -> None:
        raise ImageNotFound("no such image")

    monkeypatch.setenv("LOSTACK_IMAGE_SPARK", "mirror.example/spark:4")
    monkeypatch.setenv(PULL_VARIABLE, "never")
    client: Any = SimpleNamespace(images=SimpleNamespace(get=missing))
    with pytest.raises(
        EnvironmentFailure,
        match=r"mirror\.example/spark:4 is missing and cannot be pulled .*; pull it, or unset",
    ):
        ensure_image(client, "spark", lambda _: None)
