"""No module of the harness has more lines than can be read in one go, and no class."""

from __future__ import annotations

import ast
import io
import tokenize
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
FOLDERS = ("harness", "scenarios")
MOST = 500, 300
"""Lines of a file, and of a class."""

ENGINES = ROOT / "engines"
MOST_OF_AN_ENGINE = 500
"""Lines of code of a package of engines/, which is small because lostack does the rest."""
MOST_OF = {"lostack_connect": 940}
"""No broker of queues: its cells are put together on Kafka, as those of Kafka Streams are. And it
starts the workers of connectors that pipelines declare, and makes a class-data archive for them.
"""


def codec_of(package: Path) -> set[str]:
    """Return what is not among them, besides the scenarios, as the package itself declares it: what
    bytes mean, on the wire and in files, and what the settings of others do.
    """
    told = tomllib.loads((package.parent / "pyproject.toml").read_text(encoding="utf-8"))
    return set(told["tool"]["lostack"]["codec"])


TOUCHES = {"asyncio", "os", "pathlib", "shutil", "socket", "subprocess", "tempfile", "threading"}
"""What no codec imports, not even for its types: bytes go in, values come out."""


def touched(text: str) -> set[str]:
    """Return which of these a module imports, or ``open`` if it calls that."""
    tree = list(ast.walk(ast.parse(text)))
    names = {each.name for node in tree if isinstance(node, ast.Import) for each in node.names}
    names |= {node.module or "" for node in tree if isinstance(node, ast.ImportFrom)}
    called = {
        node.func.id
        for node in tree
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return {name.partition(".")[0] for name in names} & TOUCHES | called & {"open"}


def code_of(file: Path) -> int:
    """Count the lines with code: no blank ones, no comments, no docstrings."""
    text = file.read_text(encoding="utf-8")
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            told |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in {*BLANK}:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - told)


BLANK = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


@pytest.mark.parametrize(
    "package", sorted(ENGINES.glob("*/lostack_*")), ids=lambda package: package.name
)
def test_an_engine_s_package_is_small(package: Path) -> None:
    assert package.is_dir()
    codec = codec_of(package)
    assert codec <= {file.stem for file in package.rglob("*.py")}, "a module that it has not"
    assert {name: touched((package / f"{name}.py").read_text("utf-8")) for name in codec} == {
        name: set() for name in codec
    }, "what reads files or asks servers is no codec"
    files = [
        file
        for file in package.rglob("*.py")
        if file.stem not in codec and not file.stem.startswith(("published", "scenarios"))
    ]
    assert sum(map(code_of, files)) <= MOST_OF.get(package.name, MOST_OF_AN_ENGINE)
    assert not list(too_long(package))


def test_what_reads_a_file_is_no_codec() -> None:
    """Not even by the type of an argument."""
    assert touched("import struct\n\nx = struct.Struct('<I')\n") == set()
    assert touched("if x:\n    from pathlib import Path\n") == {"pathlib"}
    assert touched("import os.path\nopen('x')\n") == {"os", "open"}


def test_code_is_counted_without_what_is_said_of_it(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text(
        '"""Told\n\nin lines."""\n\n# said\nx = (\n    1,\n)\n\n\ndef f():\n    """Say."""\n'
    )
    assert code_of(file) == 4


def too_long(folder: Path) -> Iterable[str]:
    """Yield the files below a folder, and the classes in them (``file:class``), that have more
    lines than :data:`MOST`.
    """
    in_a_file, in_a_class = MOST
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        named = str(file.relative_to(folder.parent))
        lines = len(text.splitlines())
        if lines > in_a_file:
            yield named
        for node in ast.walk(ast.parse(text if lines > in_a_class else "")):
            if (
                isinstance(node, ast.ClassDef)
                and (node.end_lineno or 0) - node.lineno + 1 > in_a_class
            ):
                yield f"{named}:{node.name}"


def test_nothing_is_too_long() -> None:
    """Neither a file nor a class of ours."""
    assert not [each for folder in FOLDERS for each in too_long(ROOT / folder)]


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        (300, []),
        (301, ["harness/deep/m.py:C"]),
        (501, ["harness/deep/m.py", "harness/deep/m.py:C"]),
    ],
)
def test_one_line_too_many_is_seen(tmp_path: Path, lines: int, seen: list[str]) -> None:
    file = tmp_path / "harness" / "deep" / "m.py"
    file.parent.mkdir(parents=True)
    file.write_text("class C:\n" + "    x = 1\n" * (lines - 1))
    assert list(too_long(tmp_path / "harness")) == seen
