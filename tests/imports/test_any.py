"""``Any`` says nothing of a value: there is less of it with each change, and never more."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

HARNESS: Final = Path(__file__).parents[2] / "harness"
MOST: Final = 199
"""How many there may be in the harness. The number only falls: who removes some lowers it."""
WORD: Final = re.compile(r"\bAny\b")


def found(source: str) -> Iterator[int]:
    """Yield the line of each ``Any`` in a source, also of those in a type that is written as a
    text; an import is none.
    """
    for node in ast.walk(ast.parse(source if "Any" in source else "")):
        match node:
            case ast.Name(id="Any", lineno=line):
                yield line
            case (
                ast.AnnAssign(value=ast.Constant(value=str(text), lineno=line))
                | ast.Call(
                    func=ast.Name(id="cast"), args=[ast.Constant(value=str(text), lineno=line), _]
                )
            ):
                yield from [line] * len(WORD.findall(text))


def test_any_becomes_rarer() -> None:
    """What a value is can be said: by its library, a structure, or ``object``."""
    there = sorted(
        f"{file.relative_to(HARNESS.parent)}:{line}"
        for file in HARNESS.rglob("*.py")
        for line in found(file.read_text(encoding="utf-8"))
    )
    assert len(there) <= MOST, there


def test_each_any_is_counted() -> None:
    """As a name, in a type that is a text, and not where it is imported or spoken of."""
    source = '''
from typing import Any
Rows: TypeAlias = "dict[str, Any]"
def read(one: Any, *, many: list[Any]) -> None:
    """Any of them."""
    told = cast("list[Any]", one)
    said = "Any"
'''
    assert sorted(found(source)) == [3, 4, 4, 6]
