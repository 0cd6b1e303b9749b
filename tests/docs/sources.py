"""Parts of pages that are files of the repository: a whole one, or one definition of a
Python file.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
LANGUAGES: Final = {".py": "python", ".toml": "toml", ".java": "java"}


def shown(where: str) -> str:
    """Return the source of ``FILE`` or ``FILE NAME`` as a block of code; its file stands below.

    Raises:
        LookupError: the file has no such name at its top.
    """
    file, _, name = where.partition(" ")
    text = (ROOT / file).read_text(encoding="utf-8")
    code = defined(text, name) if name else text
    return f"```{LANGUAGES[Path(file).suffix]}\n{code.strip()}\n```\n\nFrom `{file}`."


def defined(text: str, name: str) -> str:
    r"""Return the lines that define a name at the top of a module.

    Raises:
        LookupError: there is none.

    >>> defined("a = 1\n@b\ndef c(): ...\n", "c")
    '@b\ndef c(): ...'
    """
    for node in ast.parse(text).body:
        names = [
            getattr(node, "name", None),
            *(getattr(target, "id", None) for target in getattr(node, "targets", [])),
        ]
        names.append(getattr(getattr(node, "target", None), "id", None))
        if name in names:
            first = min(
                [node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))]
            )
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    raise LookupError(f"nothing at the top of the module is called {name}")
