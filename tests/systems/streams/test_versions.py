"""The versions of Kafka Streams that can be chosen: with the system, or with the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness import registry
from harness.systems.streams import system as streams
from harness.systems.streams.install import VERSION, versions

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("name", "client", "version"),
    [
        ("streams", "kafka-streams", VERSION),
        ("streams==3.4.0", "kafka-streams", "3.4.0"),
        ("streams==3.4.0", "kafka-streams==3.3.2", "3.3.2"),
    ],
)
def test_a_version_is_that_of_the_client_or_else_of_the_system(
    name: str, client: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ensure(_: object, __: Callable[[str], None], wanted: str) -> Any:
        asked.append(wanted)

    monkeypatch.setattr(streams, "ensure_kafka", lambda _: None)
    monkeypatch.setattr(streams, "ensure_streams", ensure)
    found: Any = registry.system(name)
    found._bring(print, client)
    assert (found.name, asked) == (name, [version])


def test_the_versions_are_those_with_checksums() -> None:
    assert VERSION in versions()
    assert versions()[0] == "3.3.2"
    assert registry.systems("process", "streams==3.4.0") == ("streams==3.4.0",)
