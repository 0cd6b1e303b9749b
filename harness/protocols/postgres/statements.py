"""Find out what SQL statements do to a transaction, by the first words of each. Comments, strings
and quoted names are skipped.

Pure: bytes in, values out. See "Lexical Structure" in PostgreSQL's documentation.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_WORDS: Final = 5
"""``COMMIT TRANSACTION AND NO CHAIN``: what a statement does to its transaction it
says in so many.
"""
_TOKEN: Final = re.compile(
    rb"""(?P<space>\s+|--[^\n]*)
    |(?P<comment>/\*)
    |(?P<word>[A-Za-z_\x80-\xff][\w$\x80-\xff]*(?P<string>')?)
    |(?P<quoted>')
    |(?P<name>"(?:[^"]|"")*"?)
    |\$(?P<tag>[A-Za-z_\x80-\xff][\w\x80-\xff]*)?\$
    |(?P<end>;)
    |.""",
    re.VERBOSE | re.DOTALL,
)
TELLING: Final = frozenset({b"(", b"INTO"})
"""Words of a statement that are kept wherever they stand: a function may write, and INTO makes a
table.
"""
READING: Final = frozenset(
    b"CLOSE DEALLOCATE DECLARE DISCARD EXPLAIN FETCH LISTEN RESET SELECT SET SHOW TABLE UNLISTEN"
    b" VALUES".split()
)
"""The first words of statements that write nothing, unless one of :data:`TELLING` is in them."""
_COMMENT: Final = re.compile(rb"/\*|\*/")
_PLAIN: Final = re.compile(rb"(?:[^']|'')*'?", re.DOTALL)
_ESCAPED: Final = re.compile(rb"(?:[^'\\]|''|\\.)*'?", re.DOTALL)


class Does(Enum):
    """What a statement does to the transaction that it is in."""

    NOTHING = "nothing"
    READS = "reads"
    """Nothing, and it writes nothing, either."""
    BEGIN = "begin"
    COMMIT = "commit"
    COMMIT_AND_BEGIN = "commit and begin"
    ROLLBACK = "rollback"
    ROLLBACK_AND_BEGIN = "rollback and begin"
    PREPARE = "prepare"

    @property
    def commits(self) -> bool:
        """Whether the statement commits: what was written is visible to others from then on."""
        return self in (Does.COMMIT, Does.COMMIT_AND_BEGIN)

    @property
    def ends(self) -> bool:
        """Whether the statement ends the transaction in which was written so far."""
        return self not in (Does.NOTHING, Does.READS, Does.BEGIN)

    @property
    def leaves_open(self) -> bool:
        """Whether a transaction block is open after the statement. False for a statement that does
        nothing to it.
        """
        return self in (Does.BEGIN, Does.COMMIT_AND_BEGIN, Does.ROLLBACK_AND_BEGIN)


def read(text: bytes) -> list[Does]:
    """Return what each statement of a text does.

    >>> statements = b"insert into t values ('done; end'); /* x */ COMMIT; rollback to s; -- commit"
    >>> read(statements) == [
    ...     Does.NOTHING, Does.COMMIT, Does.NOTHING]
    True
    >>> statements = b"commit work and chain; COMMIT PREPARED 'x'; prepare transaction 'x'; "
    >>> read(statements + b"select $q$;commit;$q$") == [
    ...     Does.COMMIT_AND_BEGIN, Does.NOTHING, Does.PREPARE, Does.READS]
    True
    >>> read(b"select 1 from seen where id = 'a'; select book('a'); select 1 into b") == [
    ...     Does.READS, Does.NOTHING, Does.NOTHING]
    True
    """
    return [_does(words) for words in statements(text)]


def statements(text: bytes) -> Iterator[list[bytes]]:
    r"""Yield the first words of each non-empty statement, in capitals. ``?`` stands for anything
    that is not a word.

    >>> list(statements(b"select e'it\\'s;' ; /* /* */ ; */ ;1"))
    [[b'SELECT', b'?'], [b'?']]
    """
    words: list[bytes] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None  # noqa: S101 - any byte is something
        kind, at = found.lastgroup, found.end()
        if kind == "end":
            if words:
                yield words
            words = []
        elif kind == "comment":
            at = _behind_comment(text, at)
        elif kind != "space":
            at = _behind_string(text, at, found)
            word = found["word"].upper() if found["word"] and not found["string"] else b"?"
            word = found[0] if found[0] in TELLING else word
            if len(words) < MOST_WORDS or (word in TELLING and word not in words):
                words.append(word)
    if words:
        yield words


def _behind_comment(text: bytes, at: int) -> int:
    """Return where a comment ends, which may have others in it."""
    depth = 1
    while depth:
        found = _COMMENT.search(text, at)
        if found is None:
            return len(text)
        depth += 1 if found[0] == b"/*" else -1
        at = found.end()
    return at


def _behind_string(text: bytes, at: int, found: re.Match[bytes]) -> int:
    """Return the end of the string that begins with ``found``; return ``at`` if ``found`` begins no
    string.
    """
    if found["string"]:
        rule = _ESCAPED if found["word"][:-1].upper() == b"E" else _PLAIN
    elif found["quoted"]:
        rule = _PLAIN
    elif found[0].startswith(b"$") and found[0].endswith(b"$") and len(found[0]) > 1:
        end = text.find(found[0], at)
        return len(text) if end < 0 else end + len(found[0])
    else:
        return at
    string = rule.match(text, at)
    return string.end() if string else at


def _does(words: list[bytes]) -> Does:
    chained = b"CHAIN" in words and b"NO" not in words
    match words:
        case [b"BEGIN", *_] | [b"START", b"TRANSACTION", *_]:
            return Does.BEGIN
        case [b"PREPARE", b"TRANSACTION", *_]:
            return Does.PREPARE
        case [_, b"PREPARED", *_]:
            return Does.NOTHING
        case [b"COMMIT" | b"END", *_]:
            return Does.COMMIT_AND_BEGIN if chained else Does.COMMIT
        case [b"ROLLBACK" | b"ABORT", *_] if b"TO" not in words:
            return Does.ROLLBACK_AND_BEGIN if chained else Does.ROLLBACK
    return Does.READS if words[0] in READING and not TELLING & {*words} else Does.NOTHING
