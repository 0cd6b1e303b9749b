"""What public functions raise stands in their docstrings: as a block, by names that exist, and
nowhere in running text.
"""

from __future__ import annotations

import ast
import builtins
import re
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNTOLD = {
    "AssertionError",
    "Exit",
    "LookupError",
    "NotImplementedError",
    "RuntimeError",
    "TypeError",
}
"""Raised where the code that calls is wrong, so that nobody handles them; and what ends a command
of typer. They need no line.
"""
BLOCK = re.compile(r"^Raises:\n((?:    .*(?:\n|$))+)", re.MULTILINE)
NAMED = re.compile(r"^    ([\w.]+): \S", re.MULTILINE)
RUNNING = re.compile(r"\b[Rr]aises (?::class:|``)?[`~.\w]*(?:Error|Failure|Interrupt|Exit)\b")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Function]]:
    """Yield every public function, and method, with its qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions(node, (*path, node.name))
        elif isinstance(node, Function) and not node.name.startswith("_"):
            yield ".".join((*path, node.name)), node


def raised(function: Function) -> set[str]:
    """Return the names of what it raises itself; what a function within it raises is not among
    them.
    """
    found: set[str] = set()
    within: list[ast.AST] = [*function.body]
    while within:
        node = within.pop()
        if isinstance(node, Function | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Raise) and node.exc is not None:
            raises = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            found.add(
                raises.attr if isinstance(raises, ast.Attribute) else getattr(raises, "id", "")
            )
        within += ast.iter_child_nodes(node)
    return {name for name in found if name[:1].isupper()}


def is_command(function: Function) -> bool:
    """Whether it is a command of lostack: its docstring is what ``--help`` shows."""
    return any(
        "typer." in ast.unparse(each.annotation)
        for each in (*function.args.args, *function.args.kwonlyargs)
        if each.annotation
    )


def blocks(docstring: str) -> set[str]:
    """Return the names in its block, without their modules."""
    return {
        name.rpartition(".")[2]
        for block in BLOCK.findall(docstring)
        for name in NAMED.findall(block)
    }


def names_in(tree: ast.AST) -> set[str]:
    """Return the names of the classes that a module has, and of what it imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def wrong(tree: ast.AST, known: set[str]) -> Iterator[str]:
    """Say what is wrong with the docstrings of a module. ``known``: the names of classes that there
    are.
    """
    for name, function in functions(tree):
        told = ast.get_docstring(function)
        if told is None or is_command(function):
            continue
        named = blocks(told)
        if not told.startswith("Raise "):
            for each in sorted(raised(function) - named - UNTOLD):
                yield f"{name} raises {each}, and has no line for it below Raises:"
            if RUNNING.search(told):
                yield f"{name} says in running text what it raises: {RUNNING.findall(told)[0]!r}"
        for each in sorted(named - known):
            yield f"{name}: there is no {each}"


CLASS = re.compile(r"^ *(class \w+)", re.MULTILINE)


def modules() -> Iterator[tuple[Path, ast.AST]]:
    """Yield the modules of the harness; of one in which nothing is raised, its classes alone."""
    for file in sorted((ROOT / "harness").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "aise" not in text:
            text = "".join(f"{line}: ...\n" for line in CLASS.findall(text))
        yield file.relative_to(ROOT), ast.parse(text)


def test_what_is_raised_stands_in_a_block() -> None:
    trees = dict(modules())
    known = (
        {name for tree in trees.values() for name in names_in(tree)}
        | set(dir(builtins))
        | set(dir(msgspec))
        | {"error"}
    )
    assert [f"{file}: {each}" for file, tree in trees.items() for each in wrong(tree, known)] == []


NO_LINE = "read raises {}, and has no line for it below Raises:"
GOOD = '''
def read(file):
    """Read a file.

    Raises:
        OwnError: it is not there.
    """
    raise OwnError(file)
'''


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (("", ""), []),
        (
            ("OwnError: it", "OtherError: it"),
            [NO_LINE.format("OwnError"), "read: there is no OtherError"],
        ),
        (("    Raises:\n        OwnError: it is not there.\n", ""), [NO_LINE.format("OwnError")]),
        (("        OwnError: it", "    OwnError: it"), [NO_LINE.format("OwnError")]),
        (
            ("a file.", "a file. Raises OwnError."),
            ["read says in running text what it raises: 'Raises OwnError'"],
        ),
        (
            ("a file.", "a file; raises :class:`OwnError`."),
            ["read says in running text what it raises: 'raises :class:`OwnError'"],
        ),
        (("raise OwnError", "raise RuntimeError"), []),
        (("raise OwnError(file)", "def inner():\n        raise ValueError"), []),
        (
            ("raise OwnError(file)", "if file:\n        raise ValueError"),
            [NO_LINE.format("ValueError")],
        ),
        (("def read(file)", "def read(file: Annotated[str, typer.Option()])"), []),
        (("def read", "def _read"), []),
    ],
)
def test_what_is_wrong_is_seen(change: tuple[str, str], seen: list[str]) -> None:
    """A line that is missing, in the wrong place, or about nothing; a sentence in the place of a
    line.
    """
    text = GOOD.replace(*change)
    assert change == ("", "") or text != GOOD
    assert list(wrong(ast.parse(text), {"OwnError", "ValueError"})) == seen
