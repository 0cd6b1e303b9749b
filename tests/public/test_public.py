"""The public package: its names, their signatures, and what a program loads by importing them."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

import lostack
from harness.cli import main
from tests.docs import pages
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SIGNATURES: Final = {
    "Proxy": (
        "(upstream: 'str', *, located: 'Mapping[str, str] | None' = None, port: 'int' = 0, "
        "history: 'Path | str | None' = None, protocol: 'str' = 'kafka', "
        "roles: 'Mapping[str, int] | None' = None, "
        "security_protocol: 'str' = 'PLAINTEXT', ca: 'Path | str | None' = None, "
        "ca_out: 'Path | str | None' = None, username: 'str | None' = None, "
        "password: 'str | None' = None) -> 'None'"
    ),
    "assert_delivered": (
        "(sent: 'Iterable[object]', rows: 'Iterable[object]', *, at_least: 'str | None' = None, "
        "at_most: 'str | None' = None, exactly: 'str | None' = None, "
        "proxy: 'Proxy | None' = None) -> 'None'"
    ),
    "attached_kafka": (
        "(bootstrap: 'str', pipeline: 'Pipeline | Path | str', *, remote: 'bool' = False, "
        "listeners: 'bool' = False) -> 'Kafka'"
    ),
    "check": (
        "(pipeline: 'Pipeline | Path | str', *, only: 'Sequence[str]' = (), seed: 'int' = 1, "
        "reports: 'Path | str' = 'reports', kafka: 'Kafka | None' = None) -> 'SavedRun'"
    ),
    "failpoint": "(name: 'str', record: 'str | None' = None) -> 'bool'",
    "load_run": (
        "(directory: 'Path', judged: 'Mapping[str, CellResult] | None' = None) -> 'SavedRun'"
    ),
    "read_pipeline": "(file: 'Path') -> 'Pipeline'",
}
"""The functions. Who changes one breaks programs of users: say so in the changelog."""
NAMES: Final = {
    *SIGNATURES,
    "CellResult",
    "DeclarationError",
    "DryRunError",
    "EnvironmentFailure",
    "Input",
    "Kafka",
    "Kind",
    "NeverStruckError",
    "Output",
    "Pipeline",
    "SavedRun",
    "SavedRunError",
    "Semantic",
    "Stage",
    "Verdict",
}
FIXTURES: Final = {
    "lostack_cell",
    "lostack_check",
    "lostack_delivery",
    "lostack_deliveries",
    "lostack_kafka",
    "lostack_proxy",
}
MEMBERS: Final = {
    "Proxy": {
        "bootstrap",
        "close",
        "cut",
        "delay",
        "hold",
        "late",
        "lose",
        "never",
        "records",
        "refuse",
        "verify",
    },
    "CellResult": {"directory", "ended", "judgement", "plan", "seconds", "verdict"},
    "SavedRun": {"directory", "info", "missing", "results", "whole"},
    "Verdict": {"effect", "fired", "green", "kind", "label", "reason"},
}
"""What users read of a saved run."""
IMPORTS: Final = re.compile(r"^\s*(?:# )?(?:from harness[. ]|import harness\b)", re.MULTILINE)
FOR_CONTRIBUTORS: Final = ("docs/extending/", "ARCHITECTURE.md", "CHANGELOG.md", "docs/style.md")
"""Pages for those who change lostack itself, or bring an engine to it."""


def test_the_names_stay() -> None:
    assert set(lostack.__all__) == NAMES
    assert [name for name in NAMES if getattr(lostack, name, None) is None] == []
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lostack.nothing


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_stays(name: str) -> None:
    assert str(inspect.signature(getattr(lostack, name))) == SIGNATURES[name]


@pytest.mark.parametrize("name", MEMBERS)
def test_what_is_read_of_a_run_stays(name: str) -> None:
    kind = getattr(lostack, name)
    there = {*getattr(kind, "__dataclass_fields__", ()), *dir(kind)}
    assert MEMBERS[name] <= there


def test_the_package_says_that_it_has_types() -> None:
    assert (ROOT / "lostack" / "py.typed").exists()
    assert (ROOT / "harness" / "py.typed").exists()


def test_a_program_with_a_failpoint_loads_nothing_else() -> None:
    told = (
        "import sys; from lostack import failpoint; failpoint('here'); "
        "print([name for name in sys.modules if name.startswith('harness')])"
    )
    ended = subprocess.run(
        (sys.executable, "-c", told), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "['harness', 'harness.failpoint']"


def test_a_program_can_carry_the_failpoint_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One file, which runs without lostack and without any package; an own file is not
    overwritten.
    """
    file = tmp_path / "failpoint.py"
    assert main(["vendor", "failpoint", str(file)]) == 0
    assert str(file) in capsys.readouterr().out
    told = "from failpoint import failpoint; print(failpoint('here', 'k-1'))"
    ended = subprocess.run(
        (sys.executable, "-S", "-c", told), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "False\n"
    file.write_text("mine")
    assert main(["vendor", "failpoint", str(file)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "--force" in line
    assert file.read_text() == "mine"
    assert main(["vendor", "failpoint", str(file), "--force"]) == 0
    assert main(["vendor", "something", str(file), "--force"]) == 2
    capsys.readouterr()
    assert main(["vendor", "failpoint", str(tmp_path / "none" / "copy.py")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"lostack: cannot write {tmp_path}/none/copy.py: No such file")


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_tells_a_user_to_import_the_inside(page: Path) -> None:
    name = str(page.relative_to(ROOT))
    text = re.sub(r"`from\s+harness", "\nfrom harness", page.read_text(encoding="utf-8"))
    assert name.startswith(FOR_CONTRIBUTORS) or not IMPORTS.search(text)


def test_the_reference_names_all() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(\w+)", text, re.MULTILINE))
    assert listed == NAMES | FIXTURES


def test_the_fixtures_are_there() -> None:
    import harness.pytest_plugin as plugin  # noqa: PLC0415 - coverage starts before it

    there = {name for name in FIXTURES if hasattr(plugin, name)}
    assert there | {"lostack_cell"} == FIXTURES
