"""Finding a PostgreSQL server: the newest there is, or the one that a setting names; and what is
said where there is none.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from harness import doctor, registry
from harness.matrix.selection import select
from harness.model.failures import EnvironmentFailure
from harness.provision import postgres
from harness.systems.kafka.launcher import ProcessGround
from harness.systems.kafka.system import Prepared


def fake(folder: Path, version: str) -> Path:
    """Make programs that know their version."""
    folder.mkdir(parents=True)
    for name in postgres.PROGRAMS:
        file = folder / name
        file.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version} (Debian)'\n")
        file.chmod(0o755)
    return folder


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine whose usual places are those below this folder."""
    monkeypatch.setattr(postgres, "USUAL", (str(tmp_path / "usual"),))
    monkeypatch.setattr(postgres, "_user", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv(postgres.VARIABLE, raising=False)
    return tmp_path


def test_the_newest_is_taken(alone: Path) -> None:
    for version in ("9.6", "15.18", "17.2"):
        fake(alone / "usual" / version / "bin", version)
    found = postgres.find_postgres(os.environ)
    assert found is not None
    assert (found.version, found.programs) == ("17.2", alone / "usual" / "17.2" / "bin")
    assert found.command("postgres", "-D", "x") == (str(found.programs / "postgres"), "-D", "x")


def test_the_setting_alone_decides(alone: Path) -> None:
    """A setting that names nothing that runs is wrong use, whatever else is there."""
    fake(alone / "usual" / "17" / "bin", "17.2")
    mine = fake(alone / "mine", "16.1")
    found = postgres.find_postgres({postgres.VARIABLE: str(mine)})
    assert found is not None
    assert found.version == "16.1"
    with pytest.raises(
        EnvironmentFailure,
        match=r"LOSTACK_POSTGRES is set, but .* does not hold working programs postgres and initdb",
    ):
        postgres.find_postgres({postgres.VARIABLE: str(alone / "path")})


def lacking() -> set[str]:
    """Return what cells with a database server lack on this machine; the plain ones
    lack nothing.
    """
    cells = select(registry.scenarios(), only=("database-none", "plain/none"), system="kafka").cells
    found = Prepared(ground=ProcessGround(None)).prepare_for(cells, print)  # type: ignore[arg-type]
    assert {cell.pipeline for cell in cells if cell.id in found} == {"to-postgres"}
    assert {cell.pipeline for cell in cells if cell.id not in found} == {"plain"}
    return set(found.values())


def test_a_wrong_setting_voids_the_cells_that_need_the_server(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who names a server wants its cells run, so they are never left out quietly; the others are
    not stopped by it.
    """
    monkeypatch.setenv(postgres.VARIABLE, str(alone / "path"))
    [why] = lacking()
    assert why.startswith("LOSTACK_POSTGRES is set, but")


def test_without_a_server_the_cells_that_need_one_are_void(alone: Path) -> None:
    """Each has the reason, and the command that helps; the doctor says the same and calls it
    optional.
    """
    del alone
    assert lacking() == {f"no PostgreSQL server is installed here: {postgres.INSTALL}"}
    finding = next(each for each in doctor.diagnose() if each.name == "postgres")
    assert finding.ok
    assert "apt-get install postgresql" in finding.detail
    with pytest.raises(EnvironmentFailure, match="apt-get install postgresql"):
        postgres.ensure_postgres()


def test_a_container_needs_no_server_of_this_machine(alone: Path) -> None:
    del alone
    chosen = select(registry.scenarios(), only=("database-none",), system="kafka", runtime="docker")
    assert len(chosen.cells) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root must become somebody else")
def test_root_runs_it_as_somebody_else_who_can_reach_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user cannot enter a folder that is closed to others: its files lie elsewhere, and go; or
    one line says what to do.
    """
    install = postgres.PostgresInstall(tmp_path, "17", "nobody")
    assert install.command("postgres")[:2] == ("setpriv", "--reuid=nobody")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    home = install.own(closed / "data")
    try:
        assert home.parent == Path(tempfile.gettempdir())
        assert home == install.home(closed / "data") != install.home(closed / "another")
    finally:
        install.forget(closed / "data")
    assert not home.exists()
    home.symlink_to(closed)  # somebody else was there first
    with pytest.raises(EnvironmentFailure, match=r"exists already, .*: remove it"):
        install.own(closed / "data")
    home.unlink()
    monkeypatch.setattr(tempfile, "tempdir", str(closed))
    with pytest.raises(EnvironmentFailure, match=r"the user nobody cannot enter .*: set TMPDIR"):
        install.own(closed / "data")
