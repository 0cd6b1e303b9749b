"""A client at a version of its own: made once, asked before each use, and this package
behind it.
"""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import pytest

from harness.model.failures import EnvironmentFailure
from harness.provision import environments
from harness.provision.environments import ensure_client, installed, variables
from harness.registry import UnknownNameError, clients_of


class Installer:
    """Makes an environment that holds a client of one version, whatever was asked for, and counts
    how often.
    """

    def __init__(self, version: str) -> None:
        self.version = version
        self.made = 0

    def __call__(self, part: Path, client: str) -> None:
        """Make it."""
        self.made += 1
        venv.create(part, symlinks=True, with_pip=False)
        packages = next(part.glob("lib/python*/site-packages"))
        packages.joinpath("lostack.pth").write_text(environments._BEHIND)
        info = packages / f"{client.partition('==')[0].replace('-', '_')}-{self.version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {client.partition('==')[0]}\nVersion: {self.version}\n"
        )


def test_it_is_made_once_and_holds_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time it is found; another version is another environment."""
    monkeypatch.setattr(environments, "_make", made := Installer("2.3.0"))
    python = ensure_client("confluent-kafka==2.3.0", print, tmp_path)
    assert installed(python) == {"confluent-kafka": "2.3.0"}
    assert ensure_client("confluent-kafka==2.3.0", print, tmp_path) == python
    assert made.made == 1
    monkeypatch.setattr(environments, "_make", Installer("2.4.0"))
    assert ensure_client("confluent-kafka==2.4.0", print, tmp_path) != python


def test_another_version_than_asked_for_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installer that resolves to something else is not believed."""
    monkeypatch.setattr(environments, "_make", Installer("2.3.1"))
    with pytest.raises(EnvironmentFailure, match=r"confluent-kafka 2\.3\.1, not 2\.3\.0"):
        ensure_client("confluent-kafka==2.3.0", print, tmp_path)


@pytest.mark.parametrize(
    "client",
    ["confluent-kafka==", "confluent-kafka==latest", "confluent-kafka==2.3.0 --index-url=x"],
)
def test_what_is_no_version_is_told(client: str) -> None:
    """Nothing that is no version reaches an installer: it is no name of a client."""
    with pytest.raises(UnknownNameError, match="names no version"):
        clients_of("kafka", [client])


def test_a_program_in_it_finds_this_package_behind_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the environment holds comes first; the harness is there for the stage programs."""
    monkeypatch.setattr(environments, "_make", Installer("2.3.0"))
    python = ensure_client("confluent-kafka==2.3.0", print, tmp_path)
    command = [
        python,
        "-c",
        "import sys, harness.stages.stage as s; print(s.__file__); print(*sys.path[1:], sep='\\n')",
    ]
    told = subprocess.run(
        command, env=variables(), cwd="/", capture_output=True, text=True, check=True
    ).stdout.split("\n")
    home = variables()[environments.HOME]
    assert told[0] == str(Path(home, "harness/stages/stage.py"))
    assert told.index(home) > told.index(
        next(path for path in told[1:] if path.endswith("site-packages"))
    )
