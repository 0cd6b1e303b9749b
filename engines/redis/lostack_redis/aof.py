"""What the append-only files of a server say: commands that changed something, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lostack_redis.resp import values, words

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORDS: Final = 6
"""How many words a manifest's line has: ``file NAME seq NUMBER type KIND``."""
Entry = tuple[str, tuple[bytes, ...]]
"""The place of a command, and its words."""


def files_in(manifest: str) -> list[tuple[str, str]]:
    r"""Return the files that a manifest lists, each with its kind: ``b`` is what the others were
    rewritten to, ``i`` is one of commands.

    >>> files_in("file a.1.base.aof seq 1 type b\nfile a.1.incr.aof seq 1 type i\n")
    [('b', 'a.1.base.aof'), ('i', 'a.1.incr.aof')]
    """
    found = [line.split() for line in manifest.splitlines()]
    return [(line[5], line[1]) for line in found if len(line) >= _WORDS]


def commands(number: int, begin: int, raw: bytes) -> Iterator[tuple[int, list[Entry]]]:
    """Yield the commands that take effect together, with where they end. A transaction that has no
    end there did nothing.

    ``number``: which file it is; ``begin``: where in it ``raw`` begins.

    Raises:
        NotRespError: these are no commands.
    """
    held: list[Entry] = []
    inside = False
    for at, end, value in values(raw):
        said = words(value)
        name = said[0].upper() if said else b""
        if name not in (b"MULTI", b"EXEC", b""):
            held.append((f"{number}:{begin + at}", said))
        inside = name == b"MULTI" or (inside and name != b"EXEC")
        if not inside:
            yield end, held
            held = []
