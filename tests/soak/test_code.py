"""What must be equal where a soak or a run of seeds goes on: the code, and a pipeline's words."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.code import code_of, digest_of
from harness.model.semantics import Semantic
from harness.pipelines import read_pipeline
from harness.pipelines.cells import DeclaredCell
from harness.soak.waves import Soak, SoakError, begun, modules_of
from harness.systems.declared.system import DeclaredSystem
from scenarios import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.pipelines.declaration import Pipeline

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with one module, and a folder beside it."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "system.py").write_text("A = 1\n")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "more.py").touch()
    return folder


def cell_of(declared: Pipeline) -> DeclaredCell:
    """Return a cell of a declared pipeline."""
    return DeclaredCell(
        plain.ACK_LOST, Semantic.AT_LEAST_ONCE, "declared", "", "process", 1, 24, declared
    )


def a_soak(folder: Path, file: Path) -> Soak:
    """Ask for a soak of a declared pipeline."""
    return Soak(folder, (cell_of(read_pipeline(file)),), (), 24, 30, 1, "lostack soak")


LEFT: dict[str, Callable[[Path], Any]] = {
    "what is hidden": lambda at: (at / ".DS_Store").write_text("x"),
    "a hidden folder": lambda at: shutil.copytree(at, at / ".git"),
    "an editor's copy": lambda at: (at / "system.py~").write_text("x"),
    "a patch's copy": lambda at: (at / "system.py.orig").write_text("x"),
    "an editor's lock, a link to nothing": lambda at: (at / ".#system.py").symlink_to("me@here.1"),
    "a dangling link": lambda at: (at / "gone.py").symlink_to("nowhere.py"),
    "a link to the folder": lambda at: (at / "again").symlink_to("."),
    "a link to the folder above": lambda at: (at / "up").symlink_to(at),
    "a pipe": lambda at: os.mkfifo(at / "pipe"),
}


@pytest.mark.parametrize("left", LEFT)
def test_what_is_no_code_changes_nothing(package: Path, left: str) -> None:
    before = digest_of(package)
    LEFT[left](package)
    assert digest_of(package) == before


def test_code_in_folders_that_are_linked_to_counts_once(package: Path) -> None:
    (package / "linked").symlink_to("../beside")
    before = digest_of(package)
    (package / "second").symlink_to("../beside")
    assert digest_of(package) == before
    (package.parent / "beside" / "more.py").write_text("B = 1\n")
    assert digest_of(package) != before


@pytest.mark.parametrize(
    ("example", "system", "packages"),
    [
        ("orders", "kafka", set()),
        ("parcels", "activemq", set()),
        ("parcels", "rabbitmq", {"lostack_rabbitmq"}),
        ("debezium-iceberg", "kafka", {"lostack_connect"}),
    ],
)
def test_the_packages_of_a_declared_pipeline_count(
    example: str, system: str, packages: set[str]
) -> None:
    """Its system is lostack's own whatever broker it names."""
    declared = replace(read_pipeline(EXAMPLES / example / "pipeline.toml"), system=system)
    modules = modules_of([DeclaredSystem()], [cell_of(declared)])
    assert {each.partition(".")[0] for each in modules} == {"harness", *packages}
    code_of(*modules)


def test_another_declaration_is_not_gone_on_with(tmp_path: Path) -> None:
    """One line of it changed. With the line as it was the soak goes on."""
    text = (EXAMPLES / "orders" / "pipeline.toml").read_text()
    file, folder = tmp_path / "pipeline.toml", tmp_path / "soak"
    file.write_text(text)
    one = a_soak(folder, file)
    assert not begun(folder, one.asked)
    file.write_text(f"{text}# mended\n")
    with pytest.raises(SoakError) as refused:
        begun(folder, a_soak(folder, file).asked)
    assert str(refused.value) == (
        f"{folder} was begun with other settings (declaration): give those, or start anew, "
        "without --resume"
    )
    file.write_text(text)
    assert begun(folder, replace(one, records=48).asked)
