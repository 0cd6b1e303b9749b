"""Imports point one way: each contract in ``pyproject.toml`` holds, and would break where one
points the other way.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grimp
import pytest
from importlinter import api
from importlinter.contracts.acyclic_siblings import AcyclicSiblingsContract
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.independence import IndependenceContract
from importlinter.contracts.layers import LayersContract
from importlinter.contracts.protected import ProtectedContract

from tests.imports.reach import ReachContract

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).with_name("lint-imports")
SETTINGS: dict[str, Any] = api.read_configuration(str(ROOT / "pyproject.toml"))
SESSION: dict[str, Any] = SETTINGS["session_options"]
CONTRACTS: dict[str, dict[str, Any]] = {each["id"]: each for each in SETTINGS["contracts_options"]}
TYPES = {
    each.type_name: each
    for each in (
        AcyclicSiblingsContract,
        ForbiddenContract,
        IndependenceContract,
        LayersContract,
        ProtectedContract,
        ReachContract,
    )
}
LAYERS = [re.split(r" [|:] ", layer) for layer in CONTRACTS["layers"]["layers"]]
RANK = {unit: rank for rank, layer in enumerate(reversed(LAYERS)) for unit in layer}
"""How high a unit lies."""
NAMED = re.compile(r"harness\.(\w+)[\w.]*(?::\w+)?")
QUOTED = re.compile(r"""["']harness\.""")
PLANTED = [
    ("layers", "harness.model.cell", "harness.systems.kafka.system"),
    ("layers", "harness.saved", "harness.report.summary"),
    ("layers", "harness.wire.rules", "harness.runtimes.interface"),  # side by side
    ("core", "harness.model.cell", "kafka"),
    ("core", "harness.model.cell", "harness.interfaces"),
    ("failpoint", "harness.failpoint", "harness.model.waiting"),  # it stands alone
    ("failpoint", "harness", "rich"),  # in the package that it lies in
    ("programs", "harness.stages.stage", "harness.interfaces"),
    ("programs", "harness.stages.sinks.interface", "pandas"),
    ("wire", "harness.wire.rules", "harness.interfaces"),
    ("wire", "harness.wire.wire", "harness.protocols.kafka.session"),
    ("protocols", "harness.protocols.kafka.codec", "harness.wire.lane"),
    ("codecs", "harness.protocols.postgres.session", "harness.protocols.kafka.frames"),
    ("faults", "harness.faults.kill", "harness.systems.kafka.abilities"),
    ("faults", "harness.faults.kill", "harness.protocols.kafka.codec"),
    ("declared", "harness.scenarios.plain", "harness.systems.kafka.system"),
    ("words", "harness.model.history", "socket"),
    ("scenarios", "harness.registry", "harness.scenarios.plain"),
    ("saved", "harness.report.matrix", "harness.runtimes.interface"),
    ("runner", "harness.matrix.runner", "harness.systems.kafka.system"),
    ("audit", "harness.audit.pages", "harness.matrix.selection"),
    ("kafka", "harness.systems.kafka.parts", "harness.systems.spark"),
    ("runtimes", "harness.runtimes.process.runtime", "harness.runtimes.docker.engine"),
    ("engines", "harness.registry", "lostack_nats.about"),
    ("engines-use", "lostack_nats.broker", "harness.registry"),
    ("engines-words", "lostack_nats.session", "socket"),
    ("cycles", "harness.model.record", "harness.judge.verdict"),
]
"""An import that is not there, and the contract that it would break."""


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    """Return all imports there are."""
    return grimp.build_graph(
        *SESSION["root_packages"], include_external_packages=True, cache_dir=None
    )


def keeps(graph: grimp.ImportGraph, contract: str, **changed: Any) -> bool:
    """Whether a contract holds, with some of its options changed."""
    options = CONTRACTS[contract] | changed
    return (
        TYPES[options["type"]](options["name"], SESSION, options).check(graph, verbose=False).kept
    )


@pytest.mark.parametrize(("contract", "importer", "imported"), PLANTED)
def test_an_import_that_points_the_other_way_breaks_its_contract(
    imports: grimp.ImportGraph, contract: str, importer: str, imported: str
) -> None:
    assert keeps(deepcopy(imports), contract)
    planted = deepcopy(imports)
    planted.add_import(importer=importer, imported=imported)
    assert not keeps(planted, contract)


def test_every_contract_is_seen_to_break() -> None:
    assert {contract for contract, _, _ in PLANTED} == set(CONTRACTS)


def test_what_is_allowed_is_needed(imports: grimp.ImportGraph) -> None:
    """A list of what may be reached holds no more than that."""
    assert not keeps(
        deepcopy(imports),
        "core",
        allowed_libraries=[*CONTRACTS["core"]["allowed_libraries"], "rich"],
    )
    assert not keeps(
        deepcopy(imports),
        "wire",
        allowed_modules=[*CONTRACTS["wire"]["allowed_modules"], "harness.matrix.room"],
    )


def test_no_import_is_ignored_and_no_circle_left_out() -> None:
    """Not even those that types alone would close."""
    assert not any(
        {"ignore_imports", "skip_descendants"} & contract.keys() for contract in CONTRACTS.values()
    )


def test_the_linter_refuses_an_import_of_a_type_and_a_unit_without_a_layer(tmp_path: Path) -> None:
    """As `make lint` calls it, on a copy of the package."""
    for part in ("harness", "tests/imports", "engines"):
        shutil.copytree(
            ROOT / part,
            tmp_path / part,
            ignore=lambda folder, names: [
                name
                for name in names
                if not (name.endswith(".py") or (Path(folder) / name).is_dir())
            ],
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert lint(tmp_path).returncode == 0, lint(tmp_path).stdout
    cell = tmp_path / "harness" / "model" / "cell.py"
    cell.write_text(
        cell.read_text()
        + "\nif TYPE_CHECKING:\n    from harness.systems.kafka.system import KafkaSystem\n"
    )
    (tmp_path / "harness" / "novel.py").write_text('"""A unit that nobody has given a layer."""\n')
    refused = lint(tmp_path)
    assert refused.returncode == 1
    assert "harness.model is not allowed to import harness.systems" in refused.stdout
    assert "- harness.model.cell -> harness.systems.kafka.system (l." in refused.stdout
    assert "- harness.novel" in refused.stdout


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts in a folder."""
    return subprocess.run(
        [LINT, "--no-logo", "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def names() -> Iterator[tuple[str, str]]:
    """Yield every module of the package that is named by a string, behind the unit
    that names it.
    """
    for file in sorted((ROOT / "harness").rglob("*.py")):
        unit = file.relative_to(ROOT / "harness").parts[0].removesuffix(".py")
        text = file.read_text()
        for node in ast.walk(ast.parse(text if QUOTED.search(text) else "")):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and (found := NAMED.fullmatch(node.value))
            ):
                yield unit, found[1]


def test_a_module_that_is_named_by_a_string_lies_no_higher_than_who_names_it() -> None:
    """What is imported by its name, or started as a program, no linter of imports sees.

    But for the scenarios of a system, which belong to it as its launcher does, and are declared
    with what its signs are called.
    """
    found = {pair for pair in names() if pair[1] in RANK}
    assert {
        ("registry", "scenarios"),
        ("systems", "stages"),
        ("wire", "wire"),
        ("wire", "protocols"),
    } <= found
    upward = {(unit, named) for unit, named in found if RANK[named] > RANK[unit]}
    assert upward == {("systems", "scenarios")}
