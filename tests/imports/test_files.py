"""What reads and writes saved runs does so by :mod:`harness.model.safe_files`, as the syntax tree
shows.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

HARNESS: Final = Path(__file__).parents[2] / "harness"
HELD: Final = (
    "audit/accounts.py",
    "cli/counting.py",
    "cli/finishing.py",
    "cli/points.py",
    "cli/saved.py",
    "cli/soak.py",
    "cli/sweep.py",
    "judge",
    "knowledge.py",
    "latest.py",
    "matrix/checking.py",
    "matrix/keeping.py",
    "matrix/points.py",
    "model/history.py",
    "model/writing.py",
    "model/plan.py",
    "pipelines/reading.py",
    "report",
    "saved.py",
    "soak",
    "sweep",
)
"""Files and folders whose code works in folders of runs."""
ALLOWED: Final = {
    ("model/writing.py", "os.open"): "a writer of a history opens the file that it makes",
    ("report/as_html.py", "read_text"): "a template of lostack's own",
    ("report/commit.py", "read_text"): "the Git repository that the user works in",
    ("report/page/model.py", "json.loads"): "what the page itself has packed",
    ("report/writing.py", "open"): "the step summary, named by the CI server's environment",
}
"""A call by file and name, and why it is no part of a folder of runs."""
METHODS: Final = frozenset(
    {"glob", "iterdir", "open", "read_bytes", "read_text", "rglob", "write_bytes", "write_text"}
)
FUNCTIONS: Final = {
    "json": frozenset({"load", "loads"}),
    "tomllib": frozenset({"load", "loads"}),
    "glob": frozenset({"glob", "iglob"}),
    "os": frozenset({"listdir", "open", "scandir", "truncate", "walk"}),
    "shutil": frozenset({"copy", "copy2", "copyfile", "copytree", "move"}),
}


def bare_calls(source: str) -> Iterator[str]:
    """Yield the name of each call that reads or writes files, or parses what was read, and is not
    one of ``safe_files``.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and (name := _bare(node.func)):
            yield name


def _bare(called: ast.expr) -> str | None:
    if isinstance(called, ast.Name):
        return "open" if called.id == "open" else None
    if not isinstance(called, ast.Attribute):
        return None
    of = called.value.id if isinstance(called.value, ast.Name) else ""
    if of in FUNCTIONS:
        return f"{of}.{called.attr}" if called.attr in FUNCTIONS[of] else None
    return called.attr if called.attr in METHODS and of != "safe_files" else None


def held() -> Iterator[Path]:
    """Yield the files that are held to it."""
    for name in HELD:
        at = HARNESS / name
        assert at.exists(), name
        yield from sorted(at.rglob("*.py")) if at.is_dir() else [at]


def test_folders_of_runs_are_read_and_written_safely() -> None:
    """No bare open, no bare parser; and every exception is still needed."""
    found = {
        (str(file.relative_to(HARNESS)), name)
        for file in held()
        for name in bare_calls(file.read_text())
    }
    assert found - ALLOWED.keys() == set(), "read and write them by harness.model.safe_files"
    assert ALLOWED.keys() - found == set(), "these exceptions are not needed any more"


@pytest.mark.parametrize(
    "source",
    [
        "open('x')",
        "file.open('rb')",
        "(folder / 'x').read_text()",
        "file.read_bytes()",
        "file.write_text('')",
        "os.open(file, 0)",
        "json.loads(text)",
        "tomllib.loads(text)",
        "shutil.copy(a, b)",
        "sorted(folder.glob('*'))",
        "folder.rglob('*')",
        "os.scandir(folder)",
        "folder.iterdir()",
    ],
)
def test_a_bare_call_is_found(source: str) -> None:
    assert len(list(bare_calls(f"def act():\n    return [{source}]\n"))) == 1


@pytest.mark.parametrize(
    "source",
    ["safe_files.read_text(below, 'x')", "safe_files.parse_json(text)", "json.dumps(value)"],
)
def test_what_is_safe_is_not(source: str) -> None:
    assert not list(bare_calls(source))
