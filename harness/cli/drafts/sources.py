"""What a program's source shows: topics, input and output. These are guesses, which the user can
correct in the draft.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

MOST = 400_000
"""How many bytes of a file are read."""
SUFFIXES = frozenset({".py", ".java", ".kt", ".js", ".ts", ".go", ".rs", ".sh", ".rb", ".scala"})
_TOPIC = (
    r"""subscribe\(\s*(?:List\.of\(|Arrays\.asList\(|\[)?\s*["']([\w.-]+)["']""",
    r"""KafkaConsumer\(\s*["']([\w.-]+)["']""",
    r"""\.(?:produce|send)\(\s*["']([\w.-]+)["']""",
    r"""ProducerRecord<[^>]*>\(\s*["']([\w.-]+)["']""",
    r"""\btopics?\w*\s*[:=]\s*\[?\s*["']([\w.-]+)["']""",
)
_BOOTSTRAP = r"""["']((?:[A-Z][A-Z0-9_]*)?(?:BOOTSTRAP|BROKER)[A-Z0-9_]*)["']"""
_FIXED = r"""["']((?:localhost|127\.0\.0\.1|[\w.-]*(?:kafka|broker)[\w.-]*):\d{4,5})["']"""
_TABLE = r"""CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?["'`]?(\w+)["'`]?\s*\(\s*["'`]?(\w+)"""
_INSERT = r"""INSERT\s+(?:OR\s+\w+\s+)?INTO\s+["'`]?(\w+)"""
_STDIN = (
    r"\bsys\.stdin\b",
    r"\bSystem\.in\b",
    r"\bos\.Stdin\b",
    r"\bprocess\.stdin\b",
    r"\binput\(\)",
)
_SQLITE = (r"\bsqlite3\b", r"jdbc:sqlite", r"better-sqlite3")
GIVEN = frozenset({"BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP_SERVERS"})
"""Environment variables that every stage gets."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What a program's sources show. ``variables``: the environment variables from which it takes
    the brokers' address.

    ``fixed``: a broker's address that it names itself. ``table`` and ``column``: the first table
    that it creates or fills, and that table's first column, if the source shows it. ``fields``: the
    fields of the CSV rows or JSON objects that it reads.
    """

    files: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    fixed: str = ""
    stdin: bool = False
    csv: bool = False
    sqlite: bool = False
    table: str = ""
    column: str = ""
    fields: tuple[str, ...] = ()


def look_at(words: Sequence[str], folder: Path) -> Sources:
    """Return what the source files below ``folder`` show that a command names, directly or by a
    shell script.

    Files that do not exist are left out.
    """
    files = _sources(words, folder)
    for script in [file for file in files if file.suffix == ".sh"]:
        files += [
            file
            for file in _sources(_read(script).replace('"', " ").split(), folder)
            if file not in files
        ]
    text = "\n".join(map(_read, files))
    table, column = next(iter(re.findall(_TABLE, text, re.IGNORECASE)), ("", ""))
    fixed = re.findall(_FIXED, text)
    return Sources(
        files=tuple(file.name for file in files),
        topics=_every(_TOPIC, text),
        variables=_every((_BOOTSTRAP,), text),
        fixed=fixed[0] if fixed else "",
        stdin=_any(_STDIN, text),
        csv=_any((r"\bcsv\b",), text),
        sqlite=_any(_SQLITE, text),
        table=table or next(iter(re.findall(_INSERT, text, re.IGNORECASE)), ""),
        column=column,
        fields=_every(
            (r"""\[\s*["']([a-z]\w*)["']\s*\]""", r"""\.get\(\s*["']([a-z]\w*)["']"""), text
        ),
    )


def _sources(words: Sequence[str], folder: Path) -> list[Path]:
    found = [
        folder / word
        for word in words
        if (folder / word).suffix in SUFFIXES and (folder / word).is_file()
    ]
    return list(dict.fromkeys(found))


def _read(file: Path) -> str:
    with file.open(encoding="utf-8", errors="replace") as text:
        return text.read(MOST)


def _every(patterns: Iterable[str], text: str) -> tuple[str, ...]:
    """Return what patterns find, each once, in the order of the text.

    >>> _every((r"a(.)", r"b(.)"), "b2 a1 a1")
    ('2', '1')
    """
    found = sorted(
        (match.start(), match[1]) for pattern in patterns for match in re.finditer(pattern, text)
    )
    return tuple(dict.fromkeys(name for _, name in found))


def _any(patterns: Iterable[str], text: str) -> bool:
    return any(re.search(pattern, text) for pattern in patterns)
